// The race: every lane's rounds on one axis, drawn on a canvas, with names, counts and places
// beside it; and the ticks of the scrub bar, whose shape tells what became of each draft.

const SpecVizRace = (function () {
  const { clamp, firstWhere, versusAt } = SpecVizRun;
  const { axisEnd, stretch, placeOf, finishedRound, tokensShown, rankShown } = SpecVizTime;
  const { word, tell, el, put, say, clearCanvas, duration, number, PARTS, drawOrigin } = SpecVizDom;
  const { speedWords } = SpecVizOthers;
  const { explain } = SpecVizTerm;
  const ROWS = { wide: { height: 28, top: 5, bar: 18 }, dense: { height: 19, top: 2, bar: 15 },
    narrow: { height: 46, top: 26, bar: 18 } }; // narrow: words above the bar
  const MANY = 6; // more lanes are set densely, so that the trees are still on the screen
  const COMING = 0.4; // how strong rounds are painted that are yet to be played
  const LABELLED = 15; // a pass this wide bears how many tokens it gave
  const CLOSE_ROUNDS = 8; // of the longest first round, across a close-up
  const INSET = 8; // half the thumb of the scrub bar
  const TICKS = 20;
  const SCRUB_STEPS = 10000;

  function makeRace() {
    const names = el("div", "sv-racenames");
    const canvas = el("canvas", "sv-racecanvas");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", word("stage.race"));
    const counts = el("div", "sv-racecounts");
    const middle = el("div", "sv-racemiddle", canvas);
    const [badge, axisWords] = [el("span", "sv-badge"), el("span", "sv-raceaxiswords")];
    const [own, note] = [el("span", "sv-raceown"), el("span", "sv-racenote")];
    const axis = el("p", "sv-raceaxis", badge, axisWords, note, own);
    const root = el("div", "sv-race", names, middle, counts, axis);
    return { root, names, canvas, middle, counts, axis, badge, axisWords, own, note, rows: [], key: "", still: "", frame: null };
  }

  function makeRow(lane, index, state) {
    const check = el("input", "");
    Object.assign(check, { type: "checkbox", checked: true });
    check.setAttribute("aria-label", word("stage.show_lane", { lane: tell(lane.info.title) }));
    check.addEventListener("change", () => state.showLane(lane, check.checked));
    const lead = el("button", "sv-racename", el("b", "", String(index + 1)), " " + tell(lane.info.title));
    lead.type = "button";
    explain(lead, [word("stage.term.lane"), word("stage.explain_lane"), tell(lane.info.model)].filter(Boolean).join(". "));
    lead.addEventListener("click", () => state.explain(lane));
    return { check, lead, name: el("div", "sv-racerow", el("label", "sv-racecheck", check), lead) };
  }

  function makeGhostRow(lane) {
    const label = el("span", "sv-ghostname", word("stage.ghost_lane", { lane: tell(lane.info.title) }));
    return { check: null, lead: null, name: el("div", "sv-racerow", label) };
  }

  // A row for each lane, then one for each of an earlier run's.
  function addRows(view, run, state) {
    const wanted = [...run.lanes, ...state.ghosts];
    while (view.rows.length < wanted.length) {
      const lane = wanted[view.rows.length];
      const isGhost = view.rows.length >= run.lanes.length;
      const row = isGhost ? makeGhostRow(lane) : makeRow(lane, view.rows.length, state);
      const cells = ["speedup", "tau", "count", "place"].map((name) => [name, el("span", "sv-race" + name)]);
      Object.assign(row, Object.fromEntries(cells));
      row.speedup.title = word("stage.figure_title.speedup");
      row.tau.title = word("stage.figure_title.tau");
      view.names.append(row.name);
      view.counts.append(el("div", "sv-racerow", ...cells.map(([, cell]) => cell)));
      view.rows.push(row);
    }
    return wanted;
  }

  // What part of the axis is on screen. While a run grows, the end moves in large steps.
  function spanOf(run, axis, position, isClose) {
    const end = axisEnd(run, axis);
    if (!isClose) {
      if (run.isEnded || run.interrupted) return [0, end || 1];
      const unit = axis === "time" ? 0.5 : 16;
      return [0, unit * 2 ** Math.max(0, Math.ceil(Math.log2((end || unit) / unit)))];
    }
    const firsts = run.lanes.filter((lane) => lane.rounds.length).map((lane) => {
      const [from, to] = stretch(lane, 0, axis);
      return to - from;
    });
    const span = Math.max(...firsts, axis === "time" ? 0.001 : 1) * CLOSE_ROUNDS;
    const page = position > 0 ? Math.ceil(position / span) - 1 : 0;
    return [page * span, (page + 1) * span];
  }

  function drawRace(view, run, state) {
    const { position, axis, isClose, width, isNarrow, inks, theme } = state;
    const [from, to] = spanOf(run, axis, position, isClose);
    if (view.rows.length > run.lanes.length + state.ghosts.length ||
        (state.ghosts.length && view.numLanes !== run.lanes.length)) clearRows(view);
    view.numLanes = run.lanes.length;
    const lanes = addRows(view, run, state);
    lanes.forEach((lane, i) => drawWords(view.rows[i], run, lane, state));
    const row = isNarrow ? ROWS.narrow : lanes.length > MANY ? ROWS.dense : ROWS.wide;
    put(view.root, "data-dense", row === ROWS.dense);
    const height = lanes.length * row.height;
    const scale = width / (to - from || 1);
    const head = Math.round(clamp((position - from) * scale, 0, width));
    const still = [run.id, run.version, lanes.length, axis, from, to, width, row.height, theme,
      SpecVizWords.language()].join();
    const lit = litOf(state.chosen, lanes, axis);
    const key = [still, head, lit].join(":");
    if (view.key === key || width < 40) return;
    view.key = key;
    view.frame = { from, to, scale, width, axis, inks, row };
    if (isNarrow) revealLead(view, lanes.indexOf(state.lead), state.lead);
    if (view.still !== still) {
      view.still = still;
      layRace(view, run, lanes, height);
      const words = axis === "time" ? [duration(from), duration(to)] : [from.toFixed(0), to.toFixed(0)];
      drawOrigin(view.badge, run);
      say(view.own, ownWords(run));
      say(view.note, [plainWords(run, axis), run.finishBy === "rate" ? word("stage.finish_by_rate") : ""].filter(Boolean).join(" · "));
      say(view.axisWords, word("stage.axis_words." + axis, { from: words[0], to: words[1] }));
    }
    blit(view, head, height);
    if (lit) light(view, lit);
  }

  // On a narrow screen the race is cut and scrolls: the lane that is explained is brought into it.
  function revealLead(view, index, lead) {
    if (view.lead === lead) return;
    view.lead = lead;
    const { root } = view;
    const [top, tall] = [index * ROWS.narrow.height, ROWS.narrow.height];
    if (top < root.scrollTop || top + tall > root.scrollTop + root.clientHeight) root.scrollTop = top - tall / 2;
  }

  // The round that is pointed at or pinned, anywhere on the stage: [row, from, to] on the axis.
  function litOf(chosen, lanes, axis) {
    const row = chosen ? lanes.indexOf(chosen.lane) : -1;
    return row < 0 || !chosen.lane.rounds[chosen.index] ? null : [row, ...stretch(chosen.lane, chosen.index, axis)];
  }

  function light(view, [index, start, end]) {
    const { from, scale, width, inks, row } = view.frame;
    const [left, right] = [start, end].map((at) => clamp((at - from) * scale, 1, width - 1));
    if (right - left <= 0 && (end <= from || left >= width - 1)) return; // outside the close-up
    const pen = view.canvas.getContext("2d");
    const room = Math.min(3, row.top - 1); // between bar and frame
    const top = index * row.height + row.top - room;
    pen.strokeStyle = inks.text;
    pen.lineWidth = 2;
    pen.strokeRect(left - 1, top, Math.max(right - left, 3) + 1, row.bar + 2 * room);
    pen.lineWidth = 1;
  }

  // Which lanes are compared with a plain lane of their own.
  function ownWords(run) {
    const shown = (number) => run.lanes.findIndex((one) => one.info.lane === number) + 1;
    return run.lanes.filter((lane) => lane.info.backbone && lane.versus.length).map((lane) => {
      const { plain } = lane.versus[lane.versus.length - 1].value;
      return plain === null ? "" : word("stage.own_note", { lane: shown(lane.info.lane), plain: shown(plain) });
    }).filter(Boolean).join(" ");
  }

  function drawWords(row, run, lane, state) {
    const time = state.timeOf(lane);
    const place = placeOf(lane, time);
    say(row.count, word("stage.tokens", { n: tokensShown(place) }));
    if (!row.lead) return;
    const done = finishedRound(lane, place);
    say(row.speedup, speedWords(lane, done ? versusAt(lane, time) : null));
    say(row.tau, word("stage.tau_short", { tau: number(done && done.total.tau, 2) }));
    put(row.lead, "aria-pressed", lane === state.lead);
    const isOpen = state.shown.has(lane);
    if (row.check.checked !== isOpen) row.check.checked = isOpen;
    const rank = rankShown(run, lane, place);
    say(row.place, rank ? word("stage.place", { n: rank }) : "");
  }

  // Nothing of what was drawn before holds.
  function clearRace(view) {
    clearRows(view);
    Object.assign(view, { key: "", still: "" });
  }

  function clearRows(view) {
    view.names.replaceChildren();
    view.counts.replaceChildren();
    view.rows = [];
  }

  // Every round twice, off screen: bright as passed, pale as to come. A frame shows parts of both.
  function layRace(view, run, lanes, height) {
    const { width } = view.frame;
    view.passed = view.passed || document.createElement("canvas");
    view.coming = view.coming || document.createElement("canvas");
    for (const [canvas, isPast] of [[view.passed, true], [view.coming, false]]) {
      const pen = clearCanvas(canvas, width, height);
      lanes.forEach((lane, i) => {
        pen.globalAlpha = (isPast ? 1 : COMING) * (i < run.lanes.length ? 1 : 0.5);
        drawRow(pen, lane, i * view.frame.row.height + view.frame.row.top, view.frame, isPast);
      });
      pen.globalAlpha = 1;
      drawPlainLine(pen, run, run.lanes.length * view.frame.row.height, view.frame);
    }
  }

  function blit(view, head, height) {
    const { width, inks } = view.frame;
    const pen = clearCanvas(view.canvas, width, height);
    const dense = view.canvas.width / width;
    const part = (canvas, x, wide) => wide > 0 && pen.drawImage(canvas, x * dense, 0, wide * dense,
      canvas.height, x, 0, wide, height);
    part(view.passed, 0, head);
    part(view.coming, head, width - head);
    pen.fillStyle = inks.text;
    for (const [top, tall] of stripes(view.frame.row, height)) pen.fillRect(head - 0.75, top, 1.5, tall);
  }

  // Where an upright line is drawn: all the way down, but not through words that stand in its way.
  function stripes(row, height) {
    if (row !== ROWS.narrow) return [[0, height]];
    return Array.from({ length: height / row.height }, (_, i) => [i * row.height + row.top - 2, row.bar + 4]);
  }

  // Rounds that would be thinner than a pixel are drawn as the first of their pixel.
  function drawRow(pen, lane, y, frame, isPast) {
    const { from, to, scale, width, axis, inks, row } = frame;
    pen.fillStyle = inks.rule;
    pen.fillRect(0, y + row.bar / 2 - 0.5, width, 1);
    const count = lane.rounds.length;
    const first = firstWhere(count, (i) => stretch(lane, i, axis)[1] > from);
    let done = -1;
    for (let i = first; i < count; i += 1) {
      const [start, end] = stretch(lane, i, axis);
      if (start >= to) break;
      const [x, right] = [(start - from) * scale, (end - from) * scale];
      if (right - done < 0.7) continue;
      done = right;
      drawRound(pen, lane.rounds[i], x, Math.max(right, x + 0.7), y, frame, isPast);
    }
  }

  function drawRound(pen, round, x, right, y, frame, isPast) {
    const { inks, row } = frame;
    const [start, , , end] = round.at;
    const wide = right - x - (right - x > 4 ? 1 : 0);
    const at = round.at.map((t) => x + (end > start ? (t - start) / (end - start) : 1) * wide);
    PARTS.forEach((part, k) => {
      pen.fillStyle = inks["part-" + part];
      pen.fillRect(at[k], y, Math.max(at[k + 1] - at[k], 0), row.bar);
    });
    if (!isPast || at[2] - at[1] < LABELLED) return;
    pen.fillStyle = inks["on-part"];
    pen.font = "600 11px " + inks.font;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.fillText("+" + round.new.text.length, (at[1] + at[2]) / 2, y + row.bar / 2 + 1);
  }

  // The plain lane whose end is marked, if it has come to it.
  function endedPlain(run, axis) {
    const plain = run.lanes.find((lane) => lane.info.is_plain && !lane.info.backbone);
    return plain && plain.end && axis !== "tokens" && plain.rounds.length ? plain : null;
  }

  function plainWords(run, axis) {
    return endedPlain(run, axis) ? word("stage.plain_line") : "";
  }

  // Where the plain lane ended: who ends left of it beat it.
  function drawPlainLine(pen, run, height, frame) {
    const { from, to, scale, axis, inks } = frame;
    const plain = endedPlain(run, axis);
    if (!plain) return;
    const end = stretch(plain, plain.rounds.length - 1, axis)[1];
    if (end <= from || end > to) return;
    const x = Math.min((end - from) * scale, frame.width - 1);
    pen.strokeStyle = inks.text;
    pen.setLineDash([4, 3]);
    pen.beginPath();
    for (const [top, tall] of stripes(frame.row, height)) {
      pen.moveTo(x, top);
      pen.lineTo(x, top + tall);
    }
    pen.stroke();
    pen.setLineDash([]);
  }

  function positionUnder(view, event) {
    if (!view.frame) return null;
    const box = view.canvas.getBoundingClientRect();
    return view.frame.from + (event.clientX - box.left) / view.frame.scale;
  }

  // ---- The scrub bar's ticks ---------------------------------------------------------------

  function makeScrub() {
    const canvas = el("canvas", "sv-ticks");
    canvas.setAttribute("aria-hidden", "true");
    const input = el("input", "sv-scrub");
    Object.assign(input, { type: "range", min: 0, max: SCRUB_STEPS, step: 1, value: 0 });
    input.setAttribute("aria-label", word("stage.scrub"));
    return { root: el("div", "sv-scrubbox", canvas, input), canvas, input, key: "" };
  }

  // One tick a round of the explained lane: full bar all kept, half bar some, cross none, dot plain.
  function drawTicks(view, run, lane, axis, width, inks, theme, filter) {
    const end = axisEnd(run, axis);
    const key = [run.id, lane.info.lane, lane.rounds.length, axis, end, width, theme, filter].join();
    if (view.key === key || width < 40) return;
    view.key = key;
    const pen = clearCanvas(view.canvas, width, TICKS);
    const scale = (width - 2 * INSET) / (end || 1);
    const room = Math.max(1, scale * ((end || 1) / Math.max(lane.rounds.length, 1)));
    lane.rounds.forEach((round, i) => {
      const x = INSET + stretch(lane, i, axis)[1] * scale;
      pen.globalAlpha = filter === null || round.num_accepted === filter ? 1 : 0.15;
      drawTick(pen, round.outcome, x, Math.min(room * 0.6, 5), inks);
    });
    pen.globalAlpha = 1;
  }

  function drawTick(pen, outcome, x, wide, inks) {
    const left = x - wide / 2;
    pen.fillStyle = { all: inks.accepted, some: inks.accepted, none: inks.rejected, plain: inks.quiet }[outcome];
    if (outcome === "all") pen.fillRect(left, 2, wide, TICKS - 4);
    if (outcome === "some") {
      pen.fillRect(left, TICKS / 2, wide, TICKS / 2 - 2);
      pen.fillStyle = inks.rejected;
      pen.fillRect(left, 6, wide, 2);
    }
    if (outcome === "plain") pen.fillRect(left, TICKS - 6, wide, Math.max(2, Math.min(wide, 3)));
    if (outcome !== "none") return;
    if (wide < 3) pen.fillRect(left, 4, wide, 3);
    else {
      pen.strokeStyle = inks.rejected;
      pen.lineWidth = 1.5;
      pen.beginPath();
      pen.moveTo(x - 2.5, 3);
      pen.lineTo(x + 2.5, 8);
      pen.moveTo(x + 2.5, 3);
      pen.lineTo(x - 2.5, 8);
      pen.stroke();
    }
  }

  return { SCRUB_STEPS, makeRace, drawRace, clearRace, positionUnder, makeScrub, drawTicks };
})();
