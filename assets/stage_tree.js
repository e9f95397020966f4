// The candidate tree of a round: keyed boxes at tidy places that stay while time moves. Rows, and
// pruned candidates as ghosts. Zoom and pan move the picture, never the page: no wheel is heard.

const SpecVizTree = (function () {
  const { clamp } = SpecVizRun;
  const { lookOf, ghostLook, isRanking, ownLook, lookKey, isRead } = SpecVizTime;
  const { word, MARKS, svg, el, put, say, show, markPath, pool, fit, tiny, button } = SpecVizDom;

  const NODE = { height: 24, line: 42, pad: 12, minPitch: 78, maxPitch: 132, gap: 18, top: 6 };
  const CHAR = 6.8; // width of a monospaced character at the size of node texts
  const ROOM = 380; // tallest tree box; what is taller is panned or fitted
  const HEAD = { height: 64, line: 12 };
  const INLINED = ["display", "visibility", "fill", "stroke", "stroke-width", "stroke-dasharray", "opacity",
    "font-family", "font-size", "font-weight"];
  const ZOOMS = [0.4, 0.5, 0.65, 0.8, 1, 1.25, 1.5];

  function makeNode() {
    const shape = svg("rect", { height: NODE.height, y: -NODE.height / 2 });
    const bar = svg("rect", { class: "sv-nodebar", x: 3, y: NODE.height / 2 - 4.5, height: 2.5 });
    const text = svg("text", { x: 8, y: 4 });
    const note = svg("text", { class: "sv-nodenote", x: 3, y: NODE.height / 2 + 11 });
    const strike = svg("path", { class: "sv-strike" });
    const mark = svg("path", { class: "sv-mark", transform: "translate(-5 -5)" });
    const badge = svg("g", { class: "sv-mark-badge" }, svg("circle", { r: 8 }), mark);
    const group = svg("g", { class: "sv-node" }, shape, bar, text, strike, badge, note);
    return Object.assign(group, { shape, bar, label: text, note, strike, mark, badge });
  }

  function placeNode(node, box, x, y, label) {
    const width = box.pitch - NODE.gap;
    const columns = Math.floor((width - 14) / CHAR);
    const shown = fit(label, columns);
    put(node, "transform", "translate(" + leftOf(box, x) + " " + lineY(box, y) + ")");
    put(node.shape, "width", width);
    say(node.label, shown);
    const end = 8 + Math.min(columns, shown.length) * CHAR;
    put(node.strike, "d", "M6 0 H" + (end + 2).toFixed(0));
    put(node.badge, "transform", "translate(" + (width - 2) + " " + (-NODE.height / 2) + ")");
    node.width = width;
  }

  function lookNode(node, look) {
    if (node.getAttribute("data-look") === look) return;
    put(node, "data-look", look);
    put(node.mark, "d", markPath(look));
    put(node.badge, "display", MARKS[look] ? "inline" : "none");
    put(node.shape, "rx", look === "root" ? 1 : 6);
  }

  function leftOf(box, x) {
    return NODE.pad + x * box.pitch;
  }

  function lineY(box, y) {
    return box.head + NODE.top + NODE.height / 2 + y * NODE.line;
  }

  function linkPath(box, x0, y0, x1, y1) {
    const from = leftOf(box, x0) + box.pitch - NODE.gap;
    const to = leftOf(box, x1);
    const [a, b] = [lineY(box, y0), lineY(box, y1)];
    const middle = from + NODE.gap / 2;
    return a === b ? "M" + from + " " + a + " H" + to
      : "M" + from + " " + a + " H" + middle + " V" + b + " H" + to;
  }

  function makeTree(lane) {
    const links = svg("g", {});
    const nodes = svg("g", {});
    const heads = svg("g", { class: "sv-heads" });
    const own = makeNode();
    put(own, "data-row", -1);
    const ownLink = svg("path", { class: "sv-link" });
    const sweep = svg("rect", { class: "sv-treesweep", y: 0, width: 3 });
    links.append(ownLink);
    const root = svg("svg", { class: "sv-tree", tabindex: "0", role: "img" },
      heads, links, nodes, own, sweep);
    const zoom = {
      out: button("minus", word("stage.zoom_out")), into: button("plus", word("stage.zoom_in")),
      fit: button("fit", word("stage.zoom_fit")),
    };
    const box = el("div", "sv-treebox", root);
    const view = {
      root, boxNode: box, zoom, tools: el("span", "sv-tools", ...Object.values(zoom)), own, ownLink,
      sweep, takeLinks: pool(links, () => svg("path", { class: "sv-link" })),
      takeNodes: pool(nodes, makeNode),
      takeHeads: pool(heads, () => svg("text", { class: "sv-headtext" })),
      nodes: [], links: [], box: null, scale: null, look: "", laid: "", size: [0, 0], pan: [0, 0],
      head: lane.info.has_heads ? HEAD.height : 0,
    };
    show(view.tools, false); // until a tree is larger than its box
    listenZoom(view);
    return view;
  }

  // ---- Geometry: runs once when the round under the playhead changes ------------------------

  function placesOf(round, hasGhosts) {
    const { tree, draft } = round;
    if (hasGhosts && draft.places) return draft.places;
    const next = round.next ? [round.next.x, round.next.y] : null;
    return { x: tree.x, y: tree.y, next, lookahead_y: tree.lookahead_y,
      width: tree.width, height: tree.height };
  }

  function layTree(view, lane, round, width, options) {
    const { tree, draft } = round;
    const places = placesOf(round, options.hasGhosts);
    const room = Math.floor((width - NODE.pad * 2) / Math.max(lane.maxWidth, 3));
    const box = { pitch: clamp(room, NODE.minPitch, NODE.maxPitch), head: view.head };
    const ghosts = options.hasGhosts ? draft.ghosts : [];
    const rows = tree.x.length;
    view.box = box;
    view.places = places;
    view.ghosts = ghosts;
    view.rows = rows;
    view.nodes = view.takeNodes(rows + ghosts.length);
    view.links = view.takeLinks(rows + ghosts.length);
    for (let i = 0; i < rows + ghosts.length; i += 1) {
      const ghost = i < rows ? null : ghosts[i - rows];
      const parent = ghost ? ghost.parent : tree.parent[i];
      const isAhead = !ghost && tree.status[i] === "lookahead"; // the window shows those
      placeNode(view.nodes[i], box, places.x[i], places.y[i], ghost ? ghost.text : tree.text[i]);
      put(view.nodes[i], "data-row", i);
      view.nodes[i].style.display = isAhead ? "none" : "";
      put(view.links[i], "d", parent < 0 || isAhead ? ""
        : linkPath(box, places.x[parent], places.y[parent], places.x[i], places.y[i]));
    }
    if (round.next) {
      const [x, y] = places.next || [round.next.x, round.next.y];
      const { parent, text } = round.next;
      placeNode(view.own, box, x, y, text);
      put(view.ownLink, "d", linkPath(box, places.x[parent], places.y[parent], x, y));
    }
    if (view.head) layHeads(view, draft.heads, box);
    const height = places.lookahead_y ?? places.height;
    view.size = [NODE.pad + places.width * box.pitch, lineY(box, height - 1) + NODE.line - NODE.height / 2];
    put(view.sweep, "height", view.size[1]);
    const most = options.hasGhosts ? lane.maxGrown : lane.maxHeight;
    const wanted = view.head + NODE.top + most * NODE.line + 6;
    view.boxNode.style.height = Math.min(wanted, ROOM) + "px";
    view.room = [width, Math.min(wanted, ROOM)];
    sizeTree(view);
    put(view.root, "aria-label", SpecVizDom.tell(round.sentence));
  }

  // Head i stands above depth i with its likeliest guesses.
  function layHeads(view, heads, box) {
    const texts = [];
    heads.forEach((guesses, i) => {
      const x = leftOf(box, i + 1) + 3;
      texts.push([x, 11, word("stage.head", { n: i + 1 }), true]);
      guesses.forEach(([text, , prob], k) => {
        const columns = Math.floor((box.pitch - NODE.gap) / 5.8) - 4;
        texts.push([x, 23 + k * HEAD.line, tiny(prob).padEnd(4) + fit(text, columns), false]);
      });
    });
    const made = view.takeHeads(texts.length);
    texts.forEach(([x, y, text, isName], i) => {
      put(made[i], "x", x);
      put(made[i], "y", y);
      put(made[i], "data-name", isName);
      say(made[i], text);
    });
  }

  // ---- Zoom and pan ------------------------------------------------------------------------

  function sizeTree(view) {
    const [w, h] = view.size;
    const scale = view.scale === "fit"
      ? Math.min(1, view.room[0] / w, view.room[1] / h) : view.scale || 1;
    view.shownScale = scale;
    put(view.root, "width", Math.ceil(w * scale));
    put(view.root, "height", Math.ceil(h * scale));
    put(view.root, "viewBox", "0 0 " + w + " " + h);
    const isLarge = w * scale > view.room[0] + 1 || h * scale > view.room[1] + 1;
    view.isLarge = isLarge;
    put(view.boxNode, "data-pans", isLarge);
    if (isLarge || view.scale !== null) show(view.tools, true);
    put(view.zoom.fit, "aria-pressed", view.scale === "fit");
    panTo(view, ...view.pan);
  }

  // Moved by a transform: scrolling would force a layout of the page on the spot.
  function panTo(view, left, top) {
    const most = view.size.map((side, i) => Math.max(0, side * view.shownScale - view.room[i]));
    view.pan = [clamp(left, 0, most[0]), clamp(top, 0, most[1])].map(Math.round);
    const moved = view.pan[0] || view.pan[1]
      ? "translate(" + -view.pan[0] + "px, " + -view.pan[1] + "px)" : "";
    if (view.root.style.transform !== moved) view.root.style.transform = moved;
  }

  function listenZoom(view) {
    const step = (by) => {
      const at = ZOOMS.findIndex((zoom) => zoom >= view.shownScale - 0.01);
      view.scale = ZOOMS[clamp(at + by, 0, ZOOMS.length - 1)];
      sizeTree(view);
    };
    view.zoom.out.addEventListener("click", () => step(-1));
    view.zoom.into.addEventListener("click", () => step(1));
    view.zoom.fit.addEventListener("click", () => {
      view.scale = view.scale === "fit" ? 1 : "fit";
      sizeTree(view);
    });
    let from = null;
    view.boxNode.addEventListener("pointerdown", (event) => {
      from = { x: event.clientX, y: event.clientY, left: view.pan[0], top: view.pan[1], id: event.pointerId };
      view.isDragged = false;
    });
    view.boxNode.addEventListener("pointermove", (event) => {
      if (!from || event.buttons === 0) return;
      const [dx, dy] = [event.clientX - from.x, event.clientY - from.y];
      if (!view.isDragged && Math.hypot(dx, dy) > 5) {
        view.isDragged = true;
        view.boxNode.setPointerCapture(from.id);
      }
      if (view.isDragged) panTo(view, from.left - dx, from.top - dy);
    });
    const release = () => { from = null; };
    view.boxNode.addEventListener("pointerup", release);
    view.boxNode.addEventListener("pointercancel", release);
  }

  // Brings the end of the path into a box too small for its tree, once the walk is told.
  function followPath(view, place) {
    const key = place.index + place.phase;
    if (view.followed === key) return;
    view.followed = key;
    const { round, phase } = place;
    const { places, shownScale: scale } = view;
    const isTold = phase === "done" || phase === "commit";
    const row = Math.max(round.tree.status.lastIndexOf("accepted"), 0);
    const [x, y] = !isTold ? [0, places.y[0]] : round.next && places.next ? places.next
      : [places.x[row], places.y[row]];
    const top = (lineY(view.box, y) + NODE.line) * scale - view.room[1];
    const left = leftOf(view.box, x + 1) * scale - view.room[0];
    panTo(view, left, top);
  }

  // ---- What it looks like at a place -------------------------------------------------------

  function drawTree(view, lane, place, width, options) {
    const laid = [place.index, width, lane.maxHeight, lane.maxGrown, lane.maxWidth,
      options.hasGhosts, options.hasIds].join();
    if (view.laid !== laid) {
      view.laid = laid;
      view.look = "";
      layTree(view, lane, place.round, width, options);
    }
    drawSweep(view, place);
    const look = lookKey(place);
    if (view.look === look) return;
    view.look = look;
    for (let row = 0; row < view.rows; row += 1) {
      const shown = lookOf(place, row);
      lookNode(view.nodes[row], shown);
      put(view.links[row], "data-look", shown);
      noteNode(view.nodes[row], place, row, options);
    }
    view.ghosts.forEach((ghost, k) => {
      const node = view.nodes[view.rows + k];
      const shown = ghostLook(place, ghost);
      lookNode(node, shown);
      put(view.links[view.rows + k], "data-look", shown);
      const rank = isRanking(place) || shown === "ghost" ? "#" + ghost.rank + " " : "";
      say(node.note, shown === "hidden" ? "" : rank + word("stage.score", { s: ghost.score.toFixed(2) }));
      put(node.bar, "width", 0);
    });
    const own = ownLook(place);
    lookNode(view.own, own);
    put(view.ownLink, "data-look", own);
    say(view.own.note, own === "hidden" ? "" : word("stage.kind." + own));
    put(view.own.bar, "width", 0);
    put(view.root, "data-phase", place.phase);
    if (view.isLarge) followPath(view, place);
  }

  // Below a box: the drafter's number, then the target's beside it; ids when they are asked for.
  function noteNode(node, place, row, options) {
    const { tree, draft } = place.round;
    const isOwn = row > 0 && tree.status[row] !== "lookahead";
    const told = isOwn && isRead(place) ? tree.softmax_prob[row] : null;
    put(node.bar, "width", told === null ? 0 : Math.max(1, (node.width - 6) * told).toFixed(1));
    if (options.hasIds) {
      say(node.note, word("stage.row_position", { row, position: tree.position[row] }));
    } else if (!isOwn) say(node.note, "");
    else if (isRanking(place) && draft.rank && draft.rank[row] !== null) {
      say(node.note, "#" + draft.rank[row] + " " + word("stage.score", { s: draft.score[row].toFixed(2) }));
    } else {
      const drafted = "q " + tiny(tree.draft_prob[row]);
      say(node.note, told === null ? drafted : drafted + "  p " + tiny(told));
    }
  }

  // One sweep over the whole tree: the pass reads all rows at once.
  function drawSweep(view, place) {
    const isOn = place.phase === "verify" && place.part < 1;
    view.sweep.style.display = isOn ? "" : "none";
    if (isOn) put(view.sweep, "x", (place.part * view.size[0]).toFixed(0));
  }

  // `light` is {row, rows above it}; null frees all.
  function lightTree(view, light) {
    view.nodes.forEach((node, i) => {
      put(node, "data-lit", !light ? "" : i === light.row ? "self" : light.above.includes(i) ? "above" : "");
    });
    put(view.own, "data-lit", light && light.row === -1 ? "self" : "");
    if (light && light.row !== null) revealRow(view, light.row);
  }

  function revealRow(view, row) {
    if (!view.isWalked || row < 0 || !view.places) return;
    const { shownScale: scale } = view;
    const y = lineY(view.box, view.places.y[row]) * scale;
    const x = leftOf(view.box, view.places.x[row]) * scale;
    const [left, top] = view.pan;
    if (y < top + 20 || y > top + view.room[1] - 30 || x < left || x > left + view.room[0] - 60) {
      panTo(view, x - view.room[0] / 2, y - view.room[1] / 2);
    }
  }

  // The tree as a drawing of its own, at full size: every style that matters stands in it.
  function pictureOf(view) {
    const copy = view.root.cloneNode(true);
    copy.style.transform = "";
    const [from, to] = [[view.root, ...view.root.querySelectorAll("*")], [copy, ...copy.querySelectorAll("*")]];
    from.forEach((node, i) => {
      const style = getComputedStyle(node);
      for (const name of INLINED) to[i].style.setProperty(name, style.getPropertyValue(name));
    });
    to.filter((node) => node.style.display === "none" || node.style.visibility === "hidden")
      .forEach((node) => node.remove());
    put(copy, "xmlns", "http://www.w3.org/2000/svg");
    put(copy, "width", view.size[0]);
    put(copy, "height", view.size[1]);
    copy.style.background = getComputedStyle(view.root.closest(".sv-lane")).backgroundColor;
    return copy;
  }

  return { pictureOf, makeTree, drawTree, lightTree, makeNode, placeNode, lookNode };
})();
