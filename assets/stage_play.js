// Time: where the playhead stands and how it moves. It follows a live run, plays a known one at a
// pace that can be watched, and steps on the explained lane's clock. It touches no element.

const SpecVizPlay = (function () {
  const { clamp, runEnd, knownTime } = SpecVizRun;
  const { axisEnd, timeAt, positionAt, placeOf, nextStop, previousStop, nextEnd, previousEnd,
    nextRejection, nextEndOfAny } = SpecVizTime;

  const ROUND_SECONDS = 2.4; // how long a round of the explained lane takes on screen at 1x
  const PHASE_SECONDS = 0.8; // the least its draft and its commit take, unless in true time
  const REST_SECONDS = 0.9; // pause after a round, when rounds can be watched
  const RESTABLE_SECONDS = 0.5; // faster rounds than this on screen are not rested after
  const OPENING_ROUNDS = 6; // of a recorded run, at most, before the page waits
  const FOLLOW_SECONDS = 0.12; // how softly the playhead chases a live run

  function newPlayer() {
    return { position: 0, axis: "time", speed: "1", isPlaying: false, isFollowing: false,
      stopAt: null, restUntil: 0, hasOpened: false, halted: null };
  }

  function restart(player, isLive) {
    Object.assign(player, { position: 0, stopAt: null, restUntil: 0, isPlaying: false, halted: null,
      isFollowing: isLive, hasOpened: isLive });
  }

  function pauseAt(player, position) {
    Object.assign(player, { position, isPlaying: false, isFollowing: false, stopAt: null, restUntil: 0, halted: null });
  }

  function leadTime(player, lead) {
    return timeAt(lead, player.axis, player.position);
  }

  // A recorded run opens by itself: some rounds of the explained lane, then it waits for the viewer, at
  // one that shows both a guess that was kept and one that was refused.
  function open(player, run, lane, isCalm) {
    if (player.hasOpened) return;
    if (!lane.rounds.length || !(lane.rounds.length >= OPENING_ROUNDS || run.isEnded)) return;
    player.hasOpened = true;
    const seen = lane.rounds.slice(1, OPENING_ROUNDS);
    const last = seen.find((round) => round.outcome === "some") || seen[0] || lane.rounds[0];
    if (isCalm) player.position = last.at[3];
    else Object.assign(player, { isPlaying: true, stopAt: last.at[3] });
  }

  // Seconds of the explained lane that pass in one on screen.
  function paceOf(player, lead, time) {
    if (player.speed === "true") return 1;
    const place = placeOf(lead, time);
    const factor = Number(player.speed);
    if (!place) return factor;
    const [start, drafted, verified, end] = place.round.at;
    const base = (end - start || 1) / ROUND_SECONDS;
    if (place.round.outcome === "plain") return base * factor;
    // Just after a boundary the next phase begins, so the pace is that of what comes.
    const ahead = time >= end ? null : time < drafted ? drafted - start : time < verified ? null : end - verified;
    return factor * (ahead ? Math.min(base, ahead / PHASE_SECONDS) : base);
  }

  function advance(player, run, lead, elapsed, now, options) {
    const end = axisEnd(run, player.axis);
    if (player.isFollowing) return follow(player, run, lead, elapsed, options);
    if (!player.isPlaying || now < player.restUntil) return undefined;
    if (options.isCalm) {
      const next = nextEndOfAny(run, leadTime(player, lead));
      player.position = next === null ? end : positionAt(lead, player.axis, next);
      player.restUntil = now + REST_SECONDS * 1000;
    } else play(player, run, lead, elapsed, now, options);
    if (player.stopAt !== null && player.position >= player.stopAt) halt(player, lead);
    else if (player.position >= end) {
      player.position = end;
      if (run.isEnded || run.interrupted) player.isPlaying = false;
    }
    return undefined;
  }

  // The opening is over: the viewer is told why nothing moves any more.
  function halt(player, lead) {
    pauseAt(player, player.stopAt);
    const { index, round } = placeOf(lead, leadTime(player, lead));
    player.halted = { rounds: index + 1, isRefusal: round.outcome === "some" || round.outcome === "none" };
  }

  function follow(player, run, lead, elapsed, options) {
    const known = player.axis === "time" ? knownTime(run) : axisEnd(run, player.axis);
    const goal = Math.max(known, player.position);
    const step = (goal - player.position) * (1 - Math.exp(-elapsed / FOLLOW_SECONDS));
    const isNear = goal - player.position < 1e-4 || options.isCalm || options.isThrottled;
    player.position = isNear ? goal : player.position + step;
  }

  function play(player, run, lead, elapsed, now, options) {
    const time = leadTime(player, lead);
    const pace = paceOf(player, lead, time);
    const wanted = time + elapsed * pace;
    const { axis } = player;
    if (lead.rounds.length && time < lead.rounds[lead.rounds.length - 1].at[3]) {
      const stop = nextEnd(lead, time);
      const { at } = placeOf(lead, stop).round;
      if (wanted >= stop && options.hasRest && (at[3] - at[0]) / pace >= RESTABLE_SECONDS) {
        player.position = positionAt(lead, axis, stop);
        player.restUntil = now + REST_SECONDS * 1000;
      } else player.position = positionAt(lead, axis, wanted);
    } else {
      const scale = axis === "time" ? 1 : axisEnd(run, axis) / (runEnd(run) || 1);
      player.position += elapsed * pace * scale;
    }
  }

  // ---- Steps: on the explained lane's clock -------------------------------------------------

  const STEPS = {
    home: () => 0,
    end: (run, lead, time) => Math.max(runEnd(run), time),
    back: (run, lead, time) => previousStop(lead, time),
    forward: (run, lead, time) => nextStop(lead, time),
    round_back: (run, lead, time) => previousEnd(lead, time),
    round_forward: (run, lead, time) => nextEnd(lead, time),
    rejection: (run, lead, time) => nextRejection(lead, time),
    best: (run, lead) => (lead.rounds.length ? lead.rounds[lead.best].at[3] : null),
  };

  // Where a step leads: a position, or null if it leads nowhere.
  function target(player, run, lead, name) {
    if (name === "end") return axisEnd(run, player.axis);
    const time = STEPS[name](run, lead, leadTime(player, lead));
    if (time === null) return name.endsWith("forward") ? axisEnd(run, player.axis) : null;
    return positionAt(lead, player.axis, time);
  }

  function chooseAxis(player, lead, axis) {
    const time = leadTime(player, lead);
    pauseAt(player, 0);
    player.axis = axis;
    player.position = positionAt(lead, axis, time);
  }

  function toggle(player, run) {
    const end = axisEnd(run, player.axis);
    const isOn = player.isPlaying || (player.isFollowing && !run.isEnded);
    const from = !isOn && player.position >= end && run.isEnded ? 0 : player.position;
    pauseAt(player, clamp(from, 0, end));
    player.isPlaying = !isOn;
  }

  function isCaughtUp(player, run) {
    return player.position >= (player.axis === "time" ? knownTime(run) : axisEnd(run, player.axis));
  }

  return { newPlayer, restart, pauseAt, open, advance, target, chooseAxis, toggle, isCaughtUp };
})();
