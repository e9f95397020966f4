// A method's parts as a drawing of ours, and through it the round that is looked at: what was drafted,
// how many rows the one pass read, what was kept. Positions are in units of the drawing.

const SpecVizDrawing = (function () {
  const { word, svg, put, say } = SpecVizDom;
  const { lookOf, ghostLook, isTold } = SpecVizTime;
  const SIZE = { width: 340, height: 250 };
  const TARGET = { x: 8, y: 12, w: 108, h: 146 };
  const TREE = { x: 176, y: 112, w: 132, h: 62 };
  const TEXT = { x: 8, y: 212, w: 324, h: 28 };
  const LAYERS = 6;
  const [LETTER, ROOM] = [6.1, 310]; // of the text's strip

  // [x, y, width, height, kind, name]: what drafts, above the draft. Kinds: "drafter", "target" (a part
  // of the target's that the drafter uses) and "store" (what is looked up).
  const BOXES = {
    autoregressive: [],
    draft_model: [[176, 24, 132, 54, "drafter", "small"]],
    prompt_lookup: [[176, 12, 132, 66, "store", "search"]],
    lookahead: [[176, 12, 62, 66, "drafter", "window"], [246, 12, 62, 66, "store", "pool"]],
    medusa: [...[0, 1, 2, 3].map((i) => [176 + i * 34, 42, 30, 36, "drafter", "head" + (i + 1)]), [176, 12, 132, 22, "target", "lm_head"]],
    mtp: [[176, 42, 132, 36, "drafter", "module"], [176, 12, 132, 22, "target", "lm_head"]],
    eagle: [[176, 42, 132, 36, "drafter", "layer"], [176, 12, 132, 22, "target", "lm_head"]],
    eagle2: [[176, 42, 84, 36, "drafter", "layer"], [268, 42, 40, 36, "drafter", "score"], [176, 12, 132, 22, "target", "lm_head"]],
    eagle3: [[154, 12, 22, 66, "drafter", "fuse"], [186, 42, 122, 36, "drafter", "layer"], [186, 12, 122, 22, "drafter", "own_head"]],
  };
  // [height in the target at which a drafter taps its states, height at which that line ends].
  const TAPS = { medusa: [[42, 60]], mtp: [[42, 60]], eagle: [[42, 60]], eagle2: [[42, 60]],
    eagle3: [[58, 26], [90, 45], [122, 64]], lookahead: [[26, 40]] };
  const LOOPS = new Set(["draft_model", "mtp", "eagle", "eagle2", "eagle3"]); // they read what they wrote
  const READS_TEXT = new Set(["draft_model", "prompt_lookup", "lookahead", "mtp", "eagle", "eagle2", "eagle3"]);

  function box([x, y, w, h, kind, name]) {
    const words = word("method.box." + name).split("/");
    const middle = y + h / 2 + 3.5 - (words.length - 1) * 6;
    return svg("g", { class: "svd-box", "data-kind": kind, "data-part": "draft" },
      svg("rect", { x, y, width: w, height: h, rx: 5 }),
      ...words.map((text, i) => {
        const label = svg("text", { x: x + w / 2, y: middle + i * 12, "text-anchor": "middle" });
        label.textContent = text;
        return label;
      }));
  }

  function arrow(part, d, label) {
    const line = svg("path", { d, class: "svd-line" });
    const words = svg("text", { ...label, class: "svd-label" });
    return { words, root: svg("g", { class: "svd-arrow", "data-part": part }, line, words) };
  }

  // The head of an arrow that ends at (x, y), pointing "left", "right", "up" or "down".
  function tip(x, y, way) {
    const [dx, dy] = { left: [1, 0], right: [-1, 0], up: [0, 1], down: [0, -1] }[way];
    const side = (sign) => (x + dx * 6 + sign * dy * 4) + " " + (y + dy * 6 + sign * dx * 4);
    return " M" + side(1) + " L" + x + " " + y + " L" + side(-1);
  }

  function targetBox(name) {
    const { x, y, w, h } = TARGET;
    const label = svg("text", { x: x + w / 2, y: y + h - 8, "text-anchor": "middle", class: "svd-strong" });
    label.textContent = word(name === "mtp" ? "method.box.tuned" : "method.box.target");
    const bars = Array.from({ length: LAYERS }, (_, i) => svg("rect", { x: x + 10, y: y + 26 + i * 16, width: w - 20, height: 9, rx: 2, class: "svd-layer" }));
    const head = svg("text", { x: x + w / 2, y: y + 17, "text-anchor": "middle" });
    head.textContent = word("method.box.target_head");
    return svg("g", { class: "svd-box", "data-kind": "target", "data-part": "verify" },
      svg("rect", { x, y, width: w, height: h, rx: 6 }), head, ...bars, label);
  }

  function tapLines(name) {
    const end = name === "eagle3" ? 154 : 176;
    const from = TARGET.x + TARGET.w;
    return (TAPS[name] || []).map(([y, to]) => svg("path", { class: "svd-tap",
      d: "M" + from + " " + y + " C" + (from + 20) + " " + y + " " + (end - 20) + " " + to + " " + end + " " + to + tip(end, to, "right") }));
  }

  function makeDrawing(name) {
    const flows = {
      drafted: arrow("draft", "M242 78 V112" + tip(242, 112, "down"), { x: 250, y: 99 }),
      rows: arrow("verify", "M176 143 H116" + tip(116, 143, "left"), { x: 146, y: 136, "text-anchor": "middle" }),
      kept: arrow("commit", "M62 158 V212" + tip(62, 212, "down"), { x: 70, y: 190 }),
    };
    const second = svg("text", { x: 146, y: 157, "text-anchor": "middle", class: "svd-label" });
    flows.rows.root.append(second);
    const parts = [targetBox(name), ...(BOXES[name] || []).map(box)];
    const extra = [];
    if (READS_TEXT.has(name)) {
      extra.push(svg("path", { class: "svd-tap", d: "M324 212 V70 H308" + tip(308, 70, "left") }));
    } else if (!(BOXES[name] || []).length) {
      flows.drafted.root.firstChild.setAttribute("d", "M300 212 V174" + tip(300, 174, "up"));
    }
    if (LOOPS.has(name)) extra.push(svg("path", { class: "svd-loop", "data-part": "draft", d: "M308 61 C321 61 321 49 308 49" + tip(308, 49, "left") }));
    const tree = svg("g", { class: "svd-tree" });
    const text = svg("g", { class: "svd-text" });
    const frame = svg("rect", { x: TREE.x, y: TREE.y, width: TREE.w, height: TREE.h, rx: 5, class: "svd-frame", "data-part": "draft" });
    const strip = svg("rect", { x: TEXT.x, y: TEXT.y, width: TEXT.w, height: TEXT.h, rx: 5, class: "svd-frame" });
    const caption = svg("text", { x: TREE.x, y: TREE.y + TREE.h + 13, class: "svd-label" });
    const root = svg("svg", { viewBox: "0 0 " + SIZE.width + " " + SIZE.height, class: "svd", role: "img" },
      ...tapLines(name), ...extra, ...Object.values(flows).map((flow) => flow.root), ...parts, frame, strip, tree, text, caption);
    return { root, flows, second, tree, text, caption, key: "" };
  }

  // Dots of the round's own tree, as far as it has come.
  function drawTree(view, place) {
    const { tree, draft } = place.round;
    const ghosts = draft.ghosts.slice(0, draft.num_best);
    const lines = Math.max(tree.height, ...ghosts.map((ghost) => ghost.y + 1), 1);
    const columns = Math.max(...tree.depth, ...ghosts.map((ghost) => ghost.depth), 1);
    const at = (depth, line) => [TREE.x + 12 + (depth / Math.max(columns, 2)) * (TREE.w - 24),
      TREE.y + 10 + (lines > 1 ? line / (lines - 1) : 0.5) * (TREE.h - 20)];
    const rows = tree.text.map((_, row) => ({ place: at(tree.depth[row], tree.y[row]), parent: tree.parent[row], look: lookOf(place, row) }));
    const pruned = ghosts.map((ghost) => ({ place: at(ghost.depth, ghost.y), parent: ghost.parent, look: ghostLook(place, ghost) }));
    const all = [...rows, ...pruned].filter((one) => one.look !== "hidden");
    const radius = Math.max(1.8, Math.min(4, (TREE.h - 20) / lines / 2));
    const edges = all.filter((one) => one.parent >= 0 && [...rows, ...pruned][one.parent]).map((one) => {
      const [[x, y], [px, py]] = [one.place, [...rows, ...pruned][one.parent].place];
      return svg("path", { d: "M" + px + " " + py + " L" + x + " " + y, "data-look": one.look });
    });
    const dots = all.map(({ place: [cx, cy], look }) => svg("circle", { cx, cy, r: radius, "data-look": look }));
    view.tree.replaceChildren(...edges, ...dots);
  }

  // The root and, once they are told, the tokens that the round added.
  function drawText(view, place) {
    const { tree, new: made } = place.round;
    const told = isTold(place) ? made.text.map((text, i) => [text, typeof made.origin[i] === "number" ? "accepted" : "own"]) : [];
    let x = TEXT.x + 8;
    const shown = [];
    for (const [text, look] of [[tree.text[0], "root"], ...told]) {
      const wide = Math.max(1, text.length) * LETTER + 8;
      if (x + wide > ROOM) break;
      const label = svg("text", { x: x + 4, y: TEXT.y + 18 });
      label.textContent = text;
      shown.push(svg("g", { "data-look": look }, svg("rect", { x, y: TEXT.y + 5, width: wide, height: 18, rx: 3 }), label));
      x += wide + 2;
    }
    view.text.replaceChildren(...shown);
  }

  // `place` null: the drawing without a round. `hasLane`: the run has a lane of this method.
  function drawDrawing(view, title, place, hasLane) {
    const key = [hasLane, place && place.round.round, place && SpecVizTime.lookKey(place), place && place.round.lane, SpecVizWords.language()].join();
    if (view.key === key) return;
    view.key = key;
    put(view.root, "data-phase", place ? place.phase : "");
    const values = place ? { n: place.round.num_drafted, rows: place.round.tree.text.length, kept: place.round.num_accepted,
      round: place.round.round, title } : null;
    say(view.flows.drafted.words, values ? word("method.flow.drafted", values) : "");
    say(view.flows.rows.words, values ? word("method.flow.rows", values) : "");
    say(view.second, word("method.flow.one_pass"));
    say(view.flows.kept.words, values && isTold(place) ? word(place.round.next ? "method.flow.kept" : "method.flow.kept_all", values) : "");
    say(view.caption, values ? word("method.flow.round", values) : word(hasLane ? "method.flow.elsewhere" : "method.flow.none"));
    put(view.root, "aria-label", values ? word("method.flow.said", values) : title);
    if (!place) return;
    drawTree(view, place);
    drawText(view, place);
  }

  return { BOXES, makeDrawing, drawDrawing };
})();
