// Small charts of a lane's numbers: bars with intervals, a histogram, running speed-ups. Drawn as
// elements or on a canvas only when their figures change, never per frame.

const SpecVizChart = (function () {
  const { firstWhere } = SpecVizRun;
  const { word, el, percent, clearCanvas } = SpecVizDom;
  const CURVE = { height: 120, left: 34, bottom: 18, top: 8, right: 8 };
  const DASHES = [[], [6, 3], [2, 2], [8, 3, 2, 3], [1, 3], [12, 4]];
  const HUES = ["target", "part-draft", "accepted", "own", "rejected", "ahead"];

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
  function drawCurves(canvas, run, lanes, time, end, width, inks) {
    const pen = clearCanvas(canvas, width, CURVE.height);
    const drafted = lanes.filter((lane) => !lane.info.is_plain && lane.versus.length);
    const values = drafted.flatMap((lane) => lane.versus.map((entry) => entry.value.speedup || 0));
    const top = Math.max(1.5, ...values.slice(-400)) * 1.1;
    const [w, h] = [width - CURVE.left - CURVE.right, CURVE.height - CURVE.bottom - CURVE.top];
    const x = (moment) => CURVE.left + (moment / (end || 1)) * w;
    const y = (speed) => CURVE.top + h - (Math.min(speed, top) / top) * h;
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
    drafted.forEach((lane) => {
      const count = firstWhere(lane.versus.length, (i) => lane.versus[i].time > time);
      const points = lane.versus.slice(0, count).filter((entry) => entry.value.speedup !== null)
        .map((entry) => [x(entry.time), y(entry.value.speedup)]);
      const style = run.lanes.indexOf(lane);
      pen.strokeStyle = inks[HUES[style % HUES.length]];
      pen.lineWidth = 1.8;
      pen.setLineDash(DASHES[style % DASHES.length]);
      line(pen, points);
      pen.setLineDash([]);
      if (points.length) pen.fillText(String(style + 1), Math.min(points[points.length - 1][0] + 3, width - 9),
        points[points.length - 1][1]);
    });
    pen.lineWidth = 1;
  }

  function line(pen, points) {
    if (points.length < 2) return;
    pen.beginPath();
    points.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
    pen.stroke();
  }

  return { depthBars, histogram, drawCurves };
})();
