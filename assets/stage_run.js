// A run as it came in, and where a playhead stands in it. It is given items (the contract stands
// in specviz/views/stage.py) and answers what there is at a moment; it draws nothing, and knows
// no rule of decoding: every number and every status comes in an item. A plain script without
// imports, like the two that follow it: stage_paint.js draws, stage.js plays.

const SpecVizRun = (function () {
  function clamp(value, low, high) {
    return Math.min(high, Math.max(low, value));
  }

  // ---- Store: what has come in -------------------------------------------------------------

  function newRun(envelope) {
    return {
      id: envelope.run, source: envelope.source, label: envelope.label, start: null, lanes: [],
      byNumber: new Map(), nextSeq: 0, held: new Map(), isEnded: false, interrupted: "",
    };
  }

  function newLane(item) {
    return {
      info: item, rounds: [], tokens: [], versus: [], end: null,
      maxHeight: 1, maxRows: 1, maxWidth: 2, hasBlock: false,
    };
  }

  function addRound(lane, item) {
    const previous = lane.rounds[lane.rounds.length - 1];
    item.firstToken = previous ? previous.firstToken + previous.new.text.length : 0;
    lane.rounds.push(item);
    item.new.text.forEach((text, i) => {
      lane.tokens.push({ text, origin: item.new.origin[i], index: lane.rounds.length - 1 });
    });
    lane.maxHeight = Math.max(lane.maxHeight, item.tree.height);
    lane.maxRows = Math.max(lane.maxRows, item.tree.x.length);
    lane.maxWidth = Math.max(lane.maxWidth, item.tree.width);
    lane.hasBlock = lane.hasBlock || item.tree.lookahead_y !== null;
  }

  // A comparison counts from the moment both of its lanes have come that far.
  function addVersus(run, versus, time) {
    for (const key in versus) {
      const entries = run.byNumber.get(Number(key)).versus;
      const before = entries.length ? entries[entries.length - 1].time : 0;
      entries.push({ time: Math.max(time, before), value: versus[key] });
    }
  }

  function addItem(run, item) {
    if (item.kind === "start") run.start = item;
    if (item.kind === "lane") {
      const lane = newLane(item);
      run.lanes.push(lane);
      run.byNumber.set(item.lane, lane);
    }
    if (item.kind === "round") {
      addRound(run.byNumber.get(item.lane), item);
      addVersus(run, item.versus, item.at[3]);
    }
    if (item.kind === "lane_end") run.byNumber.get(item.lane).end = item;
    if (item.kind === "end") {
      run.isEnded = true;
      addVersus(run, item.versus, 0);
    }
  }

  // ---- Where the playhead stands -----------------------------------------------------------

  // Index of the first of `count` for which `test` holds; `count` if none. Tests are monotone.
  function firstWhere(count, test) {
    let low = 0;
    let high = count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (test(middle)) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  function lastEnd(lane) {
    return lane.rounds.length ? lane.rounds[lane.rounds.length - 1].at[3] : 0;
  }

  function runEnd(run) {
    return run.lanes.reduce((time, lane) => Math.max(time, lastEnd(lane)), 0);
  }

  // As far as every lane that is still at work is known.
  function knownTime(run) {
    const open = run.lanes.filter((lane) => !lane.end && lane.rounds.length);
    if (run.isEnded || !open.length) return runEnd(run);
    return Math.min(...open.map(lastEnd));
  }

  // The round under the playhead, its phase and how far the phase is; null before any round.
  function placeOf(lane, time) {
    if (!lane.rounds.length) return null;
    const found = firstWhere(lane.rounds.length, (i) => lane.rounds[i].at[3] >= time);
    const index = Math.min(found, lane.rounds.length - 1);
    const round = lane.rounds[index];
    const [start, drafted, verified, end] = round.at;
    const within = (from, to) => (to > from ? clamp((time - from) / (to - from), 0, 1) : 1);
    const base = { index, round };
    if (time >= end) return { ...base, phase: "done", part: 1 };
    if (time >= verified) return { ...base, phase: "commit", part: within(verified, end) };
    if (time >= drafted) return { ...base, phase: "verify", part: within(drafted, verified) };
    return { ...base, phase: "draft", part: within(start, drafted) };
  }

  function tokensShown(place) {
    if (!place) return 0;
    const count = place.round.new.text.length;
    const fresh = { done: count, commit: Math.floor(place.part * (count + 1)) }[place.phase] || 0;
    return place.round.firstToken + Math.min(fresh, count);
  }

  // The last finished round: counters stand still while a round is under way.
  function finishedRound(lane, place) {
    if (!place) return null;
    return place.phase === "done" ? place.round : lane.rounds[place.index - 1] || null;
  }

  function versusAt(lane, time) {
    const found = firstWhere(lane.versus.length, (i) => lane.versus[i].time > time);
    return found ? lane.versus[found - 1].value : null;
  }

  function nextEnd(lanes, time) {
    let best = null;
    for (const lane of lanes) {
      const i = firstWhere(lane.rounds.length, (k) => lane.rounds[k].at[3] > time);
      if (i < lane.rounds.length && (best === null || lane.rounds[i].at[3] < best)) {
        best = lane.rounds[i].at[3];
      }
    }
    return best;
  }

  function previousEnd(lanes, time) {
    let best = 0;
    for (const lane of lanes) {
      const i = firstWhere(lane.rounds.length, (k) => lane.rounds[k].at[3] >= time);
      if (i > 0) best = Math.max(best, lane.rounds[i - 1].at[3]);
    }
    return best;
  }

  function draftingLanes(run) {
    const drafting = run.lanes.filter((lane) => !lane.info.is_plain);
    return drafting.length ? drafting : run.lanes;
  }

  // What a row looks like at a place: its status once the walk got there, a stage before.
  function lookOf(place, row) {
    const { round, phase, part } = place;
    const tree = round.tree;
    const status = tree.status[row];
    if (row === 0) return "root";
    if (phase === "draft") {
      const depth = tree.depth[row];
      const isOut = part * Math.max(...tree.depth) >= depth - 0.5;
      return isOut ? (status === "lookahead" ? "lookahead" : "pending") : "hidden";
    }
    if (status === "lookahead") return "lookahead";
    if (phase === "verify") return "checking";
    if (phase === "done") return status;
    const isTold = status !== "unreached" && walked(place) >= tree.depth[row];
    return isTold ? status : "pending";
  }

  // How deep the commit walk has come: the path's depths, then the target's own token.
  function walked(place) {
    return place.part * (place.round.num_accepted + 2);
  }

  function isNextShown(place) {
    if (!place.round.next) return false;
    if (place.phase === "done") return true;
    return place.phase === "commit" && walked(place) >= place.round.num_accepted + 1;
  }

  return {
    clamp, newRun, addItem, firstWhere, lastEnd, runEnd, knownTime, placeOf, tokensShown,
    finishedRound, versusAt, nextEnd, previousEnd, draftingLanes, lookOf, isNextShown,
  };
})();
