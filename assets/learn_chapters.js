// The seven chapters: for each the part of the stage it lights, the place it starts from, the step it
// asks for (name, key, with Shift), what is guessed, and when a visitor has done what it asks. What happened is read off the stage's own view
// and the run's items; nothing is decided here, or remembered from another visit.

const SpecVizChapters = (function () {
  const { lastEnd, runEnd } = SpecVizRun;
  const { isRead, passesAt } = SpecVizTime;
  const { number } = SpecVizDom;
  const { figures, lastVersus, isDeep } = SpecVizPick;
  const PLAIN_STEPS = 3;
  const OWN = -1; // the row of the target's own token
  const lead = (part) => ".sv-lane[data-lead='true'] " + part;
  const times = (value) => number(value, 2) + "x";

  const isAtEnd = (lane, time) => lane.rounds.length > 0 && time >= lastEnd(lane);

  // The row a visitor keeps hold of, if it is of the lane that is explained; -1 is the target's own.
  const pinnedRow = ({ pin, lane }) => (pin && pin.lane === lane && pin.row !== null ? pin.row : null);

  // Just into its draft: at its very beginning the round before it still stands there, decided.
  const begun = ({ at }) => at[0] + (at[1] - at[0]) / 50;

  const isOver = (place) => place.phase === "done";

  function isPast(view, here, test) {
    const { lane, place } = view;
    if (lane !== here.lane || !place) return false;
    return place.index > here.index || (place.index === here.index && test(place));
  }

  // Ends of a draft's branches.
  const numBranches = (tree) =>
    tree.parent.filter((_, row) => row > 0 && tree.status[row] !== "lookahead" && !tree.parent.includes(row)).length;

  // Numbers that read alike are offered once.
  const ordered = (values) => [...new Set([...values].sort((one, other) => one - other).map(times))];

  const CHAPTERS = [
    {
      name: "plain",
      step: ["round_forward", "ArrowRight", true],
      spots: [lead(".sv-textpanel")],
      pick: SpecVizPick.plain,
      start: () => 0,
      done({ lane, place }) {
        const passes = passesAt(place);
        return lane.info.is_plain && passes >= PLAIN_STEPS ? { n: passes } : null;
      },
    },
    {
      name: "draft",
      step: ["forward", "ArrowRight", false],
      spots: [lead(".sv-treepanel")],
      pick: SpecVizPick.drafting,
      start: ({ lane, index }) => begun(lane.rounds[index]),
      done(view) {
        const row = pinnedRow(view);
        const round = row > 0 ? view.lane.rounds[view.pin.index] : null;
        if (!round || !(row < round.tree.text.length)) return null;
        return { token: round.tree.text[row], depth: round.tree.depth[row] };
      },
    },
    {
      name: "pass",
      step: ["forward", "ArrowRight", false],
      spots: [lead(".sv-phases")],
      pick: SpecVizPick.onePass,
      start: ({ lane, index }) => lane.rounds[index].at[1],
      guess: {
        options: ({ lane, index }) => [1, ...new Set([lane.rounds[index].num_drafted, lane.rounds[index].tree.text.length])],
        truth: () => 1,
        values: ({ lane, index }) => ({ n: lane.rounds[index].num_drafted }),
        isOut: (view, here) => isPast(view, here, isRead),
      },
      done(view, here) {
        return isPast(view, here, isRead) ? { n: here.lane.rounds[here.index].tree.text.length } : null;
      },
    },
    {
      name: "accept",
      step: ["rejection", "r", false],
      spots: [".sv-card"],
      phoneSpots: [".sv-sheet .sv-card", lead(".sv-treepanel")], // the card's own place is a screen away
      pick: SpecVizPick.refusing,
      start: ({ lane, index }) => lane.rounds[index].at[2],
      guess: {
        options: ({ lane, index }) => Array.from({ length: lane.rounds[index].num_drafted + 1 }, (_, n) => n),
        truth: ({ lane, index }) => lane.rounds[index].num_accepted,
        values: ({ lane, index }) => ({ n: lane.rounds[index].num_drafted }),
        isOut: (view, here) => isPast(view, here, isOver),
      },
      // The token that came in the place of a wholly refused draft, taken hold of.
      done(view) {
        const round = pinnedRow(view) === OWN ? view.lane.rounds[view.pin.index] : null;
        if (!round || round.outcome !== "none" || !round.next) return null;
        return { token: round.next.text, from: ["learn.accept.from." + view.lane.info.rule, {}] };
      },
    },
    {
      name: "tree",
      step: ["forward", "ArrowRight", false],
      firstSpots: [lead(".sv-treepanel")], // as long as its branches are asked about
      spots: [".sv-maskpanel", ".sv-mask"],
      pick: SpecVizPick.tree,
      start: ({ lane, index }) => lane.rounds[index].at[2],
      guess: {
        options: ({ lane, index }) => [...new Set([1, 2, numBranches(lane.rounds[index].tree)])],
        truth: () => 1,
        values: ({ lane, index }) => ({ n: numBranches(lane.rounds[index].tree) }),
        isOut: (view, here) => isPast(view, here, isOver),
      },
      done(view, here) {
        if (!isPast(view, here, isOver)) return null;
        const row = pinnedRow(view);
        const round = row === null ? null : view.lane.rounds[view.pin.index];
        if (!round || !(row < round.tree.text.length) || row < 1 || !isDeep(round.tree, row)) return null;
        return { seen: round.tree.sees[row].length, rows: round.tree.text.length, kept: round.num_accepted };
      },
    },
    {
      name: "cost",
      step: ["end", "End", false],
      spots: [".sv-account", lead(".sv-figurerow")],
      pick: SpecVizPick.cost,
      start: () => 0,
      guess: {
        options: ({ tau, speedup }) => ordered([tau, speedup, 1]),
        truth: ({ speedup }) => times(speedup),
        values: ({ lane, tau }) => ({ lane: lane.info.title, tau: number(tau, 2) }),
        isOut: (view, here) => isAtEnd(here.lane, view.timeOf(here.lane)),
      },
      done(view, here) {
        if (!isAtEnd(view.lane, view.timeOf(view.lane)) || view.lane !== here.lane) return null;
        return { tau: number(here.tau, 2), rho: number(here.rho, 2), speedup: times(here.speedup) };
      },
    },
    {
      name: "compare",
      step: null,
      spots: [".sv-race"],
      pick: SpecVizPick.methods,
      start: (here, run) => runEnd(run),
      done(view, here, memo) {
        const { lane, run } = view;
        const told = figures(lane);
        if (!told || !isAtEnd(lane, view.timeOf(lane)) || run.byNumber.get(lane.info.lane) !== lane) return null;
        memo.seen = (memo.seen || []).filter((one) => one.info.drafter !== lane.info.drafter).concat(lane);
        if (memo.seen.length < 2) return null;
        const [one, other] = memo.seen.slice(-2);
        const said = (which) => ["learn.compare.lane", { lane: which.info.title, speedup: times(figures(which).speedup),
          agreement: lastVersus(which).agreement.sentence }];
        return { one: said(one), other: said(other) };
      },
    },
  ];

  return { CHAPTERS };
})();
