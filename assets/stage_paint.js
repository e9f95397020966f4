// What the stage looks like: a page, and lanes with their tree, mask, text and counters, painted
// as f(items, playhead). Given items by stage_run.js; formats and places, and works out nothing.
// Token text enters the page only through textContent and setAttribute.

const SpecVizPaint = (function () {
  const {
    clamp, firstWhere, lastEnd, runEnd, placeOf, tokensShown, finishedRound, versusAt, lookOf, isNextShown,
  } = SpecVizRun;

  // ---- Words and measures ------------------------------------------------------------------

  const WORDS = {
    play: "Play", pause: "Pause", back: "One round back", forward: "One round on",
    home: "To the start", end: "To the end", live: "Live", speed: "Speed", rest: "Rest after rounds",
    scrub: "Time on the lane clock", waiting: "waiting for the next round",
    empty: "A run will appear here.", plain: "baseline",
    hint: "Point at a node, a cell or a token. Click keeps it, Esc frees it.",
    recorded: "Recorded", liveBadge: "Live",
    keys: "Space plays, arrow keys step by round, Home and End jump, up and down walk a focused tree.",
  };
  const PARTS = [["draft", "draft"], ["verify", "verify (one pass)"], ["commit", "host"]];
  const LEGEND = [
    ["root", "root: the last token so far"],
    ["pending", "drafted, not yet checked"],
    ["accepted", "accepted"],
    ["rejected", "rejected"],
    ["unreached", "never reached"],
    ["bonus", "bonus: the target's own, after a whole path"],
    ["recovered", "the target's own, where the draft failed"],
    ["lookahead", "lookahead row: read, never accepted"],
  ];
  const SPEEDS = [0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8];
  const [WINDOW_ROUNDS, NARROW_ROUNDS] = [7, 4]; // of the longest first round, across the race
  const NODE = { height: 24, line: 34, pad: 10, minPitch: 70, maxPitch: 112, gap: 16 };
  const CHAR = 6.8; // width of a monospaced character at the size of node texts
  const CELL = { min: 6, max: 15, room: 200, label: 66, band: 42, top: 30, labelled: 11 };
  const [TREE_ROOM, MASK_ROOM] = [320, 340]; // tallest boxes; what is taller scrolls inside them
  const BLOCK_HEAD = 20; // the line that names a block of lookahead rows
  const CHANCE = { left: 46, width: 84 }; // the two bars of a draft row's chances
  const NARROW = 520; // a race narrower than this has short labels
  const RACE = { label: 118, narrow: 84, count: 74, row: 26, bar: 18, top: 4, axis: 18 };
  const ICONS = {
    check: "M1 5 L4 8 L9 2", cross: "M2 2 L8 8 M8 2 L2 8",
    star: "M5 0.4 L6.4 3.6 L9.8 3.9 L7.2 6.2 L8 9.6 L5 7.8 L2 9.6 L2.8 6.2 L0.2 3.9 L3.6 3.6 Z",
    loop: "M8.6 5 A3.6 3.6 0 1 1 7.2 2.1 M7.6 0 L7.4 2.4 L5 2.2",
    play: "M2 1 L9 5 L2 9 Z", pause: "M1.5 1 H4 V9 H1.5 Z M6 1 H8.5 V9 H6 Z",
    back: "M8 1 L3 5 L8 9 Z M1 1 H2.4 V9 H1 Z", forward: "M2 1 L7 5 L2 9 Z M7.6 1 H9 V9 H7.6 Z",
    home: "M9.5 1 L5.6 5 L9.5 9 Z M5.4 1 L1.5 5 L5.4 9 Z M0 1 H1.2 V9 H0 Z",
    end: "M0.5 1 L4.4 5 L0.5 9 Z M4.6 1 L8.5 5 L4.6 9 Z M8.8 1 H10 V9 H8.8 Z",
  };
  const MARKS = { accepted: "check", rejected: "cross", bonus: "star", recovered: "loop" };
  const FILLED = new Set(["star", "play", "pause", "back", "forward", "home", "end"]);

  // ---- Elements ----------------------------------------------------------------------------

  function el(tag, name, ...children) {
    const node = document.createElement(tag);
    if (name) node.className = name;
    node.append(...children);
    return node;
  }

  function svg(tag, attributes, ...children) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const name in attributes) node.setAttribute(name, attributes[name]);
    node.append(...children);
    return node;
  }

  // Writes only what changed: most frames change little.
  function put(node, name, value) {
    const text = String(value);
    if (node.getAttribute(name) !== text) node.setAttribute(name, text);
  }

  function say(node, text) {
    if (node.textContent !== text) node.textContent = text;
  }

  function show(node, isShown) {
    if (node.hidden === isShown) node.hidden = !isShown;
  }

  function icon(name) {
    const path = svg("path", { d: ICONS[name], class: FILLED.has(name) ? "sv-fill" : "sv-line" });
    return svg("svg", { viewBox: "0 0 10 10", class: "sv-icon", "aria-hidden": "true" }, path);
  }

  function setIcon(node, name) {
    put(node.querySelector("path"), "d", ICONS[name]);
  }

  // A pool of like elements: `take(n)` gives the first n, made when first needed, the rest hidden.
  function pool(parent, make) {
    const made = [];
    return function take(count) {
      while (made.length < count) parent.append(made[made.push(make()) - 1]);
      made.forEach((node, i) => put(node, "display", i < count ? "inline" : "none"));
      return made;
    };
  }

  // ---- Text --------------------------------------------------------------------------------

  function fit(text, columns) {
    let used = 0;
    let out = "";
    for (const character of text) {
      used += character.codePointAt(0) > 0x2e7f ? 2 : 1;
      if (used > columns) return out.slice(0, -1) + "…";
      out += character;
    }
    return out;
  }

  function number(value, digits) {
    return value === null || value === undefined ? "–" : value.toFixed(digits);
  }

  function milliseconds(seconds) {
    const ms = seconds * 1000;
    return (ms >= 100 ? ms.toFixed(0) : ms >= 1 ? ms.toFixed(1) : ms.toFixed(2)) + " ms";
  }

  function percent(share) {
    return share === null ? "–" : (share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0) + "%";
  }

  function times(speed) {
    return (speed === 1 ? "true time" : speed + "x");
  }

  function originWords(origin, round) {
    const words = {
      bonus: "the target's bonus token", recovered: "the target's own token", none: "",
      plain: "one plain step of the target",
    };
    return "Round " + round + ": " + (words[origin] || "drafted at depth " + origin + ", accepted");
  }

  // ---- The tree ----------------------------------------------------------------------------

  function markPath(look) {
    return MARKS[look] ? ICONS[MARKS[look]] : "";
  }

  function makeNode() {
    const shape = svg("rect", { height: NODE.height, y: -NODE.height / 2 });
    const text = svg("text", { x: 8, y: 4 });
    const strike = svg("path", { class: "sv-strike" });
    const mark = svg("path", { class: "sv-mark", transform: "translate(-5 -5)" });
    const badge = svg("g", { class: "sv-mark-badge" }, svg("circle", { r: 8 }), mark);
    const group = svg("g", { class: "sv-node" }, shape, text, strike, badge);
    Object.assign(group, { shape, text, strike, mark, badge });
    return group;
  }

  function placeNode(node, box, x, y, label) {
    const width = box.pitch - NODE.gap;
    const columns = Math.floor((width - 14) / CHAR);
    const shown = fit(label, columns);
    put(node, "transform", "translate(" + (NODE.pad + x * box.pitch) + " " + lineY(box, y) + ")");
    put(node.shape, "width", width);
    say(node.text, shown);
    const end = 8 + Math.min(columns, shown.length) * CHAR;
    put(node.strike, "d", "M6 0 H" + (end + 2).toFixed(0));
    put(node.badge, "transform", "translate(" + (width - 2) + " " + (-NODE.height / 2) + ")");
  }

  function lookNode(node, look) {
    put(node, "data-look", look);
    put(node.mark, "d", markPath(look));
    put(node.badge, "display", MARKS[look] ? "inline" : "none");
    put(node.shape, "rx", look === "root" ? 1 : 6);
  }

  function lineY(box, y) {
    const isBelow = box.lookaheadY !== null && y >= box.lookaheadY;
    return NODE.pad + NODE.height / 2 + y * NODE.line + (isBelow ? BLOCK_HEAD : 0);
  }

  function linkPath(box, x0, y0, x1, y1) {
    const width = box.pitch - NODE.gap;
    const from = NODE.pad + x0 * box.pitch + width;
    const to = NODE.pad + x1 * box.pitch;
    const [a, b] = [lineY(box, y0), lineY(box, y1)];
    const middle = from + NODE.gap / 2;
    return a === b ? "M" + from + " " + a + " H" + to
      : "M" + from + " " + a + " H" + middle + " V" + b + " H" + to;
  }

  function makeTree() {
    const links = svg("g", { class: "sv-links" });
    const block = svg("g", { class: "sv-block" }, svg("rect", { rx: 6 }), svg("text", { x: 12 }));
    const nodes = svg("g", {});
    const own = makeNode();
    const ownLink = svg("path", { class: "sv-link sv-own" });
    links.append(ownLink);
    const root = svg("svg", { class: "sv-tree", tabindex: "0", role: "img" }, block, links, nodes, own);
    const takeLinks = pool(links, () => svg("path", { class: "sv-link" }));
    const takeNodes = pool(nodes, makeNode);
    return { root, block, own, ownLink, takeLinks, takeNodes, nodes: [], links: [], box: null };
  }

  // Geometry of a round; runs once when the round under the playhead changes.
  function layTree(view, lane, round, width) {
    const tree = round.tree;
    const columns = Math.max(lane.maxWidth, 3);
    const pitch = clamp(Math.floor((width - NODE.pad * 2) / columns), NODE.minPitch, NODE.maxPitch);
    const box = { pitch, lookaheadY: tree.lookahead_y };
    view.box = box;
    view.nodes = view.takeNodes(tree.x.length);
    view.links = view.takeLinks(tree.x.length);
    tree.x.forEach((x, row) => {
      const node = view.nodes[row];
      const parent = tree.parent[row];
      placeNode(node, box, x, tree.y[row], tree.text[row]);
      put(node, "data-row", row);
      put(view.links[row], "d",
        parent < 0 ? "" : linkPath(box, tree.x[parent], tree.y[parent], x, tree.y[row]));
    });
    if (round.next) {
      const { x, y, parent, text } = round.next;
      placeNode(view.own, box, x, y, text);
      put(view.ownLink, "d", linkPath(box, tree.x[parent], tree.y[parent], x, y));
    }
    layBlock(view, tree, box);
    put(view.root, "width", NODE.pad + tree.width * pitch);
    put(view.root, "height", lineY(box, tree.height - 1) + NODE.height / 2 + NODE.pad);
  }

  function layBlock(view, tree, box) {
    const [frame, label] = view.block.children;
    put(view.block, "display", tree.lookahead_y === null ? "none" : "inline");
    if (tree.lookahead_y === null) return;
    const top = lineY(box, tree.lookahead_y) - NODE.height / 2 - BLOCK_HEAD;
    put(frame, "x", 2);
    put(frame, "y", top);
    put(frame, "width", NODE.pad + tree.width * box.pitch - 6);
    put(frame, "height", lineY(box, tree.height - 1) + NODE.height / 2 + 5 - top);
    put(label, "y", top + 14);
    say(label, "lookahead rows: read, never accepted");
  }

  function drawTree(view, place) {
    const looks = place.round.tree.status.map((_, row) => lookOf(place, row));
    looks.forEach((look, row) => {
      lookNode(view.nodes[row], look);
      put(view.links[row], "data-look", look);
    });
    const own = isNextShown(place) ? place.round.next.kind : "hidden";
    lookNode(view.own, own);
    put(view.ownLink, "data-look", own);
  }

  // ---- The mask ----------------------------------------------------------------------------

  function makeMask() {
    const paths = ["sv-grid", "sv-cells", "sv-cells sv-ahead", "sv-cells sv-kept", "sv-sweep"]
      .map((name) => svg("path", { class: name }));
    const band = svg("rect", { class: "sv-band", x: CELL.label, width: CELL.band - 4 });
    const ticks = svg("path", { class: "sv-ticks" });
    const rowLight = svg("rect", { class: "sv-light" });
    const columnLight = svg("rect", { class: "sv-light" });
    const prefix = svg("text", { class: "sv-small", x: CELL.label + CELL.band - 4, y: 10,
      "text-anchor": "end" });
    const head = svg("text", { class: "sv-small", x: CELL.label + CELL.band, y: 10 });
    const labels = svg("g", {});
    const numbers = svg("g", {});
    const focus = svg("text", { class: "sv-small sv-strong", x: CELL.label - 5,
      "text-anchor": "end" });
    const root = svg("svg", { class: "sv-mask", role: "img" }, rowLight, columnLight, band, ticks,
      ...paths, prefix, head, labels, numbers, focus);
    const small = (anchor) => () => svg("text", { class: "sv-small", "text-anchor": anchor });
    return { root, paths, band, ticks, rowLight, columnLight, prefix, head, focus,
      takeLabels: pool(labels, small("end")), takeNumbers: pool(numbers, small("middle")), cell: 0 };
  }

  function cellsOf(rows, sees, cell) {
    const size = cell - (cell > 9 ? 2 : 1);
    const left = CELL.label + CELL.band;
    return rows.map((row) => sees[row].map((column) =>
      "M" + (left + column * cell) + " " + (CELL.top + row * cell) +
      "h" + size + "v" + size + "h-" + size + "z").join("")).join("");
  }

  function maskWidth(lane) {
    return CELL.label + CELL.band + Math.max(lane.maxRows * cellSize(lane), 82) + 8;
  }

  function cellSize(lane) {
    return clamp(Math.floor(CELL.room / lane.maxRows), CELL.min, CELL.max);
  }

  function layMask(view, lane, round) {
    const tree = round.tree;
    const rows = tree.x.map((_, row) => row);
    const cell = cellSize(lane);
    const side = rows.length * cell;
    const left = CELL.label + CELL.band;
    const kept = rows.filter((row) => row === 0 || tree.status[row] === "accepted");
    const ahead = rows.filter((row) => tree.status[row] === "lookahead");
    const others = rows.filter((row) => !ahead.includes(row));
    view.cell = cell;
    view.rows = rows.length;
    const [grid, cells, aheadCells, keptCells, sweep] = view.paths;
    put(grid, "d", rows.map((i) => "M" + left + " " + (CELL.top + i * cell + cell / 2 - 0.5) +
      "h" + side).join(""));
    put(cells, "d", cellsOf(others, tree.sees, cell));
    put(aheadCells, "d", cellsOf(ahead, tree.sees, cell));
    put(keptCells, "d", cellsOf(kept, tree.sees, cell));
    put(sweep, "d", "M" + CELL.label + " " + (CELL.top - 2) + "h" + (CELL.band + side) + "v" +
      (side + 3) + "h-" + (CELL.band + side) + "z");
    put(view.band, "y", CELL.top);
    put(view.band, "height", side - 1);
    put(view.ticks, "d", rows.map((i) => "M" + (CELL.label + 4) + " " +
      (CELL.top + i * cell + cell / 2 - 0.5) + "h" + (CELL.band - 12)).join(""));
    say(view.prefix, "prefix: " + round.prefix + " token" + (round.prefix === 1 ? "" : "s"));
    layMaskLabels(view, tree, cell);
    put(view.root, "width", left + side + 4);
    put(view.root, "height", CELL.top + side + 4);
    put(view.root, "aria-label", "Tree-attention mask, " + rows.length + " rows: each row attends "
      + "to the whole prefix of " + round.prefix + " tokens, to its ancestors and to itself.");
  }

  function layMaskLabels(view, tree, cell) {
    const isLabelled = cell >= CELL.labelled;
    const count = isLabelled ? tree.x.length : 0;
    const labels = view.takeLabels(count);
    const numbers = view.takeNumbers(count);
    for (let row = 0; row < count; row += 1) {
      put(labels[row], "x", CELL.label - 5);
      put(labels[row], "y", CELL.top + row * cell + cell / 2 + 2.5);
      say(labels[row], row + " " + fit(tree.text[row], 7));
      put(numbers[row], "x", CELL.label + CELL.band + row * cell + cell / 2 - 1);
      put(numbers[row], "y", CELL.top - 5);
      say(numbers[row], String(row));
    }
  }

  function drawMask(view, place) {
    put(view.root, "data-phase", place.phase);
  }

  function lightMask(view, round, row) {
    const cell = view.cell;
    const isOn = row !== null;
    put(view.rowLight, "display", isOn ? "inline" : "none");
    put(view.columnLight, "display", isOn ? "inline" : "none");
    say(view.focus, isOn && cell < CELL.labelled ? row + " " + fit(round.tree.text[row], 7) : "");
    if (!isOn) return;
    const left = CELL.label + CELL.band;
    put(view.rowLight, "x", CELL.label - 2);
    put(view.rowLight, "y", CELL.top + row * cell - 1);
    put(view.rowLight, "width", CELL.band + view.rows * cell + 2);
    put(view.rowLight, "height", cell);
    put(view.columnLight, "x", left + row * cell - 1);
    put(view.columnLight, "y", CELL.top - 2);
    put(view.columnLight, "width", cell);
    put(view.columnLight, "height", view.rows * cell + 2);
    put(view.focus, "y", CELL.top + row * cell + cell / 2 + 3);
  }

  // Which row and column of the mask lie under a pointer; null outside.
  function maskCellAt(view, event) {
    const box = view.root.getBoundingClientRect();
    const row = Math.floor((event.clientY - box.top - CELL.top) / view.cell);
    const column = Math.floor((event.clientX - box.left - CELL.label - CELL.band) / view.cell);
    return row >= 0 && row < view.rows ? { row, column } : null;
  }

  // ---- The text ----------------------------------------------------------------------------

  function makeToken(token, number) {
    const span = el("span", "sv-token");
    const parts = token.text.split(/(␣+|[↵⇥∅◌]|⟨[0-9A-F]+⟩|<0x[0-9A-F]{2}>)/);
    parts.forEach((part, i) => {
      if (part) span.append(i % 2 ? el("i", "sv-glyph", part) : part);
    });
    const origin = token.origin;
    span.setAttribute("data-from", typeof origin === "number" ? "draft" : origin);
    if (typeof origin === "number") span.setAttribute("data-depth", origin);
    if (MARKS[origin]) span.append(icon(MARKS[origin]));
    span.setAttribute("data-token", number);
    return span;
  }

  function makeStrip() {
    const inner = el("div", "sv-text");
    const root = el("div", "sv-strip", inner);
    return { root, inner, tokens: [] };
  }

  function drawStrip(view, lane, place) {
    const wanted = tokensShown(place);
    const { tokens } = view;
    while (tokens.length > wanted) {
      const last = tokens.pop();
      if (last.nextSibling) last.nextSibling.remove(); // its line break
      last.remove();
    }
    const fresh = document.createDocumentFragment();
    while (tokens.length < wanted) {
      const token = lane.tokens[tokens.length];
      tokens.push(makeToken(token, tokens.length));
      fresh.append(tokens[tokens.length - 1]);
      if (token.text.includes("↵")) fresh.append(el("br"));
    }
    view.inner.append(fresh);
    markFresh(view, place ? place.round.firstToken : 0, wanted);
  }

  function markFresh(view, first, after) {
    if (view.firstFresh === first && view.afterFresh === after) return;
    for (const token of view.inner.querySelectorAll(".sv-fresh")) token.classList.remove("sv-fresh");
    for (let i = first; i < after; i += 1) view.tokens[i].classList.add("sv-fresh");
    Object.assign(view, { firstFresh: first, afterFresh: after });
  }

  // ---- A lane ------------------------------------------------------------------------------

  function makeFigure(label, title) {
    const value = el("dd", "");
    const name = el("dt", "", label);
    const box = el("div", "sv-figure", name, value);
    box.title = title;
    return { box, value };
  }

  function makeBar(label) {
    const segments = PARTS.map(([part]) => el("span", "sv-part sv-" + part));
    const head = el("span", "sv-head");
    const track = el("span", "sv-track", ...segments);
    const name = el("span", "sv-name", label);
    const words = el("span", "sv-words");
    return { root: el("div", "sv-bar", name, track, words), track, segments, head, name, words };
  }

  function drawBar(bar, time, words) {
    PARTS.forEach(([part], i) => {
      const grow = time ? String(time[part].share || 0) : "0";
      if (bar.segments[i].style.flexGrow !== grow) bar.segments[i].style.flexGrow = grow;
    });
    say(bar.words, words);
  }

  function makeLane(lane) {
    const info = lane.info;
    const tree = makeTree();
    const mask = makeMask();
    const strip = makeStrip();
    const figures = {
      speedup: makeFigure("vs plain", "Tokens per second over those of the plain lane"),
      rate: makeFigure("tokens/s", "Tokens over the lane's own clock: drafting, pass and host"),
      tau: makeFigure("tokens per pass", "tau: tokens for each pass of the target, its own included"),
      accepted: makeFigure("accepted / drafted", "Draft tokens kept, of all that were drafted"),
      tokens: makeFigure("tokens", "Tokens written so far"),
    };
    const bars = { round: makeBar("this round"), run: makeBar("so far") };
    bars.round.track.append(bars.round.head);
    const words = {
      sentence: el("p", "sv-sentence"), why: el("p", "sv-why"), agreement: el("p", "sv-agreement"),
      state: el("span", "sv-state"), inspect: el("p", "", WORDS.hint),
    };
    const title = el("h3", "sv-title", info.title);
    const head = el("header", "sv-lanehead", title, words.state);
    if (info.is_lossy) head.append(el("span", "sv-chip", "lossy rule"));
    const about = el("p", "sv-about", [info.description, info.knobs].filter(Boolean).join("; "));
    const treeBox = el("div", "sv-box sv-treebox", tree.root);
    const maskBox = el("div", "sv-box sv-maskbox", mask.root);
    words.phase = el("h4");
    const chances = makeChances();
    const inspector = el("div", "sv-inspect", chances.root, words.inspect);
    words.cache = el("p", "sv-cache");
    const treePanel = el("section", "sv-panel", words.phase, treeBox, inspector);
    const maskPanel = el("section", "sv-panel sv-maskpanel",
      el("h4", "", "Tree-attention mask"), maskBox, words.cache);
    const textPanel = el("section", "sv-panel sv-textpanel", el("h4", "", "The text so far"),
      strip.root, words.agreement);
    const root = el("article", "sv-lane", head, about,
      el("dl", "sv-figures", ...Object.values(figures).map((figure) => figure.box)),
      words.why, bars.run.root, words.sentence, bars.round.root, treePanel,
      el("div", "sv-pair", maskPanel, textPanel));
    root.setAttribute("aria-label", info.title);
    return { root, tree, mask, strip, figures, bars, words, chances, inspector, treeBox, maskBox, maskPanel,
      laid: "", lit: "" };
  }

  function layLane(view, lane, place, width) {
    const key = [place.index, width, lane.maxRows, lane.maxHeight, lane.maxWidth].join();
    if (view.laid === key) return;
    view.laid = key;
    view.width = width;
    const height = lane.maxHeight * NODE.line + NODE.pad * 2 + (lane.hasBlock ? BLOCK_HEAD : 0);
    view.treeBox.style.height = Math.min(height, TREE_ROOM) + "px";
    view.maskPanel.style.flexBasis = Math.min(maskWidth(lane), width) + "px";
    view.maskBox.style.height =
      Math.min(CELL.top + lane.maxRows * cellSize(lane) + 8, MASK_ROOM) + "px";
    layTree(view.tree, lane, place.round, width);
    layMask(view.mask, lane, place.round);
    put(view.tree.root, "aria-label", place.round.sentence);
  }

  // Brings the end of the path into a tree box too small for its tree, once the walk is told.
  function scrollTree(view, place) {
    const key = place.index + place.phase;
    if (view.scrolled === key) return;
    view.scrolled = key;
    const { round, phase } = place;
    const isTold = phase === "done" || phase === "commit";
    const row = round.tree.status.lastIndexOf("accepted");
    const [x, y] = !isTold ? [0, 0] : round.next ? [round.next.x, round.next.y]
      : [round.tree.x[row], round.tree.y[row]];
    const top = lineY(view.tree.box, y) + NODE.line - TREE_ROOM;
    const left = NODE.pad + (x + 1) * view.tree.box.pitch - view.width;
    view.treeBox.scrollTo(Math.max(left, 0), Math.max(top, 0));
  }

  function cacheWords({ round, phase }) {
    const before = "Cache: " + round.prefix;
    if (phase === "draft") return before + " tokens.";
    const written = before + " + " + round.rows_written + " rows written by the pass";
    return phase === "done" ? written + ", " + round.rows_kept + " of them kept." : written + ".";
  }

  function drawLane(view, lane, time, width) {
    const place = placeOf(lane, time);
    drawCounters(view, lane, place, time);
    drawStrip(view.strip, lane, place);
    if (!place) return;
    layLane(view, lane, place, width);
    drawTree(view.tree, place);
    drawMask(view.mask, place);
    scrollTree(view, place);
    say(view.words.cache, cacheWords(place));
    const { round } = place;
    const parts = round.time;
    const costs = PARTS.map(([part, name]) => name.replace(" (one pass)", "") + " " +
      milliseconds(parts[part].seconds)).join(", ");
    drawBar(view.bars.round, parts, costs);
    const share = round.at[3] > round.at[0]
      ? clamp((time - round.at[0]) / (round.at[3] - round.at[0]), 0, 1) : 1;
    view.bars.round.head.style.left = (share * 100).toFixed(2) + "%";
    say(view.bars.round.name, "round " + round.round);
    say(view.words.phase, "Round " + round.round + ": " + phaseWords(place, lane));
    put(view.root, "data-phase", place.phase);
  }

  function phaseWords(place, lane) {
    const { tree } = place.round;
    if (place.phase === "done") return "what the pass decided";
    if (place.phase === "commit") return "walking the path that survives";
    if (place.phase === "draft") return lane.info.is_plain ? "nothing to draft" : "drafting";
    const rows = tree.x.length;
    return "one pass of the target reads " + (rows === 1 ? "one row" : "all " + rows + " rows at once");
  }

  function drawCounters(view, lane, place, time) {
    const done = finishedRound(lane, place);
    const total = done ? done.total : null;
    const versus = done ? versusAt(lane, time) : null;
    const { figures, words } = view;
    const isPlain = lane.info.is_plain;
    say(figures.speedup.value, isPlain ? WORDS.plain
      : versus && versus.speedup !== null ? versus.speedup.toFixed(2) + "x" : "–");
    say(figures.rate.value, number(total && total.tokens_per_second, 1));
    say(figures.tau.value, number(total && total.tau, 2));
    say(figures.tokens.value, total ? total.num_tokens : 0);
    say(figures.accepted.value, total && total.num_drafted
      ? total.num_accepted + " / " + total.num_drafted + " (" + percent(total.acceptance_rate) + ")" : "–");
    say(words.sentence, done ? done.sentence : lane.rounds.length ? "Round 1 is under way." : "Not started.");
    say(words.why, whyWords(isPlain, total, versus));
    const agreement = versus ? versus.agreement : null;
    say(words.agreement, agreement ? agreement.sentence : "");
    put(words.agreement, "data-state", agreement ? agreement.state : "");
    drawBar(view.bars.run, total && total.time, total ? PARTS.map(([part, name]) =>
      name.replace(" (one pass)", "") + " " + percent(total.time[part].share)).join(", ") : "");
    const isOver = lane.end && time >= lastEnd(lane);
    say(words.state, isOver ? lane.end.sentence : "");
  }

  function whyWords(isPlain, total, versus) {
    if (isPlain) return "The target alone: every token costs one pass.";
    if (!total || !versus || versus.rho === null) return "";
    return "A round costs " + versus.rho.toFixed(2) + " plain steps and gives " +
      total.tau.toFixed(2) + " tokens" +
      (versus.speedup === null ? "." : ": " + versus.speedup.toFixed(2) + "x plain.");
  }

  // ---- The race: every lane on one clock ---------------------------------------------------

  function makeRace() {
    const rows = svg("g", {});
    const head = svg("path", { class: "sv-playhead" });
    const axis = svg("text", { class: "sv-small" });
    const root = svg("svg", { class: "sv-race", role: "img",
      "aria-label": "Each lane's rounds on one clock, with the tokens each round gave" });
    root.append(rows, axis, head);
    const view = { root, rows, head, axis, lanes: [] };
    return view;
  }

  function makeRaceRow(view, lane, index) {
    const y = RACE.top + index * RACE.row;
    const name = svg("text", { class: "sv-racename", x: 0, y: y + 13 });
    const count = svg("text", { class: "sv-racecount", y: y + 13, "text-anchor": "end" });
    const line = svg("path", { class: "sv-raceline" });
    const group = svg("g", {}, line, name, count);
    view.rows.append(group);
    const take = pool(group, () => {
      const parts = PARTS.map(([part]) => svg("rect", { class: "sv-part sv-" + part, y,
        height: RACE.bar }));
      const gain = svg("text", { class: "sv-gain", y: y + 13, "text-anchor": "middle" });
      return Object.assign(svg("g", { class: "sv-round" }, ...parts, gain), { parts, gain });
    });
    return { group, line, name, count, take, y, key: "" };
  }

  function windowSeconds(run, isNarrow) {
    const first = run.lanes.filter((lane) => lane.rounds.length)
      .map((lane) => lane.rounds[0].at[3]);
    if (!first.length) return 1;
    const span = Math.max(...first) * (isNarrow ? NARROW_ROUNDS : WINDOW_ROUNDS);
    return run.isEnded ? Math.min(span, runEnd(run)) || 1 : span;
  }

  function drawRace(view, run, time, width) {
    while (view.lanes.length < run.lanes.length) {
      view.lanes.push(makeRaceRow(view, run.lanes[view.lanes.length], view.lanes.length));
    }
    const isNarrow = width < NARROW;
    const span = windowSeconds(run, isNarrow);
    const page = time > 0 ? Math.ceil(time / span) - 1 : 0;
    const from = run.isEnded ? clamp(page * span, 0, Math.max(runEnd(run) - span, 0)) : page * span;
    const left = isNarrow ? RACE.narrow : RACE.label;
    const room = Math.max(width - left - RACE.count, 40);
    const scale = room / span;
    const bottom = RACE.top + run.lanes.length * RACE.row;
    run.lanes.forEach((lane, i) => {
      drawRaceRow(view.lanes[i], lane, { from, span, scale, room, width, left, time });
    });
    put(view.root, "width", width);
    put(view.root, "height", bottom + RACE.axis);
    put(view.axis, "x", left);
    put(view.axis, "y", bottom + 12);
    const words = milliseconds(from) + " to " + milliseconds(from + span);
    say(view.axis, isNarrow ? words
      : words + " of each lane's own clock; the number is how many tokens the round gave");
    const x = (left + clamp((time - from) * scale, 0, room)).toFixed(1);
    put(view.head, "d", "M" + x + " 0 V" + bottom);
  }

  function drawRaceRow(row, lane, frame) {
    const { from, span, scale, room, width, left, time } = frame;
    const place = placeOf(lane, time);
    say(row.count, tokensShown(place) + " tokens");
    put(row.count, "x", width);
    say(row.name, fit(lane.info.title, Math.floor(left / 7)));
    const first = firstWhere(lane.rounds.length, (i) => lane.rounds[i].at[3] > from);
    const after = firstWhere(lane.rounds.length, (i) => lane.rounds[i].at[0] >= from + span);
    const at = place ? place.index + (place.phase === "done" ? 1 : 0) : 0;
    const key = [from, scale, first, after, at].join();
    if (row.key === key) return;
    row.key = key;
    put(row.line, "d", "M" + left + " " + (row.y + RACE.bar / 2) + "h" + room);
    const groups = row.take(after - first);
    for (let i = first; i < after; i += 1) {
      const group = groups[i - first];
      const round = lane.rounds[i];
      const x = round.at.map((t) => left + clamp((t - from) * scale, 0, room));
      group.parts.forEach((part, k) => {
        put(part, "x", x[k].toFixed(1));
        put(part, "width", Math.max(x[k + 1] - x[k] - (k === 2 ? 1 : 0), 0).toFixed(1));
      });
      put(group, "data-past", i < at);
      put(group, "data-end", round.at[3]);
      put(group.gain, "x", ((x[1] + x[2]) / 2).toFixed(1));
      say(group.gain, x[2] - x[1] > 16 ? "+" + round.new.text.length : "");
    }
  }

  // ---- One selection, all views ------------------------------------------------------------

  // Two bars for a draft row: how likely the drafter and the target thought it, and the draw.
  function makeChances() {
    const line = (y, name, part) => {
      const bar = svg("rect", { class: "sv-part sv-" + part, x: CHANCE.left, y: y + 2, height: 9 });
      const text = svg("text", { class: "sv-small", x: CHANCE.left - 6, y: y + 10, "text-anchor": "end" });
      say(text, name);
      return { bar, parts: [svg("rect", { class: "sv-band", x: CHANCE.left, y: y + 2, height: 9,
        width: CHANCE.width }), bar, text] };
    };
    const [draft, target] = [line(0, "draft", "draft"), line(15, "target", "verify")];
    const root = svg("svg", { width: CHANCE.left + CHANCE.width + 2, height: 30, class: "sv-chances",
      "aria-hidden": "true" }, ...draft.parts, ...target.parts);
    return { root, draft: draft.bar, target: target.bar };
  }

  function drawChances(view, place, row) {
    const isOn = row > 0 && place.round.tree.status[row] !== "lookahead";
    view.root.style.display = isOn ? "" : "none"; // a style: a page may set display on every svg
    if (!isOn) return;
    const { draft_prob: drafted, target_prob: wanted } = place.round.tree;
    const isTold = place.phase === "done" || place.phase === "commit";
    put(view.draft, "width", (drafted[row] * CHANCE.width).toFixed(1));
    put(view.target, "width", ((isTold && wanted[row]) || 0) * CHANCE.width);
  }

  // What the docked line says of a row: what was drafted, what the target thought, what followed.
  function inspectWords(place, row) {
    const tree = place.round.tree;
    const name = "Row " + row + ", depth " + tree.depth[row] + ": “" + tree.text[row] + "”";
    const reads = " " + readsWords(place.round, row) + oddsWords(place, row);
    if (row === 0) return name + ". The root: the last token so far, not yet in the cache." + reads;
    if (tree.status[row] === "lookahead") return name + ". Read for the drafter's own use." + reads;
    const drafted = name + ". Drafted with probability " + number(tree.draft_prob[row], 3);
    if (place.phase === "draft" || place.phase === "verify") return drafted + "; not yet checked." + reads;
    const trial = tree.trials[row];
    if (!trial) return drafted + "; never tried: the walk did not come here." + reads;
    const verdict = trial.is_accepted ? "accepted" : "rejected";
    const draw = trial.draw === null ? "" : ", draw " + number(trial.draw, 3) +
      (trial.is_accepted ? " below" : " not below") + " threshold " + number(trial.threshold, 3);
    return drafted + "; the target gives " + number(tree.target_prob[row], 3) + draw + ": " + verdict + "." + reads;
  }

  // What the target would have said next, where the walk asked it.
  function oddsWords(place, row) {
    const odds = place.round.tree.odds[row];
    if (!odds || place.phase === "draft" || place.phase === "verify") return "";
    const best = odds.map(([text, chance]) => "“" + text + "” " + number(chance, 3));
    return " After it the target gives " + best.join(", ") + ".";
  }

  function readsWords(round, row) {
    const above = round.tree.sees[row].slice(0, -1);
    const rows = above.length ? (above.length === 1 ? "row " : "rows ") + above.join(", ") + " and " : "";
    return "It reads the prefix, " + rows + "itself.";
  }

  function lightLane(view, place, row) {
    const key = place ? place.index + "," + row + "," + place.phase : "";
    if (view.lit === key) return;
    view.lit = key;
    if (!place) return;
    const sees = row === null ? [] : place.round.tree.sees[row];
    view.tree.nodes.forEach((node, i) => {
      put(node, "data-lit", row === null ? "" : i === row ? "self" : sees.includes(i) ? "above" : "");
    });
    lightMask(view.mask, place.round, row);
    say(view.words.inspect, row === null ? WORDS.hint : inspectWords(place, row));
    put(view.inspector, "data-on", row !== null);
    drawChances(view.chances, place, row);
  }

  // ---- The frame of the page ---------------------------------------------------------------

  function button(name, words, isNamed) {
    const node = el("button", "sv-button", icon(name));
    node.type = "button";
    node.setAttribute("aria-label", words);
    node.title = words;
    if (isNamed) node.append(el("span", "", words));
    return node;
  }

  function makeTransport() {
    const buttons = {
      home: button("home", WORDS.home), back: button("back", WORDS.back),
      play: button("play", WORDS.play, true), forward: button("forward", WORDS.forward),
      end: button("end", WORDS.end),
    };
    const live = el("button", "sv-button sv-live", el("span", "sv-dot"), WORDS.live);
    live.type = "button";
    const scrub = el("input", "sv-scrub");
    Object.assign(scrub, { type: "range", min: 0, max: 1000, step: 1, value: 0 });
    scrub.setAttribute("aria-label", WORDS.scrub);
    const speed = el("select", "sv-speed");
    speed.setAttribute("aria-label", WORDS.speed);
    for (const value of SPEEDS) {
      const option = el("option", "", times(value));
      option.value = value;
      speed.append(option);
    }
    const rest = el("input", "");
    Object.assign(rest, { type: "checkbox", checked: true });
    const clock = el("span", "sv-clock");
    const root = el("div", "sv-transport", ...Object.values(buttons), live, scrub, clock,
      el("label", "sv-label", WORDS.speed + " ", speed),
      el("label", "sv-label", rest, " " + WORDS.rest));
    root.title = WORDS.keys;
    return { root, buttons, live, scrub, speed, rest, clock };
  }

  function makeLegend() {
    const items = LEGEND.map(([look, words]) => {
      const node = makeNode();
      placeNode(node, { pitch: 48, lookaheadY: null }, 0, 0, "");
      put(node, "transform", "translate(2 21)");
      put(node.strike, "d", "M7 0 H25");
      lookNode(node, look);
      const picture = svg("svg", { width: 42, height: 36, "aria-hidden": "true" }, node);
      return el("span", "sv-legenditem", picture, words);
    });
    const parts = PARTS.map(([part, words]) =>
      el("span", "sv-legenditem", el("span", "sv-swatch sv-part sv-" + part), words));
    const depth = el("span", "sv-token", "word");
    depth.setAttribute("data-from", "draft");
    depth.setAttribute("data-depth", "2");
    const token = el("span", "sv-legenditem", depth, "drafted at depth 2");
    const legend = el("details", "sv-legend", el("summary", "", "Legend"),
      el("div", "sv-legendbody", ...items, token, ...parts));
    legend.open = window.innerWidth >= 900;
    return legend;
  }

  function makePage() {
    const badge = el("span", "sv-badge");
    const facts = el("span", "sv-facts");
    const prompt = el("details", "sv-prompt", el("summary"), el("pre", "sv-pre"));
    const notice = el("div", "sv-notice", el("span"), el("progress"));
    const error = el("div", "sv-error");
    error.setAttribute("role", "alert");
    notice.setAttribute("role", "status");
    const spoken = el("p", "sv-spoken");
    spoken.setAttribute("aria-live", "polite");
    const race = makeRace();
    const raceBox = el("div", "sv-racebox", race.root);
    const transport = makeTransport();
    const lanes = el("div", "sv-lanes");
    const body = el("div", "sv-body", el("div", "sv-run", badge, facts, prompt), raceBox,
      transport.root, makeLegend(), lanes);
    const empty = el("p", "sv-empty", WORDS.empty);
    const root = el("section", "sv", error, notice, empty, body, spoken);
    root.tabIndex = 0;
    root.setAttribute("aria-label", "Player: " + WORDS.keys);
    return { root, badge, facts, prompt, notice, error, spoken, race, raceBox, transport, lanes,
      body, empty };
  }

  function drawRunLine(page, run) {
    const start = run.start;
    const day = start.created.slice(0, 10);
    const date = run.label.includes(day) ? "" : day;
    say(page.badge, run.label || (run.source === "live" ? WORDS.liveBadge : WORDS.recorded));
    put(page.badge, "data-source", run.source);
    const quantised = start.quantisation === "none" ? "" : start.quantisation;
    say(page.facts, [date, start.target, start.device, start.dtype, quantised, start.sampling,
      "prefill " + milliseconds(start.prefill_seconds)].filter(Boolean).join(" · "));
    say(page.prompt.firstChild, "Prompt, " + start.num_prompt_tokens + " tokens");
    say(page.prompt.lastChild, start.prompt);
  }

  return {
    WORDS, SPEEDS, put, say, show, setIcon, originWords, maskCellAt, makeLane, drawLane, drawRace,
    lightLane, makePage, drawRunLine,
  };
})();
