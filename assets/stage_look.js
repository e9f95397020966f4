// What is looked at, told after each drawing to whoever teaches beside the stage. It tells and
// decides nothing; who hears it reads and changes nothing but through the stage.

const SpecVizLook = (function () {
  const { placeOf } = SpecVizTime;

  // A hearer is given {run, lane, place, pin, isPlaying, timeOf}: the lane that steps go by, the place in
  // it (null before its first round) and the pinned {lane, index, row, column} or null.
  function newLook() {
    const hearers = new Set();
    return {
      listen(hear) {
        hearers.add(hear);
        return () => hearers.delete(hear);
      },
      tell({ run, lead, selection, player }, timeOf) {
        if (!hearers.size || !lead) return;
        const view = { run, lane: lead, place: placeOf(lead, timeOf(lead)), pin: selection.pin,
          isPlaying: player.isPlaying, timeOf };
        for (const hear of hearers) hear(view);
      },
    };
  }

  return { newLook };
})();
