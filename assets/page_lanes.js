// Lanes that a visitor adds beside the ticked ones: the same drafter once more, with knobs of its
// own. It keeps them, shows a control for each knob and says what was chosen; values are checked by
// the server like all others.

function makeLanes({ words, settings, onChange }) {
  const { word, wordOr } = words;
  let own = []; // { drafter, knobs: all of them }
  let target = "";
  let root = null;

  function titleOf(drafter) {
    return wordOr("drafter." + drafter + ".title", settings.drafters[drafter]);
  }

  function labelOf(name) {
    return wordOr("knob." + name, name.replaceAll("_", " "));
  }

  function choiceText(name, choice) {
    return wordOr("knob." + name + "." + choice.replaceAll(/[ -]/g, "_"), choice.replaceAll("_", " "));
  }

  const knobsOf = (drafter) => settings.knobs[drafter] || [];
  const isNumber = (knob) => typeof knob.default === "number";
  const defaultsOf = (drafter) =>
    Object.fromEntries(knobsOf(drafter).map((knob) => [knob.name, knob.default]));

  // A new lane differs at once from the one before: its first number is doubled.
  function fresh(drafter) {
    const before = own.filter((one) => one.drafter === drafter).pop();
    const knobs = { ...(before ? before.knobs : defaultsOf(drafter)) };
    const knob = knobsOf(drafter).find(isNumber);
    const next = 2 * knobs[knob.name];
    knobs[knob.name] = next > 0 && next <= knob.maximum ? next : knob.minimum;
    return { drafter, knobs, isOpen: true };
  }

  function summaryOf(lane) {
    const changed = knobsOf(lane.drafter).filter((knob) => lane.knobs[knob.name] !== knob.default);
    const said = changed.map((knob) => {
      const value = lane.knobs[knob.name];
      const text = typeof value === "boolean" ? word(value ? "lane.knob_on" : "lane.knob_off")
        : knob.choices.length ? choiceText(knob.name, value) : value;
      return labelOf(knob.name) + " " + text;
    });
    return titleOf(lane.drafter) + (said.length ? ": " + said.join(word("page.comma")) : "");
  }

  function control(lane, knob, after) {
    let input = null;
    if (knob.choices.length) {
      input = make("select", "specviz-knob");
      for (const choice of knob.choices) input.append(new Option(choiceText(knob.name, choice), choice));
      input.value = lane.knobs[knob.name];
    } else {
      input = make("input", "specviz-knob");
      const isSwitch = typeof knob.default === "boolean";
      input.type = isSwitch ? "checkbox" : "number";
      if (isSwitch) input.checked = lane.knobs[knob.name];
      else Object.assign(input, { min: knob.minimum, max: knob.maximum, step: knob.isWhole ? 1 : "any",
        value: lane.knobs[knob.name] });
    }
    input.addEventListener("change", () => {
      const { type, checked, value } = input;
      lane.knobs[knob.name] = type === "checkbox" ? checked : type === "number" ? Number(value) : value;
      after();
    });
    const label = make("label", "specviz-knob-row", labelOf(knob.name));
    label.title = wordOr("knob." + lane.drafter + "." + knob.name + ".help", "");
    label.append(input);
    return label;
  }

  function laneBox(lane) {
    const box = make("details", "specviz-own-lane");
    const summary = make("summary", "specviz-chip", summaryOf(lane));
    const remove = makeButton("specviz-tool", word("page.remove_lane"), () => {
      own = own.filter((one) => one !== lane);
      changed();
      root.querySelector(".specviz-add-lane > summary").focus();
    });
    const after = () => {
      summary.textContent = summaryOf(lane);
      onChange();
    };
    const knobs = make("div", "specviz-own-knobs");
    knobs.append(...knobsOf(lane.drafter).map((knob) => control(lane, knob, after)), remove);
    box.append(summary, knobs);
    box.open = Boolean(lane.isOpen);
    box.addEventListener("toggle", () => (lane.isOpen = box.open));
    return box;
  }

  function isAble(drafter) {
    return knobsOf(drafter).some(isNumber)
      && !settings.untrained.some(([name, one]) => name === target && one === drafter);
  }

  function addMenu() {
    const menu = make("details", "specviz-menu specviz-add-lane");
    const list = make("div", "specviz-menu-list");
    for (const drafter of Object.keys(settings.drafters).filter(isAble)) {
      const item = makeButton("specviz-menu-item", titleOf(drafter), () => {
        own.push(fresh(drafter));
        changed();
        const boxes = root.querySelectorAll(".specviz-own-lane");
        boxes[boxes.length - 1].firstChild.focus();
      });
      item.dataset.drafter = drafter;
      list.append(item);
    }
    closeOnEscape(menu);
    const summary = make("summary", "specviz-tool", word("page.add_lane"));
    summary.title = word("page.add_lane.help");
    menu.append(summary, list);
    return menu;
  }

  function changed() {
    paint();
    onChange();
  }

  function paint() {
    if (!root) return;
    root.replaceChildren(...own.map(laneBox), addMenu());
  }

  return {
    titleOf,
    paint(element) {
      root = element;
      paint();
    },
    aim(name) {
      target = name;
      paint();
    },
    list: () => own.map(({ drafter, knobs }) => ({ drafter, knobs: { ...knobs } })),
    // A recipe's first lane of each drafter is the ticked one; the others come here.
    take(recipe) {
      const lanes = Array.isArray(recipe.lanes) ? recipe.lanes : [];
      const seen = new Set();
      own = [];
      for (const lane of lanes) {
        const drafter = typeof lane === "string" ? lane : lane.drafter;
        if (seen.has(drafter) && settings.drafters[drafter]) {
          const shared = (recipe.knobs || {})[drafter];
          own.push({ drafter, knobs: { ...defaultsOf(drafter), ...shared, ...lane.knobs } });
        }
        seen.add(drafter);
      }
      changed();
    },
  };
}
