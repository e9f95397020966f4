// Lanes that are not open, each as one line: what it is, what it gained so far, a chip to open it.

const SpecVizOthers = (function () {
  const { versusAt } = SpecVizRun;
  const { placeOf, finishedRound, tokensShown, rankShown } = SpecVizTime;
  const { word, tell, el, say, show, number } = SpecVizDom;

  function makeOthers() {
    const list = el("ul", "sv-otherlist");
    const root = el("section", "sv-others", el("h4", "", word("stage.others")), list);
    return { root, list, lines: new Map() };
  }

  function makeLine(lane, run, explain) {
    const { info } = lane;
    const [speedup, tau, tokens, place] = ["speedup", "tau", "tokens", "place"].map((name) => el("span", "sv-other" + name));
    const open = el("button", "sv-openlane", word("stage.open_lane"));
    open.type = "button";
    open.setAttribute("aria-label", word("stage.show_lane", { lane: tell(info.title) }));
    open.addEventListener("click", () => explain(lane));
    const key = el("span", "sv-lanekey", String(run.lanes.indexOf(lane) + 1));
    const about = el("span", "sv-otherabout", tell(info.description));
    about.title = about.textContent;
    const root = el("li", "sv-other", key, el("b", "sv-othername", tell(info.title)), speedup, tau, tokens, place, about, open);
    return { root, speedup, tau, tokens, place };
  }

  function drawOthers(view, run, lanes, timeOf, explain) {
    show(view.root, lanes.length > 0);
    for (const [lane, line] of view.lines) {
      if (lanes.includes(lane)) continue;
      line.root.remove();
      view.lines.delete(lane);
    }
    lanes.forEach((lane, i) => {
      if (!view.lines.has(lane)) view.lines.set(lane, makeLine(lane, run, explain));
      const line = view.lines.get(lane);
      if (view.list.children[i] !== line.root) view.list.insertBefore(line.root, view.list.children[i] || null);
      drawLine(line, run, lane, timeOf(lane));
    });
  }

  function drawLine(line, run, lane, time) {
    const place = placeOf(lane, time);
    const done = finishedRound(lane, place);
    const versus = done ? versusAt(lane, time) : null;
    say(line.speedup, speedWords(lane, versus));
    say(line.tau, word("stage.tau_short", { tau: number(done && done.total.tau, 2) }));
    say(line.tokens, word("stage.tokens", { n: tokensShown(place) }));
    const rank = rankShown(run, lane, place);
    say(line.place, rank ? word("stage.place", { n: rank }) : "");
  }

  function speedWords(lane, versus) {
    if (lane.info.is_plain) return "1x";
    return versus && versus.speedup !== null ? versus.speedup.toFixed(2) + "x" : "–";
  }

  return { makeOthers, drawOthers, speedWords };
})();
