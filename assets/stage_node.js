// The boxes and lines that a tree is made of, where a cell of its layout lies, and how a status looks.

const SpecVizNode = (function () {
  const { MARKS, svg, put, say, markPath, fit } = SpecVizDom;
  const NODE = { height: 24, line: 42, pad: 12, minPitch: 78, maxPitch: 132, gap: 18, top: 6 };
  const CHAR = 6.8; // width of a monospaced character at the size of node texts

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

  return { NODE, makeNode, placeNode, lookNode, leftOf, lineY, linkPath };
})();
