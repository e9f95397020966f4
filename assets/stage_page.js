// The frame around the lanes: the run's line, the transport bar, settings, legend, help.
// Built once for each language; what is in it is written by others.

const SpecVizPage = (function () {
  const { word, tell, el, svg, put, say, show, setIcon, button, select, checkbox, milliseconds, PARTS } = SpecVizDom;
  const { AXES } = SpecVizTime;
  const { makeNode, placeNode, lookNode } = SpecVizNode;
  const { makeRace, positionUnder, makeScrub, SCRUB_STEPS } = SpecVizRace;
  const { makeOthers } = SpecVizOthers;
  const { makeTables } = SpecVizTable;
  const { term, explain, listenTerms } = SpecVizTerm;
  const MOVES = ["home", "round_back", "back", "play", "forward", "round_forward", "end", "rejection", "best"];
  const SPEEDS = ["0.25", "0.5", "1", "2", "4", "8", "true"];
  const WIDE = "(min-width: 1200px)"; // there the legend takes two lines, and is open at first
  const LOOKS = ["root", "pending", "accepted", "rejected", "unreached", "bonus", "recovered", "ghost"];
  const KEYS = [
    ["Space", "play"], ["← →", "back"], ["Shift ← →", "round_back"], ["Home End", "home"],
    ["R", "rejection"], ["B", "best"], ["1–9", "lane"], ["M", "mask"], ["G", "ghosts"], ["I", "ids"],
    ["T", "lost"], ["↑ ↓", "walk"], ["Enter", "pin"], ["Esc", "free"], ["?", "help"],
  ];
  const OPTIONS = { rest: "hasRest", smooth: "isSmooth", calm: "isCalm", close: "isClose", ghosts: "hasGhosts",
    ids: "hasIds", lost: "hasLost" }; // a setting's name in links and words, and in the code
  const SETTINGS = Object.keys(OPTIONS);

  function makeTransport() {
    const buttons = {};
    for (const name of MOVES) buttons[name] = button(name, word("stage.move." + name), name === "play");
    const live = el("button", "sv-button sv-live", el("span", "sv-dot"), el("span", "", word("stage.live")));
    live.type = "button";
    const scrub = makeScrub();
    const speed = select(word("stage.speed"), SPEEDS.map((value) => [value, speedName(value)]));
    speed.value = "1";
    explain(speed, word("stage.speed"));
    const axis = select(word("stage.axis"), AXES.map((name) => [name, word("stage.axis." + name)]));
    const clock = el("span", "sv-clock");
    const help = button("help", word("stage.move_help"));
    const gear = button("gear", word("stage.settings"));
    gear.setAttribute("aria-expanded", "false");
    const moves = el("div", "sv-moves", ...MOVES.map((name) => buttons[name]), live);
    const root = el("div", "sv-transport", moves, scrub.root, clock,
      el("span", "sv-choices", speed, axis, gear, help));
    root.setAttribute("role", "toolbar");
    root.setAttribute("aria-label", word("stage.transport"));
    const said = el("span", "sv-halted");
    said.setAttribute("aria-live", "polite");
    const under = el("div", "sv-under", said, el("span", "sv-keyhint", word("stage.keys_hint")));
    return { root, under, said, buttons, live, scrub, speed, axis, clock, help, gear };
  }

  // "1x" is a speed-up: a pace is called in words.
  function speedName(value) {
    if (value === "true") return word("stage.true_time");
    const pace = Number(value);
    if (pace === 1) return word("stage.speed.slow");
    return pace < 1 ? word("stage.speed.slower", { n: 1 / pace }) : word("stage.speed.faster", { n: pace });
  }

  function makeSettings(chosen) {
    const boxes = {};
    const root = el("div", "sv-settings");
    for (const name of SETTINGS) {
      const made = checkbox(word("stage.set." + name), chosen[OPTIONS[name]]);
      boxes[name] = made.input;
      root.append(explain(made.root, word("stage.set_title." + name)));
    }
    show(root, false);
    return { root, boxes };
  }

  function makeHelp() {
    const list = el("dl", "sv-keys");
    for (const [key, name] of KEYS) {
      list.append(el("div", "", el("dt", "", el("kbd", "", key)), el("dd", "", word("stage.key." + name))));
    }
    const root = el("section", "sv-help", el("h4", "", word("stage.keys")), list,
      el("p", "sv-none", word("stage.keys_note")));
    show(root, false);
    return root;
  }

  // The colours of a round's parts, which every picture of time uses.
  function partSamples() {
    return PARTS.map((part) => el("span", "sv-legenditem", el("span", "sv-swatch sv-part sv-" + part),
      term("", word("stage.legend_part." + part), word("stage.term." + part))));
  }

  function makeLegend() {
    const items = LOOKS.map((look) => {
      const node = makeNode();
      placeNode(node, { pitch: 52, head: 0 }, 0, 0, "");
      put(node, "transform", "translate(2 20)");
      put(node.strike, "d", "M7 0 H25");
      lookNode(node, look);
      const picture = svg("svg", { width: 44, height: 36, "aria-hidden": "true" }, node);
      const name = word("stage.legend." + look);
      return el("span", "sv-legenditem", picture, look === "root" ? term("", name, word("stage.term.root")) : name);
    });
    const ticks = ["all", "some", "none", "plain"].map((outcome) => {
      const tick = el("span", "sv-ticksample");
      tick.setAttribute("data-outcome", outcome);
      return el("span", "sv-legenditem", tick, word("stage.tick." + outcome));
    });
    const legend = el("details", "sv-legend", el("summary", "", word("stage.legend")),
      el("div", "sv-legendbody", ...items, ...ticks, el("span", "sv-legenditem", word("stage.q_and_p"))));
    legend.open = window.matchMedia(WIDE).matches;
    return legend;
  }

  // `chosen` are the options in force.
  function makePage(chosen) {
    const badge = el("span", "sv-badge");
    const facts = { day: el("span"), target: term("", "", word("stage.term.target")), rest: el("span") };
    const prompt = el("details", "sv-prompt", el("summary"), el("pre", "sv-pre"));
    const notice = el("div", "sv-notice", el("span"), el("progress"));
    const error = el("div", "sv-error");
    error.setAttribute("role", "alert");
    notice.setAttribute("role", "status");
    const spoken = el("p", "sv-spoken");
    spoken.setAttribute("aria-live", "polite");
    const [race, transport, settings, help] = [makeRace(), makeTransport(), makeSettings(chosen), makeHelp()];
    const others = makeOthers();
    const lanes = el("div", "sv-lanes", others.root);
    race.axis.append(el("span", "sv-parts", ...partSamples()));
    const pane = el("aside", "sv-pane");
    pane.setAttribute("aria-label", word("stage.pane"));
    const table = makeTables();
    const body = el("div", "sv-body", el("div", "sv-run", badge, el("span", "sv-facts", ...Object.values(facts)), prompt), race.root,
      transport.root, transport.under, settings.root, help, el("div", "sv-main", lanes, pane), makeLegend(), table.root);
    const empty = el("p", "sv-empty", word("stage.empty"));
    const root = el("section", "sv", error, notice, empty, body, spoken);
    root.tabIndex = 0;
    root.setAttribute("aria-label", word("stage.player"));
    show(notice, false);
    show(error, false);
    listenTerms(root);
    return { root, badge, facts, prompt, notice, error, spoken, race, transport, settings, help, lanes,
      others, pane, table, body, empty };
  }

  // Chosen by hand, it gives the keys back to the stage; who goes by keys stays on it.
  function listenSelect(root, chooser, choose) {
    let isByHand = false;
    chooser.addEventListener("pointerdown", () => { isByHand = true; });
    chooser.addEventListener("keydown", () => { isByHand = false; });
    chooser.addEventListener("change", () => {
      choose(chooser.value);
      if (isByHand) root.focus({ preventScroll: true });
    });
  }

  // `act` is {move(name), follow(), toggleHelp(), seek(position), seekShare(share), speed(value),
  // axis(name), setOption(name, isOn), repaint()}.
  function wirePage(page, act) {
    const { buttons, live, scrub, speed, axis, help, gear } = page.transport;
    const { root: settings, boxes } = page.settings;
    for (const name in buttons) buttons[name].addEventListener("click", () => act.move(name));
    live.addEventListener("click", act.follow);
    help.addEventListener("click", act.toggleHelp);
    gear.addEventListener("click", () => {
      show(settings, settings.hidden);
      put(gear, "aria-expanded", !settings.hidden);
    });
    scrub.input.addEventListener("input", () => act.seekShare(Number(scrub.input.value) / SCRUB_STEPS));
    listenSelect(page.root, speed, act.speed);
    listenSelect(page.root, axis, act.axis);
    for (const name of SETTINGS) {
      boxes[name].addEventListener("change", () => act.setOption(OPTIONS[name], boxes[name].checked));
    }
    page.table.root.addEventListener("toggle", act.repaint);
    page.race.canvas.addEventListener("click", (event) => {
      const position = positionUnder(page.race, event);
      if (position !== null) act.seek(position);
    });
  }

  function drawRunLine(page, run) {
    const { start } = run;
    const label = tell(run.label);
    const day = start.created.slice(0, 10);
    const date = label.includes(day) ? "" : day;
    say(page.badge, label || word(run.source === "live" ? "stage.live" : "stage.recorded"));
    put(page.badge, "data-source", run.source);
    const quantised = start.quantisation === "none" ? "" : start.quantisation;
    say(page.facts.day, date && date + " · ");
    say(page.facts.target, start.target);
    say(page.facts.rest, ["", ...[start.device, start.dtype, quantised, tell(start.sampling),
      word("stage.prefill", { time: milliseconds(start.prefill_seconds) })].filter(Boolean)].join(" · "));
    say(page.prompt.firstChild, word("stage.prompt", { n: start.num_prompt_tokens }));
    say(page.prompt.lastChild, start.prompt);
  }

  // What a picture of a round says of itself.
  function captionOf(run, lane, place) {
    const { target, sampling, created } = run.start;
    return word("stage.picture", { lane: tell(lane.info.title), round: place.round.round, target,
      sampling: tell(sampling), date: created.slice(0, 10) });
  }

  // `frame` is {end, isLive, round}: how far the axis goes, and the round that would come next.
  function drawTransport(transport, player, frame) {
    const { buttons, live, scrub, speed, axis, clock, said } = transport;
    const { end, isLive } = frame;
    const isOn = player.isPlaying || (player.isFollowing && isLive);
    const name = isOn ? "pause" : "play";
    setIcon(buttons.play, name);
    put(buttons.play, "aria-label", word("stage.move." + name));
    say(buttons.play.lastChild, word("stage.move." + name));
    put(buttons.play, "data-invites", !isOn && player.position < end);
    const { halted } = player;
    say(said, halted ? word(halted.isRefusal ? "stage.opened_refusal" : "stage.opened", { n: halted.rounds }) : "");
    show(live, isLive);
    put(live, "aria-pressed", player.isFollowing);
    if (speed.value !== player.speed) speed.value = player.speed;
    if (axis.value !== player.axis) axis.value = player.axis;
    const value = end > 0 ? Math.round((player.position / end) * SCRUB_STEPS) : 0;
    if (Number(scrub.input.value) !== value) scrub.input.value = value;
    const isTime = player.axis === "time";
    const isWaiting = player.isPlaying && player.position >= end;
    say(clock, isWaiting ? word("stage.waiting", { round: frame.round })
      : word("stage.clock." + player.axis,
        { at: player.position.toFixed(isTime ? 3 : 1), end: end.toFixed(isTime ? 3 : 0) }));
    put(scrub.input, "aria-valuetext", clock.textContent);
  }

  return { OPTIONS, SETTINGS, SPEEDS, captionOf, makePage, wirePage, drawRunLine, drawTransport };
})();
