// Where the focus goes when Stop takes the place of Run, and Run that of Stop. It knows no run.

// Whoever pressed Run with a key finds Stop under the same key; a click leaves the keys to the stage.
function makeFocus() {
  const WAIT_MS = 400; // the second half of a double click, or a key held down, must not press Stop
  const at = (name) => document.querySelector("#specviz-" + name);
  let isByKey = false;

  return {
    runPressed() {
      const stop = at("stop");
      isByKey = Boolean(document.activeElement?.matches("#specviz-run:focus-visible"));
      stop.disabled = true;
      setTimeout(() => {
        stop.disabled = false;
        if (isByKey || document.activeElement === document.body) stop.focus({ preventScroll: true });
      }, WAIT_MS);
    },
    // The stage takes the focus when its run begins.
    runBegun() {
      if (isByKey) at("stop").focus({ preventScroll: true });
    },
    // `isStopFocused` as it was before Stop was hidden.
    runEnded(isStopFocused) {
      isByKey = false;
      if (isStopFocused) at("run").focus({ preventScroll: true });
    },
    isOnStop: () => document.activeElement === at("stop"),
  };
}
