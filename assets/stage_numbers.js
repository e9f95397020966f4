// The numbers of the explained lane, each in one place, with how it came about in this run's own
// figures. They stand still while a round is under way. Nothing is computed here.

const SpecVizNumbers = (function () {
  const { finishedRound } = SpecVizTime;
  const { versusAt } = SpecVizRun;
  const { word, tell, el, put, say, show, number, percent, milliseconds, PARTS,
    originWords, drawOrigin } = SpecVizDom;
  const { term } = SpecVizTerm;
  const { balance, depthBars, histogram, drawCurves, drawRounds } = SpecVizChart;

  function makeNumbers() {
    const badge = el("span", "sv-badge");
    const body = el("div", "sv-numbersbody");
    const origin = term("", "", word("account.batch_one"));
    const title = el("h4", "");
    const [rounds, curve] = [makeChart("stage.rounds"), makeChart("stage.curve")];
    rounds.root.append(el("p", "sv-none", word("stage.rounds_note")));
    const root = el("section", "sv-panel sv-numbers", el("div", "sv-panelhead", title, badge), el("p", "sv-none", origin), body,
      rounds.root, curve.root);
    return { root, title, badge, origin, body, rounds, curve, key: "" };
  }

  function makeChart(name) {
    const canvas = el("canvas", "sv-curve");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", word(name));
    return { root: el("div", "sv-curvebox", el("h5", "", word(name)), canvas), canvas, key: "" };
  }

  function fold(name, value, how) {
    const box = el("details", "sv-fold", el("summary", "", el("span", "sv-foldname", name),
      el("b", "sv-foldvalue", value)), el("p", "", how));
    box.setAttribute("data-fold", name);
    return box;
  }

  function foldsOf(lane, total, versus) {
    const made = [];
    const { num_tokens: tokens, num_rounds: passes, num_accepted: accepted, num_drafted: drafted, time } = total;
    made.push(fold(word("stage.tau_own"), number(total.tau, 2),
      word("stage.how_tau", { tokens, passes, tau: number(total.tau, 3) })));
    made.push(fold(word("stage.figure.rate"), number(total.tokens_per_second, 1),
      word("stage.how_tokens_per_second", { tokens, seconds: number(total.seconds, 2) })));
    if (!lane.info.is_plain) {
      made.push(fold(word("stage.tau_draft"), number(total.accepted_per_round, 2),
        word("stage.how_tau_draft", { accepted, passes, value: number(total.accepted_per_round, 3) })));
      made.push(fold(word("stage.rate"), drafted ? accepted + " / " + drafted + " = " + percent(total.acceptance_rate) : "–",
        word("stage.how_rate", { accepted, drafted })));
    }
    if (versus && versus.speedup !== null) {
      made.push(fold(word("stage.rho"), number(versus.rho, 2), word("stage.how_rho", { rho: number(versus.rho, 3),
        round: milliseconds(versus.round_seconds), step: milliseconds(versus.plain_step) })));
      made.push(fold(word("stage.verdict_name"), number(versus.speedup, 2) + "x", word("stage.how_speedup",
        { tau: number(total.tau, 2), rho: number(versus.rho, 2), speedup: number(versus.speedup, 2) })));
    }
    made.push(fold(word("stage.split"), PARTS.map((part) => percent(time[part].share)).join(" · "),
      word("stage.how_split", { draft: milliseconds(time.draft.seconds), verify: milliseconds(time.verify.seconds),
        host: milliseconds(time.commit.seconds) })));
    return made;
  }

  function verdictWords(lane, total, versus) {
    if (lane.info.is_plain) return word("verdict.plain");
    if (!versus) return "";
    if (versus.speedup === null) return versus.plain === null ? tell(versus.agreement.sentence) : word("stage.too_early");
    const values = { rho: number(versus.rho, 2), tau: number(total.tau, 2), speedup: number(versus.speedup, 2) };
    return word("verdict.headline." + versus.outcome, values);
  }

  // `look` is {filter, onFilter(length), chosen}: the round or row that is lit, if any.
  function drawNumbers(view, run, lane, place, time, look) {
    const { filter, onFilter } = look;
    const done = finishedRound(lane, place);
    const index = done ? done.round : 0;
    const versus = done ? versusAt(lane, time) : null;
    const key = [run.id, run.isEnded, lane.info.lane, index, versus ? versus.speedup : "", filter].join() + SpecVizWords.language();
    say(view.title, word("stage.numbers", { lane: tell(lane.info.title) }));
    drawOrigin(view.badge, run);
    say(view.origin, word("account.with_batch", { origin: originWords(run) }));
    if (view.key !== key) {
      view.key = key;
      fillNumbers(view, lane, done, versus, filter, onFilter);
      const isOver = done && done === lane.rounds[lane.rounds.length - 1];
      const said = isOver ? run.judged[lane.info.lane] : null;
      if (said) judge(view, said);
    }
    light(view, lane, look.chosen);
  }

  // What was recognised about the whole lane, below the verdict; advice rests on an estimate.
  function judge(view, said) {
    const lines = said.findings.map((finding) => el("li", "", tell(finding)));
    if (said.advice) lines.push(el("li", "", el("span", "sv-badge", word("stage.estimated")), " " + tell(said.advice)));
    if (!lines.length) return;
    view.body.querySelector(".sv-verdict").after(el("ul", "sv-findings", ...lines));
  }

  function fillNumbers(view, lane, done, versus, filter, onFilter) {
    const open = new Set([...view.body.querySelectorAll("details[open]")].map((fold) => fold.dataset.fold));
    view.body.replaceChildren();
    if (!done) return;
    const { total } = done;
    const folds = foldsOf(lane, total, versus);
    for (const one of folds) one.open = open.has(one.dataset.fold);
    view.body.append(el("p", "sv-verdict", verdictWords(lane, total, versus)));
    if (versus && versus.rho !== null) view.body.append(balance(total.tau, versus.rho));
    view.body.append(...folds);
    if (total.depths.length) {
      view.body.append(el("h5", "", word("stage.by_depth")), depthBars(total.depths),
        el("p", "sv-none", word("stage.how_depth")));
    }
    if (!lane.info.is_plain) {
      view.body.append(el("h5", "", word("stage.lengths")), histogram(total.lengths, filter, onFilter),
        el("p", "sv-none", word("stage.lengths_note")));
    }
  }

  // The depth and the accepted length that belong to what is chosen.
  function light(view, lane, chosen) {
    const round = chosen ? lane.rounds[chosen.index] : null;
    const depth = round && chosen.row > 0 && chosen.row < round.tree.x.length ? round.tree.depth[chosen.row] : 0;
    view.body.querySelectorAll(".sv-depthrow").forEach((row, i) => put(row, "data-lit", depth === i + 1));
    view.body.querySelectorAll(".sv-column").forEach((column, n) =>
      put(column, "data-lit", Boolean(round) && round.num_drafted > 0 && round.num_accepted === n));
  }

  // `frame` is {lanes, lane, place, time, chosen, end, width, inks, theme}: speed-ups of the open
  // lanes, and the rounds of the explained one.
  function drawCharts(view, run, frame) {
    const { lanes, lane, place, time, chosen, end, width, theme } = frame;
    const language = SpecVizWords.language();
    const last = lanes.map((one) => (one.versus.length ? one.versus[one.versus.length - 1].time : 0));
    const isReady = width >= 60;
    show(view.curve.root, lanes.some((one) => one.versus.some((entry) => entry.value.speedup !== null)));
    const curveKey = [run.id, Math.round((time / (end || 1)) * 300), last.join(), width, theme, lanes.length, language].join();
    if (isReady && !view.curve.root.hidden && view.curve.key !== curveKey) {
      view.curve.key = curveKey;
      drawCurves(view.curve.canvas, run, frame);
    }
    show(view.rounds.root, place !== null);
    const isOver = place && place.phase === "done";
    const roundsKey = place && [run.id, lane.info.lane, lane.rounds.length, place.index, isOver, chosen && chosen.index,
      width, theme, language].join();
    if (!isReady || !place || view.rounds.key === roundsKey) return;
    view.rounds.key = roundsKey;
    const versus = versusAt(lane, time);
    drawRounds(view.rounds, lane, { ...frame, step: versus ? versus.plain_step : null,
      passed: place.index + (isOver ? 1 : 0), lit: chosen ? chosen.index : place.index });
  }

  return { makeNumbers, drawNumbers, drawCharts };
})();
