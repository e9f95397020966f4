// Where a playhead stands in a run: axes, places within a round, stops to step to, and what a row
// looks like there. Pure functions of (items, position); nothing is drawn and nothing is decided.

const SpecVizTime = (function () {
  const { clamp, firstWhere, lastEnd, runEnd, draftingLanes } = SpecVizRun;
  const AXES = ["time", "passes", "tokens"];

  // ---- Axes: a position is seconds, target passes or tokens; each lane has its time there ----

  function lengthOf(lane, axis) {
    if (axis === "passes") return lane.rounds.length;
    if (axis === "tokens") return lane.tokens.length;
    return lastEnd(lane);
  }

  function axisEnd(run, axis) {
    return run.lanes.reduce((end, lane) => Math.max(end, lengthOf(lane, axis)), 0);
  }

  // Each round covers a stretch of the axis: [from, to].
  function stretch(lane, index, axis) {
    const round = lane.rounds[index];
    if (axis === "passes") return [index, index + 1];
    if (axis === "tokens") return [round.firstToken, round.firstToken + round.new.text.length];
    return [round.at[0], round.at[3]];
  }

  function timeAt(lane, axis, position) {
    if (axis === "time" || !lane.rounds.length) return position;
    const count = lane.rounds.length;
    const index = firstWhere(count, (i) => stretch(lane, i, axis)[1] >= position);
    if (index === count) return lastEnd(lane);
    const [from, to] = stretch(lane, index, axis);
    const { at } = lane.rounds[index];
    if (position >= to) return at[3];
    return at[0] + clamp((position - from) / (to - from || 1), 0, 1) * (at[3] - at[0]);
  }

  function positionAt(lane, axis, time) {
    if (axis === "time" || !lane.rounds.length) return time;
    const count = lane.rounds.length;
    const index = firstWhere(count, (i) => lane.rounds[i].at[3] >= time);
    if (index === count) return lengthOf(lane, axis);
    const [from, to] = stretch(lane, index, axis);
    const { at } = lane.rounds[index];
    if (time >= at[3]) return to;
    return from + clamp((time - at[0]) / (at[3] - at[0] || 1), 0, 1) * (to - from);
  }

  // ---- Places: the round under the playhead, its phase and how far the phase is ------------

  function placeOf(lane, time) {
    if (!lane.rounds.length) return null;
    const found = firstWhere(lane.rounds.length, (i) => lane.rounds[i].at[3] >= time);
    const index = Math.min(found, lane.rounds.length - 1);
    const round = lane.rounds[index];
    const [start, drafted, verified, end] = round.at;
    const within = (from, to) => (to > from ? clamp((time - from) / (to - from), 0, 1) : 1);
    const base = { index, round, seconds: clamp(time - start, 0, end - start) };
    if (time >= end) return { ...base, phase: "done", part: 1 };
    if (time <= drafted) return { ...base, phase: "draft", part: within(start, drafted) };
    if (time <= verified) return { ...base, phase: "verify", part: within(drafted, verified) };
    return { ...base, phase: "commit", part: within(verified, end) };
  }

  // The target's pass is over: its numbers are there.
  function isRead(place) {
    return place.phase === "done" || place.phase === "commit" ||
      (place.phase === "verify" && place.part === 1);
  }

  function isTold(place) {
    return place.phase === "done" || place.phase === "commit";
  }

  function passesAt(place) {
    return place ? place.index + (isRead(place) ? 1 : 0) : 0;
  }

  function freshTokens(place) {
    const count = place.round.new.text.length;
    if (place.phase === "done") return count;
    return place.phase === "commit" ? Math.min(count, Math.floor(place.part * (count + 1))) : 0;
  }

  function tokensShown(place) {
    return place ? place.round.firstToken + freshTokens(place) : 0;
  }

  function entriesShown(lane, place) {
    if (!place) return 0;
    const fresh = freshTokens(place);
    const { firstEntry, num_accepted: kept, lost_rows: lost, new: made } = place.round;
    const isWhole = fresh === made.text.length;
    return firstEntry + fresh + (isWhole || fresh > kept ? lost.length : 0);
  }

  // The last finished round: counters stand still while a round is under way.
  function finishedRound(lane, place) {
    if (!place) return null;
    return place.phase === "done" ? place.round : lane.rounds[place.index - 1] || null;
  }

  // Which lane it was to finish, counted from 1, once the playhead is there; 0 before, or if it never did.
  function rankShown(run, lane, place) {
    const isOver = place && place.index === lane.rounds.length - 1 && place.phase === "done";
    return isOver ? run.finish.findIndex((one) => one.lane === lane.info.lane) + 1 : 0;
  }

  // ---- Stops: moments to step to, on one lane's clock --------------------------------------

  function stopsOf(round) {
    const [start, drafted, verified, end] = round.at;
    const stops = round.outcome === "plain" ? [verified, end] : [drafted, verified, end];
    if (round.draft.num_pruned) stops.unshift(start + round.draft.grown_at);
    return stops.filter((stop, i) => stop > start && (i === 0 || stop > stops[i - 1]));
  }

  function nextStop(lane, time) {
    const place = placeOf(lane, time);
    if (!place) return null;
    for (let i = place.index; i < Math.min(place.index + 2, lane.rounds.length); i += 1) {
      const stop = stopsOf(lane.rounds[i]).find((moment) => moment > time);
      if (stop !== undefined) return stop;
    }
    return null;
  }

  function previousStop(lane, time) {
    const place = placeOf(lane, time);
    if (!place) return 0;
    for (let i = place.index; i >= Math.max(place.index - 1, 0); i -= 1) {
      const stop = stopsOf(lane.rounds[i]).filter((moment) => moment < time).pop();
      if (stop !== undefined) return stop;
    }
    return 0;
  }

  function nextEnd(lane, time) {
    const i = firstWhere(lane.rounds.length, (k) => lane.rounds[k].at[3] > time);
    return i < lane.rounds.length ? lane.rounds[i].at[3] : null;
  }

  function previousEnd(lane, time) {
    const i = firstWhere(lane.rounds.length, (k) => lane.rounds[k].at[3] >= time);
    return i > 0 ? lane.rounds[i - 1].at[3] : 0;
  }

  // End of the next round whose draft was refused at some point, wrapping round once.
  function nextRejection(lane, time) {
    const first = firstWhere(lane.rounds.length, (k) => lane.rounds[k].at[3] > time);
    const turned = [...lane.rounds.slice(first), ...lane.rounds.slice(0, first)];
    const found = turned.find((round) => round.outcome === "some" || round.outcome === "none");
    return found ? found.at[3] : null;
  }

  // The end of the first round to end in any lane that drafts, after `time`.
  function nextEndOfAny(run, time) {
    const ends = draftingLanes(run).map((lane) => nextEnd(lane, time)).filter((end) => end !== null);
    return ends.length ? Math.min(...ends) : null;
  }

  // ---- Looks: a row's status once the walk got there, a stage before ------------------------

  const isBorn = (place, born) => place.part >= 1 || born <= place.seconds;

  function lookOf(place, row) {
    const { round, phase } = place;
    const { tree } = round;
    const status = tree.status[row];
    if (row === 0) return "root";
    if (phase === "draft" && !isBorn(place, round.draft.born[row])) return "hidden";
    if (status === "lookahead") return "lookahead";
    if (phase === "draft") return "pending";
    if (phase === "verify") return place.part < 1 ? "checking" : "checked";
    if (phase === "done") return status;
    return status !== "unreached" && walked(place) >= tree.depth[row] ? status : "checked";
  }

  // A pruned candidate: hidden, a candidate like any other until the cut, then a ghost.
  function ghostLook(place, ghost) {
    if (place.phase !== "draft" || place.part >= 1) return "ghost";
    return isBorn(place, ghost.born) ? "pending" : "hidden";
  }

  // Between the last pass of the drafter and the cut, all candidates are ranked.
  function isRanking(place) {
    return place.phase === "draft" && place.part < 1 && place.round.draft.num_pruned > 0 &&
      place.seconds >= place.round.draft.grown_at;
  }

  // How deep the commit walk has come: the path's depths, then the target's own token.
  function walked(place) {
    return Math.floor(place.part * (place.round.num_accepted + 2));
  }

  function ownLook(place) {
    if (!place.round.next) return "hidden";
    if (place.phase === "done") return place.round.next.kind;
    const isShown = place.phase === "commit" && walked(place) >= place.round.num_accepted + 1;
    return isShown ? place.round.next.kind : "hidden";
  }

  // What a place looks like changes only when this does.
  function lookKey(place) {
    const { round, phase, part } = place;
    if (phase === "commit") return phase + walked(place);
    if (phase !== "draft") return phase + (part === 1);
    if (part >= 1) return "drafted";
    const born = round.draft.born.filter((moment) => moment <= place.seconds).length;
    const ghosts = round.draft.ghosts.filter((ghost) => ghost.born <= place.seconds).length;
    return phase + born + "," + ghosts + isRanking(place);
  }

  return {
    AXES, axisEnd, stretch, timeAt, positionAt, placeOf, isRead, isTold, passesAt, tokensShown,
    entriesShown, finishedRound, rankShown, nextStop, previousStop, nextEnd, previousEnd, nextRejection,
    nextEndOfAny, lookOf, ghostLook, isRanking, walked, ownLook, lookKey, runEnd,
  };
})();
