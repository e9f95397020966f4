// What stands around the controls that Gradio makes: the head with the language switch, example
// prompts and presets, and sentences about what was chosen. Values go to Gradio's own controls;
// this knows none of their ranges.

// Calls `use` with the element as soon as the page has it.
function whenThere(selector, use) {
  const found = document.querySelector(selector);
  if (found) use(found);
  else setTimeout(() => whenThere(selector, use), 50);
}

// A menu made of a fold: Escape, or a click elsewhere, closes it.
function closeOnEscape(menu) {
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    menu.open = false;
    menu.firstChild.focus();
  });
  menu.addEventListener("focusout", (event) => {
    if (event.relatedTarget && !menu.contains(event.relatedTarget)) menu.open = false;
  });
}

// `onChange(recipe, isTyped)` hears what the controls ask for whenever that changed; the prompt is
// typed if the visitor wrote or chose it.
function makeForm({ words, settings, adopt, onLanguage, onChange }) {
  const { word } = words;
  const state = { target: "", lanes: [], isTyped: false, isOurs: false, taken: "" }; // the offer taken last
  const extra = makeLanes({ words, settings, onChange: laneChanged });
  let values = settings.defaults || []; // of the controls, as Gradio told them last

  function laneChanged() {
    whenThere(".specviz-notes", paintNotes);
    whenThere(".specviz-fold", paintFold);
    onChange(recipeOf(values), state.isTyped);
  }

  function promptBox() {
    return document.querySelector("#specviz-prompt textarea");
  }

  function setPrompt(text) {
    whenThere("#specviz-prompt textarea", (box) => {
      state.isOurs = true;
      box.value = text;
      box.dispatchEvent(new Event("input", { bubbles: true }));
      state.isOurs = false;
    });
  }

  // -- head

  function paintHead(root) {
    paintTop(root, words, word("page.purpose"), onLanguage);
  }

  // -- examples and presets

  function offer(kind, name, onClick) {
    const button = makeButton("specviz-chip", word(kind + name + ".title"), onClick);
    button.title = word(kind + name + ".why");
    button.dataset.name = name;
    button.addEventListener("click", () => take(kind + name));
    return button;
  }

  function take(offered) {
    state.taken = offered;
    whenThere(".specviz-why", paintWhy);
  }

  // Why one would choose what was taken last: not only for who can hover.
  function paintWhy(root) {
    const { taken } = state;
    root.replaceChildren(...(taken ? [make("b", "", word(taken + ".title")), " " + word(taken + ".why")] : []));
  }

  function paintOffers(root) {
    const examples = make("div", "specviz-chips");
    examples.append(make("span", "", word("page.examples")));
    examples.title = word("page.offers_hint");
    for (const [name, prompt] of Object.entries(settings.examples))
      examples.append(offer("example.", name, () => {
        state.isTyped = true;
        setPrompt(prompt);
      }));
    const presets = make("div", "specviz-chips");
    presets.append(make("span", "", word("page.presets")));
    for (const [name, recipe] of Object.entries(settings.presets))
      presets.append(offer("preset.", name, () => adopt({ ...recipe, ...kept(recipe) })));
    const rows = make("div", "specviz-offer-rows");
    rows.append(examples, presets);
    const { classList } = document.body;
    const more = makeButton("specviz-tool specviz-more-line", word("page.more_rows"), () =>
      more.setAttribute("aria-expanded", !classList.toggle("specviz-fewer-rows")));
    more.setAttribute("aria-expanded", !classList.contains("specviz-fewer-rows"));
    const why = make("p", "specviz-why");
    why.setAttribute("aria-live", "polite");
    root.replaceChildren(more, rows, why);
    paintWhy(why);
  }

  // What a preset leaves as it is.
  function kept(recipe) {
    const own = promptBox().value || settings.examples.chat;
    return { prompt: state.isTyped ? own : recipe.prompt || own, target: state.target };
  }

  // -- the fold of all settings: one line that says what is chosen

  const isUnfolded = () => document.body.classList.contains("specviz-unfolded");

  function unfold(isOpen) {
    document.body.classList.toggle("specviz-unfolded", isOpen);
    whenThere(".specviz-fold", paintFold);
  }

  function paintFold(root) {
    const lanes = [...state.lanes, ...extra.list().map((lane) => lane.drafter)];
    const said = word("page.summary", { target: settings.targets[state.target], n: lanes.length,
      lanes: lanes.map(extra.titleOf).join(word("page.comma")) });
    const button = root.firstChild || makeButton("specviz-fold-line", "", () => unfold(!isUnfolded()));
    button.id = "specviz-settings";
    button.setAttribute("aria-expanded", isUnfolded());
    button.setAttribute("aria-controls", "specviz-more");
    button.replaceChildren(make("b", "", word("page.settings")), make("span", "specviz-chosen", said),
      make("span", "specviz-change", word("page.change")));
    if (!root.firstChild) root.append(button);
  }

  // -- sentences about the choice

  function notes() {
    const found = [];
    const { target, lanes } = state;
    const own = extra.list();
    const drafters = [...lanes, ...own.map((lane) => lane.drafter)];
    const tuned = settings.ownBackbones.filter((name) => drafters.includes(name));
    if (!lanes.includes("autoregressive")) found.push(["no-plain", word("page.no_plain_lane")]);
    for (const name of tuned) found.push(["tuned", word("page.own_baseline", { name: extra.titleOf(name) })]);
    if (drafters.length + tuned.length > settings.maxLanes)
      found.push(["too-many", word("page.too_many_lanes", { n: settings.maxLanes })]);
    const untrained = untrainedFor(target);
    if (untrained.length) {
      found.push(["untrained", word("page.untrained", { target: settings.targets[target] })]);
    }
    if (settings.baseTargets.includes(target))
      found.push(["base", word("page.base_target", { target: settings.targets[target] })]);
    return found;
  }

  function untrainedFor(target) {
    return settings.untrained.filter(([name]) => name === target).map(([, drafter]) => drafter);
  }

  function paintNotes(root) {
    root.replaceChildren(...notes().map(([name, text]) => {
      const note = make("p", "specviz-note", text);
      note.id = "specviz-" + name + "-note";
      return note;
    }));
    greyLanes();
  }

  // Gradio cannot switch off one box of a group, and may draw a box or the whole group anew at any time.
  function greyLanes() {
    const untrained = untrainedFor(state.target);
    const names = Object.keys(settings.drafters);
    document.querySelectorAll("#specviz-lanes input[type=checkbox]").forEach((box, i) => {
      const isOff = untrained.includes(names[i]);
      const label = box.closest("label");
      if (box.disabled !== isOff) box.disabled = isOff;
      label.classList.toggle("specviz-off", isOff);
      label.title = isOff
        ? word("page.untrained_one", { target: settings.targets[state.target] }) : "";
      if (isOff) box.setAttribute("aria-describedby", "specviz-untrained-note");
    });
  }

  // Gradio names the parts of its sliders in English alone, and may draw them anew at any time.
  function nameSliders() {
    for (const button of document.querySelectorAll("#specviz-form .reset-button"))
      for (const name of ["aria-label", "title"])
        if (button.hasAttribute(name) && button.getAttribute(name) !== word("page.reset")) button.setAttribute(name, word("page.reset"));
    if (words.language() === "en") return;
    for (const input of document.querySelectorAll("#specviz-form input:is([aria-label^='number input for '], [aria-label^='range slider for '])"))
      input.setAttribute("aria-label", input.getAttribute("aria-label")
        .replace(/^(number input|range slider) for /, ""));
  }

  function chosen(target, lanes) {
    Object.assign(state, { target, lanes });
    extra.aim(target);
    whenThere(".specviz-notes", paintNotes);
    whenThere(".specviz-fold", paintFold);
  }

  // -- recipes

  // The settings behind a run that differ from the page's own, as the API takes them.
  function recipeOf(values) {
    const recipe = { knobs: {} };
    settings.names.forEach((name, i) => {
      const value = values[i];
      if (name === "own_lanes") return;
      if (Array.isArray(name)) {
        const [drafter, knob] = name;
        const isAsked = values[settings.names.indexOf("lanes")].includes(drafter);
        if (!isAsked || value === settings.defaults[i]) return;
        (recipe.knobs[drafter] ||= {})[knob] = value;
      } else if (name === "stop_strings") {
        const lines = String(value).split("\n").filter(Boolean);
        if (lines.length) recipe[name] = lines;
      } else if (["prompt", "lanes", "target", "is_chat"].includes(name)
        || value !== settings.defaults[i]) recipe[name] = value;
    });
    recipe.lanes = [...recipe.lanes, ...extra.list()];
    if (!Object.keys(recipe.knobs).length) delete recipe.knobs;
    return recipe;
  }

  function paint() {
    whenThere(".specviz-head", paintHead);
    if (!settings.hasForm) return;
    whenThere(".specviz-offers", paintOffers);
    whenThere(".specviz-notes", paintNotes);
    whenThere(".specviz-fold", paintFold);
    whenThere(".specviz-lanes", extra.paint);
    nameSliders();
  }

  if (settings.hasForm) {
    document.body.classList.add("specviz-fewer-rows"); // on a phone, until they are asked for
    const at = (name) => settings.defaults[settings.names.indexOf(name)];
    Object.assign(state, { target: at("target"), lanes: at("lanes") });
    extra.aim(state.target);
    document.addEventListener("input", (event) => {
      if (state.isOurs || event.target !== promptBox()) return;
      state.isTyped = true;
      if (state.taken.startsWith("example.")) take(""); // it is no longer that text
    });
    whenThere("#specviz-form", (root) => new MutationObserver(nameSliders).observe(root,
      { subtree: true, childList: true, attributeFilter: ["aria-label", "title"] }));
    setInterval(greyLanes, 400); // an observer would watch a group that is no longer shown
  }
  paint();
  words.listen(paint);
  // What Gradio sends of the lanes kept here: in the place that waits for it.
  function withOwnLanes(values) {
    return values.map((value, i) => (settings.names[i] === "own_lanes" ? extra.list() : value));
  }

  // Whether the controls show what a recipe asks for, as far as it asks.
  function holds(recipe) {
    const isAlike = (one, other) => other === undefined || JSON.stringify(one) === JSON.stringify(other);
    return settings.names.every((name, i) => (Array.isArray(name)
      ? isAlike(values[i], recipe.knobs?.[name[0]]?.[name[1]])
      : name === "stop_strings" || isAlike(values[i], recipe[name])
        || (name === "lanes" && isAlike(recipeOf(values).lanes, recipe.lanes))));
  }

  return {
    holds, chosen, recipeOf, withOwnLanes, setPrompt, take: extra.take,
    isTyped: () => state.isTyped,
    fold: () => settings.hasForm && unfold(false),
    typed: (isTyped) => (state.isTyped = isTyped),
    keep(now) {
      values = now;
      onChange(recipeOf(values), state.isTyped);
    },
  };
}
