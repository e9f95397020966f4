// The link to what is shown: what it holds, the address that follows it, and what a link that was
// followed asks for. It decides nothing of runs.

// `look` is {shown(), isIdle(), open(name), follow(recipe, place)}: what is shown, whether nothing
// goes on, and what a link can lead to.
function makeLinks({ words, settings, server, stage, runs, bar, link, look }) {
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
    bar.say(["page.link_opened", {}]);
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
