// Sentences by key in the language that is shown; the browser's half of specviz/words.py, whose
// script() fills it. It knows no key and paints nothing.
//
//   SpecVizWords.word("stage.rounds", { n: 3 })   text of a key
//   SpecVizWords.wordOr("drafter.x.title", "x")   the same, or the other text if there is no such key
//   SpecVizWords.tell(["stage.rounds", { n: 3 }]) the same for a message that came with an item;
//                                                 a plain string is returned as it stands
//   SpecVizWords.language()                       "en" or "zh"
//   SpecVizWords.choose("zh")                     switches, and calls everyone who listens
//   SpecVizWords.listen(() => repaint())          returns a function that stops listening

const SpecVizWords = (function () {
  const PLACE = /\{(\w+)(?:\?([^|{}]*)\|([^{}]*))?\}/g;
  const listeners = new Set();
  let tables = {};
  let shown = "en";

  function word(key, values = {}) {
    const text = (tables[shown] || {})[key];
    if (text === undefined) return key;
    return text.replace(PLACE, (_, name, one, many) => {
      const value = values[name];
      if (one === undefined) return tell(value);
      return value === 1 ? one : many;
    });
  }

  function wordOr(key, text) {
    return key in (tables[shown] || {}) ? word(key) : text;
  }

  function tell(value) {
    if (Array.isArray(value)) return word(value[0], value[1]);
    return String(value ?? "");
  }

  return {
    word,
    wordOr,
    tell,
    language: () => shown,
    languages: () => Object.keys(tables),
    load(all, language) {
      tables = all;
      shown = language;
    },
    choose(language) {
      if (!(language in tables) || language === shown) return;
      shown = language;
      for (const tellThem of [...listeners]) tellThem();
    },
    listen(tellThem) {
      listeners.add(tellThem);
      return () => listeners.delete(tellThem);
    },
  };
})();
