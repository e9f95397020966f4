// When to paint: once a frame while something moves, a few times a second while a live run sends,
// at once for what a person does. It knows neither the run nor what is painted.

const SpecVizClock = (function () {
  // A live run on the same processor is slowed down by each painting: painting gets a small share of
  // the time, whatever a frame costs here, and never more than a few a second.
  const LIVE_SHARE = 1 / 20;
  const LIVE_PAINT_MS = 300;
  const MAX_LIVE_PAINT_MS = 2000;
  const MAX_STEP_SECONDS = 0.25; // a frame that came late moves the playhead no further than that

  // `paint(now, elapsed)` says whether it wants another frame; `isThrottled()` whether a live run
  // is to be spared.
  function newClock(paint, isThrottled) {
    const cost = { paints: 0, ms: 0 }; // of painting, for tests of it
    let frame = 0;
    let timer = 0;
    let lastTick = 0;
    let paintedAt = -Infinity;
    let livePause = LIVE_PAINT_MS;

    function tick(now) {
      frame = 0;
      paintedAt = performance.now();
      const elapsed = lastTick ? Math.min((now - lastTick) / 1000, MAX_STEP_SECONDS) : 0;
      const isMoving = paint(now, elapsed);
      cost.paints += 1;
      cost.ms += performance.now() - paintedAt;
      lastTick = isMoving ? now : 0;
      if (isThrottled()) requestAnimationFrame(spare);
      if (isMoving) wake();
    }

    // The frame after a painting begins when the browser is done with it: layout and pixels, which
    // `cost` does not see.
    function spare() {
      const took = performance.now() - paintedAt;
      livePause = Math.min(Math.max(took / LIVE_SHARE, LIVE_PAINT_MS), MAX_LIVE_PAINT_MS);
    }

    function wake(isUrgent) {
      if (frame) return;
      const wait = isThrottled() && !isUrgent ? paintedAt + livePause - performance.now() : 0;
      if (wait <= 0) {
        clearTimeout(timer);
        timer = 0;
        frame = requestAnimationFrame(tick);
      } else if (!timer) {
        timer = setTimeout(() => {
          timer = 0;
          if (!frame) frame = requestAnimationFrame(tick);
        }, wait);
      }
    }

    function stop() {
      cancelAnimationFrame(frame);
      clearTimeout(timer);
    }

    return { wake, stop, cost };
  }

  return { newClock };
})();
