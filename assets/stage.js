// The stage as the page uses it: hears envelopes, plays them, and has them painted. The player
// lives here alone and never touches the engine. The contract stands in specviz/views/stage.py;
// the other stage_*.js come before this script.

const SpecVizStage = (function () {
  const { newRun, addItem, draftingLanes } = SpecVizRun;
  const { AXES, axisEnd, timeAt, positionAt, placeOf, finishedRound } = SpecVizTime;
  const { tell, put, say, show, inksOf } = SpecVizDom;
  const { makeLane, drawLane, lightLane } = SpecVizLane;
  const { drawRace, positionUnder, drawTicks } = SpecVizRace;
  const { makeMask, drawMask } = SpecVizMask;
  const { makeCard, drawCard } = SpecVizCard;
  const { makeNumbers, drawNumbers, drawCurve } = SpecVizNumbers;
  const { SETTINGS, SPEEDS, makePage, drawRunLine, drawTransport, drawTable } = SpecVizPage;
  const { newSelection, chosenOf, deciding, listenLane, listenMask } = SpecVizSelect;
  const { pictureOf } = SpecVizTree;
  const { newEar } = SpecVizHear;
  const Play = SpecVizPlay;

  const MAX_GHOST_LANES = 4;
  const MAX_SHOWN = 4; // lanes shown at first; the others are one click away
  const ANNOUNCE_SECONDS = 2; // at most one spoken line in that time while playing
  const LIVE_PAINT_MS = 300; // a live run on the same processor is slowed down by each painting
  const LIVE_PANE_MS = 1200; // and its numbers are read even more seldom
  const PANE_MS = 250; // while it plays, nobody reads numbers faster
  const SHOWN_AS = { hasRest: "rest", isSmooth: "smooth", isCalm: "calm", isClose: "close",
    hasGhosts: "ghosts", hasIds: "ids", hasLost: "lost" };

  function mount(parent) {
    const calm = window.matchMedia("(prefers-reduced-motion: reduce)");
    const player = Play.newPlayer();
    const selection = newSelection();
    const options = { hasRest: true, isSmooth: false, isCalm: calm.matches, isClose: false,
      hasGhosts: true, hasIds: false, hasLost: false };
    const shown = new Set();
    const ghosts = []; // lanes of an earlier run
    let run = null; // the run that is shown
    let lead = null; // the lane that steps go by and the pane explains
    let filter = null; // accepted length whose rounds the scrub bar shows
    let page = null;
    let pane = null;
    let views = [];
    let widths = { race: 0, lane: 0, scrub: 0, pane: 0 };
    let inks = null;
    let theme = 0; // counts changes of colours
    let frame = 0;
    let timer = 0;
    let lastTick = 0;
    let paintedAt = -Infinity;
    let countedAt = -Infinity;
    let isAsked = false; // a person did something: all is painted
    let spokenAt = -Infinity;
    const cost = { paints: 0, ms: 0 }; // of painting, for tests of it
    let told = { error: "", notice: null };

    // -- listening

    const ear = newEar({
      started: replaceRun, notice, fail,
      lane: (lane) => shown.size < MAX_SHOWN && shown.add(lane),
      complete: () => told.kind === "gap" && fail(""),
    });

    function receive(text) {
      ear.receive(text);
      if (run) {
        chooseLead();
        Play.open(player, run, options.isCalm);
      }
      wake();
    }

    function replaceRun(started) {
      run = started;
      lead = null;
      filter = null;
      shown.clear();
      Object.assign(selection, newSelection());
      Play.restart(player, run.source === "live");
      clearLanes();
    }

    function clearLanes() {
      views.forEach((view) => sight.unobserve(view.root));
      near.clear();
      views = [];
      page.lanes.replaceChildren();
      clearRace();
    }

    function clearRace() {
      page.race.names.replaceChildren();
      page.race.counts.replaceChildren();
      Object.assign(page.race, { rows: [], key: "", still: "" });
    }

    function chooseLead() {
      if (!lead || (lead.info.is_plain && !lead.isChosen)) lead = draftingLanes(run)[0] || null;
    }

    function notice(message, done, total, stage) {
      told.notice = [message, done, total, stage];
      show(page.notice, Boolean(message));
      say(page.notice.firstChild, message ? tell(message) : "");
      const bar = page.notice.lastChild;
      show(bar, Boolean(total) && stage !== "queued");
      if (total) Object.assign(bar, { max: total, value: done });
    }

    function fail(message, kind = "") {
      told = { ...told, error: message, kind };
      show(page.error, Boolean(message));
      say(page.error, message ? tell(message) : "");
    }

    // -- time

    function isLive() {
      return Boolean(run) && run.source === "live" && !run.isEnded && !run.interrupted;
    }

    function isThrottled() {
      return isLive() && !options.isSmooth;
    }

    // What a person does is painted at once; what a live run sends, a few times a second.
    function wake(isUrgent) {
      isAsked = isAsked || Boolean(isUrgent);
      if (frame) return;
      const wait = isThrottled() && !isUrgent ? paintedAt + LIVE_PAINT_MS - performance.now() : 0;
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

    function tick(now) {
      frame = 0;
      paintedAt = performance.now();
      const elapsed = lastTick ? Math.min((now - lastTick) / 1000, 0.25) : 0;
      if (run && lead) Play.advance(player, run, lead, elapsed, now, { ...options, isThrottled: isThrottled() });
      draw(now);
      cost.paints += 1;
      cost.ms += performance.now() - paintedAt;
      const isMoving = run && lead &&
        (player.isPlaying || (player.isFollowing && !Play.isCaughtUp(player, run)));
      lastTick = isMoving ? now : 0;
      if (isMoving) wake();
    }

    function timeOf(lane) {
      return timeAt(lane, player.axis, player.position);
    }

    function seek(position) {
      if (!run) return;
      Play.pauseAt(player, Math.min(Math.max(position, 0), axisEnd(run, player.axis)));
      spokenAt = -Infinity;
      changed();
    }

    function move(name) {
      if (!run || !lead) return;
      if (name === "play") {
        Play.toggle(player, run);
        return changed();
      }
      const position = Play.target(player, run, lead, name);
      if (position !== null) seek(position);
      return undefined;
    }

    function goTo(lane, index) {
      const round = lane.rounds[index];
      if (round) seek(positionAt(lane, player.axis, round.at[3]));
    }

    function follow() {
      if (!run) return;
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
      show(page.body, Boolean(run));
      show(page.empty, !run);
      if (!run) return;
      addViews();
      if (!inks) inks = inksOf(page.root);
      drawRunLine(page, run);
      drawRace(page.race, run, { position: player.position, axis: player.axis, isClose: options.isClose, lead,
        ghosts, showLane, explain, shown, width: widths.race, inks, theme, placeAt: (lane) => placeOf(lane, timeOf(lane)) });
      run.lanes.forEach((lane, i) => {
        show(views[i].root, shown.has(lane));
        put(views[i].root, "data-lead", lane === lead);
        if (!shown.has(lane)) return;
        const isInMotion = player.isPlaying || isThrottled();
        if (isInMotion && !isAsked && !near.has(views[i].root)) return; // drawn when it comes to rest
        const time = timeOf(lane);
        drawLane(views[i], run, lane, time, widths.lane, options);
        lightLane(views[i], lane, placeOf(lane, time), chosenIn(lane));
      });
      drawPane(now);
      isAsked = false;
      drawTransport(page.transport, player, { end: axisEnd(run, player.axis), isLive: isLive(),
        round: lead ? lead.rounds.length + 1 : 1 });
      if (lead) drawTicks(page.transport.scrub, run, lead, player.axis, widths.scrub, inks, theme, filter);
      speak(now);
    }

    function chosenIn(lane) {
      const chosen = chosenOf(selection);
      return chosen && chosen.lane === lane ? chosen : null;
    }

    function addViews() {
      while (views.length < run.lanes.length) {
        const lane = run.lanes[views.length];
        const view = makeLane(lane, views.length);
        listenLane(view, lane, timeOf, choose, goTo);
        view.explain.addEventListener("click", () => explain(lane));
        views.push(view);
        page.lanes.append(view.root);
        observer.observe(view.root);
        sight.observe(view.root);
        near.add(view.root);
      }
    }

    // The pane explains the lane that is pointed at, else the pinned one, else the lead.
    function explained() {
      const chosen = chosenOf(selection);
      return chosen ? chosen.lane : lead;
    }

    function drawPane(now) {
      const lane = explained();
      if (!lane) return;
      const time = timeOf(lane);
      const place = placeOf(lane, time);
      const chosen = chosenIn(lane);
      drawCard(pane.card, lane, place, chosen || deciding(place));
      if (place) {
        const isHere = chosen && chosen.index === place.index;
        const light = isHere ? { row: chosen.row, column: chosen.column } : null;
        drawMask(pane.mask, lane, place, light, inks, theme);
      }
      const gap = isThrottled() ? LIVE_PANE_MS : player.isPlaying ? PANE_MS : 0;
      if (!isAsked && now - countedAt < gap) return;
      countedAt = now;
      drawNumbers(pane.numbers, run, lane, place, time, filter, chooseFilter);
      drawCurve(pane.numbers, run, run.lanes.filter((one) => shown.has(one)), time, axisEnd(run, "time"),
        widths.pane, inks, theme);
      drawTable(page, lane, (index) => goTo(lane, index));
    }

    // One line for the ear: the round that ended last, in any lane.
    function speak(now) {
      if (now - spokenAt < ANNOUNCE_SECONDS * 1000) return;
      let last = null;
      for (const lane of run.lanes) {
        const round = finishedRound(lane, placeOf(lane, timeOf(lane)));
        if (round && (!last || round.at[3] > last.round.at[3])) last = { lane, round };
      }
      const words = last ? tell(last.lane.info.title) + ". " + tell(last.round.sentence) : "";
      if (page.spoken.textContent === words) return;
      spokenAt = now;
      say(page.spoken, words);
    }

    // -- choosing

    function choose(kind, lane, chosen) {
      const next = chosen && lane ? { lane, ...chosen } : null;
      const before = selection[kind];
      const isSame = before === next || (before && next && before.lane === next.lane &&
        before.index === next.index && before.row === next.row && before.column === next.column);
      if (kind === "hover" && isSame) return;
      selection[kind] = kind === "pin" && isSame ? null : next;
      if (kind === "pin") {
        if (selection.pin) lead = lane;
        return changed();
      }
      return wake(true);
    }

    function explain(lane) {
      lane.isChosen = true;
      lead = lane;
      shown.add(lane);
      Object.assign(selection, newSelection());
      changed();
    }

    function showLane(lane, isOn) {
      if (isOn) shown.add(lane);
      else shown.delete(lane);
      changed();
    }

    function chooseFilter(length) {
      filter = length;
      changed();
    }

    function setOption(name, isOn) {
      options[name] = isOn;
      page.settings.boxes[SHOWN_AS[name]].checked = isOn;
      changed();
    }

    function flip(name) {
      setOption(name, !options[name]);
    }

    // -- keys, while the stage has the focus

    const KEYS = {
      " ": () => move("play"), Home: () => move("home"), End: () => move("end"),
      ArrowLeft: (event) => move(event.shiftKey ? "round_back" : "back"),
      ArrowRight: (event) => move(event.shiftKey ? "round_forward" : "forward"),
      r: () => move("rejection"), b: () => move("best"), g: () => flip("hasGhosts"), i: () => flip("hasIds"),
      t: () => flip("hasLost"), m: () => pane.mask.box.scrollIntoView({ block: "nearest" }),
      "?": () => toggleHelp(),
    };

    function toggleHelp() {
      show(page.help, page.help.hidden);
    }

    function onKey(event) {
      if (event.key === "Escape") {
        Object.assign(selection, newSelection());
        show(page.help, false);
        changed();
        return;
      }
      const isOwn = event.target.closest("input, select, textarea, summary") !== null ||
        (event.target.closest("button") !== null && (event.key === " " || event.key === "Enter"));
      if (isOwn || event.ctrlKey || event.altKey || event.metaKey || !run) return;
      const lane = /^[1-9]$/.test(event.key) ? run.lanes[Number(event.key) - 1] : null;
      const act = lane ? () => explain(lane) : KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
      if (!act) return;
      event.preventDefault();
      act(event);
    }

    // -- building: once, and again when the language changes

    // Lanes out of sight are not drawn while time moves.
    const near = new Set();
    const sight = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) near[isIntersecting ? "add" : "delete"](target);
      wake(true);
    }, { rootMargin: "150px" });
    const seenWidths = new WeakMap();
    const observer = new ResizeObserver((entries) => {
      const isNew = entries.filter(({ target, contentRect }) => {
        const before = seenWidths.get(target);
        seenWidths.set(target, contentRect.width);
        return before !== contentRect.width;
      });
      if (isNew.length) measure(); // heights change with every round and matter to nothing
    });

    function measure() {
      const box = views.find((view) => !view.root.hidden);
      const inner = (node) => {
        const style = getComputedStyle(node);
        return node.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
      };
      widths = {
        race: Math.floor(page.race.middle.clientWidth), lane: box ? Math.floor(inner(box.root)) : 0,
        scrub: Math.floor(page.transport.scrub.root.clientWidth),
        pane: Math.floor(inner(pane.numbers.root)),
      };
      wake(true);
    }

    const recolour = new MutationObserver(() => {
      inks = null;
      theme += 1;
      wake(true);
    });

    function build() {
      if (page) [observer, sight].forEach((one) => one.disconnect());
      page = makePage(Object.fromEntries(Object.entries(SHOWN_AS).map(([name, short]) => [short, options[name]])));
      pane = { card: makeCard(), mask: makeMask(), numbers: makeNumbers() };
      page.pane.append(pane.card.root, pane.mask.root, pane.numbers.root);
      views = [];
      wire();
      parent.replaceChildren(page.root);
      if (told.notice) notice(...told.notice);
      fail(told.error, told.kind);
      for (const node of [page.race.middle, page.transport.scrub.root, pane.numbers.root]) observer.observe(node);
      wake(true);
    }

    function wire() {
      const { buttons, live, scrub, speed, axis, help, gear } = page.transport;
      for (const name in buttons) buttons[name].addEventListener("click", () => move(name));
      live.addEventListener("click", follow);
      help.addEventListener("click", toggleHelp);
      gear.addEventListener("click", () => {
        show(page.settings.root, page.settings.root.hidden);
        put(gear, "aria-expanded", !page.settings.root.hidden);
      });
      scrub.input.addEventListener("input", () =>
        run && seek((Number(scrub.input.value) / 10000) * axisEnd(run, player.axis)));
      speed.addEventListener("change", () => {
        player.speed = speed.value;
        changed();
      });
      axis.addEventListener("change", () => {
        if (run && lead) Play.chooseAxis(player, lead, axis.value);
        changed();
      });
      for (const name in SHOWN_AS) {
        const box = page.settings.boxes[SHOWN_AS[name]];
        box.addEventListener("change", () => setOption(name, box.checked));
      }
      pane.mask.unfold.addEventListener("change", () => wake(true));
      page.table.addEventListener("toggle", () => wake(true));
      page.race.canvas.addEventListener("click", (event) => {
        const position = positionUnder(page.race, event);
        if (position !== null) seek(position);
      });
      listenMask(pane.mask, explained, timeOf, choose);
      page.root.addEventListener("keydown", onKey);
    }

    build();
    recolour.observe(document.body, { attributes: true, attributeFilter: ["class"] });
    const stopListening = SpecVizWords.listen(build);

    return {
      receive,
      seek,
      pending(message) {
        ear.retire();
        fail("");
        notice(message);
      },
      interrupted(message) {
        notice("");
        ear.interrupt(message);
        fail(message);
        wake(true);
      },
      state() {
        return { run: run ? run.id : null, time: player.position, end: run ? axisEnd(run, player.axis) : 0,
          isPlaying: player.isPlaying, isFollowing: player.isFollowing };
      },
      cost: () => ({ ...cost }),
      // The tree of the explained lane as an SVG element that stands alone; null before there is one.
      picture() {
        const view = run && lead ? views[run.lanes.indexOf(lead)] : null;
        return view && view.tree.box && shown.has(lead) ? pictureOf(view.tree) : null;
      },
      // What is looked at, in plain values, and the way back to it once its run is there.
      place() {
        const place = run && lead ? placeOf(lead, timeOf(lead)) : null;
        const { pin } = selection;
        return { lane: lead ? lead.info.lane : null, round: place ? place.round.round : 0, phase: place ? place.phase : "",
          row: pin ? pin.row : null, axis: player.axis, speed: player.speed,
          lanes: run ? run.lanes.filter((lane) => shown.has(lane)).map((lane) => lane.info.lane) : [],
          ...Object.fromEntries(SETTINGS.map((name) => [name, options[nameOf(name)]])) };
      },
      go(view) {
        if (!run) return;
        const lane = run.byNumber.get(view.lane);
        for (const name of SETTINGS) if (name in view) setOption(nameOf(name), Boolean(view[name]));
        if (Array.isArray(view.lanes)) run.lanes.forEach((one) => showLane(one, view.lanes.includes(one.info.lane)));
        if (AXES.includes(view.axis)) player.axis = view.axis;
        if (SPEEDS.includes(view.speed)) player.speed = view.speed;
        player.hasOpened = true;
        if (!lane) return;
        explain(lane);
        const index = (view.round || 0) - 1;
        if (!lane.rounds[index]) return;
        goTo(lane, index);
        const { tree, draft } = lane.rounds[index];
        const isRow = Number.isInteger(view.row) && view.row >= -1 && view.row < tree.x.length + draft.ghosts.length;
        if (isRow) choose("pin", lane, { index, row: view.row });
      },
      // An earlier run's items, shown pale in the race; null takes them away.
      ghost(items) {
        ghosts.length = 0;
        if (items) {
          const earlier = newRun({});
          for (const item of items) addItem(earlier, item);
          ghosts.push(...earlier.lanes.filter((lane) => lane.rounds.length).slice(0, MAX_GHOST_LANES));
        }
        clearRace();
        wake(true);
      },
      destroy() {
        cancelAnimationFrame(frame);
        clearTimeout(timer);
        observer.disconnect();
        sight.disconnect();
        recolour.disconnect();
        stopListening();
        page.root.remove();
      },
    };
  }

  function nameOf(setting) {
    return Object.keys(SHOWN_AS).find((name) => SHOWN_AS[name] === setting);
  }

  return { mount };
})();
