// The stage as the page uses it: hears envelopes, plays them, and has them painted. The player
// lives here alone and never touches the engine. The contract stands in specviz/views/stage.py;
// stage_run.js and stage_paint.js come before this script.

const SpecVizStage = (function () {
  const {
    clamp, newRun, addItem, runEnd, knownTime, placeOf, finishedRound, nextEnd, previousEnd,
    draftingLanes,
  } = SpecVizRun;
  const {
    WORDS, SPEEDS, put, say, show, setIcon, originWords, maskCellAt, makeLane, drawLane, drawRace,
    lightLane, makePage, drawRunLine,
  } = SpecVizPaint;

  const WATCHABLE_SECONDS = 2.2; // how long a round should take on screen when a replay opens
  const REST_SECONDS = 0.9; // pause after a round of a drafting lane, when rounds can be watched
  const RESTABLE_SECONDS = 0.5; // faster rounds than this on screen are not rested after
  const FOLLOW_SECONDS = 0.12; // how softly the playhead chases a live run
  const ANNOUNCE_SECONDS = 2; // at most one spoken line in that time while playing

  function mount(parent) {
    const page = makePage();
    const { buttons, live, scrub, speed, rest, clock } = page.transport;
    const calm = window.matchMedia("(prefers-reduced-motion: reduce)");
    const retired = new Set();
    const player = { time: 0, isPlaying: false, isFollowing: false, stopAt: null, restUntil: 0 };
    const selection = { hover: null, pin: null };
    let incoming = null; // the run that is heard
    let run = null; // the run that is shown
    let views = [];
    let widths = { stage: 0, lane: 0 };
    let frame = 0;
    let lastTick = 0;
    let spokenAt = -Infinity;

    // -- listening

    function receive(text) {
      const envelope = JSON.parse(text);
      if (envelope.v !== 1) return fail("This page is older than what it was sent: reload it.");
      if (retired.has(envelope.run)) return undefined;
      if (!incoming || incoming.id !== envelope.run) {
        if (incoming) retired.add(incoming.id);
        incoming = newRun(envelope);
        fail("");
      }
      if (envelope.seq >= incoming.nextSeq) incoming.held.set(envelope.seq, envelope);
      while (incoming.held.has(incoming.nextSeq)) {
        const next = incoming.held.get(incoming.nextSeq);
        incoming.held.delete(incoming.nextSeq);
        incoming.nextSeq += 1;
        next.items.forEach(take);
        if (next.last) incoming.isEnded = true;
      }
      if (incoming.held.size) {
        fail("Part " + (incoming.nextSeq + 1) + " of this run has not arrived. What is shown is "
          + "right as far as it goes; run again if it does not come.");
      } else if (page.error.dataset.kind === "gap") fail("");
      page.error.dataset.kind = incoming.held.size ? "gap" : "";
      opened();
      wake();
      return undefined;
    }

    function take(item) {
      if (item.kind === "progress") return notice(item.message, item.done, item.total, item.stage);
      if (item.kind === "failure") {
        notice("");
        return fail(item.message);
      }
      if (item.kind === "start") {
        notice("");
        replaceRun();
      }
      return addItem(incoming, item);
    }

    function replaceRun() {
      run = incoming;
      views = [];
      page.lanes.replaceChildren();
      page.race.rows.replaceChildren();
      page.race.lanes = [];
      Object.assign(selection, { hover: null, pin: null });
      Object.assign(player, { time: 0, stopAt: null, restUntil: 0, isPlaying: false,
        isFollowing: run.source === "live", hasOpened: run.source === "live" });
      speed.value = "1";
    }

    // A recorded run opens by itself: its first two rounds, then it waits for the viewer.
    function opened() {
      if (!run || player.hasOpened) return;
      const lane = draftingLanes(run)[0];
      if (!lane || !lane.rounds.length || !(lane.rounds.length > 1 || run.isEnded)) return;
      player.hasOpened = true;
      const shown = lane.rounds[Math.min(1, lane.rounds.length - 1)].at[3];
      const each = lane.rounds[0].at[3] || 1;
      speed.value = String(SPEEDS.filter((s) => s <= each / WATCHABLE_SECONDS).pop() || SPEEDS[0]);
      if (calm.matches) player.time = lane.rounds[0].at[3];
      else Object.assign(player, { isPlaying: true, stopAt: shown });
    }

    function notice(message, done, total, stage) {
      show(page.notice, Boolean(message));
      say(page.notice.firstChild, message || "");
      const bar = page.notice.lastChild;
      show(bar, Boolean(total) && stage !== "queued");
      if (total) Object.assign(bar, { max: total, value: done });
    }

    function fail(message) {
      show(page.error, Boolean(message));
      say(page.error, message || "");
    }

    // -- time

    function wake() {
      if (!frame) frame = requestAnimationFrame(tick);
    }

    function tick(now) {
      frame = 0;
      const elapsed = lastTick ? Math.min((now - lastTick) / 1000, 0.25) : 0;
      if (run) advance(elapsed, now);
      draw(now);
      const isMoving = run && (player.isPlaying || (player.isFollowing && !isCaughtUp()));
      lastTick = isMoving ? now : 0;
      if (isMoving) wake();
    }

    function isCaughtUp() {
      return player.time >= knownTime(run);
    }

    function advance(elapsed, now) {
      const end = runEnd(run);
      if (player.isFollowing) {
        const goal = Math.max(knownTime(run), player.time);
        const step = (goal - player.time) * (1 - Math.exp(-elapsed / FOLLOW_SECONDS));
        const isNear = goal - player.time < 1e-4 || calm.matches;
        player.time = isNear ? goal : player.time + step;
        return;
      }
      if (!player.isPlaying || now < player.restUntil) return;
      if (calm.matches) {
        player.time = nextEnd(run.lanes, player.time) ?? end;
        player.restUntil = now + REST_SECONDS * 1000;
      } else play(elapsed, now);
      if (player.stopAt !== null && player.time >= player.stopAt) pauseAt(player.stopAt);
      else if (player.time >= end) {
        player.time = end;
        if (run.isEnded || run.interrupted) player.isPlaying = false;
      }
    }

    function play(elapsed, now) {
      const pace = Number(speed.value);
      const wanted = player.time + elapsed * pace;
      const stop = nextEnd(draftingLanes(run), player.time);
      player.time = wanted;
      if (stop === null || wanted < stop || !rest.checked) return;
      const lane = draftingLanes(run).find((one) => placeOf(one, stop).round.at[3] === stop);
      const { at } = placeOf(lane, stop).round;
      if ((at[3] - at[0]) / pace < RESTABLE_SECONDS) return;
      player.time = stop;
      player.restUntil = now + REST_SECONDS * 1000;
    }

    function pauseAt(time) {
      Object.assign(player, { time, isPlaying: false, isFollowing: false, stopAt: null, restUntil: 0 });
    }

    function seek(time) {
      if (!run) return;
      pauseAt(clamp(time, 0, runEnd(run)));
      spokenAt = -Infinity;
      wake();
    }

    function togglePlay() {
      if (!run) return;
      const isOn = player.isPlaying || (player.isFollowing && !run.isEnded);
      const from = !isOn && player.time >= runEnd(run) && run.isEnded ? 0 : player.time;
      pauseAt(from);
      player.isPlaying = !isOn;
      wake();
    }

    function follow() {
      if (!run) return;
      Object.assign(player, { isPlaying: false, isFollowing: true, stopAt: null });
      wake();
    }

    const moves = {
      home: () => seek(0),
      end: () => run && seek(runEnd(run)),
      back: () => run && seek(previousEnd(run.lanes, player.time)),
      forward: () => run && seek(nextEnd(run.lanes, player.time) ?? runEnd(run)),
      play: togglePlay,
    };

    // -- drawing

    function draw(now) {
      show(page.body, Boolean(run));
      show(page.empty, !run);
      if (!run) return;
      while (views.length < run.lanes.length) {
        const lane = run.lanes[views.length];
        const view = makeLane(lane);
        listen(view, lane);
        views.push(view);
        page.lanes.append(view.root);
        observer.observe(view.root);
      }
      drawRunLine(page, run);
      drawRace(page.race, run, player.time, widths.stage);
      run.lanes.forEach((lane, i) => {
        drawLane(views[i], lane, player.time, widths.lane);
        lightLane(views[i], placeOf(lane, player.time), selectedRow(i));
      });
      drawTransport();
      speak(now);
    }

    function drawTransport() {
      const end = runEnd(run);
      const isOn = player.isPlaying || (player.isFollowing && !run.isEnded && !run.interrupted);
      const name = isOn ? "pause" : "play";
      setIcon(buttons.play, name);
      put(buttons.play, "aria-label", WORDS[name]);
      say(buttons.play.lastChild, WORDS[name]);
      put(buttons.play, "data-invites", !isOn && player.time < end);
      show(live, run.source === "live" && !run.isEnded && !run.interrupted);
      put(live, "aria-pressed", player.isFollowing);
      const value = end > 0 ? Math.round((player.time / end) * 1000) : 0;
      if (Number(scrub.value) !== value) scrub.value = value;
      const isWaiting = player.isPlaying && player.time >= end;
      say(clock, isWaiting ? WORDS.waiting : player.time.toFixed(3) + " s of " + end.toFixed(3) + " s");
      put(scrub, "aria-valuetext", clock.textContent);
    }

    // One line for the ear: the round that ended last, in any lane.
    function speak(now) {
      if (now - spokenAt < ANNOUNCE_SECONDS * 1000) return;
      let last = null;
      for (const lane of run.lanes) {
        const round = finishedRound(lane, placeOf(lane, player.time));
        if (round && (!last || round.at[3] > last.round.at[3])) last = { lane, round };
      }
      const words = last ? last.lane.info.title + ". " + last.round.sentence : "";
      if (page.spoken.textContent === words) return;
      spokenAt = now;
      say(page.spoken, words);
    }

    // -- selecting

    function selectedRow(laneIndex) {
      const chosen = selection.hover || selection.pin;
      if (!chosen || chosen.lane !== laneIndex) return null;
      const place = placeOf(run.lanes[laneIndex], player.time);
      return place && place.index === chosen.index ? chosen.row : null;
    }

    function choose(kind, lane, row) {
      const laneIndex = run.lanes.indexOf(lane);
      const place = placeOf(lane, player.time);
      selection[kind] = row === null || !place ? null : { lane: laneIndex, index: place.index, row };
      wake();
    }

    function listen(view, lane) {
      const rowOf = (event) => {
        const node = event.target.closest("[data-row]");
        return node ? Number(node.getAttribute("data-row")) : null;
      };
      const cellRow = (event) => {
        const cell = maskCellAt(view.mask, event);
        return cell ? cell.row : null;
      };
      for (const [root, row] of [[view.tree.root, rowOf], [view.mask.root, cellRow]]) {
        root.addEventListener("pointermove", (event) => choose("hover", lane, row(event)));
        root.addEventListener("pointerleave", () => choose("hover", lane, null));
        root.addEventListener("click", (event) => choose("pin", lane, row(event)));
      }
      view.tree.root.addEventListener("blur", () => choose("hover", lane, null));
      view.tree.root.addEventListener("keydown", (event) => walkTree(event, view, lane));
      view.strip.root.addEventListener("click", (event) => {
        const token = event.target.closest("[data-token]");
        if (token) seek(lane.rounds[lane.tokens[token.getAttribute("data-token")].index].at[3]);
      });
      view.strip.root.addEventListener("pointerover", (event) => {
        const token = event.target.closest("[data-token]");
        if (!token || token.title) return;
        const { origin, index } = lane.tokens[token.getAttribute("data-token")];
        token.title = originWords(origin, lane.rounds[index].round);
      });
    }

    function walkTree(event, view, lane) {
      const steps = { ArrowUp: -1, ArrowDown: 1 };
      const place = placeOf(lane, player.time);
      if (!place) return;
      const chosen = selection.hover || selection.pin;
      const row = chosen && chosen.lane === run.lanes.indexOf(lane) ? chosen.row : null;
      if (event.key in steps) {
        const next = clamp((row ?? -1) + steps[event.key], 0, place.round.tree.x.length - 1);
        choose("hover", lane, next);
      } else if (event.key === "Enter") choose("pin", lane, row);
      else return;
      event.preventDefault();
      event.stopPropagation();
    }

    // -- wiring

    const KEYS = { " ": "play", ArrowLeft: "back", ArrowRight: "forward", Home: "home", End: "end" };

    function onKey(event) {
      if (event.key === "Escape") {
        Object.assign(selection, { hover: null, pin: null });
        wake();
      }
      const isOwn = event.target.closest("button, input, select, summary") !== null;
      const move = KEYS[event.key];
      if (!move || isOwn || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      moves[move]();
    }

    const observer = new ResizeObserver(() => {
      const box = views.length ? views[0].root : null;
      const inner = box ? box.clientWidth - 2 * parseFloat(getComputedStyle(box).paddingLeft) : 0;
      widths = { stage: page.raceBox.clientWidth, lane: Math.floor(inner) };
      wake();
    });

    for (const name in moves) buttons[name].addEventListener("click", moves[name]);
    live.addEventListener("click", follow);
    scrub.addEventListener("input", () => run && seek((Number(scrub.value) / 1000) * runEnd(run)));
    page.race.root.addEventListener("click", (event) => {
      const round = event.target.closest("[data-end]");
      if (round) seek(Number(round.getAttribute("data-end")));
    });
    page.root.addEventListener("keydown", onKey);
    observer.observe(page.raceBox);
    show(page.notice, false);
    show(page.error, false);
    parent.replaceChildren(page.root);
    wake();

    return {
      receive,
      seek,
      pending(message) {
        if (incoming) retired.add(incoming.id);
        fail("");
        notice(message);
      },
      interrupted(message) {
        notice("");
        if (incoming && incoming === run && !run.isEnded) run.interrupted = message;
        fail(message);
        wake();
      },
      state() {
        return { run: run ? run.id : null, time: player.time, end: run ? runEnd(run) : 0,
          isPlaying: player.isPlaying, isFollowing: player.isFollowing };
      },
      destroy() {
        cancelAnimationFrame(frame);
        observer.disconnect();
        page.root.remove();
      },
    };
  }

  return { mount };
})();
