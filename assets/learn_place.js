// How far a visitor has come: which chapter, what was done and guessed there. It is remembered in
// this browser and stands in the address, and what comes from either may be anything.

const SpecVizLearnPlace = (function () {
  const KEY = "specviz.learn";

  function read(memory) {
    try {
      const kept = JSON.parse(memory.getItem(KEY));
      return kept && typeof kept === "object" ? kept : {};
    } catch {
      return {};
    }
  }

  // Of what was kept, the entries of chapters there are.
  function entries(kept, names, isFit) {
    if (!kept || typeof kept !== "object") return {};
    return Object.fromEntries(Object.entries(kept).filter(([name, value]) => names.includes(name) && isFit(value)));
  }

  function newPlace(memory, names, methods) {
    const kept = read(memory);
    const query = new URLSearchParams(location.search);
    const isChapter = (number) => Number.isInteger(number) && number >= 1 && number <= names.length;
    const asked = Number(query.get("chapter"));
    const method = methods.includes(query.get("method")) ? query.get("method") : "";
    const place = {
      chapter: isChapter(asked) ? asked : isChapter(kept.chapter) ? kept.chapter : 1,
      tab: isChapter(asked) ? "chapters" : method ? "method" : "", // opened by an address, never by memory
      method,
      done: entries(kept.done, names, (value) => Boolean(value) && typeof value === "object"),
      guesses: entries(kept.guesses, names, (value) => typeof value === "string"),
      keep({ chapter, tab, method: named }) {
        place.chapter = chapter;
        write();
        const address = new URL(location.href);
        address.searchParams.delete("chapter");
        address.searchParams.delete("method");
        if (tab === "chapters") address.searchParams.set("chapter", chapter);
        if (tab === "method" && named) address.searchParams.set("method", named);
        if (address.href !== location.href) history.replaceState(history.state, "", address);
      },
      finish(name, values) {
        place.done[name] = values;
        write();
      },
      guess(name, option) {
        place.guesses[name] = option;
        write();
      },
      forget(name) {
        delete place.done[name];
        delete place.guesses[name];
        write();
      },
    };

    function write() {
      const { chapter, done, guesses } = place;
      memory.setItem(KEY, JSON.stringify({ chapter, done, guesses }));
    }

    return place;
  }

  return { newPlace };
})();
