// Each method in twelve lines at most, and when each line is at work: "draft", "cut" (what was drafted
// becomes the tree), "read", "walk", "own" (the target's own token), "keep". Lines without a moment
// frame the others. And where each method's training is named in the command line.

const SpecVizCode = (function () {
  const LOOP = ["", "while not done:"];
  const VERIFY = [
    ["walk", "  while kept := try_children(row, p, q):"],
    ["walk", "    row = kept"],
    ["own", "  token = draw(rest(p[row]))"],
  ];
  const READ = ["read", "  p = target(tree, mask, cache)"];
  const KEEP = ["keep", "  cache.keep(root, *path(row))"];
  const TREE = [READ, ...VERIFY, KEEP];

  const CODE = {
    autoregressive: [
      ["", "cache = prefill(prompt[:-1])"],
      ["", "token = prompt[-1]"],
      LOOP,
      ["draft", "  tree = [token]"],
      ["read", "  p = target(tree, cache)"],
      ["own", "  token = draw(p[0])"],
      ["keep", "  cache.keep(root)"],
      ["keep", "  text.append(token)"],
    ],
    draft_model: [
      LOOP,
      ["draft", "  x, i = [], 0"],
      ["draft", "  for k in range(K):"],
      ["draft", "    q[k] = small([token, *x], small_cache)"],
      ["draft", "    x.append(draw(q[k]))"],
      ["read", "  p = target([token, *x], cache)"],
      ["walk", "  while i < K and u() < p[i][x[i]]/q[i][x[i]]:"],
      ["walk", "    i += 1"],
      ["own", "  if i < K: p[i] = norm(max(p[i] - q[i], 0))"],
      ["own", "  token = draw(p[i])"],
      ["keep", "  cache.keep(root, *x[:i])"],
      ["keep", "  small_cache.keep(root, *x[:i])"],
    ],
    prompt_lookup: [
      LOOP,
      ["draft", "  for n in (longest, ..., shortest):"],
      ["draft", "    at = find(text[-n:], text[:-1])"],
      ["draft", "    if at >= 0: break"],
      ["draft", "  else: at = len(text)"],
      ["cut", "  guess = text[at + n:][:K]"],
      ["cut", "  tree = chain(token, guess)"],
      ["read", "  p = target(tree, cache)"],
      ...VERIFY,
      KEEP,
    ],
    lookahead: [
      LOOP,
      ["draft", "  guesses = pool[token][:G]"],
      ["draft", "  tree = branches(token, guesses)"],
      ["draft", "  tree += window"],
      READ,
      ...VERIFY,
      KEEP,
      ["keep", "  pool.add(ngrams(window, best(p)))"],
      ["keep", "  window = best(p[window_rows])"],
    ],
    medusa: [
      LOOP,
      ["draft", "  h = features[-1]"],
      ["draft", "  for i, head in enumerate(heads):"],
      ["draft", "    best[i] = top(lm_head(head(h)))"],
      ["cut", "  tree = likeliest_paths(best, budget)"],
      ["cut", "  mask = ancestors(tree)"],
      ...TREE,
      ["keep", "  features += states[root, *path(row)]"],
    ],
    mtp: [
      LOOP,
      ["draft", "  h, x = features[-1], token"],
      ["draft", "  for k in range(K):"],
      ["draft", "    h = module(norm(h), embed(x))"],
      ["draft", "    x = draw(softmax(lm_head(h)))"],
      ["draft", "    tree.append(x)"],
      ["read", "  p = tuned_model(tree, cache)"],
      ...VERIFY,
      KEEP,
      ["keep", "  features += states[root, *path(row)]"],
    ],
    eagle: [
      LOOP,
      ["draft", "  rows = layer(features, embed(text))"],
      ["draft", "  for level in fixed_tree:"],
      ["draft", "    q = softmax(lm_head(rows))"],
      ["draft", "    tree.add(draw(q, level.children))"],
      ["draft", "    rows = layer(rows, embed(tree.new))"],
      ["cut", "  mask = ancestors(tree)"],
      ...TREE,
    ],
    eagle2: [
      LOOP,
      ["draft", "  for depth in range(D):"],
      ["draft", "    q = softmax(lm_head(layer(frontier)))"],
      ["draft", "    grown += best(q, k)"],
      ["draft", "    score = product(q, path)"],
      ["draft", "    frontier = best(grown[depth], score, k)"],
      ["cut", "  tree = best(grown, score, budget)"],
      ...TREE,
    ],
    eagle3: [
      LOOP,
      ["draft", "  g = fuse(low, middle, high)"],
      ["draft", "  for depth in range(D):"],
      ["draft", "    g, q = layer(g, embed(frontier))"],
      ["draft", "    grown += scored(best(q, k), path)"],
      ["draft", "    frontier = best(grown[depth], k)"],
      ["cut", "  tree = best(grown, budget)"],
      ...TREE,
    ],
  };

  // What grows a tree only if it is told to.
  const TREE_CODE = {
    draft_model: [
      LOOP,
      ["draft", "  for k in range(K):"],
      ["draft", "    q = small([token, *frontier], small_cache)"],
      ["draft", "    grown += best(q, top_k)"],
      ["draft", "    score = product(q, path)"],
      ["draft", "    frontier = best(grown[k], score, top_k)"],
      ["cut", "  tree = best(grown, score, budget)"],
      ...TREE,
    ],
    mtp: [
      LOOP,
      ["draft", "  for k in range(K):"],
      ["draft", "    h = module(norm(h), embed(frontier))"],
      ["draft", "    grown += scored(best(lm_head(h), top_k), path)"],
      ["draft", "    frontier = best(grown[k], top_k)"],
      ["cut", "  tree = best(grown, budget)"],
      ["read", "  p = tuned_model(tree, mask, cache)"],
      ...VERIFY,
      KEEP,
    ],
  };
  const linesOf = (name, isTree) => (isTree && TREE_CODE[name]) || CODE[name] || [];

  const RECIPES = { draft_model: "draft_model", medusa: "medusa", mtp: "mtp", eagle: "eagle", eagle2: "eagle",
    eagle3: "eagle3" };

  // The moment of a place, as the lines name it.
  function momentOf(place) {
    if (!place) return "";
    const { phase, part, round } = place;
    if (phase === "draft") return part >= 1 || SpecVizTime.isRanking(place) ? "cut" : "draft";
    if (phase === "verify") return "read";
    if (phase === "done") return "keep";
    return SpecVizTime.walked(place) > round.num_accepted ? "own" : "walk";
  }

  // Which lines are at work: a moment without lines of its own is that before it.
  function litLines(lines, moment) {
    const before = { cut: "draft", walk: "own" };
    const has = (name) => lines.some(([when]) => when === name);
    const wanted = has(moment) ? moment : before[moment];
    return lines.map(([when]) => Boolean(when) && when === wanted);
  }

  return { CODE, RECIPES, linesOf, momentOf, litLines };
})();
