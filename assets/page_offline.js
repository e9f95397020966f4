// A run as files: a page that plays it without a server, its rounds as CSV, its picture as SVG or
// PNG. Given items and code; it asks nobody for anything, so it works when the server is gone.

// One HTML file. The envelope stands in it as JSON with every "<" escaped, so nothing that a
// token says can end the element it stands in; the policy forbids all requests.
function replayPage({ code, style, envelope, language, title }) {
  const inert = (value) => JSON.stringify(value).replaceAll("<", "\\u003c");
  const start =
    "const dark = matchMedia('(prefers-color-scheme: dark)');" +
    "const paint = () => document.body.classList.toggle('dark', dark.matches);" +
    "dark.addEventListener('change', paint); paint();" +
    "const read = (id) => JSON.parse(document.getElementById(id).textContent);" +
    "const made = new Function(read('code') + '\\nreturn { SpecVizWords, SpecVizStage };')();" +
    "made.SpecVizWords.choose(document.documentElement.lang);" +
    "const stage = made.SpecVizStage.mount(document.querySelector('.specviz-stage'));" +
    "stage.receive(document.getElementById('run').textContent);";
  const policy =
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; " +
    "img-src data: blob:";
  const body = "body { margin: 0; padding: 16px; background: #fff; color: #1b2430; } " +
    "body.dark { background: #0f1318; color: #e8ecf1; } " +
    "#specviz-replay { max-width: 1560px; margin: 0 auto; }";
  return [
    "<!doctype html>",
    '<html lang="' + language + '">',
    '<meta charset="utf-8">',
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    '<meta http-equiv="Content-Security-Policy" content="' + policy + '">',
    "<title>" + title.replace(/[&<>]/g, (c) => "&#" + c.charCodeAt(0) + ";") + "</title>",
    "<style>" + body + "\n#specviz-replay {\n" + style + "\n}</style>",
    '<body><div id="specviz-replay"><div class="specviz-stage"></div></div>',
    '<script type="application/json" id="code">' + inert(code) + "<" + "/script>",
    '<script type="application/json" id="run">' + inert(envelope) + "<" + "/script>",
    "<script>" + start + "<" + "/script>",
    "",
  ].join("\n");
}

// A row per round. A cell that a spreadsheet would take for a formula gets a quote before it.
function roundsAsCsv(items) {
  const cell = (value) => {
    const text = String(value ?? "");
    const tame = /^[=+\-@\t\r]/.test(text) && typeof value !== "number" ? "'" + text : text;
    return /[",\r\n]/.test(tame) ? '"' + tame.replaceAll('"', '""') + '"' : tame;
  };
  const names = new Map();
  for (const item of items) if (item.kind === "lane") names.set(item.lane, item.name);
  const head = ["lane", "round", "start_seconds", "draft_seconds", "verify_seconds",
    "commit_seconds", "drafted", "accepted", "new_tokens", "text"];
  const rows = items.filter((item) => item.kind === "round").map((round) => [
    names.get(round.lane), round.round, round.at[0], round.time.draft.seconds,
    round.time.verify.seconds, round.time.commit.seconds, round.num_drafted, round.num_accepted,
    round.new.text.length, round.new.text.join(""),
  ]);
  return [head, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

// A drawing as it is on screen, standing alone: every computed style that matters inlined.
function standaloneSvg(drawing) {
  const KEPT = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-family",
    "font-size", "font-weight", "font-style", "text-anchor", "dominant-baseline", "display",
    "visibility", "text-decoration"];
  const copy = drawing.cloneNode(true);
  const [from, to] = [[drawing, ...drawing.querySelectorAll("*")],
    [copy, ...copy.querySelectorAll("*")]];
  from.forEach((node, i) => {
    const style = getComputedStyle(node);
    for (const name of KEPT) to[i].style.setProperty(name, style.getPropertyValue(name));
  });
  const box = drawing.getBoundingClientRect();
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", Math.ceil(box.width));
  copy.setAttribute("height", Math.ceil(box.height));
  if (!copy.hasAttribute("viewBox")) copy.setAttribute("viewBox", "0 0 " + box.width + " " + box.height);
  copy.style.background = getComputedStyle(document.body).backgroundColor;
  return copy;
}

function svgText(drawing) {
  return new XMLSerializer().serializeToString(drawing);
}

// A Blob of the same picture, twice as fine.
function svgAsPng(drawing) {
  const [width, height] = ["width", "height"].map((side) => Number(drawing.getAttribute(side)));
  const image = new Image();
  const address = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(svgText(drawing));
  return new Promise((resolve, reject) => {
    image.onload = () => {
      const canvas = document.createElement("canvas");
      Object.assign(canvas, { width: 2 * width, height: 2 * height });
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("empty"))), "image/png");
    };
    image.onerror = reject;
    image.src = address;
  });
}
