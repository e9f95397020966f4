// Which lane and which round a chapter is told on: rules over what was recorded, never a fixed place,
// as recordings come and go. Pure functions of a run's lanes; nothing is drawn, nothing decided.

const SpecVizPick = (function () {
  const MOST_GUESSED = 8; // drafted tokens a person can guess about
  const CLEAR_ROWS = 24; // more rows than these make a mask that is hard to read
  const PLAIN_ROUNDS = 4;
  const FIRST = { chain: ["chain", "tree", "text"], tree: ["tree", "text", "chain"] };

  function draftingLanes(run, order) {
    const rank = (lane) => order.indexOf(lane.info.family);
    return run.lanes.filter((lane) => !lane.info.is_plain && lane.rounds.length)
      .sort((one, other) => rank(one) - rank(other));
  }

  // The first lane, in the order of families, that has a round of which `test` holds.
  function firstRound(run, order, test) {
    for (const lane of draftingLanes(run, order)) {
      const index = lane.rounds.findIndex((round, i) => test(round, i, lane));
      if (index >= 0) return { lane, index };
    }
    return null;
  }

  const isGuessable = (round) => round.num_drafted >= 2 && round.num_drafted <= MOST_GUESSED;
  const lasts = (round) => round.at[1] > round.at[0] && round.at[2] > round.at[1];

  function plain(run) {
    const lane = run.lanes.find((one) => one.info.is_plain && !one.info.backbone && one.rounds.length >= PLAIN_ROUNDS);
    return lane ? { lane, index: 0 } : null;
  }

  // A draft made by several passes, some of which was kept.
  function drafting(run) {
    const several = (round) => isGuessable(round) && lasts(round) && round.num_accepted > 0;
    return firstRound(run, FIRST.chain, (round) => several(round) && round.draft.steps.length > 1) ||
      firstRound(run, FIRST.chain, several);
  }

  // A later one, of the same lane if it has one.
  function onePass(run) {
    const before = drafting(run);
    if (!before) return null;
    const later = (round, i, lane) => isGuessable(round) && lasts(round) && round.num_accepted > 0 &&
      lane === before.lane && i > before.index;
    return firstRound(run, FIRST.chain, later) || before;
  }

  // Some kept and some refused, and later in that lane a round that kept nothing. Only where tokens
  // were drawn is the arithmetic of p and q there to see.
  function refusing(run) {
    const keepsNone = (lane) => lane.rounds.findIndex((round) => round.outcome === "none" && round.next);
    const fits = (round) => isGuessable(round) && round.outcome === "some" && round.num_accepted > 0;
    const hasBoth = (round, i, lane) => fits(round) && keepsNone(lane) >= 0;
    const isDrawn = (round, i, lane) => hasBoth(round, i, lane) && lane.info.rule === "rejection";
    const found = firstRound(run, FIRST.chain, isDrawn);
    if (found) return found;
    const greedy = firstRound(run, FIRST.chain, hasBoth);
    return greedy && { ...greedy, isSecondBest: true };
  }

  const isDeep = (tree, row) => tree.depth[row] >= 2 && tree.status[row] !== "lookahead";

  function branches(tree) {
    const real = tree.parent.filter((parent, row) => row > 0 && tree.status[row] !== "lookahead");
    return new Set(real).size < real.length;
  }

  // Branches two deep, one of which was kept far; small enough for its mask to be read.
  function tree(run) {
    let best = null;
    for (const lane of draftingLanes(run, FIRST.tree)) {
      lane.rounds.forEach((round, index) => {
        const rows = round.tree.depth.length;
        const fits = rows <= CLEAR_ROWS && branches(round.tree) && round.num_accepted > 0 &&
          round.tree.depth.some((_, row) => isDeep(round.tree, row));
        if (fits && (!best || round.num_accepted > best.lane.rounds[best.index].num_accepted)) best = { lane, index };
      });
      if (best) return best;
    }
    return null;
  }

  const lastVersus = (lane) => (lane.versus.length ? lane.versus[lane.versus.length - 1].value : null);

  // {tau, speedup, rho} of a whole lane, each as it was told; null without a plain lane beside it.
  function figures(lane) {
    const versus = lastVersus(lane);
    if (!versus || !versus.speedup || !lane.rounds.length) return null;
    const { tau } = lane.rounds[lane.rounds.length - 1].total;
    return { tau, speedup: versus.speedup, rho: versus.rho };
  }

  // Where tokens per pass and speed-up lie furthest apart: where a round costs most.
  function cost(run) {
    const told = draftingLanes(run, FIRST.chain).map((lane) => ({ lane, index: 0, ...figures(lane) }))
      .filter((one) => one.speedup && one.tau > 1.2 && one.rho > 1.1);
    told.sort((one, other) => other.rho - one.rho);
    return told[0] || null;
  }

  // Two lanes that draft in different ways, both compared with a plain lane; texts that were drawn
  // differ by luck.
  function methods(run) {
    const told = draftingLanes(run, FIRST.tree).filter((lane) => figures(lane));
    const families = new Set(told.map((lane) => lane.info.family));
    if (families.size < 2) return null;
    const here = { lane: told[0], index: told[0].rounds.length - 1, isRace: true };
    return told[0].info.rule === "rejection" ? { ...here, isSecondBest: true } : here;
  }

  return { plain, drafting, onePass, refusing, tree, cost, methods, figures, lastVersus, isDeep };
})();
