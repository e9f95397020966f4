// The stage as the page uses it: hears envelopes, plays them, and has them painted. The player
// lives here alone and never touches the engine. The contract stands in specviz/views/stage.py;
// the other stage_*.js come before this script, each with one part of the work.

const SpecVizStage = (function () {
  const { playedLanes } = SpecVizRun;
  const { axisEnd, timeAt, positionAt, placeOf } = SpecVizTime;
  const { put, show, inksOf } = SpecVizDom;
  const { makeLane, drawLane, lightLane } = SpecVizLane;
  const { drawRace, clearRace, drawTicks } = SpecVizRace;
  const { drawOthers } = SpecVizOthers;
  const { OPTIONS, captionOf, makePage, wirePage, drawRunLine, drawTransport } = SpecVizPage;
  const { newSelection, chosenOf, isSame, listenLane, listenMask, listenRounds } = SpecVizSelect;
  const { makePane, drawPane } = SpecVizPane;
  const { newSheet } = SpecVizSheet;
  const { pictureOf } = SpecVizPan;
  const Play = SpecVizPlay;

  function newState() {
    const isCalm = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    return {
      run: null, // the one that is shown
      lead: null, // the lane that steps go by and the pane explains
      first: null, // the one that was the lead before anybody chose: it stands first
      shown: new Set(), // lanes that are open
      isChosen: false, // a person chose the lead or the open lanes
      isTaken: false, // what is pinned was taken hold of here, and not by a link or a chapter
      filter: null, // accepted length whose rounds the scrub bar shows
      ghosts: [], // lanes of an earlier run
      player: Play.newPlayer(), selection: newSelection(),
      options: { hasRest: true, isSmooth: false, isCalm, isClose: false, hasGhosts: true, hasIds: false, hasLost: false },
      inks: null, theme: 0, // the colours in force, and a count of their changes
      sizes: null,
    };
  }

  // `measure(fields)` and `tryRow(row)`: what the page does with an estimate and with a row of odds;
  // without them nothing offers it.
  function mount(parent, { measure = null, tryRow = null } = {}) {
    const s = newState();
    const { player, selection, options, shown, ghosts } = s;
    let [page, pane, sheet, views] = [null, null, null, []];
    let isAsked = false; // a person did something: all is painted
    const speaker = SpecVizSpeak.newSpeaker(() => page);
    const clock = SpecVizClock.newClock(paint, isThrottled);
    const look = SpecVizLook.newLook();
    const sizes = SpecVizSizes.newSizes(() => wake(true), () => {
      s.inks = null;
      s.theme += 1;
      wake(true);
    });
    s.sizes = sizes.sizes;

    // -- listening

    const ear = SpecVizHear.newEar({
      started: replaceRun, notice: speaker.notice, fail: speaker.fail, complete: speaker.closeGap,
    });

    function receive(text) {
      ear.receive(text);
      if (s.run) {
        lookFirst();
        if (s.lead) Play.open(player, s.run, s.lead, options.isCalm);
      }
      wake();
    }

    function replaceRun(started) {
      Object.assign(s, { run: started, lead: null, filter: null, isChosen: false });
      shown.clear();
      free();
      Play.restart(player, started.source === "live");
      views.forEach((view) => sizes.dropLane(view.root));
      views = [];
      page.lanes.replaceChildren(page.others.root);
      clearRace(page.race);
      SpecVizKeys.takeFocus(page.root);
    }

    function lookFirst() {
      if (s.isChosen) return;
      const { open, lead } = SpecVizFirst.firstLook(s.run);
      shown.clear();
      open.forEach((lane) => shown.add(lane));
      Object.assign(s, { lead, first: lead });
    }

    // -- time

    function isLive() {
      const { run } = s;
      return Boolean(run) && run.source === "live" && !run.isEnded && !run.interrupted;
    }

    function isThrottled() {
      return isLive() && !options.isSmooth;
    }

    // What a person does is painted at once; what a live run sends, a few times a second.
    function wake(isUrgent) {
      isAsked = isAsked || Boolean(isUrgent);
      clock.wake(isUrgent);
    }

    function paint(now, elapsed) {
      const { run, lead } = s;
      const isReady = run && lead;
      if (isReady) Play.advance(player, run, lead, elapsed, now, { ...options, isThrottled: isThrottled() });
      draw(now);
      return isReady && (player.isPlaying || (player.isFollowing && !Play.isCaughtUp(player, run)));
    }

    function timeOf(lane) {
      return timeAt(lane, player.axis, player.position);
    }

    function seek(position) {
      if (!s.run) return;
      Play.pauseAt(player, Math.min(Math.max(position, 0), axisEnd(s.run, player.axis)));
      speaker.hasten();
      changed();
    }

    function move(name) {
      if (!s.run || !s.lead) return;
      if (name === "play") {
        Play.toggle(player, s.run);
        changed();
        return;
      }
      const position = Play.target(player, s.run, s.lead, name);
      if (position !== null) seek(position);
    }

    function goTo(lane, index) {
      const round = lane.rounds[index];
      if (round) seek(positionAt(lane, player.axis, round.at[3]));
    }

    function follow() {
      if (!s.run) return;
      Object.assign(player, { isPlaying: false, isFollowing: true, stopAt: null });
      wake(true);
    }

    // The page may keep what is looked at in its address: it is told whenever that changed.
    function changed() {
      wake(true);
      page.root.dispatchEvent(new CustomEvent("specviz:view", { bubbles: true }));
    }

    // -- drawing

    function draw(now) {
      const { run, lead } = s;
      show(page.body, Boolean(run));
      show(page.empty, !run);
      if (!run) return;
      addViews();
      if (!s.inks) s.inks = inksOf(page.root);
      const end = axisEnd(run, player.axis);
      drawRunLine(page, run);
      drawRace(page.race, run, { position: player.position, axis: player.axis, isClose: options.isClose, lead, ghosts, chosen: chosenOf(selection),
        shown, showLane, explain, width: s.sizes.race, isNarrow: s.sizes.isNarrow, inks: s.inks, theme: s.theme, timeOf });
      run.lanes.forEach((lane, i) => drawView(views[i], lane));
      drawOthers(page.others, run, run.lanes.filter((lane) => !shown.has(lane)), timeOf, explain);
      const lane = explained();
      if (lane) {
        drawPane(pane, page, s, { lane, time: timeOf(lane), chosen: chosenIn(lane), now, isAsked,
          isThrottled: isThrottled(), isPlaying: player.isPlaying, act: { filter, goTo, choose } });
      }
      sheet(s.isTaken && s.sizes.isUnder && Boolean(selection.pin));
      isAsked = false;
      drawTransport(page.transport, player, { end, isLive: isLive(), round: lead ? lead.rounds.length + 1 : 1 });
      if (lead) drawTicks(page.transport.scrub, run, lead, player.axis, s.sizes.scrub, s.inks, s.theme, s.filter);
      speaker.speak(now, run, (one) => placeOf(one, timeOf(one)), player.isPlaying || player.isFollowing ? null : lead);
      look.tell(s, timeOf);
    }

    function drawView(view, lane) {
      const isOpen = shown.has(lane);
      show(view.root, isOpen);
      put(view.root, "data-lead", lane === s.lead);
      put(view.root, "data-first", lane === s.first);
      const isInMotion = player.isPlaying || isThrottled();
      if (!isOpen || (isInMotion && !isAsked && !sizes.isNear(view.root))) return; // drawn at rest
      const time = timeOf(lane);
      drawLane(view, s.run, lane, time, s.sizes.lane, options);
      lightLane(view, lane, placeOf(lane, time), chosenIn(lane));
    }

    function chosenIn(lane) {
      const chosen = chosenOf(selection);
      return chosen && chosen.lane === lane ? chosen : null;
    }

    function addViews() {
      while (views.length < s.run.lanes.length) {
        const lane = s.run.lanes[views.length];
        const view = makeLane(lane, views.length, () => wake(true));
        listenLane(view, lane, timeOf, choose, goTo, speaker.row);
        view.explain.addEventListener("click", () => explain(lane));
        view.close.addEventListener("click", () => showLane(lane, false));
        views.push(view);
        page.lanes.insertBefore(view.root, page.others.root);
        sizes.addLane(view.root);
      }
    }

    // The pane explains the lane that is pointed at, else the pinned one, else the lead.
    function explained() {
      const chosen = chosenOf(selection);
      return chosen ? chosen.lane : s.lead;
    }

    // -- choosing

    function choose(kind, lane, chosen) {
      const next = chosen && lane ? { lane, ...chosen } : null;
      const isAgain = isSame(selection[kind], next);
      if (kind === "hover") {
        if (isAgain) return;
        selection.hover = next;
        wake(true);
        return;
      }
      selection.pin = isAgain ? null : next;
      if (selection.pin) Object.assign(s, { lead: lane, isChosen: true, isTaken: true });
      changed();
    }

    const free = () => Object.assign(selection, newSelection());

    function letGo() {
      free();
      changed();
    }

    function explain(lane) {
      Object.assign(s, { lead: lane, isChosen: true });
      shown.add(lane);
      free();
      changed();
    }

    function showLane(lane, isOn) {
      s.isChosen = true;
      shown[isOn ? "add" : "delete"](lane);
      changed();
    }

    function filter(length) {
      s.filter = length;
      changed();
    }

    function setOption(name, isOn) {
      options[name] = isOn;
      for (const short in OPTIONS) if (OPTIONS[short] === name) page.settings.boxes[short].checked = isOn;
      changed();
    }

    const toggleHelp = () => show(page.help, page.help.hidden);

    const onKey = SpecVizKeys.newKeys({
      move, explain, toggleHelp,
      flip: (name) => setOption(name, !options[name]),
      showMask: () => pane.mask.box.scrollIntoView({ block: "nearest" }),
      free() {
        show(page.help, false);
        letGo();
      },
    }, () => s.run);

    // Built once, and again when the language changes.
    function build() {
      page = makePage(options);
      pane = makePane(page.pane, measure, tryRow);
      sheet = newSheet(page.root, pane.card.root, letGo);
      views = [];
      wire();
      parent.replaceChildren(page.root);
      speaker.again();
      sizes.watch({ root: page.root, race: page.race.middle, scrub: page.transport.scrub.root,
        pane: pane.numbers.root, mask: pane.mask.root, lanes: () => views.map((view) => view.root) });
      wake(true);
    }

    function wire() {
      wirePage(page, {
        move, follow, toggleHelp, seek, setOption, repaint: () => wake(true),
        seekShare: (share) => s.run && seek(share * axisEnd(s.run, player.axis)),
        speed(value) {
          player.speed = value;
          changed();
        },
        axis(name) {
          if (s.run && s.lead) Play.chooseAxis(player, s.lead, name);
          changed();
        },
      });
      page.root.addEventListener("keydown", onKey);
      pane.mask.unfold.addEventListener("change", () => wake(true));
      listenMask(pane.mask, explained, timeOf, choose,
        { tellRow: speaker.row, textAt: (lane, place) => SpecVizRun.textToken(s.run, lane, place) });
      listenRounds(pane.numbers.rounds, explained, choose, goTo);
    }

    build();
    const stopListening = SpecVizWords.listen(build);

    return {
      receive,
      seek,
      pending(message) {
        ear.retire(Boolean(message));
        speaker.fail("");
        speaker.notice(message);
      },
      interrupted(message) {
        speaker.notice("");
        ear.interrupt(message);
        speaker.fail(message);
        wake(true);
      },
      state() {
        const { run } = s;
        return { run: run ? run.id : null, time: player.position, end: run ? axisEnd(run, player.axis) : 0,
          isPlaying: player.isPlaying, isFollowing: player.isFollowing };
      },
      cost: () => ({ ...clock.cost }),
      look: look.listen,
      // The tree of the explained lane as an SVG element that stands alone; null before there is one.
      picture() {
        const view = s.run && s.lead ? views[s.run.lanes.indexOf(s.lead)] : null;
        return view && view.tree.box && shown.has(s.lead)
          ? pictureOf(view.tree, captionOf(s.run, s.lead, placeOf(s.lead, timeOf(s.lead)))) : null;
      },
      place: () => SpecVizPlace.placeIn(s, timeOf),
      go(place) {
        SpecVizPlace.go(s, place, { setOption, showLane, explain, goTo, seek,
          pin(lane, chosen) {
            choose("pin", lane, chosen);
            s.isTaken = false;
          } });
        wake(true);
      },
      // An earlier run's items, shown pale in the race; null takes them away.
      ghost(items) {
        ghosts.splice(0, ghosts.length, ...playedLanes(items || []));
        clearRace(page.race);
        wake(true);
      },
      destroy() {
        clock.stop();
        sizes.stop();
        stopListening();
        page.root.remove();
      },
    };
  }

  return { mount };
})();
