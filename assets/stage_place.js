// What is looked at, as plain values for a link, and the way back. What comes back may be anything:
// it stood in an address. What does not fit is passed over.

const SpecVizPlace = (function () {
  const { AXES, placeOf } = SpecVizTime;
  const { SETTINGS, SPEEDS, OPTIONS } = SpecVizPage;

  function placeIn(s, timeOf) {
    const { run, lead, player, selection, shown, options } = s;
    const place = run && lead ? placeOf(lead, timeOf(lead)) : null;
    const { pin } = selection;
    return {
      lane: lead ? lead.info.lane : null, round: place ? place.round.round : 0,
      phase: place ? place.phase : "", row: pin ? pin.row : null, axis: player.axis, speed: player.speed,
      lanes: run ? run.lanes.filter((lane) => shown.has(lane)).map((lane) => lane.info.lane) : [],
      ...Object.fromEntries(SETTINGS.map((name) => [name, options[OPTIONS[name]]])),
    };
  }

  // `act` is {setOption(name, isOn), showLane(lane, isOn), explain(lane), goTo(lane, index), pin(lane, chosen)}.
  function go(s, view, act) {
    const { run, player } = s;
    if (!run || typeof view !== "object" || view === null) return;
    for (const name of SETTINGS) {
      if (typeof view[name] === "boolean") act.setOption(OPTIONS[name], view[name]);
    }
    const wanted = Array.isArray(view.lanes) ? run.lanes.filter((lane) => view.lanes.includes(lane.info.lane)) : [];
    if (wanted.length) run.lanes.forEach((lane) => act.showLane(lane, wanted.includes(lane)));
    if (AXES.includes(view.axis)) player.axis = view.axis;
    if (SPEEDS.includes(view.speed)) player.speed = view.speed;
    player.hasOpened = true;
    const lane = run.byNumber.get(view.lane);
    if (!lane) return;
    act.explain(lane);
    const index = Number.isInteger(view.round) ? view.round - 1 : -1;
    const round = lane.rounds[index];
    if (!round) return;
    act.goTo(lane, index);
    const rows = round.tree.x.length + round.draft.ghosts.length;
    const isRow = Number.isInteger(view.row) && view.row >= -1 && view.row < rows;
    if (isRow) act.pin(lane, { index, row: view.row });
  }

  return { placeIn, go };
})();
