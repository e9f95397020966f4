// Small charts of a lane's numbers: bars with intervals, a histogram, running speed-ups. Drawn as
// elements or on a canvas only when their figures change, never per frame.

const SpecVizChart = (function () {
  const { firstWhere } = SpecVizRun;
  const { word, el, number, percent, milliseconds, clearCanvas, PARTS } = SpecVizDom;
  const CURVE = { height: 130, left: 34, bottom: 18, top: 8, right: 20 };
  const ROUNDS = { height: 102, top: 16, bottom: 20, slot: 4, widest: 26 };
  const DASHES = [[], [6, 3], [2, 2], [8, 3, 2, 3], [1, 3], [12, 4]];
  const HUES = ["target", "part-draft", "accepted", "own", "rejected", "ahead", "quiet"];
  const LABEL = 11; // least distance of two labels, one above the other

  // What a round gives against what it costs, on one scale: it pays where the upper bar is longer.
  function balance(tau, rho) {
    const most = Math.max(tau, rho);
    const row = (kind, value, words) => {
      const fill = el("b", "sv-balancefill");
      fill.style.width = (value / most) * 100 + "%";
      fill.setAttribute("data-kind", kind);
      return el("div", "sv-balancerow", el("span", "", word("stage.balance." + kind)), el("span", "sv-depthtrack", fill),
        el("span", "sv-depthwords", words));
    };
    return el("div", "sv-balance", row("gives", tau, word("stage.balance_tokens", { tau: number(tau, 2) })),
      row("costs", rho, word("stage.balance_steps", { rho: number(rho, 2) })));
  }

  // depths: [reached, accepted, rate, low, high] from depth 1 on.
  function depthBars(depths) {
    const rows = depths.map(([reached, accepted, rate, low, high], i) => {
      const fill = el("b", "sv-depthfill");
      fill.style.width = rate * 100 + "%";
      const whisker = el("u", "sv-whisker");
      whisker.style.left = low * 100 + "%";
      whisker.style.width = (high - low) * 100 + "%";
      return el("div", "sv-depthrow", el("span", "", word("stage.depth", { n: i + 1 })),
        el("span", "sv-depthtrack", fill, whisker),
        el("span", "sv-depthwords", percent(rate) + " (" + accepted + "/" + reached + ")"));
    });
    return el("div", "sv-depths", ...rows);
  }

  // lengths: rounds that accepted 0, 1, 2, ... tokens. A click filters the ticks of the scrub bar.
  function histogram(lengths, chosen, onChoose) {
    const most = Math.max(1, ...lengths);
    const columns = lengths.map((count, n) => {
      const fill = el("b", "");
      fill.style.height = (count / most) * 100 + "%";
      const node = el("button", "sv-column", el("i", "", count ? String(count) : ""),
        el("span", "sv-columntrack", fill), el("span", "", String(n)));
      node.type = "button";
      node.title = word("stage.length_title", { n, count });
      node.setAttribute("aria-pressed", chosen === n);
      node.addEventListener("click", () => onChoose(chosen === n ? null : n));
      return node;
    });
    return el("div", "sv-histogram", ...columns);
  }

  // Speed-up of every lane so far over its own clock, with the plain lane as the line at 1.
  function drawCurves(canvas, run, frame) {
    const { lanes, time, end, width, inks } = frame;
    const pen = clearCanvas(canvas, width, CURVE.height);
    const drafted = lanes.filter((lane) => !lane.info.is_plain && lane.versus.length);
    const values = drafted.flatMap((lane) => lane.versus.slice(-400).map((entry) => entry.value.speedup || 0));
    const top = Math.max(1.5, ...values) * 1.1;
    const [w, h] = [width - CURVE.left - CURVE.right, CURVE.height - CURVE.bottom - CURVE.top];
    const x = (moment) => CURVE.left + (moment / (end || 1)) * w;
    const y = (speed) => CURVE.top + h - (Math.min(speed, top) / top) * h;
    drawScale(pen, frame, { top, w, y });
    const labels = drafted.map((lane) => {
      const count = firstWhere(lane.versus.length, (i) => lane.versus[i].time > time);
      const points = lane.versus.slice(0, count).filter((entry) => entry.value.speedup !== null)
        .map((entry) => [x(entry.time), y(entry.value.speedup)]);
      const style = run.lanes.indexOf(lane);
      pen.strokeStyle = inks[HUES[style % HUES.length]];
      pen.lineWidth = 1.8;
      pen.setLineDash(DASHES[style % DASHES.length]);
      line(pen, points);
      pen.setLineDash([]);
      return { text: String(style + 1), at: points[points.length - 1] };
    });
    pen.lineWidth = 1;
    drawLabels(pen, labels.filter((label) => label.at), inks);
  }

  function drawScale(pen, frame, { top, w, y }) {
    const { end, inks } = frame;
    pen.font = inks.mono;
    pen.fillStyle = inks.quiet;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    pen.strokeStyle = inks.text;
    pen.setLineDash([3, 3]);
    line(pen, [[CURVE.left, y(1)], [CURVE.left + w, y(1)]]);
    pen.setLineDash([]);
    for (const mark of [0, 1, 2, 3, 4, 6].filter((m) => m <= top)) pen.fillText(mark + "x", CURVE.left - 5, y(mark));
    pen.textAlign = "left";
    pen.fillText(word("stage.curve_axis", { seconds: end.toFixed(2) }), CURVE.left, CURVE.height - 7);
  }

  // Numbers of lanes at the ends of their lines, pushed apart where lines end together.
  function drawLabels(pen, labels, inks) {
    pen.fillStyle = inks.text;
    pen.textAlign = "left";
    let free = -Infinity;
    for (const { text, at } of labels.sort((a, b) => a.at[1] - b.at[1])) {
      const y = Math.max(at[1], free);
      free = y + LABEL;
      pen.fillText(text, at[0] + 4, y);
    }
  }

  // One column a round: draft, verify and host one above the other, those to come pale; dashed, what
  // one plain step costs. Of many rounds as many as have room, about the one that is looked at.
  function drawRounds(view, lane, frame) {
    const { width, inks, step, passed, lit } = frame;
    const room = Math.max(1, Math.floor(width / ROUNDS.slot));
    const first = lane.rounds.length > room ? Math.floor(lit / room) * room : 0;
    const shown = lane.rounds.slice(first, first + room);
    const slot = Math.min(ROUNDS.widest, width / shown.length);
    const most = Math.max(step || 0, ...shown.map((round) => round.at[3] - round.at[0])) || 1;
    const floor = ROUNDS.height - ROUNDS.bottom;
    const y = (seconds) => floor - (seconds / most) * (floor - ROUNDS.top);
    const pen = clearCanvas(view.canvas, width, ROUNDS.height);
    view.frame = { first, slot, count: shown.length };
    shown.forEach((round, i) => {
      const [left, wide] = [i * slot, Math.max(1, slot - (slot > 5 ? 2 : 1))];
      pen.globalAlpha = first + i < passed ? 1 : 0.3;
      PARTS.forEach((part, k) => {
        const [from, to] = [y(round.at[k] - round.at[0]), y(round.at[k + 1] - round.at[0])];
        pen.fillStyle = inks["part-" + part];
        pen.fillRect(left, to, wide, from - to);
      });
      pen.globalAlpha = 1;
      if (first + i !== lit) return;
      pen.fillStyle = inks.text;
      pen.fillRect(left, floor + 2, Math.max(wide, 2), 3);
    });
    pen.font = inks.mono;
    pen.fillStyle = inks.quiet;
    pen.textBaseline = "middle";
    pen.textAlign = "left";
    pen.fillText(word("stage.rounds_axis", { first: first + 1, last: first + shown.length }), 0, ROUNDS.height - 6);
    pen.textAlign = "right";
    pen.fillText(step === null ? milliseconds(most) : word("stage.plain_step", { time: milliseconds(step) }), width, 6);
    if (step === null) return;
    pen.strokeStyle = inks.text;
    pen.setLineDash([4, 3]);
    line(pen, [[0, y(step)], [width, y(step)]]);
    pen.setLineDash([]);
  }

  // Index of the round whose column lies under a pointer, or -1.
  function roundUnder(view, event) {
    if (!view.frame) return -1;
    const at = Math.floor((event.clientX - view.canvas.getBoundingClientRect().left) / view.frame.slot);
    return at >= 0 && at < view.frame.count ? view.frame.first + at : -1;
  }

  function line(pen, points) {
    if (points.length < 2) return;
    pen.beginPath();
    points.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
    pen.stroke();
  }

  return { balance, depthBars, histogram, drawCurves, drawRounds, roundUnder };
})();
