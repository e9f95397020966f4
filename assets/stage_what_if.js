// "What if" on a run that is over: what the explained lane would have given with another setting,
// beside what it gave. All numbers come in the item (specviz/views/judgement.py), each marked as the
// estimate it is; here one is chosen and shown. A button asks the page to measure it.

const SpecVizWhatIf = (function () {
  const { word, tell, el, number, show, say, select } = SpecVizDom;
  const { lastEnd } = SpecVizRun;
  const ROOM = 1.05;
  const NAMES = ["length", "budget", "unbranched", "oracle", "costs", "temperature", "greedy"];

  // `measure(fields)` runs what the fields ask for; null where nothing can be run.
  function makeWhatIf(measure) {
    const title = el("h4", "");
    const body = el("div", "sv-whatifbody");
    const root = el("section", "sv-panel sv-whatif", el("div", "sv-panelhead", title,
      el("span", "sv-badge sv-guess", word("stage.estimated"))), body);
    show(root, false);
    return { root, title, body, measure, key: "", what: "length", at: {} };
  }

  function drawWhatIf(view, run, lane, time) {
    const said = run.judged[lane.info.lane];
    const found = said ? said.what_if : null;
    const isShown = Boolean(found) && time >= lastEnd(lane);
    show(view.root, isShown);
    const key = run.id + lane.info.lane;
    if (!isShown || view.key === key) return;
    Object.assign(view, { key, at: {}, asked: run.start });
    say(view.title, word("what_if.title", { lane: tell(lane.info.title) }));
    fill(view, found);
  }

  // ---- What is chosen ----------------------------------------------------------------------

  function offered(found) {
    return NAMES.filter((name) => name in found.choices || name in found.refused || (name === "costs" && found.costs));
  }

  // The chosen estimate; where a scale has many, the measured one is chosen at first.
  function chosenOf(view, found) {
    if (view.what === "costs") return costsOf(view, found.costs);
    const list = found.choices[view.what];
    if (!list) return null;
    const measured = list.findIndex((one) => one.is_measured);
    const at = view.at[view.what] ?? Math.max(0, measured);
    return list[Math.min(at, list.length - 1)];
  }

  function costsOf(view, costs) {
    const [i, j] = view.at.costs || (view.at.costs = [...costs.now]);
    const curve = costs.curves[view.at.curve];
    const [rho, speedup] = curve ? [curve.rho[i], curve.speedup[i]] : [costs.rho[i][j], costs.speedup[i][j]];
    return { value: null, tau: costs.tau, rho, speedup, bounds: null, assumes: (curve || costs).assumes, measure: null };
  }

  // ---- Painting ----------------------------------------------------------------------------

  function fill(view, found) {
    const names = offered(found);
    if (!names.includes(view.what)) [view.what] = names;
    const chooser = select(word("what_if.choose"), names.map((name) => [name, word("what_if.name." + name)]));
    chooser.value = view.what;
    const part = el("div", "sv-whatifpart");
    chooser.addEventListener("change", () => {
      view.what = chooser.value;
      fillPart(view, found, part);
    });
    view.body.replaceChildren(el("label", "sv-label", word("what_if.choose"), chooser), part);
    fillPart(view, found, part);
  }

  function fillPart(view, found, part) {
    const refusal = found.refused[view.what];
    if (refusal) return part.replaceChildren(el("p", "", tell(refusal)));
    const result = el("div", "sv-whatifresult");
    const repaint = () => fillResult(view, found, result);
    const control = view.what === "costs" ? sliders(view, found.costs, repaint)
      : found.choices[view.what].length > 1 ? columns(view, found, repaint) : [];
    part.replaceChildren(el("p", "sv-none", word("what_if.about." + view.what, { n: found.costs.rows })), ...control, result);
    return repaint();
  }

  // A column for each value; a click or the arrow keys of the slider below choose one.
  function columns(view, found, repaint) {
    const list = found.choices[view.what];
    const best = boundOf(view, found);
    const most = Math.max(best, found.measured.speedup, 1, ...list.map((one) => one.speedup)) * ROOM;
    const marks = list.map((one, i) => {
      const fill = el("b", "");
      fill.style.height = (100 * one.speedup) / most + "%";
      const node = el("button", "sv-column", el("span", "sv-columntrack", fill), el("span", "", String(one.value)));
      node.type = "button";
      node.title = word("what_if.column", { n: one.value, speedup: number(one.speedup, 2) });
      node.setAttribute("data-measured", one.is_measured);
      node.addEventListener("click", () => choose(i));
      return node;
    });
    const lines = [["oracle", best], ["plain", 1]].filter(([, value]) => value > 0).map(([kind, value]) => {
      const line = el("i", "sv-whatifline");
      line.setAttribute("data-kind", kind);
      line.style.bottom = (100 * value) / most + "%";
      return line;
    });
    const press = () => {
      const chosen = chosenOf(view, found);
      marks.forEach((node, i) => node.setAttribute("aria-pressed", list[i] === chosen));
    };
    function choose(i) {
      view.at[view.what] = i;
      press();
      repaint();
    }
    press();
    const rule = el("div", "sv-whatiflines", ...lines);
    return [el("div", "sv-histogram sv-whatifcolumns", ...marks, rule), el("p", "sv-none",
      word("what_if.columns_note") + (best ? " " + word("what_if.columns_bound", { best: number(best, 2) }) : ""))];
  }

  // The best length in every round bounds all lengths, but no other setting: fewer rows may cost less,
  // and passes that cost something else are another bound. 0: there is none.
  function boundOf(view, found) {
    return view.what === "length" ? found.choices.oracle[0].speedup : 0;
  }

  function sliders(view, costs, repaint) {
    const at = view.at.costs || (view.at.costs = [...costs.now]);
    const made = ["c", "delta"].filter((name) => costs[name].length > 1).map((name) => {
      const place = name === "c" ? 0 : 1;
      const stops = costs[name];
      const said = el("span", "sv-depthwords");
      const input = el("input", "sv-scrub");
      Object.assign(input, { type: "range", min: 0, max: stops.length - 1, step: 1, value: at[place] });
      const tellIt = () => {
        const isNow = at[place] === costs.now[place];
        said.textContent = word(isNow ? "what_if.as_measured" : "what_if.stop", { n: number(stops[at[place]], 2) });
        input.setAttribute("aria-valuetext", said.textContent);
      };
      input.addEventListener("input", () => {
        at[place] = Number(input.value);
        tellIt();
        repaint();
      });
      tellIt();
      const root = el("label", "sv-whatifslider", el("span", "", word("what_if.cost." + name, { n: costs.rows })), input, said);
      root.setAttribute("data-cost", name);
      return root;
    });
    return [...made, curveChoice(view, costs, made, repaint)];
  }

  // Instead of a straight line up to delta: what reads cost on a machine where somebody measured them.
  function curveChoice(view, costs, controls, repaint) {
    const options = [["", word("what_if.curve.none")], ...costs.curves.map((one, i) => [String(i), tell(one.name)])];
    const chooser = select(word("what_if.curve"), options);
    chooser.value = String(view.at.curve ?? "");
    const hideLine = () => {
      const line = controls.find((one) => one.dataset.cost === "delta");
      if (line) show(line, chooser.value === "");
    };
    chooser.addEventListener("change", () => {
      view.at.curve = chooser.value === "" ? undefined : Number(chooser.value);
      hideLine();
      repaint();
    });
    hideLine();
    return el("label", "sv-label sv-whatifcurve", word("what_if.curve"), chooser);
  }

  function fillResult(view, found, box) {
    const chosen = chosenOf(view, found);
    const best = boundOf(view, found);
    const most = Math.max(found.measured.speedup, chosen.speedup, best, 1) * ROOM;
    const bar = (kind, speedup) => {
      const fill = el("b", "sv-accountpart");
      fill.style.width = (100 * speedup) / most + "%";
      fill.setAttribute("data-part", kind);
      return el("div", "sv-accountrow", el("span", "", word("what_if.bar." + kind)), el("span", "sv-accounttrack", fill),
        el("span", "sv-depthwords", word("what_if.times", { n: number(speedup, 2) })));
    };
    const bars = [bar("measured", found.measured.speedup)];
    if (!chosen.is_measured) bars.push(bar("estimated", chosen.speedup));
    if (best) bars.push(bar("oracle", best));
    const assumed = el("details", "sv-fold", el("summary", "", el("span", "sv-foldname", word("what_if.assumes"))),
      el("ul", "sv-assumptions", ...chosen.assumes.map((i) => el("li", "", tell(found.said[i])))));
    const sentence = el("p", "sv-whatifsays", resultWords(chosen));
    sentence.setAttribute("role", "status");
    box.replaceChildren(el("div", "sv-accountbars", ...bars), sentence, ...(chosen.is_measured ? [] : [assumed]), ...measuring(view, chosen));
  }

  function resultWords(chosen) {
    const values = { tau: number(chosen.tau, 2), rho: number(chosen.rho, 2), speedup: number(chosen.speedup, 2) };
    if (chosen.is_measured) return word("what_if.says_measured", values);
    const said = word("what_if.says", values);
    if (!chosen.bounds) return said;
    const [low, high] = chosen.bounds.map((value) => number(value, 2));
    return said + " " + word("what_if.bounds", { low, high });
  }

  function measuring(view, chosen) {
    if (!view.measure || chosen.is_measured) return [];
    if (!chosen.measure) return [el("p", "sv-none", word("what_if.cannot." + (view.what === "costs" ? "costs" : "other")))];
    const button = el("button", "sv-button sv-measure", word("what_if.measure"));
    button.type = "button";
    SpecVizTerm.explain(button, word("what_if.measure_title"));
    button.addEventListener("click", () => view.measure(fieldsOf(view.asked, chosen.measure)));
    return [button];
  }

  // The request that this run was, with one thing changed.
  function fieldsOf(start, changed) {
    const { asked, settings, seed, max_new_tokens: budget } = start;
    return { ...asked, ...settings, seed, max_new_tokens: budget, ...changed };
  }

  return { makeWhatIf, drawWhatIf };
})();
