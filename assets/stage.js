// The stage: paints a run and plays it. It is given items (the contract stands in
// specviz/views/stage.py), keeps them, and draws f(items, playhead). It knows no rule of
// decoding: every number and every status comes in an item. A plain script without imports,
// so that it can stand as text in front of other code. Token text enters the page only through
// textContent and setAttribute.

const SpecVizStage = (function () {
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
  const WATCHABLE_SECONDS = 2.2; // how long a round should take on screen when a replay opens
  const REST_SECONDS = 1.1; // pause after a round of a drafting lane, when rounds can be watched
  const RESTABLE_SECONDS = 0.5; // faster rounds than this on screen are not rested after
  const FOLLOW_SECONDS = 0.12; // how softly the playhead chases a live run
  const ANNOUNCE_SECONDS = 2; // at most one spoken line in that time while playing
  const WINDOW_ROUNDS = 7; // how many of the longest first rounds the race shows side by side
  const NODE = { height: 24, line: 34, pad: 10, minPitch: 70, maxPitch: 112, gap: 16 };
  const CHAR = 6.8; // width of a monospaced character at the size of node texts
  const CELL = { min: 6, max: 15, room: 200, label: 66, band: 42, top: 30, labelled: 11 };
  const [TREE_ROOM, MASK_ROOM] = [320, 340]; // tallest boxes; what is taller scrolls inside them
  const BLOCK_HEAD = 20; // the line that names a block of lookahead rows
  const RACE = { label: 118, count: 74, row: 26, bar: 18, top: 4, axis: 18 };
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

  // A pool of like elements: `take(n)` gives the first n, made when first needed, the rest hidden.
  function pool(parent, make) {
    const made = [];
    return function take(count) {
      while (made.length < count) parent.append(made[made.push(make()) - 1]);
      made.forEach((node, i) => put(node, "display", i < count ? "inline" : "none"));
      return made;
    };
  }

  function clamp(value, low, high) {
    return Math.min(high, Math.max(low, value));
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

  // ---- Store: what has come in -------------------------------------------------------------

  function newRun(envelope) {
    return {
      id: envelope.run, source: envelope.source, label: envelope.label, start: null, lanes: [],
      byNumber: new Map(), nextSeq: 0, held: new Map(), isEnded: false, interrupted: "",
    };
  }

  function newLane(item) {
    return {
      info: item, rounds: [], tokens: [], versus: [], end: null,
      maxHeight: 1, maxRows: 1, maxWidth: 2, hasBlock: false,
    };
  }

  function addRound(lane, item) {
    const previous = lane.rounds[lane.rounds.length - 1];
    item.firstToken = previous ? previous.firstToken + previous.new.text.length : 0;
    lane.rounds.push(item);
    item.new.text.forEach((text, i) => {
      lane.tokens.push({ text, origin: item.new.origin[i], index: lane.rounds.length - 1 });
    });
    lane.maxHeight = Math.max(lane.maxHeight, item.tree.height);
    lane.maxRows = Math.max(lane.maxRows, item.tree.x.length);
    lane.maxWidth = Math.max(lane.maxWidth, item.tree.width);
    lane.hasBlock = lane.hasBlock || item.tree.lookahead_y !== null;
  }

  // A comparison counts from the moment both of its lanes have come that far.
  function addVersus(run, versus, time) {
    for (const key in versus) {
      const entries = run.byNumber.get(Number(key)).versus;
      const before = entries.length ? entries[entries.length - 1].time : 0;
      entries.push({ time: Math.max(time, before), value: versus[key] });
    }
  }

  function addItem(run, item) {
    if (item.kind === "start") run.start = item;
    if (item.kind === "lane") {
      const lane = newLane(item);
      run.lanes.push(lane);
      run.byNumber.set(item.lane, lane);
    }
    if (item.kind === "round") {
      addRound(run.byNumber.get(item.lane), item);
      addVersus(run, item.versus, item.at[3]);
    }
    if (item.kind === "lane_end") run.byNumber.get(item.lane).end = item;
    if (item.kind === "end") {
      run.isEnded = true;
      addVersus(run, item.versus, 0);
    }
  }

  // ---- Where the playhead stands -----------------------------------------------------------

  // Index of the first of `count` for which `test` holds; `count` if none. Tests are monotone.
  function firstWhere(count, test) {
    let low = 0;
    let high = count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (test(middle)) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  function lastEnd(lane) {
    return lane.rounds.length ? lane.rounds[lane.rounds.length - 1].at[3] : 0;
  }

  function runEnd(run) {
    return run.lanes.reduce((time, lane) => Math.max(time, lastEnd(lane)), 0);
  }

  // As far as every lane that is still at work is known.
  function knownTime(run) {
    const open = run.lanes.filter((lane) => !lane.end && lane.rounds.length);
    if (run.isEnded || !open.length) return runEnd(run);
    return Math.min(...open.map(lastEnd));
  }

  // The round under the playhead, its phase and how far the phase is; null before any round.
  function placeOf(lane, time) {
    if (!lane.rounds.length) return null;
    const found = firstWhere(lane.rounds.length, (i) => lane.rounds[i].at[3] >= time);
    const index = Math.min(found, lane.rounds.length - 1);
    const round = lane.rounds[index];
    const [start, drafted, verified, end] = round.at;
    const within = (from, to) => (to > from ? clamp((time - from) / (to - from), 0, 1) : 1);
    const base = { index, round };
    if (time >= end) return { ...base, phase: "done", part: 1 };
    if (time >= verified) return { ...base, phase: "commit", part: within(verified, end) };
    if (time >= drafted) return { ...base, phase: "verify", part: within(drafted, verified) };
    return { ...base, phase: "draft", part: within(start, drafted) };
  }

  function tokensShown(place) {
    if (!place) return 0;
    const count = place.round.new.text.length;
    const fresh = { done: count, commit: Math.floor(place.part * (count + 1)) }[place.phase] || 0;
    return place.round.firstToken + Math.min(fresh, count);
  }

  // The last finished round: counters stand still while a round is under way.
  function finishedRound(lane, place) {
    if (!place) return null;
    return place.phase === "done" ? place.round : lane.rounds[place.index - 1] || null;
  }

  function versusAt(lane, time) {
    const found = firstWhere(lane.versus.length, (i) => lane.versus[i].time > time);
    return found ? lane.versus[found - 1].value : null;
  }

  function nextEnd(lanes, time) {
    let best = null;
    for (const lane of lanes) {
      const i = firstWhere(lane.rounds.length, (k) => lane.rounds[k].at[3] > time);
      if (i < lane.rounds.length && (best === null || lane.rounds[i].at[3] < best)) {
        best = lane.rounds[i].at[3];
      }
    }
    return best;
  }

  function previousEnd(lanes, time) {
    let best = 0;
    for (const lane of lanes) {
      const i = firstWhere(lane.rounds.length, (k) => lane.rounds[k].at[3] >= time);
      if (i > 0) best = Math.max(best, lane.rounds[i - 1].at[3]);
    }
    return best;
  }

  function draftingLanes(run) {
    const drafting = run.lanes.filter((lane) => !lane.info.is_plain);
    return drafting.length ? drafting : run.lanes;
  }

  // What a row looks like at a place: its status once the walk got there, a stage before.
  function lookOf(place, row) {
    const { round, phase, part } = place;
    const tree = round.tree;
    const status = tree.status[row];
    if (row === 0) return "root";
    if (phase === "draft") {
      const depth = tree.depth[row];
      const isOut = part * Math.max(...tree.depth) >= depth - 0.5;
      return isOut ? (status === "lookahead" ? "lookahead" : "pending") : "hidden";
    }
    if (status === "lookahead") return "lookahead";
    if (phase === "verify") return "checking";
    if (phase === "done") return status;
    const isTold = status !== "unreached" && walked(place) >= tree.depth[row];
    return isTold ? status : "pending";
  }

  // How deep the commit walk has come: the path's depths, then the target's own token.
  function walked(place) {
    return place.part * (place.round.num_accepted + 2);
  }

  function isNextShown(place) {
    if (!place.round.next) return false;
    if (place.phase === "done") return true;
    return place.phase === "commit" && walked(place) >= place.round.num_accepted + 1;
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
    if (token.text.includes("↵")) span.append(el("br"));
    return span;
  }

  function makeStrip() {
    const inner = el("div", "sv-text");
    const root = el("div", "sv-strip", inner);
    return { root, inner, count: 0 };
  }

  function drawStrip(view, lane, place) {
    const wanted = tokensShown(place);
    while (view.count > wanted) {
      view.inner.lastChild.remove();
      view.count -= 1;
    }
    if (view.count < wanted) {
      const fresh = document.createDocumentFragment();
      while (view.count < wanted) {
        fresh.append(makeToken(lane.tokens[view.count], view.count));
        view.count += 1;
      }
      view.inner.append(fresh);
    }
    const firstFresh = place ? place.round.firstToken : 0;
    if (view.firstFresh !== firstFresh || view.lastFresh !== wanted) {
      for (const token of view.inner.querySelectorAll(".sv-fresh")) token.classList.remove("sv-fresh");
      for (let i = firstFresh; i < wanted; i += 1) view.inner.children[i].classList.add("sv-fresh");
      view.firstFresh = firstFresh;
      view.lastFresh = wanted;
    }
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
      state: el("span", "sv-state"), inspect: el("p", "sv-inspect", WORDS.hint),
    };
    const title = el("h3", "sv-title", info.title);
    const head = el("header", "sv-lanehead", title, words.state);
    if (info.is_lossy) head.append(el("span", "sv-chip", "lossy rule"));
    const about = el("p", "sv-about", [info.description, info.knobs].filter(Boolean).join("; "));
    const treeBox = el("div", "sv-box sv-treebox", tree.root);
    const maskBox = el("div", "sv-box sv-maskbox", mask.root);
    words.phase = el("h4");
    const treePanel = el("section", "sv-panel", words.phase, treeBox, words.inspect);
    const maskPanel = el("section", "sv-panel sv-maskpanel",
      el("h4", "", "Which rows each row may read"), maskBox);
    const textPanel = el("section", "sv-panel sv-textpanel", el("h4", "", "The text so far"),
      strip.root, words.agreement);
    const root = el("article", "sv-lane", head, about,
      el("dl", "sv-figures", ...Object.values(figures).map((figure) => figure.box)),
      words.why, bars.run.root, words.sentence, bars.round.root, treePanel,
      el("div", "sv-pair", maskPanel, textPanel));
    root.setAttribute("aria-label", info.title);
    return { root, tree, mask, strip, figures, bars, words, treeBox, maskBox, maskPanel,
      laid: "", lit: "" };
  }

  function layLane(view, lane, place, width) {
    const key = [place.index, width, lane.maxRows, lane.maxHeight, lane.maxWidth].join();
    if (view.laid === key) return;
    view.laid = key;
    const height = lane.maxHeight * NODE.line + NODE.pad * 2 + (lane.hasBlock ? BLOCK_HEAD : 0);
    view.treeBox.style.height = Math.min(height, TREE_ROOM) + "px";
    view.maskPanel.style.flexBasis = Math.min(maskWidth(lane), width) + "px";
    view.maskBox.style.height =
      Math.min(CELL.top + lane.maxRows * cellSize(lane) + 8, MASK_ROOM) + "px";
    layTree(view.tree, lane, place.round, width);
    layMask(view.mask, lane, place.round);
    put(view.tree.root, "aria-label", place.round.sentence);
  }

  function drawLane(view, lane, time, width) {
    const place = placeOf(lane, time);
    drawCounters(view, lane, place, time);
    drawStrip(view.strip, lane, place);
    if (!place) return;
    layLane(view, lane, place, width);
    drawTree(view.tree, place);
    drawMask(view.mask, place);
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
    say(name, fit(lane.info.title, 17));
    view.rows.append(group);
    const take = pool(group, () => {
      const parts = PARTS.map(([part]) => svg("rect", { class: "sv-part sv-" + part, y,
        height: RACE.bar }));
      const gain = svg("text", { class: "sv-gain", y: y + 13, "text-anchor": "middle" });
      return Object.assign(svg("g", { class: "sv-round" }, ...parts, gain), { parts, gain });
    });
    return { group, line, count, take, y, key: "" };
  }

  function windowSeconds(run) {
    const first = run.lanes.filter((lane) => lane.rounds.length)
      .map((lane) => lane.rounds[0].at[3]);
    return first.length ? Math.max(...first) * WINDOW_ROUNDS : 1;
  }

  function drawRace(view, run, time, width) {
    while (view.lanes.length < run.lanes.length) {
      view.lanes.push(makeRaceRow(view, run.lanes[view.lanes.length], view.lanes.length));
    }
    const span = windowSeconds(run);
    const page = time > 0 ? Math.ceil(time / span) - 1 : 0;
    const from = page * span;
    const room = Math.max(width - RACE.label - RACE.count, 40);
    const scale = room / span;
    const bottom = RACE.top + run.lanes.length * RACE.row;
    run.lanes.forEach((lane, i) => {
      drawRaceRow(view.lanes[i], lane, { from, span, scale, room, width, time });
    });
    put(view.root, "width", width);
    put(view.root, "height", bottom + RACE.axis);
    put(view.axis, "x", RACE.label);
    put(view.axis, "y", bottom + 12);
    say(view.axis, milliseconds(from) + " to " + milliseconds(from + span) +
      " of each lane's own clock; the number is what the round gave");
    const x = (RACE.label + clamp((time - from) * scale, 0, room)).toFixed(1);
    put(view.head, "d", "M" + x + " 0 V" + bottom);
  }

  function drawRaceRow(row, lane, frame) {
    const { from, span, scale, room, width, time } = frame;
    const place = placeOf(lane, time);
    say(row.count, tokensShown(place) + " tokens");
    put(row.count, "x", width);
    const first = firstWhere(lane.rounds.length, (i) => lane.rounds[i].at[3] > from);
    const after = firstWhere(lane.rounds.length, (i) => lane.rounds[i].at[0] >= from + span);
    const at = place ? place.index + (place.phase === "done" ? 1 : 0) : 0;
    const key = [from, scale, first, after, at].join();
    if (row.key === key) return;
    row.key = key;
    put(row.line, "d", "M" + RACE.label + " " + (row.y + RACE.bar / 2) + "h" + room);
    const groups = row.take(after - first);
    for (let i = first; i < after; i += 1) {
      const group = groups[i - first];
      const round = lane.rounds[i];
      const x = round.at.map((t) => RACE.label + clamp((t - from) * scale, 0, room));
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

  // What the docked line says of a row: what was drafted, what the target thought, what followed.
  function inspectWords(place, row) {
    const tree = place.round.tree;
    const name = "Row " + row + ", depth " + tree.depth[row] + ": “" + tree.text[row] + "”";
    if (row === 0) return name + ". The root: the last token so far, not yet in the cache.";
    if (tree.status[row] === "lookahead") return name + ". Read for the drafter's own use.";
    const drafted = name + ". Drafted with probability " + number(tree.draft_prob[row], 3);
    if (place.phase === "draft" || place.phase === "verify") return drafted + "; not yet checked.";
    const trial = tree.trials[row];
    if (!trial) return drafted + "; never tried: the walk did not come here.";
    const verdict = trial.is_accepted ? "accepted" : "rejected";
    const draw = trial.draw === null ? "" : ", draw " + number(trial.draw, 3) +
      (trial.is_accepted ? " below" : " not below") + " threshold " + number(trial.threshold, 3);
    return drafted + "; the target gives " + number(tree.target_prob[row], 3) + draw + ": " + verdict + ".";
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
    put(view.words.inspect, "data-on", row !== null);
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
      put(node, "transform", "translate(1 12)");
      lookNode(node, look);
      const picture = svg("svg", { width: 36, height: 24, "aria-hidden": "true" }, node);
      return el("span", "sv-legenditem", picture, words);
    });
    const parts = PARTS.map(([part, words]) =>
      el("span", "sv-legenditem", el("span", "sv-swatch sv-part sv-" + part), words));
    const depth = el("span", "sv-token", "word");
    depth.setAttribute("data-from", "draft");
    depth.setAttribute("data-depth", "2");
    const token = el("span", "sv-legenditem", depth, "drafted at depth 2");
    return el("details", "sv-legend", el("summary", "", "Legend"),
      el("div", "sv-legendbody", ...items, token, ...parts));
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
    const date = start.created.slice(0, 10);
    say(page.badge, run.source === "live" ? WORDS.liveBadge : WORDS.recorded + " " + date);
    put(page.badge, "data-source", run.source);
    const quantised = start.quantisation === "none" ? "" : start.quantisation;
    say(page.facts, [run.label, start.target, start.device, start.dtype, quantised, start.sampling,
      "prefill " + milliseconds(start.prefill_seconds)].filter(Boolean).join(" · "));
    say(page.prompt.firstChild, "Prompt, " + start.num_prompt_tokens + " tokens");
    say(page.prompt.lastChild, start.prompt);
  }

  // ---- The stage: store, player and page together ------------------------------------------

  function mount(parent) {
    const page = makePage();
    const { buttons, live, scrub, speed, rest, clock } = page.transport;
    const calm = window.matchMedia("(prefers-reduced-motion: reduce)");
    const retired = new Set();
    const player = { time: 0, isPlaying: false, isFollowing: false, stopAt: null, restUntil: 0 };
    const selection = { hover: null, pin: null };
    let incoming = null; // the run that is heard
    let run = null; // the run that is shown
    let views = [];
    let widths = { stage: 0, lane: 0 };
    let frame = 0;
    let lastTick = 0;
    let spokenAt = -Infinity;

    // -- listening

    function receive(text) {
      const envelope = JSON.parse(text);
      if (envelope.v !== 1) return fail("This page is older than what it was sent: reload it.");
      if (retired.has(envelope.run)) return undefined;
      if (!incoming || incoming.id !== envelope.run) {
        if (incoming) retired.add(incoming.id);
        incoming = newRun(envelope);
        fail("");
      }
      if (envelope.seq >= incoming.nextSeq) incoming.held.set(envelope.seq, envelope);
      while (incoming.held.has(incoming.nextSeq)) {
        const next = incoming.held.get(incoming.nextSeq);
        incoming.held.delete(incoming.nextSeq);
        incoming.nextSeq += 1;
        next.items.forEach(take);
      }
      if (incoming.held.size) {
        fail("Part " + (incoming.nextSeq + 1) + " of this run has not arrived. What is shown is "
          + "right as far as it goes; run again if it does not come.");
      } else if (page.error.dataset.kind === "gap") fail("");
      page.error.dataset.kind = incoming.held.size ? "gap" : "";
      opened();
      wake();
      return undefined;
    }

    function take(item) {
      if (item.kind === "progress") return notice(item.message, item.done, item.total, item.stage);
      if (item.kind === "failure") {
        notice("");
        return fail(item.message);
      }
      if (item.kind === "start") {
        notice("");
        replaceRun();
      }
      return addItem(incoming, item);
    }

    function replaceRun() {
      run = incoming;
      views = [];
      page.lanes.replaceChildren();
      page.race.rows.replaceChildren();
      page.race.lanes = [];
      Object.assign(selection, { hover: null, pin: null });
      Object.assign(player, { time: 0, stopAt: null, restUntil: 0, isPlaying: false,
        isFollowing: run.source === "live", hasOpened: run.source === "live" });
      speed.value = "1";
    }

    // A recorded run opens by itself: its first two rounds, then it waits for the viewer.
    function opened() {
      if (!run || player.hasOpened) return;
      const lane = draftingLanes(run)[0];
      if (!lane || !lane.rounds.length || !(lane.rounds.length > 1 || run.isEnded)) return;
      player.hasOpened = true;
      const shown = lane.rounds[Math.min(1, lane.rounds.length - 1)].at[3];
      const each = lane.rounds[0].at[3] || 1;
      speed.value = String(SPEEDS.filter((s) => s <= each / WATCHABLE_SECONDS).pop() || SPEEDS[0]);
      if (calm.matches) player.time = lane.rounds[0].at[3];
      else Object.assign(player, { isPlaying: true, stopAt: shown });
    }

    function notice(message, done, total, stage) {
      show(page.notice, Boolean(message));
      say(page.notice.firstChild, message || "");
      const bar = page.notice.lastChild;
      show(bar, Boolean(total) && stage !== "queued");
      if (total) Object.assign(bar, { max: total, value: done });
    }

    function fail(message) {
      show(page.error, Boolean(message));
      say(page.error, message || "");
    }

    // -- time

    function wake() {
      if (!frame) frame = requestAnimationFrame(tick);
    }

    function tick(now) {
      frame = 0;
      const elapsed = lastTick ? Math.min((now - lastTick) / 1000, 0.25) : 0;
      if (run) advance(elapsed, now);
      draw(now);
      const isMoving = run && (player.isPlaying || (player.isFollowing && !isCaughtUp()));
      lastTick = isMoving ? now : 0;
      if (isMoving) wake();
    }

    function isCaughtUp() {
      return player.time >= knownTime(run);
    }

    function advance(elapsed, now) {
      const end = runEnd(run);
      if (player.isFollowing) {
        const goal = Math.max(knownTime(run), player.time);
        const step = (goal - player.time) * (1 - Math.exp(-elapsed / FOLLOW_SECONDS));
        const isNear = goal - player.time < 1e-4 || calm.matches;
        player.time = isNear ? goal : player.time + step;
        return;
      }
      if (!player.isPlaying || now < player.restUntil) return;
      if (calm.matches) {
        player.time = nextEnd(run.lanes, player.time) ?? end;
        player.restUntil = now + REST_SECONDS * 1000;
      } else play(elapsed, now);
      if (player.stopAt !== null && player.time >= player.stopAt) pauseAt(player.stopAt);
      else if (player.time >= end) {
        player.time = end;
        if (run.isEnded || run.interrupted) player.isPlaying = false;
      }
    }

    function play(elapsed, now) {
      const pace = Number(speed.value);
      const wanted = player.time + elapsed * pace;
      const stop = nextEnd(draftingLanes(run), player.time);
      player.time = wanted;
      if (stop === null || wanted < stop || !rest.checked) return;
      const lane = draftingLanes(run).find((one) => placeOf(one, stop).round.at[3] === stop);
      const { at } = placeOf(lane, stop).round;
      if ((at[3] - at[0]) / pace < RESTABLE_SECONDS) return;
      player.time = stop;
      player.restUntil = now + REST_SECONDS * 1000;
    }

    function pauseAt(time) {
      Object.assign(player, { time, isPlaying: false, isFollowing: false, stopAt: null, restUntil: 0 });
    }

    function seek(time) {
      if (!run) return;
      pauseAt(clamp(time, 0, runEnd(run)));
      spokenAt = -Infinity;
      wake();
    }

    function togglePlay() {
      if (!run) return;
      const isOn = player.isPlaying || (player.isFollowing && !run.isEnded);
      const from = !isOn && player.time >= runEnd(run) && run.isEnded ? 0 : player.time;
      pauseAt(from);
      player.isPlaying = !isOn;
      wake();
    }

    function follow() {
      if (!run) return;
      Object.assign(player, { isPlaying: false, isFollowing: true, stopAt: null });
      wake();
    }

    const moves = {
      home: () => seek(0),
      end: () => run && seek(runEnd(run)),
      back: () => run && seek(previousEnd(run.lanes, player.time)),
      forward: () => run && seek(nextEnd(run.lanes, player.time) ?? runEnd(run)),
      play: togglePlay,
    };

    // -- drawing

    function draw(now) {
      show(page.body, Boolean(run));
      show(page.empty, !run);
      if (!run) return;
      while (views.length < run.lanes.length) {
        const lane = run.lanes[views.length];
        const view = makeLane(lane);
        listen(view, lane);
        views.push(view);
        page.lanes.append(view.root);
        observer.observe(view.root);
      }
      drawRunLine(page, run);
      drawRace(page.race, run, player.time, widths.stage);
      run.lanes.forEach((lane, i) => {
        drawLane(views[i], lane, player.time, widths.lane);
        lightLane(views[i], placeOf(lane, player.time), selectedRow(i));
      });
      drawTransport();
      speak(now);
    }

    function drawTransport() {
      const end = runEnd(run);
      const isOn = player.isPlaying || (player.isFollowing && !run.isEnded && !run.interrupted);
      const name = isOn ? "pause" : "play";
      put(buttons.play.querySelector("path"), "d", ICONS[name]);
      put(buttons.play, "aria-label", WORDS[name]);
      say(buttons.play.lastChild, WORDS[name]);
      put(buttons.play, "data-invites", !isOn && player.time < end);
      show(live, run.source === "live" && !run.isEnded && !run.interrupted);
      put(live, "aria-pressed", player.isFollowing);
      const value = end > 0 ? Math.round((player.time / end) * 1000) : 0;
      if (Number(scrub.value) !== value) scrub.value = value;
      const isWaiting = player.isPlaying && player.time >= end;
      say(clock, isWaiting ? WORDS.waiting : player.time.toFixed(3) + " s of " + end.toFixed(3) + " s");
      put(scrub, "aria-valuetext", clock.textContent);
    }

    // One line for the ear: the round that ended last, in any lane.
    function speak(now) {
      if (now - spokenAt < ANNOUNCE_SECONDS * 1000) return;
      let last = null;
      for (const lane of run.lanes) {
        const round = finishedRound(lane, placeOf(lane, player.time));
        if (round && (!last || round.at[3] > last.round.at[3])) last = { lane, round };
      }
      const words = last ? last.lane.info.title + ". " + last.round.sentence : "";
      if (page.spoken.textContent === words) return;
      spokenAt = now;
      say(page.spoken, words);
    }

    // -- selecting

    function selectedRow(laneIndex) {
      const chosen = selection.hover || selection.pin;
      if (!chosen || chosen.lane !== laneIndex) return null;
      const place = placeOf(run.lanes[laneIndex], player.time);
      return place && place.index === chosen.index ? chosen.row : null;
    }

    function choose(kind, lane, row) {
      const laneIndex = run.lanes.indexOf(lane);
      const place = placeOf(lane, player.time);
      selection[kind] = row === null || !place ? null : { lane: laneIndex, index: place.index, row };
      wake();
    }

    function listen(view, lane) {
      const rowOf = (event) => {
        const node = event.target.closest("[data-row]");
        return node ? Number(node.getAttribute("data-row")) : null;
      };
      const cellRow = (event) => {
        const cell = maskCellAt(view.mask, event);
        return cell ? cell.row : null;
      };
      for (const [root, row] of [[view.tree.root, rowOf], [view.mask.root, cellRow]]) {
        root.addEventListener("pointermove", (event) => choose("hover", lane, row(event)));
        root.addEventListener("pointerleave", () => choose("hover", lane, null));
        root.addEventListener("click", (event) => choose("pin", lane, row(event)));
      }
      view.tree.root.addEventListener("blur", () => choose("hover", lane, null));
      view.tree.root.addEventListener("keydown", (event) => walkTree(event, view, lane));
      view.strip.root.addEventListener("click", (event) => {
        const token = event.target.closest("[data-token]");
        if (token) seek(lane.rounds[lane.tokens[token.getAttribute("data-token")].index].at[3]);
      });
      view.strip.root.addEventListener("pointerover", (event) => {
        const token = event.target.closest("[data-token]");
        if (!token || token.title) return;
        const { origin, index } = lane.tokens[token.getAttribute("data-token")];
        token.title = originWords(origin, lane.rounds[index].round);
      });
    }

    function walkTree(event, view, lane) {
      const steps = { ArrowUp: -1, ArrowDown: 1 };
      const place = placeOf(lane, player.time);
      if (!place) return;
      const chosen = selection.hover || selection.pin;
      const row = chosen && chosen.lane === run.lanes.indexOf(lane) ? chosen.row : null;
      if (event.key in steps) {
        const next = clamp((row ?? -1) + steps[event.key], 0, place.round.tree.x.length - 1);
        choose("hover", lane, next);
      } else if (event.key === "Enter") choose("pin", lane, row);
      else return;
      event.preventDefault();
      event.stopPropagation();
    }

    // -- wiring

    const KEYS = { " ": "play", ArrowLeft: "back", ArrowRight: "forward", Home: "home", End: "end" };

    function onKey(event) {
      if (event.key === "Escape") {
        Object.assign(selection, { hover: null, pin: null });
        wake();
      }
      const isOwn = event.target.closest("button, input, select, summary") !== null;
      const move = KEYS[event.key];
      if (!move || isOwn || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      moves[move]();
    }

    const observer = new ResizeObserver(() => {
      const box = views.length ? views[0].root : null;
      const inner = box ? box.clientWidth - 2 * parseFloat(getComputedStyle(box).paddingLeft) : 0;
      widths = { stage: page.raceBox.clientWidth, lane: Math.floor(inner) };
      wake();
    });

    for (const name in moves) buttons[name].addEventListener("click", moves[name]);
    live.addEventListener("click", follow);
    scrub.addEventListener("input", () => run && seek((Number(scrub.value) / 1000) * runEnd(run)));
    page.race.root.addEventListener("click", (event) => {
      const round = event.target.closest("[data-end]");
      if (round) seek(Number(round.getAttribute("data-end")));
    });
    page.root.addEventListener("keydown", onKey);
    observer.observe(page.raceBox);
    show(page.notice, false);
    show(page.error, false);
    parent.replaceChildren(page.root);
    wake();

    return {
      receive,
      seek,
      pending(message) {
        if (incoming) retired.add(incoming.id);
        fail("");
        notice(message);
      },
      interrupted(message) {
        notice("");
        if (incoming && incoming === run && !run.isEnded) run.interrupted = message;
        fail(message);
        wake();
      },
      state() {
        return { run: run ? run.id : null, time: player.time, end: run ? runEnd(run) : 0,
          isPlaying: player.isPlaying, isFollowing: player.isFollowing };
      },
      destroy() {
        cancelAnimationFrame(frame);
        observer.disconnect();
        page.root.remove();
      },
    };
  }

  return { mount };
})();
