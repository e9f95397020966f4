// How the run that is shown was made: model, device, settings, versions. Every line is what the run
// itself recorded; what an older trace does not tell is left out.

function makeFacts(root, { words }) {
  const { word, tell } = words;
  const SETTINGS = ["temperature", "top_k", "top_p", "min_p", "repetition_penalty"];
  let key = "";

  function line(name, value) {
    const pair = make("div", "specviz-fact");
    pair.append(make("dt", "", word("page.fact." + name)), make("dd", "", String(value)));
    return pair;
  }

  function joined(pairs) {
    return pairs.map(([name, value]) => name + " " + value).join(word("page.comma"));
  }

  function linesOf(start, lanes) {
    const { settings, versions } = start;
    const made = [
      ["target", start.target], ["source", tell(start.source)], ["path", tell(start.path)],
      ["device", [start.device, tell(start.machine)].filter(Boolean).join(word("page.comma"))],
      ["dtype", [start.dtype, start.quantisation === "none" ? "" : start.quantisation]
        .filter(Boolean).join(word("page.comma"))],
      ["created", start.created], ["seed", start.seed], ["budget", start.max_new_tokens],
      ["sampling", tell(start.sampling)],
    ];
    if (settings) {
      made.push(["settings", joined(SETTINGS.map((name) => [name, settings[name]]))]);
      made.push(["precision", settings.precision], ["rule", settings.verification]);
      made.push(["form", word(settings.is_chat ? "page.form_chat" : "page.form_raw")]);
    }
    const knobs = lanes.filter((lane) => tell(lane.knobs));
    made.push(["lanes", knobs.map((lane) => lane.name + ": " + tell(lane.knobs)).join("\n")]);
    made.push(["read_costs", start.read_costs]);
    if (settings) made.push(["adaptive", settings.is_adaptive ? word("page.adaptive_on") : ""]);
    if (versions) made.push(["versions", joined(Object.entries(versions))]);
    made.push(["commit", start.commit]);
    return made.filter(([, value]) => value !== undefined && value !== "");
  }

  return {
    paint(shown) {
      const start = shown && shown.items.find((item) => item.kind === "start");
      root.hidden = !start;
      const lanes = start ? shown.items.filter((item) => item.kind === "lane") : [];
      const now = start ? [shown.id, lanes.length, words.language()].join() : "";
      if (now === key) return;
      key = now;
      const wasOpen = root.querySelector("details")?.open;
      const fold = make("details");
      const list = make("dl", "specviz-fact-list");
      list.append(...(start ? linesOf(start, lanes) : []).map(([name, value]) => line(name, value)));
      fold.append(make("summary", "", word("page.facts")), list);
      fold.open = Boolean(wasOpen);
      root.replaceChildren(fold);
    },
  };
}
