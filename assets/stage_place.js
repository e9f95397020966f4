// What is looked at, as plain values for a link, and the way back. What comes back may be anything:
// it stood in an address. What does not fit is passed over.

const SpecVizPlace = (function () {
  const { AXES, placeOf } = SpecVizTime;
  const { SETTINGS, SPEEDS, OPTIONS } = SpecVizPage;
  const PHASES = { draft: 0, verify: 1, commit: 2 }; // where each begins among a round's moments

  function placeIn(s, timeOf) {
    const { run, lead, player, selection, shown, options } = s;
    const place = run && lead ? placeOf(lead, timeOf(lead)) : null;
    const { pin } = selection;
    return {
      lane: lead ? lead.info.lane : null, round: place ? place.round.round : 0,
      phase: place ? place.phase : "", pin: pin ? [pin.lane.info.lane, pin.lane.rounds[pin.index].round, pin.row] : null, axis: player.axis, speed: player.speed,
      lanes: run ? run.lanes.filter((lane) => shown.has(lane)).map((lane) => lane.info.lane) : [],
      ...Object.fromEntries(SETTINGS.map((name) => [name, options[OPTIONS[name]]])),
    };
  }

  // `act` is {setOption(name, isOn), showLane(lane, isOn), explain(lane), goTo(lane, index), pin(lane, chosen), seek(time)}.
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
    if (player.axis === "time" && view.phase in PHASES) act.seek(within(round, PHASES[view.phase]));
    pinAgain(run, Array.isArray(view.pin) ? view.pin : [view.lane, view.round, view.row], act);
  }

  // Where a phase begins the one before it ends: a little later is surely inside.
  const within = ({ at }, phase) => at[phase] + (at[phase + 1] - at[phase]) / 1000;

  // A row keeps its round, wherever the playhead stands.
  function pinAgain(run, [number, round, row], act) {
    const lane = run.byNumber.get(number);
    const index = Number.isInteger(round) ? round - 1 : -1;
    const there = lane && lane.rounds[index];
    if (!there || !Number.isInteger(row)) return;
    const rows = there.tree.x.length + there.draft.ghosts.length;
    if (row >= -1 && row < rows) act.pin(lane, { index, row });
  }

  return { placeIn, go };
})();
