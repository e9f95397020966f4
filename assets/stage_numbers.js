// The numbers of the explained lane, each in one place, with how it came about in this run's own
// figures. They stand still while a round is under way. Nothing is computed here.

const SpecVizNumbers = (function () {
  const { finishedRound } = SpecVizTime;
  const { versusAt } = SpecVizRun;
  const { word, tell, el, say, show, number, percent, milliseconds, PARTS } = SpecVizDom;
  const { depthBars, histogram, drawCurves } = SpecVizChart;

  function makeNumbers() {
    const badge = el("span", "sv-badge");
    const body = el("div", "sv-numbersbody");
    const canvas = el("canvas", "sv-curve");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", word("stage.curve"));
    const curveBox = el("div", "sv-curvebox", el("h5", "", word("stage.curve")), canvas);
    const title = el("h4", "");
    const root = el("section", "sv-panel sv-numbers", el("div", "sv-panelhead", title, badge), body, curveBox);
    return { root, title, badge, body, canvas, curveBox, key: "", curveKey: "" };
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
    if (!lane.info.is_plain) {
      made.push(fold(word("stage.tau_draft"), number(total.accepted_per_round, 2),
        word("stage.how_tau_draft", { accepted, passes, value: number(total.accepted_per_round, 3) })));
      made.push(fold(word("stage.rate"), drafted ? accepted + " / " + drafted + " = " + percent(total.acceptance_rate) : "–",
        word("stage.how_rate", { accepted, drafted })));
    }
    if (versus && versus.speedup !== null) {
      made.push(fold(word("stage.rho"), number(versus.rho, 2), word("stage.how_rho", { rho: number(versus.rho, 3) })));
      made.push(fold(word("stage.verdict_name"), number(versus.speedup, 2) + "x", word("stage.how_speedup",
        { tau: number(total.tau, 2), rho: number(versus.rho, 2), speedup: number(versus.speedup, 2) })));
    }
    made.push(fold(word("stage.split"), PARTS.map((part) => percent(time[part].share)).join(" · "),
      word("stage.how_split", { draft: milliseconds(time.draft.seconds), verify: milliseconds(time.verify.seconds),
        host: milliseconds(time.commit.seconds) })));
    return made;
  }

  function verdictWords(lane, total, versus) {
    if (lane.info.is_plain) return word("stage.plain_verdict");
    if (!versus || versus.speedup === null) return "";
    const values = { rho: number(versus.rho, 2), tau: number(total.tau, 2), speedup: number(versus.speedup, 2) };
    return word(versus.speedup >= 1 ? "stage.faster" : "stage.slower", values);
  }

  function drawNumbers(view, run, lane, place, time, filter, onFilter) {
    const done = finishedRound(lane, place);
    const index = done ? done.round : 0;
    const versus = done ? versusAt(lane, time) : null;
    const key = [run.id, lane.info.lane, index, versus ? versus.speedup : "", filter].join() + SpecVizWords.language();
    say(view.title, word("stage.numbers", { lane: tell(lane.info.title) }));
    say(view.badge, word(run.source === "live" ? "stage.measured" : "stage.recorded"));
    if (view.key === key) return;
    view.key = key;
    const open = new Set([...view.body.querySelectorAll("details[open]")].map((fold) => fold.dataset.fold));
    view.body.replaceChildren();
    if (!done) return;
    const { total } = done;
    const folds = foldsOf(lane, total, versus);
    for (const one of folds) one.open = open.has(one.dataset.fold);
    view.body.append(el("p", "sv-verdict", verdictWords(lane, total, versus)), ...folds);
    if (total.depths.length) {
      view.body.append(el("h5", "", word("stage.by_depth")), depthBars(total.depths),
        el("p", "sv-none", word("stage.how_depth")));
    }
    if (!lane.info.is_plain) {
      view.body.append(el("h5", "", word("stage.lengths")), histogram(total.lengths, filter, onFilter),
        el("p", "sv-none", word("stage.lengths_note")));
    }
  }

  function drawCurve(view, run, lanes, time, end, width, inks, theme) {
    const last = lanes.map((lane) => (lane.versus.length ? lane.versus[lane.versus.length - 1].time : 0));
    const key = [run.id, Math.round((time / (end || 1)) * 300), last.join(), width, theme, lanes.length].join()
      + SpecVizWords.language();
    show(view.curveBox, lanes.some((lane) => lane.versus.length));
    if (view.curveKey === key || view.curveBox.hidden || width < 60) return;
    view.curveKey = key;
    drawCurves(view.canvas, run, lanes, time, end, width, inks);
  }

  return { makeNumbers, drawNumbers, drawCurve, tell };
})();
