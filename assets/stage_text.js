// The text of a lane, token by token, with where each came from; on demand also what was drafted
// in vain. Tokens are appended and taken away at the end only, so that long texts stay smooth.

const SpecVizText = (function () {
  const { tokensShown, entriesShown } = SpecVizTime;
  const { word, el, put, icon, tokenText, MARKS } = SpecVizDom;

  function makeToken(token, number) {
    const span = el("span", "sv-token", ...tokenText(token.text));
    const { origin } = token;
    span.setAttribute("data-from", typeof origin === "number" ? "draft" : origin);
    if (typeof origin === "number") span.setAttribute("data-depth", origin);
    if (MARKS[origin]) span.append(icon(MARKS[origin]));
    span.setAttribute("data-token", number);
    return span;
  }

  function makeStrip() {
    const inner = el("div", "sv-text");
    const root = el("div", "sv-strip", inner);
    root.tabIndex = 0;
    root.setAttribute("aria-label", word("stage.text"));
    return { root, inner, tokens: [], fresh: [], hasLost: false, lit: null };
  }

  function listOf(view, lane) {
    return view.hasLost ? lane.entries : lane.tokens;
  }

  function drawStrip(view, lane, place, hasLost) {
    if (view.hasLost !== hasLost) {
      view.hasLost = hasLost;
      view.inner.replaceChildren();
      view.tokens = [];
    }
    const list = listOf(view, lane);
    const wanted = hasLost ? entriesShown(lane, place) : tokensShown(place);
    const { tokens } = view;
    while (tokens.length > wanted) {
      const last = tokens.pop();
      if (last.nextSibling) last.nextSibling.remove(); // its line break
      last.remove();
    }
    if (tokens.length < wanted) {
      const fresh = document.createDocumentFragment();
      while (tokens.length < wanted) {
        const token = list[tokens.length];
        tokens.push(makeToken(token, tokens.length));
        fresh.append(tokens[tokens.length - 1]);
        const isLine = token.text.includes("↵") && token.origin !== "rejected" && token.origin !== "unreached";
        if (isLine) fresh.append(el("br"));
      }
      view.inner.append(fresh);
    }
    const first = !place ? 0 : hasLost ? place.round.firstEntry : place.round.firstToken;
    markFresh(view, first, wanted);
  }

  function markFresh(view, first, after) {
    if (view.firstFresh === first && view.afterFresh === after) return;
    for (const token of view.fresh) token.classList.remove("sv-fresh");
    view.fresh = view.tokens.slice(first, after);
    for (const token of view.fresh) token.classList.add("sv-fresh");
    Object.assign(view, { firstFresh: first, afterFresh: after });
  }

  function tokenAt(view, lane, event) {
    const node = event.target.closest("[data-token]");
    return node ? listOf(view, lane)[Number(node.getAttribute("data-token"))] : null;
  }

  // `chosen` is {index, row}, the round and the row in it, or null for all of it; null frees.
  function lightStrip(view, lane, chosen) {
    const key = chosen ? chosen.index + ":" + chosen.row + ":" + view.tokens.length : "";
    if (view.lit === key) return;
    view.lit = key;
    for (const token of view.litTokens || []) put(token, "data-lit", "");
    view.litTokens = [];
    if (!chosen || !lane.rounds[chosen.index]) return;
    const round = lane.rounds[chosen.index];
    const list = listOf(view, lane);
    const first = view.hasLost ? round.firstEntry : round.firstToken;
    for (let i = first; i < view.tokens.length && list[i].index === chosen.index; i += 1) {
      if (chosen.row !== null && list[i].row !== chosen.row) continue;
      put(view.tokens[i], "data-lit", "self");
      view.litTokens.push(view.tokens[i]);
    }
  }

  function originWords(token, round) {
    const { origin } = token;
    const drafted = typeof origin === "number";
    const said = drafted ? word("stage.from_draft", { depth: origin }) : word("stage.from." + origin);
    return word("stage.token_title", { round, said, id: token.id });
  }

  return { makeStrip, drawStrip, tokenAt, lightStrip, originWords };
})();
