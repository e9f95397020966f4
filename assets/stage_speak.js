// What is said beside the picture: what is being waited for, what went wrong, and for the ear one
// line a round, each phase a person steps to, and each row that keys come to. It remembers what it said, to say it again in another language.

const SpecVizSpeak = (function () {
  const { tell, say, show, word } = SpecVizDom;
  const { finishedRound } = SpecVizTime;
  const QUIET_MS = 2000; // at most one spoken line in that time while playing

  // `pageOf()` gives the page whose notice, error and spoken lines are written.
  function newSpeaker(pageOf) {
    let told = { error: "", kind: "", notice: null };
    let spokenAt = -Infinity;
    let line = ""; // of a round, said last

    function notice(message, done, total, stage) {
      told.notice = [message, done, total, stage];
      const { notice: box } = pageOf();
      show(box, Boolean(message));
      say(box.firstChild, message ? tell(message) : "");
      const bar = box.lastChild;
      show(bar, Boolean(total) && stage !== "queued");
      if (total) Object.assign(bar, { max: total, value: done });
    }

    function fail(message, kind = "") {
      told = { ...told, error: message, kind };
      const { error } = pageOf();
      show(error, Boolean(message));
      say(error, message ? tell(message) : "");
    }

    function again() {
      if (told.notice) notice(...told.notice);
      fail(told.error, told.kind);
    }

    // The round that ended last, in any lane. `placeIn(lane)` is where the playhead stands in it. `still`:
    // the lane whose phase is told instead where the playhead stands at the end of one; null while it moves.
    function speak(now, run, placeIn, still) {
      if (now - spokenAt < QUIET_MS) return;
      const words = (still && phaseWords(still, placeIn(still))) || roundWords(run, placeIn);
      if (line === words) return;
      spokenAt = now;
      line = words;
      say(pageOf().spoken, words);
    }

    function phaseWords(lane, place) {
      const isTold = place && place.part === 1 && (place.phase === "draft" || place.phase === "verify");
      const { round } = place || {};
      return isTold ? tell(lane.info.title) + ". " + word("stage.said." + place.phase,
        { round: place.index + 1, n: place.phase === "draft" ? round.num_drafted : round.rows_written }) : "";
    }

    function roundWords(run, placeIn) {
      let last = null;
      for (const lane of run.lanes) {
        const round = finishedRound(lane, placeIn(lane));
        if (round && (!last || round.at[3] > last.round.at[3])) last = { lane, round };
      }
      return last ? tell(last.lane.info.title) + ". " + tell(last.round.sentence) : "";
    }

    return {
      notice, fail, again, speak,
      row: (words) => say(pageOf().spoken, words),
      closeGap: () => told.kind === "gap" && fail(""), // what was missing has come
      hasten() {
        spokenAt = -Infinity; // a step is told at once
      },
    };
  }

  return { newSpeaker };
})();
