// The pane that explains one lane: the decision, the mask, the numbers, what other settings would
// give, and below all the tables.
// It decides how often each is drawn, and what the card tells when nothing is chosen.

const SpecVizPane = (function () {
  const { textToken } = SpecVizRun;
  const { placeOf, axisEnd } = SpecVizTime;
  const { makeCard, drawCard } = SpecVizCard;
  const { makeMask, drawMask } = SpecVizMask;
  const { makeNumbers, drawNumbers, drawCharts } = SpecVizNumbers;
  const { makeWhatIf, drawWhatIf } = SpecVizWhatIf;
  const { drawTables } = SpecVizTable;
  const { deciding } = SpecVizSelect;
  const LIVE_MS = 1200; // a live run's numbers are read more seldom than painted
  const PLAYING_MS = 250; // while it plays, nobody reads numbers faster

  // `measure(fields)` runs what a what-if asks for, `tryRow(row)` draws from a row's odds; null where
  // that cannot be done.
  function makePane(box, measure, tryRow) {
    const pane = { card: makeCard(tryRow), mask: makeMask(), numbers: makeNumbers(), whatIf: makeWhatIf(measure),
      countedAt: -Infinity };
    box.append(pane.card.root, pane.mask.root, pane.numbers.root, pane.whatIf.root);
    return pane;
  }

  // What the walk decided last: in this round once it is told, else in the round before.
  function lastDecision(lane, place) {
    const here = deciding(place);
    const before = place && !here ? lane.rounds[place.index - 1] : null;
    return here || (before ? deciding({ round: before, index: place.index - 1, phase: "done" }) : null);
  }

  // `frame` is {lane, time, chosen, now, isThrottled, isPlaying, isAsked, act}; `act` is
  // {filter(length), goTo(lane, index), choose(kind, lane, chosen)}.
  function drawPane(pane, page, s, frame) {
    const { lane, time, chosen, now, act } = frame;
    const place = placeOf(lane, time);
    const isRow = Boolean(chosen) && chosen.row !== null;
    drawCard(pane.card, lane, place, isRow ? chosen : lastDecision(lane, place), !isRow);
    if (place) {
      const isHere = chosen && chosen.index === place.index;
      const light = isHere ? { row: chosen.row, column: chosen.column, prefix: chosen.prefix } : null;
      drawMask(pane.mask, lane, place, light, { inks: s.inks, theme: s.theme, room: s.sizes.mask,
        isPlaying: frame.isPlaying, textAt: (read) => textToken(s.run, lane, read) });
    }
    const gap = frame.isThrottled ? LIVE_MS : frame.isPlaying ? PLAYING_MS : 0;
    if (!frame.isAsked && now - pane.countedAt < gap) return;
    pane.countedAt = now;
    drawWhatIf(pane.whatIf, s.run, lane, time);
    drawNumbers(pane.numbers, s.run, lane, place, time, { filter: s.filter, onFilter: act.filter, chosen });
    drawCharts(pane.numbers, s.run, { lanes: s.run.lanes.filter((one) => s.shown.has(one)), lane, place, time, chosen,
      end: axisEnd(s.run, "time"), width: s.sizes.pane, inks: s.inks, theme: s.theme });
    drawTables(page.table, lane, { chosen, place, onRound: (index) => act.goTo(lane, index),
      onRow: (kind, index, row) => act.choose(kind, lane, row === null ? null : { index, row }) });
  }

  return { makePane, drawPane };
})();
