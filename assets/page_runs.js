// The runs of this visit, live ones and opened traces: what was received, kept so that a reload or a
// server that is gone loses nothing. Envelopes in, envelopes out; it paints nothing. Where it keeps them is given
// (sessionStorage: it ends with the tab, so no prompt stays behind).

// The browser's storage of that name; what forbids it, a frame of a strange site for one, gets a
// storage that lasts as long as the page.
const keep = (function () {
  const made = {};
  const inMemory = () => {
    const held = new Map();
    return { getItem: (key) => held.get(key) ?? null, setItem: (key, text) => held.set(key, text),
      removeItem: (key) => held.delete(key) };
  };
  return (name) => {
    if (made[name]) return made[name];
    try {
      made[name] = globalThis[name];
      made[name].getItem("specviz");
    } catch {
      made[name] = inMemory();
    }
    return made[name];
  };
})();

const MOST_FILES = 3; // opened traces that stand beside the live runs

// A run takes its place with its first round: one that was refused, or broke off before, takes none.
function makeRuns(storage, most) {
  const LIST = "specviz.runs";
  const ASKED = "specviz.asked";
  const runs = []; // oldest first: { id, recipe, begun, how, texts }; how is "" while it goes on,
  // then "ended", "stopped", "broken" or "reloaded"; isCut: the storage has no room for all of it.
  // An opened trace has its name in `file` and one envelope; isLoose: it is in memory alone
  let asked = null; // the run that was asked for last, until its first round

  const part = (id, seq) => "specviz.run." + id + "." + seq;

  function forget(run) {
    runs.splice(runs.indexOf(run), 1);
    run.texts.forEach((_, seq) => storage.removeItem(part(run.id, seq)));
  }

  // When the storage is full an opened trace, then the oldest run makes room. False: there is none.
  function store(key, text, owner) {
    for (;;) {
      try {
        storage.setItem(key, text);
        return true;
      } catch {
        const file = runs.find((run) => run.file && !run.isLoose);
        if (file) {
          loosen(file);
          continue;
        }
        const oldest = runs.find((run) => run !== owner && !run.file);
        if (!oldest) return false;
        forget(oldest);
      }
    }
  }

  function loosen(file) {
    file.isLoose = true;
    storage.removeItem(part(file.id, 0));
  }

  function heads() {
    return JSON.stringify(runs.filter((run) => !run.isLoose)
      .map(({ id, recipe, begun, how, isCut, file }) => ({ id, recipe, begun, how, isCut, file })));
  }

  const storeList = (owner) => store(LIST, heads(), owner);

  // None of the runs goes for an opened trace.
  function storeFile(run) {
    try {
      storage.setItem(part(run.id, 0), run.texts[0]);
      storage.setItem(LIST, heads());
    } catch {
      loosen(run);
    }
  }

  // What does not fit beside the rest of its run is kept in memory alone: a reload finds the beginning,
  // and is told so.
  function storePart(run, seq) {
    if (run.isCut || store(part(run.id, seq), run.texts[seq], run)) return;
    run.isCut = true;
    let last = seq - 1;
    while (!storeList(run) && last > 0) storage.removeItem(part(run.id, last--));
  }

  function restore() {
    let heads = [];
    try {
      heads = JSON.parse(storage.getItem(LIST) || "[]");
    } catch {
      return; // somebody else's text under our name
    }
    for (const head of heads) {
      const run = { ...head, how: head.how || "reloaded", texts: [] };
      for (;;) {
        const text = storage.getItem(part(run.id, run.texts.length));
        if (text === null) break;
        run.texts.push(text);
      }
      if (run.texts.length) runs.push(run);
    }
  }

  function admit(run) {
    asked = null;
    storage.removeItem(ASKED);
    runs.push(run);
    runs.filter((one) => !one.file).slice(0, -most).forEach(forget);
    storeList(run);
    run.texts.forEach((_, seq) => storePart(run, seq));
  }

  function wasAsked() {
    const found = storage.getItem(ASKED) !== null;
    storage.removeItem(ASKED);
    return found;
  }

  const isCutEarly = wasAsked();
  restore();
  return {
    isCutEarly, // the page was left while a run had no round yet
    list: () => [...runs],
    find: (id) => (asked && asked.id === id ? asked : runs.find((run) => run.id === id)),
    begin(id, recipe) {
      asked = { id, recipe, begun: new Date().toISOString(), how: "", texts: [] };
      store(ASKED, id, asked);
    },
    add(id, text, items) {
      const run = this.find(id);
      if (!run) return;
      run.texts.push(text);
      if (run !== asked) storePart(run, run.texts.length - 1);
      else if (items.some((item) => item.kind === "round")) admit(run);
    },
    end(id, how) {
      const run = this.find(id);
      if (!run) return;
      run.how = how;
      if (run === asked) storage.removeItem(ASKED);
      else storeList(run);
    },
    // An opened trace stands once among the runs, however often it is opened.
    addFile(envelope, file) {
      const { created, asked: { prompt } } = envelope.items.find((item) => item.kind === "start");
      const size = envelope.items.length;
      const isSame = (run) => run.file === file && run.recipe.created === created && run.recipe.size === size;
      const opened = runs.filter((run) => run.file);
      [...opened.filter(isSame), ...opened.filter((run) => !isSame(run)).slice(0, 1 - MOST_FILES)].forEach(forget);
      const run = { id: envelope.run, file, recipe: { prompt, lanes: [], created, size },
        begun: new Date().toISOString(), how: "ended", texts: [JSON.stringify(envelope)] };
      runs.push(run);
      storeFile(run);
    },
    // What came with an opened trace besides its items: { label, note }.
    headOf: (run) => JSON.parse(run.texts[0]),
    // All items of a run in the order of its envelopes, whichever came first.
    items(run) {
      const envelopes = run.texts.map((text) => JSON.parse(text));
      return envelopes.sort((a, b) => a.seq - b.seq).flatMap((envelope) => envelope.items);
    },
  };
}
