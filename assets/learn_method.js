// The panel on one method: what the registry says of it, its drawing with the round that is looked at,
// its lines of code with the one at work lit, and how it is trained, what it costs, when to use it.

const SpecVizMethod = (function () {
  const { word, tell, el, put, say, show, select } = SpecVizDom;
  const { CODE, RECIPES, linesOf, momentOf, litLines } = SpecVizCode;
  const { makeDrawing, drawDrawing } = SpecVizDrawing;
  const FACTS = ["idea", "training", "exact", "cost", "when"];
  const FAMILY = { eagle: ["eagle", "eagle2", "eagle3"] };
  const POINTS = { rivals: ["training", "quality", "drafting", "backbone", "exact", "like"],
    eagles: ["reads", "predicts", "tree", "learns", "claim"] };

  const isTold = (name) => SpecVizWords.wordOr("method." + name + ".idea", "") !== "";

  const namesOf = (methods) => (Object.keys(methods).length ? Object.keys(methods) : Object.keys(CODE));

  // `methods` is {name: {title, summary, paper, exactness}}, empty where there is no catalogue;
  // `act` is {choose(name)}; `name` the method of first interest.
  function makeMethod(methods, act, name) {
    const chooser = select(word("method.choose"), namesOf(methods).map((one) => [one, titleOf(methods, one)]));
    const title = el("h3", "svl-title");
    const about = el("p", "svm-about");
    const picture = el("div", "svm-picture");
    const code = el("ol", "svm-code");
    code.setAttribute("aria-label", word("method.code"));
    const codeBox = el("div", "svm-codebox", el("h4", "", word("method.code")), code);
    const facts = el("dl", "svm-facts");
    const more = el("div", "svm-more");
    const root = el("div", "svm", el("div", "svm-head", title, chooser), about,
      el("div", "svm-both", picture, codeBox), facts, more);
    const view = { root, act, methods, chooser, title, about, picture, code, facts, more, name: name || "", built: "",
      drawing: null, isTree: null, lines: [], lead: null, lit: "" };
    chooser.addEventListener("change", () => {
      view.name = chooser.value;
      act.choose(view.name);
    });
    return view;
  }

  function titleOf(methods, name) {
    return SpecVizWords.wordOr("drafter." + name + ".title", methods[name] ? methods[name].title : name);
  }

  function offerWords(lane) {
    const name = lane.info.drafter;
    return word("learn.method_open", { title: titleOf({ [name]: { title: name } }, name) });
  }

  // The panel goes with the lane in focus; a method that was chosen and has no lane here stays.
  // One that was asked for before there was a run gets its lane explained, if it has one.
  function drawMethod(view, look) {
    const { run, lane, place } = look;
    if (view.lead !== lane) {
      const isAsked = view.lead === null && Boolean(view.name);
      view.lead = lane;
      if (!isAsked) view.name = lane.info.drafter;
      else if (view.name !== lane.info.drafter) setTimeout(() => view.act.choose(view.name)); // not amid its drawing
    }
    if (view.built !== view.name) build(view);
    const isHere = lane.info.drafter === view.name;
    const hasLane = run.lanes.some((one) => one.info.drafter === view.name);
    drawDrawing(view.drawing, view.title.textContent, isHere ? place : null, hasLane);
    if (isHere) writeCode(view, lane.info.family === "tree");
    const moment = isHere ? momentOf(place) : "";
    if (view.lit === moment) return;
    view.lit = moment;
    litLines(linesOf(view.name, view.isTree), moment).forEach((isLit, i) => {
      put(view.lines[i], "data-lit", isLit);
      if (isLit) put(view.lines[i], "aria-current", "step");
      else view.lines[i].removeAttribute("aria-current");
    });
  }

  function build(view) {
    const { name, methods } = view;
    const facts = methods[name] || { summary: "", paper: "", exactness: "" };
    Object.assign(view, { built: name, isTree: null });
    view.chooser.value = name;
    say(view.title, titleOf(methods, name));
    say(view.about, SpecVizWords.wordOr("drafter." + name + ".summary", facts.summary));
    view.drawing = makeDrawing(name);
    view.picture.replaceChildren(view.drawing.root);
    writeCode(view, false);
    view.facts.replaceChildren(...factsOf(name, facts));
    view.more.replaceChildren(...tablesOf(name, methods));
  }

  // A method that can draft chains and trees has lines for both.
  function writeCode(view, isTree) {
    if (view.isTree === isTree) return;
    Object.assign(view, { isTree, lit: null });
    view.lines = linesOf(view.name, isTree).map(([, text]) => el("li", "", el("code", "", text)));
    view.code.replaceChildren(...view.lines);
    show(view.code.parentNode, view.lines.length > 0);
  }

  function fact(label, ...content) {
    return el("div", "svm-fact", el("dt", "", label), el("dd", "", ...content));
  }

  function factsOf(name, facts) {
    const made = !isTold(name) ? [] : FACTS.map((one) => {
      const told = [el("p", "", word("method." + name + "." + one))];
      if (one === "exact" && facts.exactness) told.unshift(el("span", "sv-chip", word("method.is." + facts.exactness)));
      if (one === "training" && RECIPES[name]) told.push(...commandsOf(RECIPES[name]));
      return fact(word("method.fact." + one), ...told);
    });
    if (facts.paper) made.push(fact(word("method.fact.paper"), ...linked(facts)));
    return made;
  }

  // A paper as it is told, each number a link: what is published of a method can be looked up there.
  function linked({ paper, links }) {
    return paper.split(/(arXiv:[\d.]+\d)/).map((part) => {
      if (!links[part]) return part;
      return Object.assign(el("a", "", part), { href: links[part], target: "_blank", rel: "noopener" });
    });
  }

  // The corpus first, of which every drafter learns.
  function commandsOf(method) {
    const train = (what, ...more) => ["python -m specviz train", what, "--target", "my-model", ...more].join(" ");
    return [train("data", "--out", "my-corpus"), train(method, "--data", "my-corpus", "--out", "drafters/" + method)]
      .map((command) => el("code", "svm-command", command));
  }

  // Two methods that are often taken for each other, and three that followed each other.
  function tablesOf(name, methods) {
    if (name === "medusa" || name === "mtp") return [table("rivals", ["medusa", "mtp"], name, methods)];
    return FAMILY.eagle.includes(name) ? [table("eagles", FAMILY.eagle, name, methods)] : [];
  }

  function table(kind, columns, name, methods) {
    const cell = (tag, text, column, ...more) => {
      const made = el(tag, "", text, ...more);
      if (column === name) made.dataset.here = "true";
      return made;
    };
    const head = el("tr", "", el("td", ""), ...columns.map((one) => cell("th", tell(word("drafter." + one + ".title")), one)));
    const sources = (point, one) => point === "claim" && methods[one] ? [el("br", ""), ...linked(methods[one])] : [];
    const rows = POINTS[kind].map((point) => el("tr", "", el("th", "", word("method." + kind + "." + point)),
      ...columns.map((one) => cell("td", word("method." + kind + "." + point + "." + one), one, ...sources(point, one)))));
    return el("details", "svm-table", el("summary", "", word("method." + kind)),
      el("table", "", el("thead", "", head), el("tbody", "", ...rows)));
  }

  return { namesOf, makeMethod, drawMethod, offerWords };
})();
