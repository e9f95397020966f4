// What a word means, told beside it in a small box: when it is pointed at for a moment, reached by
// Tab, pressed or tapped. Esc, or a press elsewhere, closes it and is otherwise not touched. A term is
// a button for nothing else; a control that has words of this kind goes on doing what it does.

const SpecVizTerm = (function () {
  const { clamp } = SpecVizRun;
  const { el, put, say } = SpecVizDom;
  const [PAUSE_MS, EDGE, GAP] = [350, 8, 8];
  const box = el("div", "sv-meaning"); // one for all: only one is open
  Object.assign(box, { id: "sv-meaning", popover: "manual", role: "tooltip" });
  let now = null; // the open one: { node, how: "hover" | "focus" | "press" }
  let timer = 0;
  let isFinger = false; // what pressed last

  // A word that says what it means.
  function term(name, text, means, ...more) {
    const node = el("button", "sv-term " + name, text, ...more);
    node.type = "button";
    put(node, "aria-expanded", false);
    return explain(node, means);
  }

  // Words for any element that can be reached by Tab, or for the label of one. Gives the element.
  function explain(node, means) {
    put(node, "data-means", means);
    return node;
  }

  const termOf = (event) => event.target.closest("[data-means]");
  const controlOf = (node) => node.control || node; // of a label, what it is the label of
  const isTerm = (node) => node.matches(".sv-term");

  function open(node, how) {
    close();
    now = { node, how };
    say(box, node.dataset.means);
    node.after(box); // goes with the word, if that goes
    box.showPopover();
    place(node.getBoundingClientRect());
    put(controlOf(node), "aria-describedby", box.id);
    if (isTerm(node)) put(node, "aria-expanded", true);
    document.addEventListener("pointerdown", onPressElsewhere, true);
    document.addEventListener("keydown", onEscape, true);
  }

  // In the page's own places, so that it moves with the page; below the word if there is room.
  function place(at) {
    const { clientWidth: wide, clientHeight: high } = document.documentElement;
    const [width, height] = [box.offsetWidth, box.offsetHeight];
    const isBelow = at.bottom + GAP + height < high || at.top < height + GAP;
    box.style.left = window.scrollX + clamp(at.left, EDGE, Math.max(EDGE, wide - width - EDGE)) + "px";
    box.style.top = window.scrollY + (isBelow ? at.bottom + GAP : at.top - height - GAP) + "px";
  }

  function close() {
    clearTimeout(timer);
    if (!now) return;
    const { node } = now;
    now = null;
    controlOf(node).removeAttribute("aria-describedby");
    if (isTerm(node)) put(node, "aria-expanded", false);
    box.remove();
    document.removeEventListener("pointerdown", onPressElsewhere, true);
    document.removeEventListener("keydown", onEscape, true);
  }

  function onPressElsewhere(event) {
    if (!now.node.contains(event.target) && !box.contains(event.target)) close();
  }

  // Only the box: what is pinned stays until the next Esc.
  function onEscape(event) {
    if (event.key !== "Escape") return;
    close();
    event.stopPropagation();
  }

  function onHover(event) {
    if (event.pointerType !== "mouse" || (now && now.how !== "hover")) return;
    const node = termOf(event);
    clearTimeout(timer);
    if (now && (node === now.node || box.contains(event.target))) return;
    if (node) timer = setTimeout(open, PAUSE_MS, node, "hover");
    else if (now) timer = setTimeout(close, PAUSE_MS); // there is time to come to the box
  }

  // A mouse and the keys have shown a control's words before it is pressed; a finger has not.
  function onClick(event) {
    const node = termOf(event);
    if (!node || (node.control && event.target !== node.control)) return; // a label passes its click on
    if (now && now.node === node && now.how === "press") close();
    else if (isTerm(node) || isFinger) open(node, "press");
    else close();
  }

  function onFocus(event) {
    const node = termOf(event);
    if (node && event.target.matches(":focus-visible")) open(node, "focus");
  }

  function onBlur(event) {
    if (now && now.how !== "hover" && now.node.contains(event.target)) close();
  }

  // Words that stand in many places are one stop for Tab: the first that is to be seen.
  function onTab(event) {
    if (event.key !== "Tab") return;
    const said = new Set();
    for (const node of event.currentTarget.querySelectorAll(".sv-term")) {
      const isFirst = !said.has(node.dataset.means) && node.checkVisibility();
      if (isFirst) said.add(node.dataset.means);
      node.tabIndex = isFirst ? 0 : -1;
    }
  }

  // All terms within `root`, whenever they come.
  function listenTerms(root) {
    root.addEventListener("pointerdown", (event) => { isFinger = event.pointerType === "touch"; }, true);
    root.addEventListener("pointerover", onHover);
    root.addEventListener("pointerleave", () => {
      clearTimeout(timer);
      if (now && now.how === "hover") timer = setTimeout(close, PAUSE_MS);
    });
    root.addEventListener("click", onClick);
    root.addEventListener("focusin", onFocus);
    root.addEventListener("focusout", onBlur);
    root.addEventListener("keydown", onTab, true);
  }

  return { term, explain, listenTerms };
})();
