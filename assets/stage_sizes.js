// How wide the parts are, which lanes are near the screen, and when the colours change: watched
// here, so that painting reads no layout.

const SpecVizSizes = (function () {
  const NARROW = 620; // as in stage_widths.css: one column
  const BESIDE = 1080; // as there: the pane stands beside the lanes, else below them
  const NEAR = "150px"; // so far outside the screen a lane is still painted

  // `changed()` is called when widths or sight changed, `recoloured()` when the page's theme did.
  function newSizes(changed, recoloured) {
    const near = new Set(); // lanes out of sight are not drawn while time moves
    const widthOf = new WeakMap();
    const sizes = { race: 0, lane: 0, scrub: 0, pane: 0, mask: 0, isNarrow: false, isUnder: false };
    const finger = window.matchMedia("(pointer: coarse)");
    let parts = null;

    const sight = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) near[isIntersecting ? "add" : "delete"](target);
      changed();
    }, { rootMargin: NEAR });

    const observer = new ResizeObserver((entries) => {
      const isNew = entries.filter(({ target, contentRect }) => {
        const before = widthOf.get(target);
        widthOf.set(target, contentRect.width);
        return before !== contentRect.width;
      });
      if (isNew.length) measure(); // heights change with every round and matter to nothing
    });

    const recolour = new MutationObserver(recoloured);
    recolour.observe(document.body, { attributes: true, attributeFilter: ["class"] });

    function inner(node) {
      const style = getComputedStyle(node);
      return Math.floor(node.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight));
    }

    function measure() {
      const lane = parts.lanes().find((root) => !root.hidden);
      const width = parts.root.clientWidth;
      Object.assign(sizes, {
        race: Math.floor(parts.race.clientWidth), lane: lane ? inner(lane) : 0,
        scrub: Math.floor(parts.scrub.clientWidth), pane: inner(parts.pane), mask: inner(parts.mask),
        isNarrow: width <= NARROW,
        isUnder: width <= NARROW || (width < BESIDE && finger.matches), // the card is out of sight of what is tapped
      });
      changed();
    }

    // `found` is {root, race, scrub, pane, mask, lanes()}; what was watched before is let go.
    function watch(found) {
      for (const one of [observer, sight]) one.disconnect();
      near.clear();
      parts = found;
      for (const node of [found.root, found.race, found.scrub, found.pane, found.mask]) observer.observe(node);
    }

    function addLane(root) {
      observer.observe(root);
      sight.observe(root);
      near.add(root);
    }

    function dropLane(root) {
      observer.unobserve(root);
      sight.unobserve(root);
      near.delete(root);
    }

    function stop() {
      for (const one of [observer, sight, recolour]) one.disconnect();
    }

    return { sizes, watch, addLane, dropLane, isNear: (root) => near.has(root), stop };
  }

  return { newSizes };
})();
