// The tables in the fold below the lanes: the explained lane's rounds, and the rows of the round that
// is looked at. The same data as the picture's, for those who do not see it; and a row in one
// sentence, for the ear. What the picture does not tell yet, they do not tell either.

const SpecVizTable = (function () {
  const { lookOf, ghostLook, lookKey, ownLook, isRead } = SpecVizTime;
  const { word, tell, el, put, chance, milliseconds, PARTS } = SpecVizDom;
  const ROUND_COLUMNS = ["round", "drafted", "accepted", "outcome", "text", "draft", "verify", "commit"];
  const ROW_COLUMNS = ["row", "token", "parent", "depth", "position", "q", "p", "status", "draw"];
  const DECIDED = ["accepted", "rejected"];

  function makeTables() {
    const [rounds, rows] = [el("div", "sv-tablebox"), el("div", "sv-tablebox sv-rowsbox")];
    const root = el("details", "sv-table", el("summary", "", word("stage.table")), el("div", "sv-tables", rounds, rows));
    return { root, rounds, rows, key: "", rowsKey: "", lane: null };
  }

  // `look` is {chosen, place, onRound(index), onRow(kind, index, row)}: what is chosen in the lane, where the
  // playhead stands, and who wants to know of a row that is previewed ("hover"; row null: no more) or kept ("pin").
  function drawTables(view, lane, look) {
    if (!view.root.open) return;
    const { chosen, place, onRound, onRow } = look;
    const at = chosen ? chosen.index : place ? place.index : -1;
    const key = lane.rounds.length + SpecVizWords.language();
    if (view.key !== key || view.lane !== lane) {
      Object.assign(view, { key, lane, rowsKey: "" });
      fill(view.rounds, tell(lane.info.title), "stage.column.", ROUND_COLUMNS,
        lane.rounds.map((one, i) => roundCells(one, i, onRound)));
    }
    light(view.rounds, at);
    const round = lane.rounds[at];
    const onOne = (kind, row) => onRow(kind, at, row);
    if (round) drawRows(view, lane, round, place && place.index === at ? place : null, { chosen, onOne });
    else view.rows.replaceChildren();
  }

  function drawRows(view, lane, round, place, { chosen, onOne }) {
    const key = [round.round, place ? lookKey(place) : ""].join();
    const rows = rowsAt(round, place);
    if (view.rowsKey !== key) {
      view.rowsKey = key;
      fill(view.rows, word("stage.rows_table", { lane: tell(lane.info.title), round: round.round }), "stage.row_column.",
        ROW_COLUMNS, rows.map((row) => [...rowCells(round, place, row), drawWords(lane, round, place, row)]));
      view.rows.querySelectorAll("tbody > tr").forEach((line, i) => listenRow(line, rows[i], onOne));
      if (!rows.length && round.outcome === "plain") view.rows.append(el("p", "sv-none", word("stage.doing_nothing", { round: round.round })));
    }
    light(view.rows, chosen ? rows.indexOf(chosen.row) : -1);
  }

  function fill(box, caption, prefix, columns, rows) {
    const head = columns.map((name) => el("th", "", word(prefix + name)));
    head.forEach((cell) => cell.setAttribute("scope", "col"));
    const lines = rows.map((cells) => el("tr", "", ...cells.map((cell) => el("td", "", cell))));
    box.replaceChildren(el("table", "", el("caption", "", caption), el("thead", "", el("tr", "", ...head)),
      el("tbody", "", ...lines)));
  }

  // As in the tree: pointing or the focus previews a row, a click or Enter keeps it.
  function listenRow(line, row, onOne) {
    const name = el("button", "sv-link", line.firstChild.textContent);
    name.type = "button";
    line.firstChild.replaceChildren(name);
    line.addEventListener("pointerenter", () => onOne("hover", row));
    line.addEventListener("pointerleave", () => onOne("hover", null));
    name.addEventListener("focus", () => onOne("hover", row));
    name.addEventListener("blur", () => onOne("hover", null));
    line.addEventListener("click", () => onOne("pin", row));
  }

  function light(box, at) {
    const rows = box.querySelectorAll("tbody > tr");
    const lit = box.querySelector("tr[data-lit]");
    if (lit && lit !== rows[at]) lit.removeAttribute("data-lit");
    if (rows[at]) put(rows[at], "data-lit", true);
  }

  function roundCells(round, i, onRound) {
    const go = el("button", "sv-link", String(round.round));
    go.type = "button";
    go.addEventListener("click", () => onRound(i));
    return [go, String(round.num_drafted), String(round.num_accepted), word("stage.outcome." + round.outcome),
      round.new.text.join(" "), ...PARTS.map((part) => milliseconds(round.time[part].seconds))];
  }

  // The rows below the root that have been made by then. `place` is null in a round that is not under
  // the playhead: all of it is told.
  function rowsAt(round, place) {
    return round.tree.id.map((_, row) => row).slice(1).filter((row) => !place || lookOf(place, row) !== "hidden");
  }

  function lookAt(round, place, row) {
    if (!place) return round.tree.status[row];
    const look = lookOf(place, row);
    return look === "checking" || look === "hidden" ? "pending" : look;
  }

  const targetProb = (round, place, row) => (!place || isRead(place) ? round.tree.shown_prob[row] : null);

  function rowCells(round, place, row) {
    const { tree } = round;
    return [row, tree.text[row], tree.parent[row], tree.depth[row], tree.position[row], chance(tree.draft_prob[row]),
      chance(targetProb(round, place, row)), word("stage.look." + lookAt(round, place, row))].map(String);
  }

  // A greedy decision rests on no draw, and one by shared luck has none of its own.
  function drawWords(lane, round, place, row) {
    const isDecided = DECIDED.includes(lookAt(round, place, row)) && lane.info.rule === "rejection";
    const trial = isDecided ? round.tree.trials[row] : null;
    return trial && trial.draw !== null
      ? word("stage.line", { draw: trial.draw.toFixed(3), threshold: trial.threshold.toFixed(3) }) : "–";
  }

  // A row, the target's own token (-1) or a pruned candidate in a short sentence.
  function rowSaid(round, place, row, ghost) {
    const { tree, next } = round;
    if (ghost) {
      return word("stage.walked.ghost", { text: ghost.text, depth: ghost.depth, look: word("stage.look." + ghostLook(place, ghost)),
        score: ghost.score.toFixed(2) });
    }
    if (row === -1) {
      const look = place ? ownLook(place) : next ? next.kind : "hidden";
      return look === "hidden" ? word("stage.own_waits")
        : word("stage.walked.own", { text: next.text, look: word("stage.look." + look), row: next.parent });
    }
    const [q, p] = row === 0 ? [null, null] : [tree.draft_prob[row], targetProb(round, place, row)];
    const name = q !== null && p !== null ? "both" : q !== null ? "q" : p !== null ? "p" : "none";
    return word("stage.walked." + name, { text: tree.text[row], depth: tree.depth[row],
      look: word("stage.look." + lookAt(round, place, row)), q: chance(q), p: chance(p) });
  }

  return { makeTables, drawTables, rowSaid };
})();
