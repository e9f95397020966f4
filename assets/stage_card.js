// The card of one decision: what drafter and target thought of the tokens there, the draw on its
// line, and in a sentence what followed. All figures are the trace's.

const SpecVizCard = (function () {
  const { isRead, isTold, ghostLook } = SpecVizTime;
  const { word, el, put, say, show, chance, tokenText, icon, MARKS } = SpecVizDom;
  const { term, explain } = SpecVizTerm;
  const MAX_BARS = 8;
  const MAX_TRIED = 3; // guesses of a row that the lab takes

  // `tryRow(row)` draws again and again from a row's odds; null where nothing can.
  function makeCard(tryRow) {
    const title = el("div", "sv-cardtitle");
    const facts = el("p", "sv-cardfacts");
    const sentence = el("p", "sv-cardsentence");
    const bars = el("div", "sv-cardbars");
    const line = makeLine();
    const more = el("p", "sv-cardmore");
    const again = el("button", "sv-button sv-again", word("stage.draw_again"));
    again.type = "button";
    explain(again, word("stage.draw_again_title"));
    again.hidden = !tryRow;
    const name = el("h4", "", word("stage.card"));
    const hint = el("p", "sv-none", word("stage.card_hint"));
    const root = el("section", "sv-panel sv-card", name, title, facts, sentence, line.root, bars, more, again, hint);
    const view = { root, name, hint, title, facts, sentence, bars, line, more, again, row: null, key: null };
    again.addEventListener("click", () => tryRow(view.row));
    return view;
  }

  // 0 to 1: kept to the left of the threshold, the draw as a tick.
  function makeLine() {
    const kept = el("span", "sv-linekept");
    const draw = el("span", "sv-linedraw");
    const edge = el("span", "sv-lineedge");
    const track = el("div", "sv-linetrack", kept, edge, draw);
    const words = el("div", "sv-linewords", el("span", "", "0"), el("span", ""), el("span", "", "1"));
    return { root: el("div", "sv-drawline", track, words), kept, draw, edge, words: words.children[1] };
  }

  // `chosen` is {index, row}; null shows what to do. `isOwn`: nobody chose it, the stage did.
  function drawCard(view, lane, place, chosen, isOwn) {
    const isHere = Boolean(place && chosen && place.index === chosen.index);
    const phase = isHere ? place.phase + (place.phase === "verify" && place.part === 1)
      + (isTold(place) ? "" : place.part >= 1) : "past";
    const key = chosen ? [lane.info.lane, chosen.index, chosen.row, phase, isOwn].join() + SpecVizWords.language() : "";
    if (view.key === key) return;
    view.key = key;
    put(view.root, "data-rule", lane.info.rule); // draws need more room
    view.title.replaceChildren();
    view.bars.replaceChildren();
    for (const part of [view.facts, view.sentence, view.more]) say(part, "");
    show(view.line.root, false);
    offerDraws(view, null);
    view.hint.style.visibility = isOwn ? "visible" : "hidden"; // keeps its place: nothing may jump
    const isPast = isOwn && chosen && !isHere;
    say(view.name, isPast ? word("stage.card_last", { round: lane.rounds[chosen.index].round }) : word("stage.card"));
    if (!chosen || !lane.rounds[chosen.index]) {
      say(view.sentence, word("stage.card_none"));
      return;
    }
    const round = lane.rounds[chosen.index];
    const when = { read: !isHere || isRead(place), told: !isHere || isTold(place), place: isHere ? place : null };
    const rows = round.tree.x.length;
    if (chosen.row >= rows) ghostCard(view, round, chosen.row - rows, when);
    else if (chosen.row === -1) ownCard(view, lane, round, when);
    else rowCard(view, lane, round, chosen.row, when);
  }

  function head(view, lane, round, text, look, facts) {
    const name = el("span", "sv-cardtoken", ...tokenText(text));
    const badge = el("span", "sv-status", ...(MARKS[look] ? [icon(MARKS[look])] : []), word("stage.look." + look));
    badge.setAttribute("data-look", look);
    view.title.append(name, badge);
    say(view.facts, facts);
  }

  function ghostCard(view, round, k, when) {
    const ghost = round.draft.ghosts[k];
    if (!ghost) return;
    const look = when.place ? ghostLook(when.place, ghost) : "ghost";
    head(view, null, round, ghost.text, look === "hidden" ? "pending" : look,
      word("stage.ghost_facts", { depth: ghost.depth, id: ghost.id, round: round.round }));
    say(view.sentence, word("stage.ghost_said", { score: ghost.score.toFixed(3), rank: ghost.rank,
      grown: round.draft.num_grown, kept: round.num_drafted }));
  }

  function ownCard(view, lane, round, when) {
    if (!round.next || !when.told) return say(view.sentence, word("stage.own_waits"));
    const { kind, text, id, parent } = round.next;
    head(view, lane, round, text, kind, word("stage.own_facts", { round: round.round, id, row: parent }));
    const odds = round.tree.odds[parent];
    const own = odds && odds.tokens.find((token) => token[1] === id);
    const p = own ? chance(own[4] ?? own[2]) : "–";
    const isCoupled = kind === "recovered" && lane.info.rule === "coupled"; // which knows no residual
    const rule = isCoupled ? "coupled" : lane.info.rule === "greedy" ? "greedy" : "drawn";
    say(view.sentence, word("stage.own." + kind + "_" + rule, { text, p }));
    drawBars(view, lane, round, parent, id, when, kind === "recovered" && !isCoupled);
    gapWords(view, lane, odds);
    return undefined;
  }

  function rowCard(view, lane, round, row, when) {
    const { tree, draft } = round;
    const status = tree.status[row];
    const look = row === 0 ? "root" : status === "lookahead" ? status : when.told ? status
      : when.read ? "checked" : "pending";
    const facts = word("stage.row_facts", { round: round.round, row, depth: tree.depth[row],
      position: tree.position[row], id: tree.id[row] });
    const path = pathWords(tree, row);
    head(view, lane, round, tree.text[row], look, facts);
    if (path) view.facts.append(" · ", term("", path, word("stage.row_path_title")));
    if (row === 0) return say(view.sentence, word("stage.root_said"));
    if (status === "lookahead") return say(view.sentence, word("stage.lookahead_said"));
    const trial = tree.trials[row];
    if (draft.score && draft.score[row] !== null) {
      say(view.more, word("stage.score_said", { score: draft.score[row].toFixed(3), rank: draft.rank[row],
        grown: draft.num_grown }));
    }
    if (!when.read) return say(view.sentence, guessWords("pending_said", tree, row, true));
    if (!when.told) return say(view.sentence, guessWords("checked_said", tree, row, false));
    if (!trial) say(view.sentence, guessWords("unreached_said", tree, row, false));
    else trialWords(view, lane, round, row, trial);
    return drawBars(view, lane, round, tree.parent[row], tree.id[row], when, isLastRefused(lane, round, row));
  }

  // Whether what this refusal left over is what the target then drew from: no guess was tried after it.
  function isLastRefused({ info }, { tree, next }, row) {
    const parent = tree.parent[row];
    const isLast = !Object.keys(tree.trials).some((at) => at > row && tree.parent[at] === parent);
    return isLast && info.rule === "rejection" && Boolean(next) && next.kind === "recovered" && next.parent === parent;
  }

  // The way from the root to a row, where there is more than one way to go.
  function pathWords(tree, row) {
    const isBranching = tree.branch.some((branch, at) => branch > 0 && tree.status[at] !== "lookahead");
    if (row === 0 || !isBranching || tree.status[row] === "lookahead") return "";
    return word("stage.row_path", { path: tree.sees[row].slice(1).map((at) => tree.branch[at]).join("·") });
  }

  // The sentence with as many numbers as there are: q, p, both or none. Where only the target's
  // softmax is known, it is called that.
  function guessWords(name, tree, row, isEarly) {
    const [q, p, softmax] = [tree.draft_prob[row], isEarly ? null : tree.shown_prob[row], tree.softmax_prob[row]];
    const key = "stage." + name;
    const values = { q: chance(q), p: chance(p) };
    const said = q !== null && (p !== null || isEarly) ? word(key, values) : q !== null ? word(key + "_q", values)
      : p !== null ? word(key + "_p", values) : word(key + "_none");
    const isOther = !isEarly && p === null && softmax !== null;
    return isOther ? said + " " + word("stage.softmax_said", { softmax: chance(softmax) }) : said;
  }

  function trialWords(view, lane, round, row, trial) {
    const { tree } = round;
    const odds = tree.odds[tree.parent[row]];
    const verdict = trial.is_accepted ? "kept" : "refused";
    const best = odds ? odds.tokens.reduce((a, b) => (b[2] > a[2] ? b : a)) : null;
    const values = { text: tree.text[row], best: best ? best[0] : "–" };
    if (lane.info.rule === "greedy") {
      say(view.sentence, word("stage.greedy." + verdict, values));
      gapWords(view, lane, odds);
      return;
    }
    if (trial.draw === null) {
      say(view.sentence, word("stage.coupled." + verdict, values));
      return;
    }
    say(view.sentence, word("stage.drawn." + verdict, { draw: trial.draw.toFixed(3),
      threshold: trial.threshold.toFixed(3), p: chance(trial.target_prob), q: chance(trial.draft_prob) }));
    if (tree.draft_prob[row] === null) say(view.more, word("stage.q_is_one"));
    else if (isChosen(odds)) say(view.more, word("stage.q_of_chosen", { q: chance(tree.draft_prob[row]) }));
    const whole = tree.target_prob[row];
    if (whole !== null && chance(whole) !== chance(trial.target_prob)) {
      say(view.more, [view.more.textContent, word("stage.p_is_left", { p: chance(whole) })].filter(Boolean).join(" "));
    }
    if (!trial.is_accepted) say(view.more, [view.more.textContent, word("stage.then_rest")].filter(Boolean).join(" "));
    show(view.line.root, true);
    view.line.kept.style.width = trial.threshold * 100 + "%";
    view.line.edge.style.left = trial.threshold * 100 + "%";
    view.line.draw.style.left = trial.draw * 100 + "%";
    put(view.line.root, "data-kept", trial.is_accepted);
    say(view.line.words, word("stage.line", { draw: trial.draw.toFixed(3), threshold: trial.threshold.toFixed(3) }));
  }

  // Whether the guesses at a place were its likeliest, none of them drawn: then q enters no decision.
  const isChosen = (odds) => Boolean(odds) && odds.tokens.every((token) => token[3] === null);

  // How far the second choice was behind: what a greedy decision rests on.
  function gapWords(view, lane, odds) {
    if (!odds || odds.gap === null || lane.info.rule !== "greedy") return;
    const gap = word(odds.is_near_tie ? "stage.gap" : "stage.gap_wide", { gap: odds.gap.toPrecision(3) });
    say(view.more, [view.more.textContent, gap].filter(Boolean).join(" "));
  }

  // Mirrored bars: the drafter's chances to the left, the target's to the right, and where a token
  // was drawn from what was left over, that too.
  function drawBars(view, lane, round, parent, id, when, hasRest) {
    const odds = round.tree.odds[parent];
    if (!odds || !when.read) return;
    const isGreedy = lane.info.rule === "greedy";
    const hasDraft = odds.tokens.some((token) => token[3] !== null) && round.tree.draft_prob.some((q) => q !== null);
    const [least, chosen] = [odds.tokens.slice(0, MAX_BARS), odds.tokens.find((token) => token[1] === id)];
    const shown = chosen && !least.includes(chosen) ? [...least.slice(0, -1), chosen] : least;
    view.bars.append(el("div", "sv-barhead", el("span", "", hasDraft ? word("stage.bar_draft") : ""), el("span", ""),
      el("span", "", word(isGreedy ? "stage.bar_softmax" : hasRest ? "stage.bar_left" : "stage.bar_target"))));
    for (const [text, token, p, q, rest, softmax] of shown) {
      const value = isGreedy ? softmax : p;
      const left = el("span", "sv-barleft", ...(hasDraft && q !== null ? [el("i", "", chance(q)), bar("draft", q)] : []));
      const parts = [bar("target", value), el("i", "", chance(value))];
      if (hasRest && !isGreedy && rest !== null) parts.unshift(bar("rest", rest), el("i", "", chance(rest)));
      const line = el("div", "sv-barrow", left, el("span", "sv-bartoken", ...tokenText(text)),
        el("span", "sv-barright", ...parts));
      line.setAttribute("data-chosen", token === id);
      view.bars.append(line);
    }
    offerDraws(view, rowOf(round.tree, parent, isGreedy));
  }

  function offerDraws(view, row) {
    view.row = row;
    view.again.style.visibility = row ? "visible" : "hidden"; // keeps its place: nothing may jump
  }

  // A row's odds as the lab takes them, its guesses first; null if nothing was guessed there, or
  // the trace does not hold the chances of all that was.
  function rowOf(tree, parent, isGreedy) {
    const guesses = tree.id.filter((_, row) => tree.parent[row] === parent && tree.status[row] !== "lookahead");
    const { tokens } = tree.odds[parent];
    const places = guesses.slice(0, MAX_TRIED).map((id) => tokens.findIndex((token) => token[1] === id));
    if (!places.length || places.includes(-1)) return null;
    const others = tokens.filter((_, i) => !places.includes(i));
    const told = [...places.map((i) => tokens[i]), ...others]
      .map(([text, , p, q, , softmax]) => [text, isGreedy ? softmax : p, q]); // as the bars show it
    return { guesses: places.length, tokens: told.slice(0, MAX_BARS) };
  }

  function bar(kind, share) {
    const node = el("b", "sv-barpart");
    node.setAttribute("data-kind", kind);
    node.style.width = Math.max(0, Math.min(1, share)) * 100 + "%";
    return node;
  }

  return { makeCard, drawCard };
})();
