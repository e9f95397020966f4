// What can be saved of the run that is shown: trace, replay page, table of rounds, picture.

function makeSaver({ words, settings, server, stage, element, shown, say }) {
  function drawing() {
    return stage.picture?.() || element.querySelector(".specviz-stage svg [data-row]")?.closest("svg");
  }

  function start() {
    return shown().items.find((item) => item.kind === "start");
  }

  function replay() {
    const envelope = { v: 1, run: "file", seq: 0, source: "recorded", last: true,
      label: ["page.replayed", { date: start().created.slice(0, 10) }], items: shown().items };
    return replayPage({ code: settings.stageCode, style: settings.stageStyle, envelope,
      language: words.language(), title: "SpecViz: " + start().prompt.slice(0, 60) });
  }

  async function saveTrace(base) {
    const { kind, name, id } = shown();
    if (kind === "file") return say(["page.trace_is_yours", {}], true);
    const wish = kind === "recorded" ? { name } : { run: id };
    const answer = JSON.parse((await server.load_trace(wish)) || "null");
    if (!answer) return say(["page.server_gone", {}], true);
    if (answer.refusal) return say(answer.refusal, true);
    return saveFile(base + ".jsonl", answer.text, "application/jsonl");
  }

  async function save(form) {
    if (!shown()) return undefined;
    const base = "specviz-" + (shown().name || "run").replace(/[^\w-]+/g, "_").slice(0, 60);
    if (form === "trace") return saveTrace(base);
    if (form === "csv") return saveFile(base + ".csv", roundsAsCsv(shown().items), "text/csv");
    if (form === "html") return saveFile(base + ".html", replay(), "text/html");
    const picture = drawing();
    if (!picture) return say(["page.no_picture", {}], true);
    const alone = stage.picture ? picture : standaloneSvg(picture);
    if (form === "svg") return saveFile(base + ".svg", svgText(alone), "image/svg+xml");
    return saveFile(base + ".png", await svgAsPng(alone), "image/png");
  }

  return { drawing, save };
}
