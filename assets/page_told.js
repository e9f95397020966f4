// What is told beside Run of a run that did not begin, or was stopped; and what a visitor has
// chosen so far, kept so that no reload loses it. It asks no server and paints no run.

// `named` gives a sentence the page's own names of what it speaks of.
function makeTold({ words, named }) {
  let said = "";
  let isTrouble = false;

  function paint(root) {
    const text = named(words.tell(said));
    root.setAttribute("role", isTrouble ? "alert" : "status");
    root.dataset.trouble = isTrouble;
    root.textContent = text;
    if (text) root.scrollIntoView({ block: "nearest" });
  }

  words.listen(() => whenThere(".specviz-told", paint));
  return {
    tell(sentence, trouble = true) {
      [said, isTrouble] = [sentence, trouble];
      whenThere(".specviz-told", paint);
    },
    hush() {
      said = "";
      whenThere(".specviz-told", paint);
    },
  };
}

// A field's name in a refusal is the API's; people know the label that stands beside the control.
function makeNamer({ words, settings }) {
  const FIELDS = { max_new_tokens: "page.budget", repetition_penalty: "page.penalty",
    stop_strings: "page.stop_strings", is_chat: "page.form" };

  function labelOf(name) {
    if (name in FIELDS) return words.word(FIELDS[name]);
    const isKnob = Object.values(settings.knobs || {}).flat().some((knob) => knob.name === name);
    return isKnob ? words.wordOr("knob." + name, "") : "";
  }

  return (text) => text.replace(/\b[a-z0-9]+(?:_[a-z0-9]+)+\b/g, (name) => {
    const label = labelOf(name);
    return label ? words.word("page.named", { label, name }) : name;
  });
}

// What the controls asked for last: { recipe, isTyped }, or null.
function makeDraft(storage) {
  const KEY = "specviz.draft";
  return {
    keep(recipe, isTyped) {
      try {
        storage.setItem(KEY, JSON.stringify({ recipe, isTyped }));
      } catch {
        storage.removeItem(KEY); // it does not fit: better none than an older one
      }
    },
    read() {
      try {
        const draft = JSON.parse(storage.getItem(KEY));
        return draft && draft.recipe && typeof draft.recipe === "object" ? draft : null;
      } catch {
        return null;
      }
    },
    forget: () => storage.removeItem(KEY),
  };
}
