// A run as it came in. It is given items (the contract stands in specviz/views/stage.py), keeps
// them by lane and answers what there is; it draws nothing, keeps no time, and knows no rule of
// decoding: every number and every status comes in an item. A plain script without imports, like
// those that follow it.

const SpecVizRun = (function () {
  function clamp(value, low, high) {
    return Math.min(high, Math.max(low, value));
  }

  function newRun(envelope) {
    return {
      id: envelope.run, source: envelope.source, label: envelope.label, start: null, lanes: [],
      byNumber: new Map(), nextSeq: 0, held: new Map(), isEnded: false, interrupted: "",
      finish: [], finishBy: "time", firstLook: [], judged: {}, version: 0,
    };
  }

  // How many lines the trees of a lane need: enough for most of its rounds, so that a rare tall tree
  // leaves no empty room in all others.
  const MOST = 0.9;

  function newMost() {
    return { counts: [], rounds: 0, enough: 1 };
  }

  function addLines(most, lines) {
    most.counts[lines] = (most.counts[lines] || 0) + 1;
    most.rounds += 1;
    let within = 0;
    most.enough = most.counts.findIndex((count) => {
      within += count || 0;
      return within >= MOST * most.rounds;
    });
  }

  function newLane(item) {
    return {
      info: item, rounds: [], tokens: [], entries: [], versus: [], end: null, best: 0,
      lines: { bare: newMost(), grown: newMost() }, maxRows: 1, maxWidth: 2,
      hasWindow: false, hasPool: false, hasMatch: false, hasGhosts: false,
    };
  }

  // Tokens in the text, and the same with what was drafted in vain between: lost ones stand
  // before the target's own token.
  function addText(lane, item, index) {
    const { text, id, origin, row } = item.new;
    item.firstToken = lane.tokens.length;
    item.firstEntry = lane.entries.length;
    const made = text.map((word, i) =>
      ({ text: word, id: id[i], origin: origin[i], row: row[i], index, number: item.firstToken + i }));
    const lost = item.lost_rows.map((at) =>
      ({ text: item.tree.text[at], id: item.tree.id[at], origin: item.tree.status[at], row: at, index }));
    lane.tokens.push(...made);
    lane.entries.push(...made.slice(0, item.num_accepted), ...lost, ...made.slice(item.num_accepted));
  }

  function addRound(lane, item) {
    const index = lane.rounds.length;
    addText(lane, item, index);
    lane.rounds.push(item);
    if (item.new.text.length > lane.rounds[lane.best].new.text.length) lane.best = index;
    const { tree, draft } = item;
    const bare = tree.lookahead_y ?? tree.height;
    addLines(lane.lines.bare, bare);
    addLines(lane.lines.grown, Math.max(bare, draft.heights[0]));
    lane.maxRows = Math.max(lane.maxRows, tree.x.length);
    lane.maxWidth = Math.max(lane.maxWidth, tree.width, draft.levels.length + 1);
    lane.hasWindow = lane.hasWindow || draft.window.length > 0;
    lane.hasPool = lane.hasPool || draft.pool !== null;
    lane.hasMatch = lane.hasMatch || draft.match !== null;
    lane.hasGhosts = lane.hasGhosts || draft.ghosts.length > 0;
  }

  // A comparison counts from the moment both of its lanes have come that far.
  function addVersus(run, versus, time) {
    for (const key in versus) {
      const lane = run.byNumber.get(Number(key));
      const entries = lane.versus;
      const before = entries.length ? entries[entries.length - 1].time : 0;
      entries.push({ time: Math.max(time, before), value: told(lane, versus[key]) });
    }
  }

  // A speed-up is told once so many rounds are over, or the lane is: before, one slow pass makes it anything.
  const EARLY = 8;

  function told(lane, value) {
    const isEarly = lane.rounds.length < EARLY && !lane.end;
    return isEarly ? { ...value, outcome: null, speedup: null, rho: null } : value;
  }

  function addItem(run, item) {
    run.version += 1;
    if (item.kind === "start") run.start = item;
    if (item.kind === "lane") {
      const lane = newLane(item);
      run.lanes.push(lane);
      run.byNumber.set(item.lane, lane);
    }
    if (item.kind === "round") {
      addRound(run.byNumber.get(item.lane), item);
      addVersus(run, item.versus, item.at[3]);
    }
    if (item.kind === "lane_end") run.byNumber.get(item.lane).end = item;
    if (item.kind === "end") {
      run.isEnded = true;
      Object.assign(run, { finish: item.finish, finishBy: item.finish_by });
      run.firstLook = item.first_look;
      run.judged = item.judged;
      addVersus(run, item.versus, 0);
    }
  }

  // The lanes of a run that is not played: those that got somewhere.
  function playedLanes(items) {
    const run = newRun({});
    for (const item of items) addItem(run, item);
    return run.lanes.filter((lane) => lane.rounds.length);
  }

  // Index of the first of `count` for which `test` holds; `count` if none. Tests are monotone.
  function firstWhere(count, test) {
    let low = 0;
    let high = count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (test(middle)) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  function lastEnd(lane) {
    return lane.rounds.length ? lane.rounds[lane.rounds.length - 1].at[3] : 0;
  }

  function runEnd(run) {
    return run.lanes.reduce((time, lane) => Math.max(time, lastEnd(lane)), 0);
  }

  // As far as every lane that is still at work is known.
  function knownTime(run) {
    const open = run.lanes.filter((lane) => !lane.end && lane.rounds.length);
    if (run.isEnded || !open.length) return runEnd(run);
    return Math.min(...open.map(lastEnd));
  }

  function versusAt(lane, time) {
    const found = firstWhere(lane.versus.length, (i) => lane.versus[i].time > time);
    return found ? lane.versus[found - 1].value : null;
  }

  function draftingLanes(run) {
    const drafting = run.lanes.filter((lane) => !lane.info.is_plain);
    return drafting.length ? drafting : run.lanes;
  }

  // Token `index` of the text a lane reads: its prompt, then its answer.
  function textToken(run, lane, index) {
    const prompt = run.start.prompt_tokens;
    if (index < prompt.length) return prompt[index];
    const token = lane.tokens[index - prompt.length];
    return token ? token.text : "";
  }

  return {
    clamp, newRun, addItem, playedLanes, firstWhere, lastEnd, runEnd, knownTime, versusAt, draftingLanes, textToken,
  };
})();
