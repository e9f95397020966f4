// One selection for tree, window, mask, text and card: a hover or the focus previews, a pin stays.
// A selection names a lane, a round and a row of it; what it lights is for others to draw.

const SpecVizSelect = (function () {
  const { clamp } = SpecVizRun;
  const { placeOf, isTold, walked, lookOf, ghostLook } = SpecVizTime;
  const { tokenAt, originWords } = SpecVizText;
  const { cellAt, stepInMask, maskWords } = SpecVizMask;
  const { roundUnder } = SpecVizChart;
  const { rowSaid } = SpecVizTable;

  function newSelection() {
    return { hover: null, pin: null };
  }

  function chosenOf(selection) {
    return selection.hover || selection.pin;
  }

  function isSame(one, other) {
    return one === other || Boolean(one && other && one.lane === other.lane && one.index === other.index &&
      one.row === other.row && one.column === other.column && one.prefix === other.prefix);
  }

  // With nothing chosen the card goes with the walk: the row it came to last, in the end what ended it.
  function deciding(place) {
    if (!place || !isTold(place)) return null;
    const { round, index } = place;
    const { tree } = round;
    const depth = place.phase === "done" ? Infinity : walked(place);
    if (depth === 0) return null;
    const step = tree.status.findIndex((status, row) => status === "accepted" && tree.depth[row] === depth);
    if (step > 0) return { index, row: step };
    const end = Math.max(0, tree.status.lastIndexOf("accepted"));
    const refused = tree.status.findIndex((status, row) => status === "rejected" && tree.parent[row] === end);
    if (refused > 0) return { index, row: refused };
    return { index, row: round.next ? -1 : end };
  }

  // `choose(kind, lane, chosen)`: kind "hover" or "pin"; chosen {index, row, column} or null.
  // `tellRow(text)` says what the keys came to.
  function listenLane(view, lane, timeOf, choose, goTo, tellRow) {
    const here = (row) => {
      const place = placeOf(lane, timeOf(lane));
      return row === null || !place ? null : { index: place.index, row };
    };
    const rowOf = (event) => {
      const node = event.target.closest("[data-row]");
      return node ? Number(node.getAttribute("data-row")) : null;
    };
    for (const root of [view.tree.root, view.source.root]) {
      root.addEventListener("pointermove", (event) => choose("hover", lane, here(rowOf(event))));
      root.addEventListener("pointerleave", () => choose("hover", lane, null));
      root.addEventListener("click", (event) => {
        if (view.tree.isDragged) view.tree.isDragged = false;
        else choose("pin", lane, here(rowOf(event)));
      });
    }
    view.tree.root.addEventListener("blur", () => {
      view.tree.isWalked = false;
      choose("hover", lane, null);
    });
    view.tree.root.addEventListener("keydown", (event) => {
      const spot = placeOf(lane, timeOf(lane));
      const chosen = spot ? walkTree(event, view, spot, here, (kind, at) => choose(kind, lane, at)) : null;
      const ghost = chosen ? view.tree.ghosts[chosen.row - view.tree.rows] : null;
      if (chosen) tellRow(rowSaid(spot.round, spot, chosen.row, ghost));
    });
    listenText(view, lane, timeOf, choose, goTo, tellRow);
  }

  function listenText(view, lane, timeOf, choose, goTo, tellRow) {
    const { root } = view.strip;
    root.addEventListener("pointerover", (event) => {
      const token = tokenAt(view.strip, lane, event);
      choose("hover", lane, token ? { index: token.index, row: token.row } : null);
      const node = event.target.closest("[data-token]");
      if (token && !node.title) node.title = originWords(token, lane.rounds[token.index].round);
    });
    root.addEventListener("pointerleave", () => choose("hover", lane, null));
    root.addEventListener("click", (event) => {
      const token = tokenAt(view.strip, lane, event);
      if (!token) return;
      goTo(lane, token.index);
      choose("pin", lane, { index: token.index, row: token.row });
    });
    root.addEventListener("blur", () => choose("hover", lane, null));
    root.addEventListener("keydown", (event) => {
      const token = walkText(event, view, lane, choose, goTo);
      if (!token) return;
      const place = placeOf(lane, timeOf(lane));
      tellRow(rowSaid(lane.rounds[token.index], place && place.index === token.index ? place : null, token.row, null));
    });
  }

  // `textAt(lane, place)` gives the token at a place of the text that a lane reads.
  function listenMask(view, laneOf, timeOf, choose, { tellRow, textAt }) {
    const at = (event) => {
      const lane = laneOf();
      const place = lane ? placeOf(lane, timeOf(lane)) : null;
      const cell = place ? cellAt(view, event) : null;
      return cell ? { index: place.index, ...cell } : null;
    };
    view.canvas.addEventListener("pointermove", (event) => choose("hover", laneOf(), at(event)));
    view.canvas.addEventListener("pointerleave", () => choose("hover", laneOf(), null));
    view.canvas.addEventListener("click", (event) => choose("pin", laneOf(), at(event)));
    view.canvas.addEventListener("blur", () => choose("hover", laneOf(), null));
    view.canvas.addEventListener("keydown", (event) => {
      const lane = laneOf();
      const place = lane ? placeOf(lane, timeOf(lane)) : null;
      const cell = place ? stepInMask(view, event.key, place.index) : null;
      const isPin = event.key === "Enter" && Boolean(place) && Boolean(view.cell);
      if (!cell && !isPin) return;
      if (cell) view.cell = { index: place.index, ...cell };
      choose(isPin ? "pin" : "hover", lane, view.cell);
      if (cell) tellRow(maskWords(place.round, cell, (read) => textAt(lane, read)));
      event.preventDefault();
      event.stopPropagation();
    });
  }

  // Columns of the chart of rounds: pointing lights a round, a click goes there.
  function listenRounds(view, laneOf, choose, goTo) {
    const at = (event) => {
      const index = roundUnder(view, event);
      return index < 0 ? null : { index, row: null };
    };
    view.canvas.addEventListener("pointermove", (event) => choose("hover", laneOf(), at(event)));
    view.canvas.addEventListener("pointerleave", () => choose("hover", laneOf(), null));
    view.canvas.addEventListener("click", (event) => {
      const chosen = at(event);
      if (chosen) goTo(laneOf(), chosen.index);
    });
  }

  // Arrow keys go through the rows of the round, the target's own token last. Gives where they came to.
  function walkTree(event, view, spot, here, choose) {
    const steps = { ArrowUp: -1, ArrowDown: 1 };
    const { index, round } = spot;
    const { rows, ghosts } = view.tree;
    if (!rows) return null;
    const isThere = (row) => (row < rows ? round.tree.status[row] !== "lookahead" && lookOf(spot, row) !== "hidden"
      : ghostLook(spot, ghosts[row - rows]) !== "hidden");
    const order = Array.from({ length: rows + ghosts.length }, (_, row) => row).filter(isThere);
    if (round.next) order.push(-1);
    const now = view.tree.walked && view.tree.walked.index === index ? view.tree.walked.at : -1;
    const isStep = event.key in steps;
    if (!isStep && !(event.key === "Enter" && now >= 0 && now < order.length)) return null;
    const at = isStep ? clamp(now + steps[event.key], 0, order.length - 1) : now;
    if (isStep) Object.assign(view.tree, { walked: { index, at }, isWalked: true });
    choose(isStep ? "hover" : "pin", here(order[at]));
    event.preventDefault();
    event.stopPropagation();
    return isStep ? here(order[at]) : null;
  }

  function walkText(event, view, lane, choose, goTo) {
    const steps = { ArrowUp: -1, ArrowDown: 1 };
    if (!(event.key in steps) && event.key !== "Enter") return null;
    const list = view.strip.hasLost ? lane.entries : lane.tokens;
    const last = view.strip.length - 1;
    if (last < 0) return null;
    const now = view.strip.walked ?? last + 1;
    const next = event.key === "Enter" ? clamp(now, 0, last) : clamp(now + steps[event.key], 0, last);
    view.strip.walked = next;
    const token = list[next];
    if (event.key === "Enter") goTo(lane, token.index);
    choose(event.key === "Enter" ? "pin" : "hover", lane, { index: token.index, row: token.row });
    event.preventDefault();
    event.stopPropagation();
    return event.key === "Enter" ? null : token;
  }

  return { newSelection, chosenOf, isSame, deciding, listenLane, listenMask, listenRounds };
})();
