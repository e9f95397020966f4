// The text of a lane, token by token, with where each came from; on demand also what was drafted
// in vain. Tokens are appended and taken away at the end only, and of a long text only the end is laid
// out until somebody scrolls up, so that long texts stay smooth.

const SpecVizText = (function () {
  const { tokensShown, entriesShown } = SpecVizTime;
  const { word, el, put, show, icon, tokenText, MARKS } = SpecVizDom;

  const CHUNK = 32; // tokens that are laid out together, or not
  const LAID = 4; // chunks at the end of the text, at first; as many more each time they do not fill the box
  const NEAR = "80px"; // of the upper end of what is laid out, where more is

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
    const [top, inner] = [el("i", ""), el("div", "sv-text")];
    const root = el("div", "sv-strip", inner);
    inner.append(top);
    root.tabIndex = 0;
    root.setAttribute("aria-label", word("stage.text"));
    const view = { root, inner, top, list: [], length: 0, chunks: [], laid: LAID, fresh: [], hasLost: false, lit: null };
    const sight = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting) || view.laid >= view.chunks.length) return;
      view.laid += LAID;
      layChunks(view);
      sight.unobserve(top); // to be told again, should that not be enough
      sight.observe(top);
    }, { root, rootMargin: NEAR });
    sight.observe(top);
    return view;
  }

  function listOf(view, lane) {
    return view.hasLost ? lane.entries : lane.tokens;
  }

  function drawStrip(view, lane, place, hasLost) {
    if (view.hasLost !== hasLost) {
      view.hasLost = hasLost;
      view.inner.replaceChildren(view.top);
      Object.assign(view, { length: 0, chunks: [] });
    }
    view.list = listOf(view, lane);
    const wanted = hasLost ? entriesShown(lane, place) : tokensShown(place);
    if (view.length !== wanted) cutOrGrow(view, wanted);
    const first = !place ? 0 : hasLost ? place.round.firstEntry : place.round.firstToken;
    markFresh(view, first, wanted);
  }

  function cutOrGrow(view, wanted) {
    const { chunks } = view;
    view.length = wanted;
    while (chunks.length * CHUNK >= wanted + CHUNK) chunks.pop().root.remove();
    while (chunks.length * CHUNK < wanted) chunks.push({ root: view.inner.appendChild(el("span", "")), nodes: [] });
    layChunks(view);
  }

  // What is above the laid-out end is hidden, or not even made. The box is scrolled from its lower
  // end: what comes in above moves nothing.
  function layChunks(view) {
    const first = view.chunks.length - view.laid;
    view.chunks.forEach((chunk, i) => {
      show(chunk.root, i >= first);
      if (i >= first) fill(view, chunk, i * CHUNK);
    });
  }

  function fill(view, { root, nodes }, from) {
    const wanted = Math.min(CHUNK, view.length - from);
    while (nodes.length > wanted) {
      const last = nodes.pop();
      if (last.nextSibling) last.nextSibling.remove(); // its line break
      last.remove();
    }
    const made = [];
    while (nodes.length < wanted) {
      const number = from + nodes.length;
      const token = view.list[number];
      made.push(nodes[nodes.push(makeToken(token, number)) - 1]);
      const isLine = token.text.includes("↵") && token.origin !== "rejected" && token.origin !== "unreached";
      if (isLine) made.push(el("br"));
    }
    root.append(...made);
  }

  // The element of a token, where it has been made.
  function nodeAt(view, number) {
    const chunk = view.chunks[Math.floor(number / CHUNK)];
    return chunk ? chunk.nodes[number % CHUNK] : undefined;
  }

  function markFresh(view, first, after) {
    if (view.firstFresh === first && view.afterFresh === after) return;
    for (const token of view.fresh) token.classList.remove("sv-fresh");
    view.fresh = [];
    for (let i = first; i < after; i += 1) {
      const token = nodeAt(view, i);
      if (token) view.fresh.push(token);
    }
    for (const token of view.fresh) token.classList.add("sv-fresh");
    Object.assign(view, { firstFresh: first, afterFresh: after });
  }

  function tokenAt(view, lane, event) {
    const node = event.target.closest("[data-token]");
    return node ? listOf(view, lane)[Number(node.getAttribute("data-token"))] : null;
  }

  // `chosen` is {index, row}, the round and the row in it, or null for all of it; null frees.
  function lightStrip(view, lane, chosen) {
    const key = chosen ? chosen.index + ":" + chosen.row + ":" + view.length : "";
    if (view.lit === key) return;
    view.lit = key;
    for (const token of view.litTokens || []) put(token, "data-lit", "");
    view.litTokens = [];
    if (!chosen || !lane.rounds[chosen.index]) return;
    const round = lane.rounds[chosen.index];
    const list = listOf(view, lane);
    const first = view.hasLost ? round.firstEntry : round.firstToken;
    for (let i = first; i < view.length && list[i].index === chosen.index; i += 1) {
      const token = nodeAt(view, i);
      if (!token || (chosen.row !== null && list[i].row !== chosen.row)) continue;
      put(token, "data-lit", "self");
      view.litTokens.push(token);
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
