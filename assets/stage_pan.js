// Zoom and pan of a tree that is larger than its box, and the tree as a picture of its own. The
// picture moves, never the page: no wheel is heard.

const SpecVizPan = (function () {
  const { clamp } = SpecVizRun;
  const { put, show, svg } = SpecVizDom;
  const { NODE, leftOf, lineY } = SpecVizNode;
  const INLINED = ["display", "visibility", "fill", "stroke", "stroke-width", "stroke-dasharray", "opacity",
    "font-family", "font-size", "font-weight"];
  const CAPTION = { height: 30, char: 7.2 };
  const NARROW = 480; // a box as wide as a phone
  const READABLE = 0.9; // makes letters of a node, which are 11.3 pixels, ten high
  const ZOOMS = [0.4, 0.5, 0.65, 0.8, 1, 1.25, 1.5];

  // The whole tree; in a narrow box its width, as far as letters can be read: the rest is dragged.
  function fitted({ room, size }) {
    const [across, down] = room.map((side, i) => side / size[i]);
    return room[0] < NARROW ? clamp(across, READABLE, 1) : Math.min(1, across, down);
  }

  function sizeTree(view) {
    const [w, h] = view.size;
    const scale = view.scale === "fit" ? fitted(view) : view.scale || 1;
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
    // Who makes it larger by a finger wants to move it next.
    const hold = (event) => event.pointerType === "touch" && view.root.focus({ preventScroll: true });
    const step = (by, event) => {
      hold(event);
      const at = ZOOMS.findIndex((zoom) => zoom >= view.shownScale - 0.01);
      view.scale = ZOOMS[clamp(at + by, 0, ZOOMS.length - 1)];
      sizeTree(view);
    };
    view.zoom.out.addEventListener("click", (event) => step(-1, event));
    view.zoom.into.addEventListener("click", (event) => step(1, event));
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
      // Up and down belongs to the page until the tree was tapped (its style sheet says the same).
      const isOwn = event.pointerType !== "touch" || document.activeElement === view.root;
      if (view.isDragged) panTo(view, from.left - dx, from.top - (isOwn ? dy : 0));
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

  // The tree as a drawing of its own, at full size, with a line below that says what it is: every
  // style that matters stands in it.
  function pictureOf(view, caption) {
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
    const [width, height] = [Math.max(view.size[0], caption.length * CAPTION.char + NODE.pad * 2), view.size[1] + CAPTION.height];
    put(copy, "width", width);
    put(copy, "height", height);
    put(copy, "viewBox", "0 0 " + width + " " + height);
    const style = getComputedStyle(view.root.closest(".sv-lane"));
    const line = svg("text", { x: NODE.pad, y: height - 9, fill: style.color, "font-size": 12, "font-family": style.fontFamily });
    line.textContent = caption;
    copy.append(line);
    copy.style.background = getComputedStyle(view.root.closest(".sv-lane")).backgroundColor;
    return copy;
  }

  return { sizeTree, listenZoom, followPath, revealRow, pictureOf };
})();
