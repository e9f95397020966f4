// The link to what is shown: what it holds, the address that follows it, and what a link that was
// followed asks for. It decides nothing of runs.

// What of the page's address could not be read, as a sentence; null if nothing. `link` is what was
// read of its state, `query` its parameters.
function linkFaults(link, query, { numChapters, methods, recorded }) {
  const found = [];
  const isRun = (name) => recorded.includes(name);
  if (new URLSearchParams(location.hash.slice(1)).has("run") && !(link && (link.recipe || isRun(link.recorded))))
    found.push(link && typeof link.recorded === "string"
      ? ["page.link_part.recorded", { value: link.recorded.slice(0, 80) }] : ["page.link_part.run", {}]);
  const chapter = query.get("chapter");
  const isChapter = Number.isInteger(Number(chapter)) && Number(chapter) >= 1 && Number(chapter) <= numChapters;
  if (chapter !== null && !isChapter)
    found.push(["page.link_part.chapter", { value: chapter.slice(0, 20), most: numChapters }]);
  const method = query.get("method");
  if (method !== null && !methods.includes(method))
    found.push(["page.link_part.method", { value: method.slice(0, 40) }]);
  if (!found.length) return null;
  return ["page.link_damaged", { parts: found.reduce((one, two) => ["page.link_parts", { one, two }]) }];
}

// `look` is {shown(), isIdle(), open(name), follow(recipe, place)}: what is shown, whether nothing
// goes on, and what a link can lead to.
function makeLinks({ words, settings, server, stage, runs, bar, link, look, faults }) {
  function state() {
    const shown = look.shown();
    if (!shown || shown.kind === "file") return null;
    const made = { v: 1, lang: words.language() };
    const kept = shown.kind === "live" ? runs.find(shown.id) : null;
    if (shown.kind === "recorded") made.recorded = shown.name;
    else if (kept) made.recipe = kept.recipe;
    const place = stage.place?.();
    if (place) made.place = place;
    return made;
  }

  // What a copied link asks for besides the run: the language, and what is open beside the stage.
  function kept(lang) {
    const open = [...new URLSearchParams(location.search)].filter(([name]) => ["chapter", "method"].includes(name));
    return new URLSearchParams([["lang", lang], ...open]).toString();
  }

  // `isKept`: the controls already show what the visitor had chosen.
  function followLink(isKept) {
    if (!link) return false;
    if (typeof link.recorded === "string" && settings.recorded.includes(link.recorded)) {
      look.open(link.recorded);
      return true;
    }
    if (settings.hasForm && !isKept && link.recipe && typeof link.recipe === "object") adoptRecipe();
    return false; // a recording shows meanwhile
  }

  async function adoptRecipe() {
    const reason = await server.why_not(link.recipe);
    if (reason) return bar.say(["page.link_refused", { reason }], true);
    look.follow(link.recipe, link.place);
    bar.say(faults ? ["page.both", { one: faults, two: ["page.link_opened", {}] }] : ["page.link_opened", {}]);
    document.body.classList.add("specviz-invites");
    return undefined;
  }

  return {
    followLink,
    // The address follows what is looked at, so that a reload or a bookmark comes back to it.
    keepAddress() {
      const now = look.isIdle() ? state() : null;
      const address = now ? linkTo(now, location.search.slice(1)) : location.href;
      if (address !== location.href && address.length <= LONGEST_LINK)
        history.replaceState(history.state, "", address);
    },
    async copyLink(box) {
      const now = state();
      if (!now) return bar.say(["page.no_link", {}], true);
      const address = linkTo(now, kept(words.language()));
      if (address.length > LONGEST_LINK) return bar.say(["page.link_too_long", {}], true);
      const isCopied = await copyText(address, box);
      return bar.say([isCopied ? "page.copied" : "page.copy_yourself", {}]);
    },
  };
}
