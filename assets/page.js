// The page around the stage: which run the stage listens to, which button shows, and what can be
// done with a run. It knows nothing of what is painted. Called once by Gradio's component, with
// what Gradio gives it and `settings` from the server. Contract with the stage: mount, receive,
// pending, interrupted; and, where the stage has them, place, go, picture and ghost.

const EFFORTS = { float32: "page.model_float32", warming: "page.model_warming" };
function startPage({ element, props, server, watch, adopt }, settings) {
  const code = settings.stageCode + settings.learnCode + "\nreturn { SpecVizWords, SpecVizStage, SpecVizLearn, SpecVizChapters, SpecVizMethod };";
  const { SpecVizWords: words, SpecVizStage, SpecVizLearn, SpecVizChapters, SpecVizMethod } = new Function(code)();
  const { word, tell } = words;
  const query = new URLSearchParams(location.search);
  const isEmbedded = query.get("embed") === "1";
  const link = linkState();
  const faults = linkFaults(link, query, { numChapters: SpecVizChapters.CHAPTERS.length,
    methods: SpecVizMethod.namesOf(settings.methods), recorded: settings.recorded });
  words.choose(firstLanguage(words, query));
  document.body.classList.toggle("specviz-embed", isEmbedded);

  const stage = SpecVizStage.mount(element.querySelector(".specviz-stage"), {
    measure: settings.hasForm ? (recipe) => measure(recipe) : null,
    tryRow: (row) => globalThis.open(pageAddress("labs", { row: JSON.stringify(row) }) + "#lab-exact", "_blank", "noopener"),
  });
  const runs = makeRuns(keep("sessionStorage"), 5);
  let run = null; // the live run that is listened to; null when there is none
  let shown = null; // what the stage shows: { kind: "live" | "recorded" | "file", id, name, items }
  let pinned = null; // the run of this visit that lies beside it
  let opening = null; // the run that was asked for last
  let silence = 0; // the timer that counts the server as lost
  // Where to go when the run of a link has come; one that is still to be made comes to it on its own.
  let wanted = link && settings.recorded.includes(link.recorded) ? link.place : null;
  let madeFor = null; // the same for a link whose run has yet to be made
  let model = null; // how far the model is
  let waiting = ""; // what the live run waits for: "queued", "float32", "warming"; "" once it began

  const saver = makeSaver({ words, settings, server, stage, element,
    shown: () => shown, say: (...more) => bar.say(...more) });
  const bar = makeBar(element.querySelector(".specviz-bar"), {
    words, settings, open: instead(open), reopen: instead(reopen), importFile: (file) => files.open(file),
    save: saver.save, ghost,
    copyLink: (box) => links.copyLink(box),
    hasPicture: () => Boolean(saver.drawing()),
  });
  const facts = makeFacts(element.querySelector(".specviz-facts"), { words });
  const draft = makeDraft(keep("sessionStorage"));
  const focus = makeFocus();
  const form = makeForm({ words, settings, onLanguage: chooseLanguage, adopt: follow,
    onChange: draft.keep });
  const settle = makeSettle({ holds: form.holds, onWait: () => bar.say(["page.settling", {}]) });
  const measure = makeMeasure({ server, follow: (recipe) => followRecipe(recipe, null), isShown: settle.isShown,
    say: (...more) => bar.say(...more), isBusy: () => run !== null });
  const links = makeLinks({ words, settings, server, stage, runs, bar, link, faults,
    look: { shown: () => shown, isIdle: () => run === null && !wanted, open, follow: followRecipe } });
  const files = makeFiles({ settings, server, runs, say: (...more) => bar.say(...more), isBusy: () => hasStarted(),
    ask: () => (opening = newRun()), isAsked: (id) => opening === id,
    show: instead((envelope, name) => showEnvelope(envelope, { kind: "file", id: envelope.run, name })) });
  const limits = makeLimits({ words });
  const told = makeTold({ words, named: makeNamer({ words, settings }) });

  // What a visitor chooses to see instead takes with it what was told of the run before.
  function instead(look) {
    return (...what) => {
      told.hush();
      return look(...what);
    };
  }

  // The controls show what a recipe asks for.
  function follow(recipe) {
    form.take(recipe);
    adopt({ recipe, language: words.language() });
    settle.expect(recipe);
  }

  // A link's: its place is one in a run that is still to be made.
  function followRecipe(recipe, place) {
    [wanted, madeFor] = [null, place];
    form.typed(true);
    follow(recipe);
  }

  // -- languages

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
    const isStopFocused = id === null && focus.isOnStop();
    run = id;
    clearTimeout(silence);
    document.body.classList.toggle("specviz-running", id !== null);
    wait("");
    paintBar();
    if (id === null) focus.runEnded(isStopFocused);
  }

  // Until then another run may be looked at: the one that waits takes the stage when it begins.
  const hasStarted = () => run !== null && Boolean(shown) && shown.id === run;

  // What ends a run that had begun is told on the stage, all else beside Run.
  function giveUp(message, how = "broken") {
    if (run === null) return;
    const begun = hasStarted();
    runs.end(run, how);
    server.leave_run(run).catch(() => {}); // a server that is gone has left it already
    listenTo(null);
    stage.interrupted(message);
    if (begun && how === "broken") return showTrouble();
    stage.pending("");
    told.tell(message, how === "broken");
    return undefined;
  }

  function showTrouble() {
    setTimeout(() => element.querySelector(".sv-error")?.scrollIntoView({ block: "nearest" }), 100);
  }

  // Gradio says that a run failed, but not which: if it was another, this one is heard of again.
  function doubt() {
    if (run === null) return;
    const message = [runs.find(run)?.texts.length ? "page.broken" : "page.refused", {}];
    clearTimeout(silence);
    silence = setTimeout(() => giveUp(message), settings.doubtSeconds * 1000);
  }

  const effort = () => (runs.find(run)?.recipe.precision === "float32" ? "float32" : "warming");

  function receive(text) {
    if (!text || run === null) return undefined;
    const envelope = JSON.parse(text);
    if (envelope.run !== run) return undefined; // the tail of a run that was stopped
    clearTimeout(silence);
    silence = setTimeout(() => giveUp(["page.lost", { seconds: settings.silenceSeconds }]),
      settings.silenceSeconds * 1000);
    if (!runs.find(run)?.texts.length) stage.pending(["page.preparing", {}]);
    runs.add(run, text, envelope.items);
    const ofKind = (kind) => envelope.items.findLast((item) => item.kind === kind);
    const [progress, failure] = [ofKind("progress"), ofKind("failure")];
    if (progress && !hasStarted()) wait(progress.stage === "queued" ? "queued" : effort());
    if (ofKind("start")) begun();
    if (hasStarted()) shown.items.push(...envelope.items);
    else if (failure) return giveUp(failure.message);
    if (ofKind("lane")) facts.paint(shown);
    stage.receive(text);
    if (ofKind("start")) focus.runBegun();
    if (failure) showTrouble();
    if (!envelope.last) return undefined;
    runs.end(run, failure ? "broken" : "ended");
    listenTo(null);
    goThere();
    return undefined;
  }

  function begun() {
    opening = null;
    form.fold(); // what was asked for is seen now, not the asking
    show({ kind: "live", id: run, items: [] });
    wait("");
  }

  function wait(what) {
    waiting = what;
    paintModel();
  }

  // -- what is shown

  function show(what) {
    shown = what;
    const { kind, id, name } = what;
    keep("sessionStorage").setItem("specviz.shown", JSON.stringify({ kind, id, name }));
    pinned = null;
    stage.ghost?.(null);
    paintBar();
    links.keepAddress();
  }

  function showEnvelope(envelope, what) {
    if (envelope.items.some((item) => item.kind === "start")) show({ ...what, items: envelope.items });
    stage.receive(JSON.stringify(envelope));
    if (run === null) goThere(); // else the place is one in the run that waits
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
    const text = await server.load_recorded({ name, run: asked }).catch(() => "");
    if (opening !== asked || hasStarted()) return;
    if (!text) return bar.say(["page.server_gone", {}], true);
    showEnvelope(JSON.parse(text), { kind: "recorded", id: asked, name });
    const prompt = settings.hasForm && !form.isTyped() && run === null ? await server.prompt_of(name) : "";
    if (prompt && !form.isTyped() && opening === asked) form.setPrompt(prompt);
    return undefined;
  }

  // A run of this visit, again. It gets a new name, as the stage hears each name once.
  function reopen(id) {
    const kept = runs.find(id);
    if (!kept || hasStarted()) return false;
    const asked = (opening = newRun());
    const time = kept.begun.slice(11, 16);
    const { label, note } = kept.file ? runs.headOf(kept) : { label: ["page.kept_run", { time }], note: "" };
    const envelope = { v: 1, run: asked, seq: 0, source: "recorded", last: true, label, items: runs.items(kept) };
    if (!envelope.items.some((item) => item.kind === "start")) return false;
    showEnvelope(envelope, { kind: kept.file ? "file" : "live", id, name: kept.file });
    if (kept.file) return bar.say(note || "") || true;
    const ends = { stopped: "page.stopped_run", reloaded: "page.reloaded" };
    const isWhole = envelope.items.some((item) => item.kind === "end");
    bar.say(isWhole ? "" : [kept.isCut ? "page.kept_in_part" : ends[kept.how] || "page.broken_off", {}]);
    return true;
  }

  // Lays a run of this visit beside the one that is shown, or takes it away again.
  function ghost(id) {
    const kept = pinned === id ? null : runs.find(id);
    pinned = kept ? id : null;
    stage.ghost?.(kept ? runs.items(kept) : null);
    paintBar();
  }

  // Another link in the same tab loads the page again, and is as new as in a tab of its own.
  const isFollowed = keep("sessionStorage").getItem("specviz.followed") !== null;
  keep("sessionStorage").removeItem("specviz.followed");
  const isReload = !isFollowed && performance.getEntriesByType("navigation")[0]?.type === "reload";

  // The controls as the visitor left them. A prompt is set at once, even one that cannot run.
  function takeBack() {
    const before = settings.hasForm && (isReload || !link) ? draft.read() : null;
    if (!before) return false;
    form.typed(Boolean(before.isTyped));
    follow(before.recipe);
    form.setPrompt(String(before.recipe.prompt ?? ""));
    return true;
  }

  // After a reload the page shows what it showed before.
  function restoreShown(isKept) {
    if (!isReload) return false;
    let before = null;
    try {
      before = JSON.parse(keep("sessionStorage").getItem("specviz.shown"));
    } catch {
      return false;
    }
    if (!before || before.kind === "recorded") return false;
    const isFile = before.kind === "file";
    const first = wanted;
    wanted = link && !isFile ? link.place : null; // the address followed what was shown, but never a file
    const isThere = reopen(before.id);
    if (!isThere) wanted = first;
    if (isFile && !isThere) bar.say(["page.file_again", { name: String(before.name) }]);
    if (isThere && !isFile && settings.hasForm && !isKept) follow(runs.find(before.id).recipe);
    return isThere;
  }

  // -- the bar above the stage

  function paintBar() {
    const hasGhost = Boolean(stage.ghost);
    facts.paint(shown);
    bar.paint({ isBusy: hasStarted(), shown, runs: runs.list(), hasGhost, pinned });
  }

  function paintModel() {
    if (!model) return;
    const isBusy = run !== null && model.state === "ready" && (waiting || "queued") !== "queued";
    if (isBusy) bar.model("busy", word(EFFORTS[waiting]), 0, 0);
    else bar.model(model.state, tell(model.message), model.done, model.total);
  }

  async function watchModel() {
    model = JSON.parse((await server.model_state("")) || "null");
    if (!model) return setTimeout(watchModel, 2000);
    paintModel();
    if (model.state === "loading") setTimeout(watchModel, 1000);
    return undefined;
  }

  function openFirst() {
    const isKept = takeBack();
    if (isReload && runs.isCutEarly) told.tell(["page.reloaded_early", {}], false);
    if (faults) bar.say(faults, true);
    if (restoreShown(isKept) || links.followLink(isKept) || !settings.recorded.length) return;
    const name = query.get("run");
    const isThere = settings.recorded.includes(name);
    if (name && !isThere) bar.say(["page.no_run_named", { name: name.slice(0, 80) }], true);
    open(isThere ? name : settings.recorded[0]);
  }

  globalThis.specviz = {
    // Names a run before the server knows of it, so that nothing of an older one is shown.
    begin(values) {
      const recipe = form.recipeOf(values);
      focus.runPressed();
      document.body.classList.remove("specviz-invites");
      bar.say("");
      told.hush();
      if (limits.changed()) told.tell(limits.changed(), false);
      [wanted, madeFor] = [madeFor, null];
      const id = newRun();
      runs.begin(id, recipe);
      listenTo(id);
      wait(effort());
      stage.pending(["page.sending", {}]);
      paintBar();
      return [...form.withOwnLanes(values.slice(0, -1)), run];
    },
    submit() {
      if (run === null) document.querySelector("#specviz-run").click();
    },
    stop: () => giveUp(["page.stopped", {}], "stopped"),
    refused: doubt,
    keep: form.keep,
    chosen: form.chosen,
  };

  document.documentElement.lang = words.language();
  if (settings.hasForm && words.language() !== "en") adopt({ language: words.language() });
  watch("value", () => receive(props.value));
  setInterval(links.keepAddress, 1000);
  addEventListener("hashchange", () => { // another link in the same tab
    keep("sessionStorage").setItem("specviz.followed", "");
    draft.forget();
    location.reload();
  });
  words.listen(paintBar);
  paintBar();
  openFirst();
  SpecVizLearn.mount(element.querySelector(".specviz-learn"), {
    offers: bar.offers, stage, open: instead(open), memory: keep("localStorage"), recorded: settings.recorded, methods: settings.methods,
    isBack: Boolean(link), isBusy: hasStarted, load: (name) => server.load_recorded({ name, run: newRun() }) });
  if (settings.hasModel) watchModel();
}
