// The page around the stage: which run the stage listens to, which button shows, and what can be
// done with a run. It knows nothing of what is painted. Called once by Gradio's component, with
// what Gradio gives it and `settings` from the server. Contract with the stage: mount, receive,
// pending, interrupted; and, where the stage has them, place, go, picture and ghost.

function startPage({ element, props, server, watch, adopt }, settings) {
  const code = settings.stageCode + "\nreturn { SpecVizWords, SpecVizStage };";
  const { SpecVizWords: words, SpecVizStage } = new Function(code)();
  const { word, tell } = words;
  const query = new URLSearchParams(location.search);
  const isEmbedded = query.get("embed") === "1";
  const link = linkState();
  words.choose(firstLanguage());
  document.body.classList.toggle("specviz-embed", isEmbedded);

  const stage = SpecVizStage.mount(element.querySelector(".specviz-stage"));
  const runs = makeRuns(keep("sessionStorage"), 5);
  let run = null; // the live run that is listened to; null when there is none
  let shown = null; // what the stage shows: { kind: "live" | "recorded" | "file", id, name, items }
  let pinned = null; // the run of this visit that lies beside it
  let opening = null; // the run that was asked for last
  let silence = 0; // the timer that counts the server as lost
  let wanted = link ? link.place : null; // where to go when the run of a link has come
  let madeFor = null; // the same for a link whose run has yet to be made
  let model = null; // how far the model is

  const saver = makeSaver({ words, settings, server, stage, element,
    shown: () => shown, say: (...more) => bar.say(...more) });
  const bar = makeBar(element.querySelector(".specviz-bar"), {
    words, settings, open, reopen, importFile, copyLink, save: saver.save, ghost,
    hasPicture: () => Boolean(saver.drawing()),
  });
  const facts = makeFacts(element.querySelector(".specviz-facts"), { words });
  const form = makeForm({ words, settings, onLanguage: chooseLanguage, adopt: follow });

  // The controls show what a recipe asks for.
  function follow(recipe) {
    form.take(recipe);
    adopt({ recipe, language: words.language() });
  }

  // -- languages

  function firstLanguage() {
    const asked = [query.get("lang"), keep("localStorage").getItem("specviz.language"), navigator.language];
    const short = asked.map((one) => String(one || "").slice(0, 2));
    return short.find((one) => words.languages().includes(one)) || "en";
  }

  function chooseLanguage(language) {
    keep("localStorage").setItem("specviz.language", language);
    words.choose(language);
    document.documentElement.lang = language;
    if (settings.hasForm) adopt({ language });
    paintModel();
  }

  // -- the live run

  function newRun() {
    const bytes = crypto.getRandomValues(new Uint8Array(12));
    return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  }

  function listenTo(id) {
    const hadFocus = document.activeElement?.id === "specviz-stop";
    run = id;
    clearTimeout(silence);
    document.body.classList.toggle("specviz-running", id !== null);
    paintBar();
    if (id === null && hadFocus)
      document.querySelector("#specviz-run").focus({ preventScroll: true });
  }

  // Stop appears where Run was: the second half of a double click, or a key held down, must not
  // press it.
  function holdStop() {
    const stop = document.querySelector("#specviz-stop");
    stop.disabled = true;
    setTimeout(() => {
      stop.disabled = false;
      if (document.activeElement === document.body) stop.focus({ preventScroll: true });
    }, 400);
  }

  function giveUp(message) {
    if (run === null) return;
    const kept = runs.find(run);
    if (kept) kept.isEnded = true;
    server.leave_run(run).catch(() => {}); // a server that is gone has left it already
    listenTo(null);
    stage.interrupted(message);
  }

  // Gradio says that a run failed, but not which: if it was another, this one is heard of again.
  function doubt() {
    if (run === null) return;
    const hasBegun = Boolean(runs.find(run)?.texts.length);
    clearTimeout(silence);
    silence = setTimeout(() => giveUp(hasBegun ? ["page.broken", {}] : ["page.refused", {}]),
      settings.doubtSeconds * 1000);
  }

  function lose() {
    giveUp(["page.lost", { seconds: settings.silenceSeconds }]);
  }

  function receive(text) {
    if (!text || run === null) return;
    const envelope = JSON.parse(text);
    if (envelope.run !== run) return; // the tail of a run that was stopped
    clearTimeout(silence);
    silence = setTimeout(lose, settings.silenceSeconds * 1000);
    runs.add(run, text, envelope.last);
    if (envelope.items.some((item) => item.kind === "start"))
      show({ kind: "live", id: run, items: [] });
    if (shown && shown.id === run) shown.items.push(...envelope.items);
    if (envelope.items.some((item) => item.kind === "lane")) facts.paint(shown);
    stage.receive(text);
    if (!envelope.last) return;
    listenTo(null);
    goThere();
  }

  // -- what is shown

  function show(what) {
    shown = what;
    const { kind, id, name } = what;
    keep("sessionStorage").setItem("specviz.shown", JSON.stringify({ kind, id, name }));
    pinned = null;
    stage.ghost?.(null);
    paintBar();
    keepAddress();
  }

  function showEnvelope(envelope, what) {
    if (envelope.items.some((item) => item.kind === "start")) show({ ...what, items: envelope.items });
    stage.receive(JSON.stringify(envelope));
    goThere();
  }

  // The place comes from a link, so it may be anything: one that does not fit is left alone.
  function goThere() {
    const place = wanted;
    wanted = null;
    if (!place || typeof place !== "object") return;
    try {
      stage.go?.(place);
    } catch (error) {
      console.debug(error);
    }
  }

  async function open(name) {
    const asked = (opening = newRun());
    const text = await server.load_recorded({ name, run: asked });
    if (run === null && opening === asked && text)
      showEnvelope(JSON.parse(text), { kind: "recorded", id: asked, name });
  }

  // A run of this visit, again. It gets a new name, as the stage hears each name once.
  function reopen(id) {
    const kept = runs.find(id);
    if (!kept || run !== null) return false;
    const asked = (opening = newRun());
    const time = kept.begun.slice(11, 16);
    const envelope = { v: 1, run: asked, seq: 0, source: "recorded", last: true,
      label: ["page.kept_run", { time }], items: runs.items(kept) };
    if (!envelope.items.some((item) => item.kind === "start")) return false;
    showEnvelope(envelope, { kind: "live", id });
    if (!envelope.items.some((item) => item.kind === "end")) bar.say(["page.broken_off", {}]);
    return true;
  }

  // Lays a run of this visit beside the one that is shown, or takes it away again.
  function ghost(id) {
    const kept = pinned === id ? null : runs.find(id);
    pinned = kept ? id : null;
    stage.ghost?.(kept ? runs.items(kept) : null);
    paintBar();
  }

  async function importFile(file) {
    if (run !== null) return;
    const megabytes = Math.round(settings.maxImport / 1e6);
    bar.say(["page.reading", { name: file.name }]);
    const asked = (opening = newRun());
    try {
      const text = await readTraceFile(file, settings.maxImport);
      if (text === null)
        return bar.say(["page.import_too_big", { name: file.name, megabytes }], true);
      const answer = await server.import_trace({ text, name: file.name, run: asked });
      if (run !== null || opening !== asked) return undefined;
      if (!answer) return bar.say(["page.server_gone", {}], true);
      const envelope = JSON.parse(answer);
      const refusal = envelope.items.find((item) => item.kind === "failure");
      if (refusal) return bar.say(refusal.message, true);
      bar.say("");
      return showEnvelope(envelope, { kind: "file", id: asked, name: file.name });
    } catch {
      return bar.say(["page.import_unreadable", { name: file.name }], true);
    }
  }

  // -- links

  function sharedState() {
    if (!shown || shown.kind === "file") return null;
    const state = { v: 1, lang: words.language() };
    const kept = shown.kind === "live" ? runs.find(shown.id) : null;
    if (shown.kind === "recorded") state.recorded = shown.name;
    else if (kept) state.recipe = kept.recipe;
    const place = stage.place?.();
    if (place) state.place = place;
    return state;
  }

  // The address follows what is looked at, so that a reload or a bookmark comes back to it.
  function keepAddress() {
    const state = run === null && !wanted ? sharedState() : null;
    const address = state ? linkTo(state, location.search.slice(1)) : location.href;
    if (address !== location.href && address.length <= LONGEST_LINK)
      history.replaceState(history.state, "", address);
  }

  async function copyLink(box) {
    const state = sharedState();
    if (!state) return bar.say(["page.no_link", {}], true);
    const address = linkTo(state, "lang=" + words.language());
    if (address.length > LONGEST_LINK) return bar.say(["page.link_too_long", {}], true);
    const isCopied = await copyText(address, box);
    return bar.say([isCopied ? "page.copied" : "page.copy_yourself", {}]);
  }

  function followLink() {
    if (!link) return false;
    if (typeof link.recorded === "string" && settings.recorded.includes(link.recorded)) {
      open(link.recorded);
      return true;
    }
    if (settings.hasForm && link.recipe && typeof link.recipe === "object") adoptRecipe();
    return false; // a recording shows meanwhile
  }

  async function adoptRecipe() {
    wanted = null; // its place is one in a run that is still to be made
    const reason = await server.why_not(link.recipe);
    if (reason) return bar.say(["page.link_refused", { reason }], true);
    follow(link.recipe);
    madeFor = link.place;
    bar.say(["page.link_opened", {}]);
    document.body.classList.add("specviz-invites");
    return undefined;
  }

  // After a reload the page shows what it showed before.
  function restoreShown() {
    const [entry] = performance.getEntriesByType("navigation");
    if (!entry || entry.type !== "reload") return false;
    let before = null;
    try {
      before = JSON.parse(keep("sessionStorage").getItem("specviz.shown"));
    } catch {
      return false;
    }
    if (!before || before.kind !== "live" || !reopen(before.id)) return false;
    if (settings.hasForm) follow(runs.find(before.id).recipe);
    return true;
  }

  // -- the bar above the stage

  function paintBar() {
    const hasGhost = Boolean(stage.ghost);
    facts.paint(shown);
    bar.paint({ isBusy: run !== null, shown, runs: runs.list(), hasGhost, pinned });
  }

  function paintModel() {
    if (model) bar.model(model.state, tell(model.message), model.done, model.total);
  }

  async function watchModel() {
    model = JSON.parse((await server.model_state("")) || "null");
    if (!model) return setTimeout(watchModel, 2000);
    paintModel();
    if (model.state === "loading") setTimeout(watchModel, 1000);
    return undefined;
  }

  globalThis.specviz = {
    // Names a run before the server knows of it, so that nothing of an older one is shown.
    begin(values) {
      const recipe = form.recipeOf(values);
      document.body.classList.remove("specviz-invites");
      bar.say("");
      [wanted, madeFor] = [madeFor, null];
      listenTo(newRun());
      runs.begin(run, recipe);
      holdStop();
      stage.pending(["page.sending", {}]);
      paintBar();
      return [...form.withOwnLanes(values.slice(0, -1)), run];
    },
    submit() {
      if (run === null) document.querySelector("#specviz-run").click();
    },
    stop: () => giveUp(["page.stopped", {}]),
    refused: doubt,
    chosen: form.chosen,
  };

  document.documentElement.lang = words.language();
  if (settings.hasForm && words.language() !== "en") adopt({ language: words.language() });
  watch("value", () => receive(props.value));
  setInterval(keepAddress, 1000);
  addEventListener("hashchange", () => location.reload()); // another link in the same tab
  words.listen(paintBar);
  paintBar();
  if (!restoreShown() && !followLink() && settings.recorded.length) {
    const named = query.get("run");
    open(settings.recorded.includes(named) ? named : settings.recorded[0]);
  }
  if (settings.hasModel) watchModel();
}
