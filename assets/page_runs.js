// The live runs of this visit: what was received, kept so that a reload or a server that is gone
// loses nothing. Envelopes in, envelopes out; it paints nothing. Where it keeps them is given
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

// A run takes its place with its first round: one that was refused, or broke off before, takes none.
function makeRuns(storage, most) {
  const LIST = "specviz.runs";
  const ASKED = "specviz.asked";
  const FILE = "specviz.file";
  const runs = []; // oldest first: { id, recipe, begun, how, texts }; how is "" while it goes on,
  // then "ended", "stopped", "broken" or "reloaded"; isCut: the storage has no room for all of it
  let asked = null; // the run that was asked for last, until its first round

  const part = (id, seq) => "specviz.run." + id + "." + seq;

  function forget(run) {
    runs.splice(runs.indexOf(run), 1);
    run.texts.forEach((_, seq) => storage.removeItem(part(run.id, seq)));
  }

  // When the storage is full an opened file, then the oldest run makes room. False: there is none.
  function store(key, text, owner) {
    for (;;) {
      try {
        storage.setItem(key, text);
        return true;
      } catch {
        if (storage.getItem(FILE) !== null) {
          storage.removeItem(FILE);
          continue;
        }
        const oldest = runs.find((run) => run !== owner);
        if (!oldest) return false;
        forget(oldest);
      }
    }
  }

  function storeList(owner) {
    const heads = runs.map(({ id, recipe, begun, how, isCut }) => ({ id, recipe, begun, how, isCut }));
    return store(LIST, JSON.stringify(heads), owner);
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
    while (runs.length > most) forget(runs[0]);
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
    // An opened trace, if there is room for it; none of the runs goes for it.
    keepFile(envelope) {
      storage.removeItem(FILE);
      try {
        storage.setItem(FILE, JSON.stringify(envelope));
      } catch { /* it is opened again from where it lies */ }
    },
    file: () => JSON.parse(storage.getItem(FILE) || "null"),
    // All items of a run in the order of its envelopes, whichever came first.
    items(run) {
      const envelopes = run.texts.map((text) => JSON.parse(text));
      return envelopes.sort((a, b) => a.seq - b.seq).flatMap((envelope) => envelope.items);
    },
  };
}
