// The candidate tree of a round: keyed boxes at tidy places that stay while time moves. Rows, and
// pruned candidates as ghosts; above the depths what made the tokens there.

const SpecVizTree = (function () {
  const { clamp } = SpecVizRun;
  const { lookOf, ghostLook, isRanking, ownLook, lookKey, isRead } = SpecVizTime;
  const { word, svg, el, put, say, show, pool, fit, tiny, milliseconds, button } = SpecVizDom;
  const { NODE, makeNode, placeNode, lookNode, leftOf, lineY, linkPath } = SpecVizNode;
  const { sizeTree, listenZoom, followPath, revealRow } = SpecVizPan;

  const CUT = 0.5; // lines between the rows and what was pruned
  const ROOM = 460; // tallest tree box; what is taller is panned or fitted
  const HEAD = { line: 12, char: 6 }; // of the small print above a depth
  const HEAD_HEIGHT = { head: 64, step: 64, level: 34, pass: 34, "": 0 };

  // `repaint()` is called when the tree is to show something else at the same moment.
  function makeTree(lane, repaint) {
    const links = svg("g", {});
    const nodes = svg("g", {});
    const heads = svg("g", { class: "sv-heads" });
    const own = makeNode();
    put(own, "data-row", -1);
    const ownLink = svg("path", { class: "sv-link" });
    const cut = svg("path", { class: "sv-cut" });
    const sweep = svg("rect", { class: "sv-treesweep", y: 0, width: 3 });
    links.append(ownLink);
    const root = svg("svg", { class: "sv-tree", tabindex: "0", role: "img" },
      heads, cut, links, nodes, own, sweep);
    root.append(svg("title", {}, word("stage.q_and_p")));
    const zoom = {
      out: button("minus", word("stage.zoom_out")), into: button("plus", word("stage.zoom_in")),
      fit: button("fit", word("stage.zoom_fit")),
    };
    const box = el("div", "sv-treebox", root);
    const view = {
      root, boxNode: box, zoom, tools: el("span", "sv-tools", ...Object.values(zoom)), own, ownLink,
      sweep, cut, takeLinks: pool(links, () => svg("path", { class: "sv-link" })),
      takeNodes: pool(nodes, makeNode),
      takeHeads: pool(heads, () => svg("text", { class: "sv-headtext" })),
      nodes: [], links: [], box: null, scale: null, look: "", laid: "", size: [0, 0], pan: [0, 0],
      head: HEAD_HEIGHT[lane.info.column], hasAll: false, ...makeGhostLine(),
    };
    show(view.tools, false); // until a tree is larger than its box
    listenZoom(view);
    view.ghostMore.addEventListener("click", () => {
      view.hasAll = !view.hasAll;
      repaint();
    });
    return view;
  }

  // How many of the pruned candidates are to be seen, and a click for the others.
  function makeGhostLine() {
    const words = el("span", "");
    const more = el("button", "sv-openlane", "");
    more.type = "button";
    return { ghostWords: words, ghostMore: more, ghostLine: el("p", "sv-ghostline", words, more) };
  }

  function drawGhostLine(view, draft, options) {
    const [all, best] = [draft.ghosts.length, draft.num_best];
    show(view.ghostLine, options.hasGhosts && all > 0);
    if (view.ghostLine.hidden) return;
    show(view.ghostMore, best < all);
    say(view.ghostWords, word("stage.ghosts_shown", { shown: view.hasAll ? all : best, all }));
    say(view.ghostMore, view.hasAll ? word("stage.ghosts_best", { n: best }) : word("stage.ghosts_all", { n: all }));
  }

  // ---- Geometry: runs once when the round under the playhead changes ------------------------

  // Where all stand: rows, then ghosts below them, a little apart.
  function placesOf(round, ghosts) {
    const { tree, next } = round;
    return { x: [...tree.x, ...ghosts.map((ghost) => ghost.depth)],
      y: [...tree.y, ...ghosts.map((ghost) => ghost.y + CUT)], next: next ? [next.x, next.y] : null };
  }

  function layTree(view, lane, round, width, options) {
    const { tree, draft } = round;
    const room = Math.floor((width - NODE.pad * 2) / Math.max(lane.maxWidth, 3));
    const box = { pitch: clamp(room, NODE.minPitch, NODE.maxPitch), head: view.head };
    const ghosts = options.hasGhosts ? draft.ghosts.slice(0, view.hasAll ? draft.ghosts.length : draft.num_best) : [];
    const rows = tree.x.length;
    const places = placesOf(round, ghosts);
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
      const { x, y, parent, text } = round.next;
      placeNode(view.own, box, x, y, text);
      put(view.ownLink, "d", linkPath(box, places.x[parent], places.y[parent], x, y));
    }
    if (view.head) layHeads(view, lane.info.column, draft, box);
    drawGhostLine(view, draft, options);
    const own = tree.lookahead_y ?? tree.height;
    const height = ghosts.length ? draft.heights[view.hasAll ? 1 : 0] + CUT : own;
    const deepest = Math.max(tree.width, ...ghosts.map((ghost) => ghost.depth + 1));
    view.size = [NODE.pad + deepest * box.pitch, lineY(box, height - 1) + NODE.line - NODE.height / 2];
    put(view.sweep, "height", lineY(box, own - 1) + NODE.line - NODE.height / 2); // ghosts are not read
    put(view.cut, "d", ghosts.length ? "M0 " + (lineY(box, own) - 6) + " H" + view.size[0] : "");
    const most = ghostsOf(lane, options) ? lane.lines.grown.enough + CUT : lane.lines.bare.enough;
    const wanted = view.head + NODE.top + most * NODE.line + 6;
    view.boxNode.style.height = Math.min(wanted, ROOM) + "px";
    view.room = [width, Math.min(wanted, ROOM)];
    sizeTree(view);
    put(view.root, "aria-label", SpecVizDom.tell(round.sentence));
  }

  function ghostsOf(lane, options) {
    return options.hasGhosts && lane.hasGhosts;
  }

  // Above a depth stands what made its tokens: a head or step with its likeliest guesses, a level
  // with how many it grew and kept, a pass with what it took.
  function layHeads(view, column, draft, box) {
    const texts = [];
    const columns = Math.floor((box.pitch - NODE.gap) / HEAD.char);
    const print = (depth, line, text) =>
      texts.push([leftOf(box, depth) + 3, 11 + line * HEAD.line, fit(text, columns), line === 0]);
    draft.heads.forEach((guesses, i) => {
      print(i + 1, 0, word("stage.column_of." + column, { n: i + 1 }));
      guesses.forEach(([text, , prob], k) => print(i + 1, k + 1, tiny(prob).padEnd(4) + text));
    });
    draft.levels.forEach(([grown, kept], i) => {
      print(i + 1, 0, word("stage.column_of." + column, { n: i + 1 }));
      if (grown !== null) print(i + 1, 1, word("stage.level_kept", { grown, kept }));
      else if (column === "pass" && i < draft.steps.length) print(i + 1, 1, milliseconds(draft.steps[i]));
    });
    const made = view.takeHeads(texts.length);
    texts.forEach(([x, y, text, isName], i) => {
      put(made[i], "x", x);
      put(made[i], "y", y);
      put(made[i], "data-name", isName);
      say(made[i], text);
    });
  }

  // ---- What it looks like at a place -------------------------------------------------------

  function drawTree(view, lane, place, width, options) {
    const laid = [place.index, width, lane.lines.bare.enough, lane.lines.grown.enough, lane.maxWidth,
      options.hasGhosts, options.hasIds, view.hasAll].join();
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
    const told = isOwn && isRead(place) ? tree.shown_prob[row] : null;
    put(node.bar, "width", told === null ? 0 : Math.max(1, (node.width - 6) * told).toFixed(1));
    if (options.hasIds) {
      say(node.note, word("stage.row_position", { row, position: tree.position[row] }));
    } else if (!isOwn) say(node.note, "");
    else if (isRanking(place) && draft.rank && draft.rank[row] !== null) {
      say(node.note, "#" + draft.rank[row] + " " + word("stage.score", { s: draft.score[row].toFixed(2) }));
    } else {
      const drafted = tree.draft_prob[row] === null ? "" : "q " + tiny(tree.draft_prob[row]);
      say(node.note, [drafted, told === null ? "" : "p " + tiny(told)].filter(Boolean).join("  "));
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
    view.links.forEach((link, i) => put(link, "data-lit", Boolean(light) && (i === light.row || light.above.includes(i))));
    put(view.own, "data-lit", light && light.row === -1 ? "self" : "");
    if (light && light.row !== null) revealRow(view, light.row);
  }

  return { makeTree, drawTree, lightTree };
})();
