// The tree-attention mask of a round on a canvas: rows ask, columns are read. The prefix, which
// every row reads, is one band until it is unfolded. Row and column of the selection are lit.

const SpecVizMask = (function () {
  const { clamp } = SpecVizRun;
  const { isTold } = SpecVizTime;
  const { word, el, put, say, fit, clearCanvas, checkbox } = SpecVizDom;
  const MOST_SAID = 16; // characters of a token
  const SIZE = { label: 84, band: 56, top: 34, min: 5, max: 18, labelled: 11, prefix: 4, gap: 4, least: 300 };

  function makeMask() {
    const canvas = el("canvas", "sv-mask");
    canvas.setAttribute("role", "application"); // arrow keys are its own
    canvas.tabIndex = 0;
    const box = el("div", "sv-maskbox", canvas);
    const unfold = checkbox(word("stage.unfold_prefix"), false);
    const words = el("p", "sv-maskwords");
    const root = el("section", "sv-panel sv-maskpanel",
      el("div", "sv-panelhead", el("h4", "", word("stage.mask")), unfold.root), box, words);
    const scratch = document.createElement("canvas"); // a font set on one that is shown costs a layout
    return { root, canvas, scratch, box, unfold: unfold.input, words, key: "", geometry: null, walked: null };
  }

  function geometryOf(view, lane, round, room) {
    const rows = round.tree.x.length;
    const free = room - SIZE.label - SIZE.band - SIZE.gap - 6;
    const cell = clamp(Math.floor(free / Math.max(lane.maxRows, 4)), SIZE.min, SIZE.max);
    const isWide = view.unfold.checked;
    const band = isWide ? round.prefix * SIZE.prefix : SIZE.band;
    return { rows, cell, band, left: SIZE.label + band + SIZE.gap, isWide, prefix: round.prefix };
  }

  // `light` is {row, column, prefix} of this lane and round, or null; column a row that is read, prefix a
  // place in the text before the root. `textAt(place)` gives the token there.
  function drawMask(view, lane, place, light, { inks, theme, room, isPlaying, textAt }) {
    const { round, phase } = place;
    const lit = light ? [light.row, light.column ?? "", light.prefix ?? ""].join(":") : "";
    const isSwept = phase === "verify" && place.part < 1;
    const key = [lane.info.lane, place.index, phase, isSwept, lit, theme, lane.maxRows, room, isPlaying,
      view.unfold.checked, SpecVizWords.language()].join();
    if (view.key === key) return;
    view.key = key;
    const at = geometryOf(view, lane, round, room);
    view.geometry = at;
    const [width, height] = [Math.max(at.left + at.rows * at.cell + 6, SIZE.least), SIZE.top + at.rows * at.cell + 4];
    const pen = clearCanvas(view.scratch, width, height);
    view.box.style.height = SIZE.top + lane.maxRows * at.cell + 14 + "px";
    drawPrefix(pen, at, phase, inks);
    drawLights(pen, at, light, inks);
    drawRead(pen, at, light, inks);
    drawCells(pen, at, place, inks);
    drawLabels(pen, at, round, light, { inks, isPlaying });
    if (phase === "verify") {
      pen.strokeStyle = inks.target;
      pen.lineWidth = 2;
      pen.strokeRect(SIZE.label - 2, SIZE.top - 3, at.left + at.rows * at.cell - SIZE.label + 3, at.rows * at.cell + 5);
    }
    clearCanvas(view.canvas, width, height).drawImage(view.scratch, 0, 0, width, height);
    put(view.canvas, "aria-label", word("stage.mask_label", { rows: at.rows, prefix: round.prefix }));
    say(view.words, maskWords(round, light, textAt));
  }

  // The one token of the prefix that is pointed at, over all rows: each of them reads it.
  function drawRead(pen, at, light, inks) {
    if (!light || !at.isWide || (light.prefix ?? null) === null || light.prefix >= at.prefix) return;
    pen.fillStyle = inks.drafter;
    pen.fillRect(SIZE.label + light.prefix * SIZE.prefix, SIZE.top - 2, SIZE.prefix - 1, at.rows * at.cell + 2);
  }

  function drawLights(pen, at, light, inks) {
    if (!light || light.row === null || light.row >= at.rows) return;
    pen.fillStyle = inks["drafter-tint"];
    pen.strokeStyle = inks.drafter;
    pen.lineWidth = 1;
    pen.globalAlpha = 0.6;
    const side = at.rows * at.cell;
    const column = light.column ?? ((light.prefix ?? null) === null ? light.row : -1);
    if (light.row >= 0) {
      pen.fillRect(SIZE.label - 2, SIZE.top + light.row * at.cell - 1, at.left - SIZE.label + side + 3, at.cell);
      pen.strokeRect(SIZE.label - 2, SIZE.top + light.row * at.cell - 1, at.left - SIZE.label + side + 3, at.cell);
    }
    if (column >= 0) {
      pen.fillRect(at.left + column * at.cell - 1, SIZE.top - 2, at.cell, side + 2);
      pen.strokeRect(at.left + column * at.cell - 1, SIZE.top - 2, at.cell, side + 2);
    }
    pen.globalAlpha = 1;
  }

  function drawPrefix(pen, at, phase, inks) {
    pen.globalAlpha = phase === "draft" ? 0.35 : 0.8;
    pen.fillStyle = phase === "verify" ? inks.target : inks.quiet;
    const size = at.cell - (at.cell > 9 ? 2 : 1);
    const [step, gap] = at.isWide ? [SIZE.prefix, 1] : [7, 3];
    for (let row = 0; row < at.rows; row += 1) pen.fillRect(SIZE.label, SIZE.top + row * at.cell, at.band, size);
    for (let x = step - gap; x < at.band; x += step) pen.clearRect(SIZE.label + x, SIZE.top, gap, at.rows * at.cell);
    pen.globalAlpha = 1;
  }

  function drawCells(pen, at, place, inks) {
    const { tree, kept_rows: kept } = place.round;
    const size = at.cell - (at.cell > 9 ? 2 : 1);
    const isOver = place.phase === "done";
    pen.globalAlpha = place.phase === "draft" ? 0.35 : 1;
    pen.strokeStyle = inks.rule;
    pen.lineWidth = 1;
    pen.beginPath();
    for (let row = 0; row < at.rows; row += 1) {
      const y = SIZE.top + row * at.cell + size / 2;
      pen.moveTo(at.left, y);
      pen.lineTo(at.left + at.rows * at.cell, y);
    }
    pen.stroke();
    for (let row = 0; row < at.rows; row += 1) {
      const isKept = isOver && kept.includes(row);
      pen.fillStyle = place.phase === "verify" ? inks.target : isKept ? inks.accepted
        : tree.status[row] === "lookahead" ? inks.ahead : inks.quiet;
      for (const column of tree.sees[row]) {
        pen.fillRect(at.left + column * at.cell, SIZE.top + row * at.cell, size, size);
      }
    }
    pen.globalAlpha = 1;
  }

  function drawLabels(pen, at, round, light, { inks, isPlaying }) {
    pen.font = inks.mono;
    pen.fillStyle = inks.quiet;
    pen.textBaseline = "middle";
    pen.textAlign = "left";
    const prefix = fit(word("stage.prefix", { n: round.prefix }), 26);
    pen.fillText(prefix, SIZE.label, 8);
    pen.fillText(word("stage.mask_columns"), Math.max(at.left, SIZE.label + pen.measureText(prefix).width + 10), 8);
    pen.textAlign = "right";
    pen.fillText(word("stage.mask_rows"), SIZE.label - 6, SIZE.top - 10);
    // Where not every row has room for a label every so many have, and what is lit keeps its room. Nobody
    // reads those while rounds go by, and they would cost a third of a frame.
    const step = isPlaying && at.cell < SIZE.labelled ? Infinity : Math.ceil(SIZE.labelled / at.cell);
    const lit = light ? [light.row, light.column ?? light.row] : [];
    for (let row = 0; row < at.rows; row += 1) {
      const isLit = lit.includes(row);
      if (!isLit && (row % step || lit.some((one) => Math.abs(one - row) < step))) continue;
      pen.fillStyle = isLit ? inks.text : inks.quiet;
      pen.textAlign = "right";
      pen.fillText(row + " " + fit(round.tree.text[row], 8), SIZE.label - 6, SIZE.top + (row + 0.5) * at.cell - 0.5);
      pen.textAlign = "center";
      if (row < 10 || at.cell > 14 || isLit || row % (2 * step) === 0) {
        pen.fillText(String(row), at.left + (row + 0.45) * at.cell, SIZE.top - 10);
      }
    }
  }

  function maskWords(round, light, textAt) {
    if (!light || light.row === null || light.row < 0 || light.row >= round.tree.x.length) {
      return word("stage.mask_hint");
    }
    const { row, column, prefix = null } = light;
    if (prefix !== null) {
      return word("stage.mask_prefix", { row: named(round, row), position: prefix, text: fit(textAt(prefix), MOST_SAID) });
    }
    if (column !== undefined && column !== null && column !== row) {
      const key = round.tree.sees[row].includes(column) ? "stage.mask_reads" : "stage.mask_blind";
      return word(key, { row: named(round, row), column: named(round, column) });
    }
    const above = round.tree.sees[row].slice(0, -1);
    const said = word(above.length ? "stage.mask_row" : "stage.mask_root",
      { row: named(round, row), n: above.length, above: above.map((at) => named(round, at)).join(", ") });
    return [said, sharedWords(round.tree, row)].filter(Boolean).join(" ");
  }

  const named = (round, row) => row + " “" + fit(round.tree.text[row], MOST_SAID) + "”";

  // Drafted rows of one depth are guesses at the same place in the text.
  function sharedWords(tree, row) {
    if (tree.status[row] === "lookahead") return "";
    const isBeside = (position, at) => position === tree.position[row] && tree.status[at] !== "lookahead";
    const n = tree.position.filter(isBeside).length;
    return n > 1 ? word("stage.mask_shared", { n, depth: tree.depth[row], position: tree.position[row] }) : "";
  }

  // Which row and column lie under a pointer, or which token of the unfolded prefix; null outside.
  function cellAt(view, event) {
    const at = view.geometry;
    if (!at) return null;
    const box = view.canvas.getBoundingClientRect();
    const row = Math.floor((event.clientY - box.top - SIZE.top) / at.cell);
    const column = Math.floor((event.clientX - box.left - at.left) / at.cell);
    if (row >= at.rows || row < -1) return null;
    const isInside = column >= 0 && column < at.rows;
    if (row === -1 || event.clientY - box.top < SIZE.top) return isInside ? { row: column, column: null } : null;
    const read = Math.floor((event.clientX - box.left - SIZE.label) / SIZE.prefix);
    const isPrefix = at.isWide && read >= 0 && read < at.prefix;
    return { row, column: isInside ? column : null, prefix: isPrefix ? read : null };
  }

  // Arrow keys go from cell to cell; left of the first column stands the whole row, and left of that the
  // unfolded prefix, its last token first. Gives the cell they came to, or null for another key.
  function stepInMask(view, key, index) {
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const at = view.geometry;
    if (!at || !(key in steps)) return null;
    const before = view.walked && view.walked.index === index ? view.walked : { row: -1, across: 0 };
    const [down, right] = steps[key];
    const row = clamp(before.row + (before.row < 0 ? 1 : down), 0, at.rows - 1);
    const across = clamp(before.across + (before.row < 0 ? 0 : right), at.isWide ? -at.prefix : 0, at.rows);
    view.walked = { index, row, across };
    return { row, column: across > 0 ? across - 1 : null, prefix: across < 0 ? at.prefix + across : null };
  }

  return { makeMask, drawMask, cellAt, stepInMask, maskWords, isTold };
})();
