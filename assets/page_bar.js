// The bar above the stage: recorded runs and runs of this visit to choose
// from, how far the model is, links, files. It paints what it is told and reports clicks.
// `isBusy`: a live run has begun and has the stage; one that only waits leaves the choice open.

const FILE_FORMS = ["trace", "html", "csv", "svg", "png"];

function makeBar(root, { words, settings, open, reopen, importFile, copyLink, save, ghost,
  hasPicture }) {
  const { word, wordOr, tell } = words;
  const recorded = make("div", "specviz-recorded specviz-chips");
  const mine = make("div", "specviz-mine specviz-chips");
  const readiness = make("div", "specviz-readiness");
  const offers = make("div", "svl-offers"); // the chapters fill it
  const tools = make("div", "specviz-tools");
  const note = make("p", "specviz-saying");
  const box = make("input", "specviz-link");
  const file = make("input", "specviz-file");
  let said = "";
  let last = { isBusy: false, shown: null, runs: [], hasGhost: false };
  readiness.setAttribute("role", "status");
  note.setAttribute("role", "status");
  offers.classList.add("svl");
  Object.assign(box, { readOnly: true, hidden: true });
  Object.assign(file, { type: "file", accept: ".jsonl,.gz,.json,.txt", hidden: true });
  file.addEventListener("change", () => {
    if (file.files.length) importFile(file.files[0]);
    file.value = "";
  });

  function chip(text, isPressed, isDisabled, onClick) {
    const button = makeButton("specviz-chip", text, onClick);
    button.setAttribute("aria-pressed", isPressed);
    button.disabled = isDisabled;
    return button;
  }

  function paint(state) {
    last = state;
    const { isBusy, shown, runs } = state;
    const isRecorded = shown && shown.kind === "recorded" && !isBusy;
    recorded.replaceChildren(make("span", "", word("page.recorded")),
      ...settings.recorded.map((name) => {
        const button = chip(recordedName(name), isRecorded && shown.name === name, isBusy, () => open(name));
        button.dataset.name = name;
        return button;
      }));
    recorded.hidden = !settings.recorded.length;
    mine.hidden = !runs.length;
    mine.replaceChildren(make("span", "", word("page.your_runs")),
      ...runs.flatMap((run, i) => mineChips(run, i, state)));
    paintTools();
    note.textContent = tell(said);
  }

  function mineChips(run, i, { isBusy, shown, hasGhost, pinned }) {
    const short = shortName(run);
    const isShown = Boolean(shown) && shown.kind !== "recorded" && shown.id === run.id;
    const button = chip(i + 1 + ". " + short + apart(run), isShown, isBusy, () => reopen(run.id));
    button.title = [run.file, promptOf(run).slice(0, 300), lanesOf(run)].filter(Boolean).join("\n");
    if (!hasGhost || isShown || !shown) return [button];
    const pin = chip(word("page.compare"), pinned === run.id, isBusy, () => ghost(run.id));
    pin.classList.add("specviz-pin");
    pin.title = word("page.compare_hint", { name: short });
    return [button, pin];
  }

  const promptOf = (run) => String(run.recipe.prompt).trim();

  function shortName(run) {
    const name = run.file || promptOf(run);
    return name.length > 24 ? name.slice(0, 23) + "…" : name;
  }

  function lanesOf(run) {
    const titles = run.recipe.lanes.map((lane) => settings.drafters?.[lane.drafter || lane] || "");
    return titles.filter(Boolean).join(word("page.comma"));
  }

  // What tells a run from others whose chip would read the same: its lanes and its time.
  function apart(run) {
    const twins = last.runs.filter((one) => one !== run && shortName(one) === shortName(run));
    if (!twins.length) return "";
    const minuteOf = (one) => one.begun.slice(0, 16);
    const isSameMinute = twins.some((one) => minuteOf(one) === minuteOf(run));
    const time = run.begun.slice(11, isSameMinute ? 19 : 16);
    return run.file ? word("page.chip_file", { time })
      : word("page.chip_run", { n: run.recipe.lanes.length, time });
  }

  function recordedName(name) {
    return wordOr("recording." + name, name.replaceAll("_", " "));
  }

  function paintTools() {
    const isOff = !last.shown;
    const copy = makeButton("specviz-tool", word("page.copy_link"), () => copyLink(box));
    copy.disabled = isOff;
    const files = make("details", "specviz-menu");
    files.append(make("summary", "specviz-tool", word("page.save")));
    const list = make("div", "specviz-menu-list");
    for (const form of FILE_FORMS) {
      const button = makeButton("specviz-menu-item", word("page.save." + form), () => {
        files.open = false;
        save(form);
      });
      button.dataset.form = form;
      button.disabled = isOff || ((form === "svg" || form === "png") && !hasPicture());
      list.append(button);
    }
    files.addEventListener("toggle", () => {
      for (const button of list.children)
        if (button.dataset.form.endsWith("g")) button.disabled = !hasPicture();
      list.style.insetInline = ""; // at the end of its button, unless it would leave the window there
      if (list.getBoundingClientRect().left < 0) list.style.insetInline = "0 auto";
    });
    closeOnEscape(files);
    files.append(list);
    const bring = makeButton("specviz-tool", word("page.open_file"), () => file.click());
    bring.disabled = last.isBusy;
    const wasOpen = tools.querySelector("details")?.open;
    tools.replaceChildren(copy, files, bring);
    files.open = Boolean(wasOpen);
    box.setAttribute("aria-label", word("page.link"));
  }

  function model(state, sentence, done, total) {
    readiness.dataset.state = state;
    readiness.style.setProperty("--share", total > 0 ? Math.min(1, done / total) : 0);
    const size = total > 0 && state === "loading"
      ? word("page.size", { done: (done / 1e6).toFixed(0), total: (total / 1e6).toFixed(0) }) : "";
    readiness.textContent = sentence + size + (state === "loading" ? " " + word("page.model_then") : "");
  }

  root.replaceChildren(recorded, mine, readiness, offers, tools, box, note, file);
  addDrop(document.querySelector("#specviz-stage") || root, importFile);
  return {
    paint,
    model,
    offers,
    // A sentence about what was just done; `isTrouble` gives it a warning's look.
    say(sentence, isTrouble = false) {
      said = sentence;
      note.textContent = tell(sentence);
      note.dataset.trouble = isTrouble;
      if (!isTrouble && sentence === "") box.hidden = true;
    },
  };
}

// A trace file dropped on the stage opens like a chosen one.
function addDrop(target, take) {
  target.addEventListener("dragover", (event) => event.preventDefault());
  target.addEventListener("drop", (event) => {
    const [file] = event.dataTransfer.files;
    if (!file) return;
    event.preventDefault();
    take(file);
  });
}
