// Where a draft came from when no network made it: lookahead's window as a grid and the n-grams it
// chose from its pool, or the span of the text that prompt lookup found again.

const SpecVizSource = (function () {
  const { textToken } = SpecVizRun;
  const { lookOf, lookKey, isTold } = SpecVizTime;
  const { word, el, put, say, show, icon, tokenText, MARKS } = SpecVizDom;
  const AROUND = 4; // tokens shown on either side of a match
  const MAX_NGRAMS = 6;

  function makeSource(lane) {
    const title = el("h4");
    const body = el("div", "sv-sourcebody");
    const root = el("section", "sv-source", title, body);
    show(root, false);
    return { root, title, body, key: "", lane };
  }

  function drawSource(view, run, lane, place) {
    const hasAny = lane.hasWindow || lane.hasPool || lane.hasMatch;
    show(view.root, hasAny);
    if (!hasAny) return;
    const { round } = place;
    const key = place.index + lookKey(place);
    if (view.key === key) return;
    view.key = key;
    view.body.replaceChildren();
    if (!lane.hasPool && !lane.hasWindow) drawMatch(view, run, lane, place, round.draft.match);
    else {
      const { pool } = round.draft;
      say(view.title, pool ? word("stage.pool", { n: pool.size }) : "");
      view.body.append(poolList(place, round), windowGrid(place, round));
    }
  }

  function cell(place, row, name) {
    const { tree } = place.round;
    const node = el("span", name, ...tokenText(tree.text[row]));
    node.setAttribute("data-row", row);
    const look = lookOf(place, row);
    node.setAttribute("data-look", look);
    node.title = word("stage.row_id", { row, id: tree.id[row] });
    if (MARKS[look]) node.append(icon(MARKS[look]));
    return node;
  }

  function poolList(place, round) {
    const list = el("div", "sv-pool");
    const { tree, draft } = round;
    const ngrams = draft.pool ? draft.pool.ngrams : [];
    if (draft.pool && !ngrams.length) list.append(el("p", "sv-none", word("stage.pool_none")));
    for (const rows of ngrams.slice(0, MAX_NGRAMS)) {
      const isHit = isTold(place) && tree.status[rows[0]] === "accepted" &&
        rows.some((row) => lookOf(place, row) === "accepted");
      const line = el("p", "sv-ngram", el("span", "sv-rootcell", ...tokenText(tree.text[0])),
        ...rows.map((row) => cell(place, row, "sv-cell")));
      put(line, "data-hit", isHit);
      if (isHit) line.append(el("b", "sv-hit", word("stage.pool_hit")));
      list.append(line);
    }
    if (ngrams.length > MAX_NGRAMS) {
      list.append(el("p", "sv-none", word("stage.more", { n: ngrams.length - MAX_NGRAMS })));
    }
    return list;
  }

  // Columns are positions ahead, levels are the passes that gave them.
  function windowGrid(place, round) {
    const { window: levels } = round.draft;
    const columns = Math.max(0, ...levels.map((level) => level.length));
    const grid = el("div", "sv-window");
    grid.style.gridTemplateColumns = "auto repeat(" + columns + ", minmax(40px, max-content))";
    grid.setAttribute("aria-label", word("stage.window"));
    levels.forEach((level, i) => {
      grid.append(el("span", "sv-levelname", word("stage.level", { n: i + 1 })));
      for (let column = 0; column < columns; column += 1) {
        const row = level[column];
        grid.append(row === undefined || row === null ? el("span", "") : cell(place, row, "sv-cell"));
      }
    });
    return el("div", "sv-windowbox", el("p", "sv-none", word("stage.window")), grid);
  }

  function drawMatch(view, run, lane, place, match) {
    if (!match) {
      say(view.title, word("stage.match_none"));
      return;
    }
    const promptLength = run.start.prompt_tokens.length;
    const where = match.start < promptLength ? "stage.match_prompt" : "stage.match_answer";
    const first = match.start < promptLength ? match.start + 1 : match.start - promptLength + 1;
    say(view.title, word(where, { n: match.length, token: first, copied: match.copied }));
    const [from, behind] = [match.start, match.start + match.length];
    const to = behind + match.copied;
    const known = promptLength + place.round.firstToken; // what comes later is not written yet
    const excerpt = el("p", "sv-excerpt");
    if (from > AROUND) excerpt.append("… ");
    for (let i = Math.max(0, from - AROUND); i < to + AROUND; i += 1) {
      if (i >= known) break;
      const text = textToken(run, lane, i);
      const kind = i >= from && i < behind ? "found" : i >= behind && i < to ? "copied" : "";
      const span = el("span", "sv-word", ...tokenText(text));
      span.setAttribute("data-kind", kind);
      if (kind === "copied") span.setAttribute("data-row", i - behind + 1);
      excerpt.append(span);
    }
    view.body.append(excerpt);
  }

  function lightSource(view, light) {
    for (const node of view.body.querySelectorAll("[data-row]")) {
      const row = Number(node.dataset.row);
      put(node, "data-lit", !light ? "" : row === light.row ? "self" : light.above.includes(row) ? "above" : "");
    }
  }

  return { makeSource, drawSource, lightSource };
})();
