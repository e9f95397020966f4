// What a run shows before anybody chose: which lanes are open, and which one is explained.

const SpecVizFirst = (function () {
  const { draftingLanes } = SpecVizRun;
  const MAX_OPEN = 4; // so many lanes are all open; of more, two are

  // Of many lanes the two that the feed names; while it has not, the first two that draft in
  // different ways. A live run keeps what it began with.
  function firstLook(run) {
    const drafting = draftingLanes(run);
    if (run.lanes.length <= MAX_OPEN) return { open: run.lanes, lead: drafting[0] || null };
    const told = run.source === "live" ? [] : run.firstLook.map((number) => run.byNumber.get(number));
    const lead = told[0] || drafting[0];
    const other = told[1] || drafting.find((lane) => lane.info.family !== lead.info.family) || drafting[1];
    return { open: other ? [lead, other] : [lead], lead };
  }

  return { firstLook };
})();
