// Teaching beside the stage: seven chapters that drive it, and a panel on the method in focus. What
// it shows is the stage's; it moves the stage as a visitor would, and hears what the visitor did.

const SpecVizLearn = (function () {
  const { playedLanes } = SpecVizRun;
  const { word, el, put, show, button } = SpecVizDom;
  const { CHAPTERS } = SpecVizChapters;
  const { makeCard, drawCard } = SpecVizLearnCard;
  const { namesOf, makeMethod, drawMethod } = SpecVizMethod;
  const { newPlace } = SpecVizLearnPlace;
  const PHONE = "(max-width: 640px)"; // as in learn.css
  const SETTLED_MS = 200; // until the place that was asked for is drawn

  // `page` is {offers (the element for what opens it), stage, memory, recorded (names), load(name), open(name), isBusy(), methods {name: facts},
  // isBack (a link or a reload has put the stage where it is to be)}.
  function mount(root, page) {
    const place = newPlace(page.memory, CHAPTERS.map((chapter) => chapter.name), namesOf(page.methods));
    const s = { number: place.chapter, tab: place.tab, here: null, memo: {}, run: null, view: null,
      isOut: false, note: "", wants: !page.isBack, isWaiting: false, isSeeking: false, spot: null, offered: null };
    let [card, method, tabs] = [null, null, {}];
    const phone = window.matchMedia(PHONE);

    const chapter = () => CHAPTERS[s.number - 1];
    const isAll = () => CHAPTERS.every((one) => place.done[one.name]);

    // -- moving about

    function enter(number, isByKey) {
      if (number < 1 || number > CHAPTERS.length) return;
      Object.assign(s, { number, tab: "chapters", here: null, memo: {}, isOut: false, note: "", wants: true });
      keepPlace();
      paint();
      aim();
      if (isByKey === true) card.title.focus();
      else if (isByKey === false) focusStage();
    }

    function again() {
      place.forget(chapter().name);
      enter(s.number, null);
    }

    // The key that the chapter names, pressed on the stage: the transport bar may be out of sight. Who
    // pressed it with a pointer may go on with the key.
    function step(isByKey) {
      const [, key, shiftKey] = chapter().step;
      stageRoot().dispatchEvent(new KeyboardEvent("keydown", { key, shiftKey }));
      if (!isByKey) focusStage();
    }

    function open(tab) {
      s.tab = tab;
      if (tab === "chapters") return enter(place.chapter || s.number || 1, null);
      unlight();
      paint();
      return keepPlace();
    }

    function close() {
      s.tab = "";
      keepPlace();
      unlight();
      paint();
      page.offers.querySelector("button").focus();
    }

    function keepPlace() {
      place.keep({ chapter: s.number, tab: s.tab, method: method ? method.name : "" });
    }

    const stageRoot = () => document.querySelector(".specviz-stage .sv");
    const focusStage = () => stageRoot().focus({ preventScroll: true });

    // -- the run a chapter is told on

    const isUsable = (run) => run.source !== "live" || run.isEnded || Boolean(run.interrupted);

    // The run that is shown, if it has what the chapter needs; else the first recorded one that has,
    // or at least the next best.
    async function aim() {
      const { view, number } = s;
      if (!view || s.isSeeking) return;
      Object.assign(s, { run: view.run, memo: {}, isOut: false });
      s.here = isUsable(view.run) ? chapter().pick(view.run) : null;
      if (!s.wants || (s.here && !s.here.isSecondBest)) return arrived();
      s.isWaiting = false;
      if (page.isBusy()) return s.here ? arrived() : wait("learn.busy");
      s.isSeeking = true;
      const { best, second } = await fitting();
      s.isSeeking = false;
      if (s.number !== number) return aim();
      const found = best || (s.here ? "" : second);
      if (found) return page.open(found); // it is heard of when it is drawn
      return s.here ? arrived() : wait("learn.none_fits");
    }

    async function fitting() {
      let second = "";
      for (const name of page.recorded) {
        const text = await page.load(name); // nothing, if the server is gone
        const here = text && chapter().pick({ lanes: playedLanes(JSON.parse(text).items) });
        if (here && !here.isSecondBest) return { best: name, second };
        if (here) second = second || name;
      }
      return { best: "", second };
    }

    function arrived() {
      s.isWaiting = false;
      s.note = s.here ? "" : ["learn.elsewhere", {}];
      if (s.here && s.wants) drive();
      s.wants = false;
      draw();
    }

    function wait(key) {
      s.isWaiting = key === "learn.busy";
      s.note = [key, {}];
      draw();
    }

    function drive() {
      const { lane } = s.here;
      const number = lane.info.lane;
      page.stage.go({ lane: number, axis: "time", speed: "1", ...(s.here.isRace ? {} : { lanes: [number] }) });
      page.stage.seek(chapter().start(s.here, s.run));
      if (document.hasFocus()) setTimeout(showSpot, SETTLED_MS);
    }

    // -- hearing the stage

    function hear(view) {
      const isFree = s.isWaiting && !page.isBusy();
      s.view = view;
      if (!s.tab) return offerMethod();
      if (s.tab === "method") return drawMethod(method, view);
      if (s.run !== view.run || isFree) setTimeout(aim); // not amid its drawing
      else if (s.here && !s.isSeeking) follow(view);
      return light();
    }

    function follow(view) {
      const { name, guess, done } = chapter();
      const isOut = Boolean(guess) && (s.isOut || guess.isOut(view, s.here));
      const values = place.done[name] ? null : done(view, s.here, s.memo);
      if (values) place.finish(name, values);
      if (isOut === s.isOut && !values) return;
      s.isOut = isOut;
      draw();
      root.scrollTop = root.scrollHeight; // what is told now stands last in the card
      if (chapter().firstSpots && document.hasFocus()) setTimeout(showSpot, SETTLED_MS);
    }

    // -- the spotlight

    function spotted() {
      const stage = document.querySelector(".specviz-stage");
      const { spots, firstSpots, phoneSpots } = chapter();
      return (phoneSpots && phone.matches ? phoneSpots : firstSpots && !s.isOut ? firstSpots : spots).map((spot) => stage.querySelector(spot)).find((part) => part && part.offsetParent) || null;
    }

    function showSpot() {
      const part = spotted();
      if (part) part.scrollIntoView({ block: "nearest" });
    }

    function light() {
      if (s.view.isPlaying && s.spot && s.spot.isConnected) return; // to look for it costs a layout
      const part = spotted();
      if (part === s.spot && (!part || part.isConnected)) return;
      unlight();
      s.spot = part;
      if (part) put(part, "data-spot", true);
    }

    function unlight() {
      if (s.spot) s.spot.removeAttribute("data-spot");
      s.spot = null;
    }

    // -- drawing

    function build() {
      card = makeCard(CHAPTERS, { enter, again, step });
      method = makeMethod(page.methods, { choose: chooseMethod }, nameAtFirst());
      tabs = { chapters: tab("chapters"), method: tab("method") };
      const shut = button("cross", word("learn.close"));
      shut.addEventListener("click", close);
      const dock = el("aside", "svl-dock", el("div", "svl-head", tabs.chapters, tabs.method, shut), card.root, method.root);
      dock.setAttribute("aria-label", word("learn.label"));
      page.offers.replaceChildren(offer("chapters"), offer("method"));
      root.replaceChildren(dock);
      s.offered = null;
      paint();
    }

    // Of the method panel; built anew for another language, it goes on with what it shows.
    function nameAtFirst() {
      if (!method) return place.method;
      return s.tab === "method" ? method.name : "";
    }

    function tab(name) {
      const made = el("button", "svl-tab", word("learn.tab." + name));
      made.type = "button";
      made.addEventListener("click", () => open(name));
      return made;
    }

    function offer(name) {
      const made = el("button", "svl-offer", el("span", ""));
      made.type = "button";
      made.dataset.name = name;
      made.addEventListener("click", () => open(name));
      return made;
    }

    function offerMethod() {
      if (s.offered === s.view.lane) return;
      s.offered = s.view.lane;
      const made = page.offers.querySelector(".svl-offer[data-name='method'] > span");
      made.textContent = SpecVizMethod.offerWords(s.view.lane);
    }

    function chooseMethod(name) {
      const lane = s.view && s.view.run.lanes.find((one) => one.info.drafter === name);
      if (lane) page.stage.go({ lane: lane.info.lane });
      place.keep({ chapter: s.number, tab: s.tab, method: name });
      if (s.view) drawMethod(method, s.view);
    }

    function paint() {
      const isOpen = Boolean(s.tab);
      put(root, "data-open", isOpen);
      document.body.classList.toggle("specviz-learning", isOpen);
      show(page.offers, !isOpen);
      show(root, isOpen);
      show(card.root, s.tab === "chapters");
      show(method.root, s.tab === "method");
      for (const name in tabs) put(tabs[name], "aria-pressed", s.tab === name);
      const isBegun = !isAll() && (Object.keys(place.done).length > 0 || place.chapter > 1);
      page.offers.querySelector(".svl-offer[data-name='chapters'] > span").textContent = isBegun && place.chapter
        ? word("learn.resume", { n: place.chapter, total: CHAPTERS.length }) : word("learn.open");
      if (s.view) offerMethod();
      if (s.tab === "chapters") draw();
      if (s.tab === "method" && s.view) drawMethod(method, s.view);
    }

    function draw() {
      const { name, guess } = chapter();
      const isAsked = Boolean(guess && s.here);
      drawCard(card, {
        number: s.number, chapters: CHAPTERS, done: place.done, note: s.note || (isAll() ? ["learn.all_done", {}] : ""),
        asked: isAsked ? guess.values(s.here) : null, options: isAsked ? guess.options(s.here) : [],
        guessed: place.guesses[name], truth: isAsked && s.isOut ? String(guess.truth(s.here)) : null,
      }, (option) => {
        place.guess(name, option);
        draw();
        focusStage();
      });
    }

    build();
    page.stage.look(hear);
    SpecVizWords.listen(build);
  }

  return { mount };
})();
