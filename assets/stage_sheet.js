// The card of a decision as a sheet at the lower edge of a narrow screen, where its place in the page
// lies below what was tapped. It takes the card out of the page and puts it back.

const SpecVizSheet = (function () {
  const { word, el, button } = SpecVizDom;
  const UNDER = 34; // what stays free below a finger: half the height of a node, and its marks
  const HELD = ".sv-treebox, .sv-strip, .sv-source, .sv-mask"; // what a tap may keep something of

  // `root` is the stage, `card` the element of its card; `close()` frees what is kept.
  function newSheet(root, card, close) {
    const shut = button("cross", word("stage.close_card"));
    const body = el("div", "sv-sheetbody");
    const sheet = el("section", "sv-sheet", shut, body);
    const room = el("div", ""); // holds the card's place in the page
    let tap = null; // { node, top, y }: what was tapped, where it stood, where the finger was
    sheet.popover = "manual"; // above all else, and placed by the screen, whatever stands around the stage
    sheet.setAttribute("aria-label", word("stage.card"));
    shut.addEventListener("click", close);
    root.addEventListener("click", (event) => {
      const node = event.target.closest(HELD);
      if (node) tap = { node, top: node.getBoundingClientRect().top, y: event.clientY };
    }, true);

    function open() {
      room.style.height = card.offsetHeight + "px";
      card.replaceWith(room);
      body.append(card);
      body.scrollTop = 0;
      root.append(sheet);
      sheet.showPopover();
    }

    function shutDown() {
      room.replaceWith(card);
      sheet.remove();
    }

    // What was tapped stays under the finger, though its lane may move up in the page and its tree
    // grow; what the sheet would cover comes out from behind it.
    function keepPlace({ node, top, y }) {
      const moved = node.getBoundingClientRect().top - top;
      if (moved) window.scrollBy({ top: moved, behavior: "instant" });
      const covered = y + UNDER - sheet.getBoundingClientRect().top;
      if (covered > 0) window.scrollBy({ top: covered });
    }

    // After each drawing: whether the sheet is to be open.
    return function draw(isOn) {
      if (isOn !== sheet.isConnected) (isOn ? open : shutDown)();
      root.toggleAttribute("data-sheet", isOn);
      if (isOn && tap) keepPlace(tap);
      tap = null;
    };
  }

  return { newSheet };
})();
