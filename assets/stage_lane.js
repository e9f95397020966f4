// One lane: its name and figures, the phase it is in, its tree, where its draft came from, its
// cache and its text, and at the end what it cost. Painted as f(lane, time, selection).

const SpecVizLane = (function () {
  const { clamp, lastEnd, versusAt } = SpecVizRun;
  const { placeOf, finishedRound, rankShown, passesAt, isRead, lookKey } = SpecVizTime;
  const { word, tell, el, put, say, show, number, percent, milliseconds, PARTS, pool, button, drawOrigin } = SpecVizDom;
  const { makeTree, drawTree, lightTree } = SpecVizTree;
  const { speedWords } = SpecVizOthers;
  const { term } = SpecVizTerm;
  const { makeSource, drawSource, lightSource } = SpecVizSource;
  const { makeStrip, drawStrip, lightStrip } = SpecVizText;
  const { makeAccount, drawAccount } = SpecVizAccount;
  const [TREE_MARGIN, TREE_COLUMN, TEXT_LEAST, GAP] = [24, 92, 250, 20];
  const FIGURES = ["speedup", "tau", "accepted", "rate", "passes"];

  function makeFigure(name) {
    const value = el("dd", "");
    const words = term("", word("stage.figure." + name), word("stage.figure_title." + name));
    const box = el("div", "sv-figure", el("dt", "", words), value);
    box.dataset.name = name;
    return { box, value, name: words };
  }

  // Draft, verify, commit: which one it is, what each took, and how far it has come.
  function makePhases() {
    const names = PARTS.map((part) => {
      const time = el("span", "sv-phasetime");
      const node = term("sv-phase", el("b", "", word("stage.phase." + part)), word("stage.term." + part), time);
      node.setAttribute("data-part", part);
      return { node, time };
    });
    const segments = PARTS.map((part) => el("span", "sv-part sv-" + part));
    const head = el("span", "sv-head");
    const track = el("div", "sv-track", ...segments, head);
    const root = el("div", "sv-phases", el("div", "sv-phasenames", ...names.map((one) => one.node)), track);
    return { root, names, segments, head, key: "" };
  }

  function makeCache() {
    const cells = el("span", "sv-cachecells");
    const prefix = term("sv-cacheprefix", "", word("stage.term.prefix"));
    const name = term("sv-cachename", word("stage.cache"), word("stage.cache_title"));
    const words = el("span", "sv-cachewords");
    const root = el("div", "sv-cache", name, prefix, cells, words);
    return { root, prefix, words, take: pool(cells, () => el("i", "sv-cachecell")), key: "" };
  }

  // `repaint()` is called when something of the lane is to be shown otherwise.
  function makeLane(lane, index, repaint) {
    const { info } = lane;
    const figures = Object.fromEntries(FIGURES.map((name) => [name, makeFigure(name)]));
    const words = {
      state: el("span", "sv-state"), place: el("span", "sv-place"), sentence: el("p", "sv-sentence"),
      agreement: el("p", "sv-agreement"), round: el("h4"), badge: el("span", "sv-badge"),
    };
    const key = el("span", "sv-lanekey", String(index + 1));
    const explain = el("button", "sv-explain", word("stage.explain"));
    const close = button("cross", word("stage.close_lane"));
    explain.type = "button";
    const head = el("header", "sv-lanehead", key, el("h3", "sv-title", tell(info.title)), ...chipsOf(info), words.place,
      words.state, el("span", "sv-lanetools", explain, close));
    const about = el("p", "sv-about",
      [tell(info.description), tell(info.model), tell(info.prefill), tell(info.knobs)].filter(Boolean).join("; "));
    const [tree, source, strip, cache, phases, account] =
      [makeTree(lane, repaint), makeSource(lane), makeStrip(), makeCache(), makePhases(), makeAccount()];
    const treePanel = el("section", "sv-panel sv-treepanel", el("div", "sv-panelhead", words.round, tree.tools),
      tree.boxNode, tree.ghostLine, source.root, cache.root);
    const textPanel = el("section", "sv-panel sv-textpanel", el("h4", "", word("stage.text")), strip.root, words.agreement);
    const row = el("div", "sv-figurerow", el("dl", "sv-figures", ...FIGURES.map((name) => figures[name].box)), words.badge);
    const root = el("article", "sv-lane", head, phases.root, words.sentence); // what happens, before what it comes to
    const pair = el("div", "sv-pair", treePanel, textPanel);
    root.append(pair, row, about, account.root);
    root.setAttribute("aria-label", tell(info.title));
    root.setAttribute("data-plain", info.is_plain); // has less to say, and less room for it
    return { root, pair, figures, words, tree, source, strip, cache, phases, account, explain, close, lit: "" };
  }

  // What of plain decoding the lane keeps, and whether its model is another than the target.
  function chipsOf(info) {
    const exact = term("sv-chip", word("stage.promise." + info.promise), word("stage.promise_title." + info.promise));
    exact.setAttribute("data-lossy", info.promise === "approximate");
    if (!info.backbone) return [exact];
    return [exact, term("sv-chip", word("stage.own_model"), tell(info.model))];
  }

  function drawLane(view, run, lane, time, width, options) {
    const place = placeOf(lane, time);
    drawFigures(view, run, lane, place, time);
    drawStrip(view.strip, lane, place, options.hasLost);
    if (!place || width <= 0) return; // not measured yet
    drawTree(view.tree, lane, place, treeWidth(view, lane, width), options);
    drawSource(view.source, run, lane, place);
    drawPhases(view.phases, place, time);
    drawCache(view.cache, place);
    drawAccount(view.account, run, lane, time);
    say(view.words.round, roundWords(place));
    put(view.root, "data-phase", place.phase);
  }

  // The text stands beside the tree where both fit, else below it.
  function treeWidth(view, lane, width) {
    const wanted = TREE_MARGIN + Math.max(lane.maxWidth, 3) * TREE_COLUMN;
    const isBeside = width - wanted >= TEXT_LEAST + GAP;
    const text = isBeside ? Math.floor(Math.min(width - wanted - GAP, width * 0.45)) : 0;
    const columns = isBeside ? "minmax(0, 1fr) " + text + "px" : "minmax(0, 1fr)";
    if (view.pair.style.gridTemplateColumns !== columns) view.pair.style.gridTemplateColumns = columns;
    return isBeside ? width - text - GAP : width;
  }

  function roundWords(place) {
    const { round, phase } = place;
    const rows = round.tree.x.length;
    const key = phase === "draft" && round.outcome === "plain" ? "stage.doing_nothing"
      : phase !== "verify" ? "stage.doing." + phase
        : isRead(place) ? "stage.doing_read" : rows === 1 ? "stage.doing_one" : "stage.doing.verify";
    return word(key, { round: round.round, rows });
  }

  function drawPhases(view, place, time) {
    const { round, phase } = place;
    const key = round.round + phase;
    if (view.key !== key) {
      view.key = key;
      PARTS.forEach((part, i) => {
        put(view.names[i].node, "data-on", phase === part);
        say(view.names[i].time, milliseconds(round.time[part].seconds));
        view.segments[i].style.flexGrow = String(round.time[part].share || 0);
      });
    }
    const [start, , , end] = round.at;
    const share = end > start ? clamp((time - start) / (end - start), 0, 1) : 1;
    view.head.style.left = (share * 100).toFixed(1) + "%";
  }

  // Tokens cached before, then a cell for each row of the pass: to come, written, kept, dropped.
  function drawCache(view, place) {
    const { round } = place;
    const state = place.phase === "done" ? "done" : isRead(place) ? "written" : "empty";
    const key = round.round + state + SpecVizWords.language();
    if (view.key === key) return;
    view.key = key;
    const rows = round.rows_written;
    const cells = view.take(rows);
    for (let row = 0; row < rows; row += 1) {
      const kept = round.kept_rows.includes(row) ? "kept" : "dropped";
      put(cells[row], "data-state", state === "done" ? kept : state);
    }
    say(view.prefix, round.prefix);
    const said = state === "done" && round.rows_kept === rows ? "all" : state;
    say(view.words, word("stage.cache." + said, { rows, kept: round.rows_kept }));
  }

  function drawFigures(view, run, lane, place, time) {
    const done = finishedRound(lane, place);
    const total = done ? done.total : null;
    const versus = done ? versusAt(lane, time) : null;
    const { figures, words } = view;
    say(figures.speedup.value, speedWords(lane, versus));
    if (lane.info.backbone && versus && versus.plain !== null) {
      say(figures.speedup.name, word("stage.figure.speedup_own", { lane: numberOf(run, versus.plain) }));
    }
    say(figures.rate.value, number(total && total.tokens_per_second, 1));
    say(figures.tau.value, number(total && total.tau, 2));
    say(figures.passes.value, passesAt(place));
    say(figures.accepted.value, total && total.num_drafted
      ? total.num_accepted + " / " + total.num_drafted + " (" + percent(total.acceptance_rate) + ")" : "–");
    say(words.sentence, done ? tell(done.sentence)
      : word(lane.rounds.length ? "stage.under_way" : "stage.not_started"));
    const agreement = versus ? versus.agreement : null;
    say(words.agreement, agreement ? tell(agreement.sentence) : "");
    put(words.agreement, "data-state", agreement ? agreement.state : "");
    const isOver = Boolean(lane.end) && time >= lastEnd(lane);
    say(words.state, isOver ? tell(lane.end.sentence) : "");
    const rank = rankShown(run, lane, place);
    show(words.place, rank > 0);
    if (rank) say(words.place, word("stage.place", { n: rank }));
    words.place.title = run.finishBy === "rate" ? word("stage.finish_by_rate") : "";
    drawOrigin(words.badge, run);
  }

  // The number that a lane bears on the screen.
  function numberOf(run, lane) {
    return run.lanes.findIndex((one) => one.info.lane === lane) + 1;
  }

  // `chosen` is {index, row, column} of this lane, or null; lit only where its round is shown.
  function lightLane(view, lane, place, chosen) {
    const isHere = Boolean(chosen && place && place.index === chosen.index);
    const light = isHere ? { ...chosen, above: aboveOf(place.round, chosen) } : null;
    const at = chosen ? [chosen.index, chosen.row, chosen.column] : "";
    const key = place ? [place.index, lookKey(place), view.tree.laid, at].join() : "";
    if (view.lit !== key) {
      view.lit = key;
      lightTree(view.tree, light);
      lightSource(view.source, light);
    }
    lightStrip(view.strip, lane, chosen);
    return light;
  }

  // Rows that a chosen row stands on; of the target's own token, those of the row it follows.
  function aboveOf(round, chosen) {
    const { tree, next, draft } = round;
    const { row, column } = chosen;
    const rows = tree.x.length;
    let found = [];
    if (row === null) return found; // the round as a whole
    if (row === -1) found = next ? tree.sees[next.parent] : [];
    else if (row < rows) found = tree.sees[row].slice(0, -1);
    else {
      for (let at = row; at >= rows;) {
        at = draft.ghosts[at - rows] ? draft.ghosts[at - rows].parent : 0;
        found = at >= rows ? [...found, at] : [...found, ...tree.sees[at]];
      }
    }
    return column === null || column === undefined ? found : [...found, column];
  }

  return { makeLane, drawLane, lightLane };
})();
