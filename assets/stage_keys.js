// The keyboard, while the stage has the focus: which key does what. What it does is others' work.

const SpecVizKeys = (function () {
  // `act` is {move(name), flip(option), explain(lane), showMask(), toggleHelp(), free()};
  // `runOf()` the run that is shown, or null.
  function newKeys(act, runOf) {
    const keys = {
      " ": () => act.move("play"), Home: () => act.move("home"), End: () => act.move("end"),
      ArrowLeft: (event) => act.move(event.shiftKey ? "round_back" : "back"),
      ArrowRight: (event) => act.move(event.shiftKey ? "round_forward" : "forward"),
      r: () => act.move("rejection"), b: () => act.move("best"), m: () => act.showMask(),
      g: () => act.flip("hasGhosts"), i: () => act.flip("hasIds"), t: () => act.flip("hasLost"),
      "?": () => act.toggleHelp(),
    };

    return function onKey(event) {
      if (event.key === "Escape") return act.free();
      const { target } = event;
      const isPress = event.key === " " || event.key === "Enter";
      // The scrub bar goes by phases and rounds, as all else here does.
      const isTaken = !target.matches(".sv-scrub") && (target.closest("input:not([type=checkbox]), select, textarea") !== null ||
        (isPress && target.closest("button, summary, input") !== null));
      const run = runOf();
      if (isTaken || event.ctrlKey || event.altKey || event.metaKey || !run) return undefined;
      const lane = /^[1-9]$/.test(event.key) ? run.lanes[Number(event.key) - 1] : null;
      const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
      const does = lane ? () => act.explain(lane) : keys[name];
      if (!does) return undefined;
      event.preventDefault();
      return does(event);
    };
  }

  // A run that a person opened has the keys. Whoever writes or chooses somewhere, or goes about by
  // keys (Stop stands where Run was pressed), keeps the focus; so does a page that opens a run by itself.
  function takeFocus(root) {
    const { activeElement: held } = document;
    const isBusy = held && held.closest("input:not([type=checkbox]), textarea, select, [contenteditable], dialog, :focus-visible") !== null;
    const { userActivation } = navigator;
    if (!userActivation || !userActivation.hasBeenActive || isBusy || root.contains(held)) return;
    root.focus({ preventScroll: true });
  }

  return { newKeys, takeFocus };
})();
