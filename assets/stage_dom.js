// Elements, signs, formats and inks that every drawing file uses. Token text enters the page only
// through textContent and setAttribute, here and everywhere else.

const SpecVizDom = (function () {
  const word = SpecVizWords.word;
  const ICONS = {
    check: "M1 5 L4 8 L9 2", cross: "M2 2 L8 8 M8 2 L2 8",
    star: "M5 0.4 L6.4 3.6 L9.8 3.9 L7.2 6.2 L8 9.6 L5 7.8 L2 9.6 L2.8 6.2 L0.2 3.9 L3.6 3.6 Z",
    loop: "M8.6 5 A3.6 3.6 0 1 1 7.2 2.1 M7.6 0 L7.4 2.4 L5 2.2",
    play: "M2 1 L9 5 L2 9 Z", pause: "M1.5 1 H4 V9 H1.5 Z M6 1 H8.5 V9 H6 Z",
    back: "M8 1 L3 5 L8 9 Z", forward: "M2 1 L7 5 L2 9 Z",
    round_back: "M8.6 1 L3.6 5 L8.6 9 Z M1.4 1 H2.8 V9 H1.4 Z",
    round_forward: "M1.4 1 L6.4 5 L1.4 9 Z M7.2 1 H8.6 V9 H7.2 Z",
    home: "M9.5 1 L5.6 5 L9.5 9 Z M5.4 1 L1.5 5 L5.4 9 Z M0 1 H1.2 V9 H0 Z",
    end: "M0.5 1 L4.4 5 L0.5 9 Z M4.6 1 L8.5 5 L4.6 9 Z M8.8 1 H10 V9 H8.8 Z",
    rejection: "M1 2 L6 7 M6 2 L1 7 M7.5 1 V9", best: "M1 9 H9 M2.4 9 V5 M5 9 V1 M7.6 9 V6",
    help: "M3 3.2 A2 2 0 1 1 5 5.4 V6.6 M5 8.2 V9.2", gear: "M1 2.5 H9 M1 7.5 H9 M3.4 0.8 V4.2 M6.6 5.8 V9.2",
    plus: "M5 1 V9 M1 5 H9", minus: "M1 5 H9",
    fit: "M1 3.4 V1 H3.4 M6.6 1 H9 V3.4 M9 6.6 V9 H6.6 M3.4 9 H1 V6.6",
  };
  const FILLED = new Set([
    "star", "play", "pause", "back", "forward", "round_back", "round_forward", "home", "end",
  ]);
  const MARKS = { accepted: "check", rejected: "cross", bonus: "star", recovered: "loop" };
  const PARTS = ["draft", "verify", "commit"];
  const INKS = [
    "text", "quiet", "ground", "sunken", "rule", "accepted", "rejected", "target", "target-tint",
    "drafter", "drafter-tint", "own", "ahead", "part-draft", "part-verify", "part-commit", "on-part",
  ];

  function el(tag, name, ...children) {
    const node = document.createElement(tag);
    if (name) node.className = name;
    node.append(...children);
    return node;
  }

  function svg(tag, attributes, ...children) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const name in attributes) node.setAttribute(name, attributes[name]);
    node.append(...children);
    return node;
  }

  // Writes only what changed: most frames change little.
  function put(node, name, value) {
    const text = String(value);
    if (node.getAttribute(name) !== text) node.setAttribute(name, text);
  }

  function say(node, text) {
    if (node.textContent !== String(text)) node.textContent = text;
  }

  function show(node, isShown) {
    if (node.hidden === isShown) node.hidden = !isShown;
  }

  function icon(name) {
    const path = svg("path", { d: ICONS[name], class: FILLED.has(name) ? "sv-fill" : "sv-line" });
    return svg("svg", { viewBox: "0 0 10 10", class: "sv-icon", "aria-hidden": "true" }, path);
  }

  function setIcon(node, name) {
    put(node.querySelector("path"), "d", ICONS[name]);
  }

  function markPath(look) {
    return MARKS[look] ? ICONS[MARKS[look]] : "";
  }

  function button(name, words, isNamed) {
    const node = el("button", "sv-button", ...(name ? [icon(name)] : []));
    node.type = "button";
    node.setAttribute("aria-label", words);
    node.title = words;
    if (isNamed) node.append(el("span", "", words));
    return node;
  }

  function select(words, options) {
    const node = el("select", "sv-select");
    node.setAttribute("aria-label", words);
    for (const [value, text] of options) {
      const option = el("option", "", text);
      option.value = value;
      node.append(option);
    }
    return node;
  }

  function checkbox(words, isOn) {
    const input = el("input", "");
    Object.assign(input, { type: "checkbox", checked: isOn });
    return { input, root: el("label", "sv-label", input, " " + words) };
  }

  // A pool of like elements: `take(n)` gives the first n, made when first needed, the rest hidden.
  function pool(parent, make) {
    const made = [];
    let shown = 0;
    return function take(count) {
      while (made.length < count) parent.append(made[made.push(make()) - 1]);
      for (let i = Math.min(shown, count); i < Math.max(shown, count); i += 1) {
        if (made[i]) made[i].style.display = i < count ? "" : "none";
      }
      shown = count;
      return made;
    };
  }

  // ---- Text --------------------------------------------------------------------------------

  function fit(text, columns) {
    let used = 0;
    let out = "";
    for (const character of text) {
      used += character.codePointAt(0) > 0x2e7f ? 2 : 1;
      if (used > columns) return out.slice(0, -1) + "…";
      out += character;
    }
    return out;
  }

  function number(value, digits) {
    return value === null || value === undefined ? "–" : value.toFixed(digits);
  }

  // A chance in little room: three digits, and never 0 for what is not 0.
  function chance(value) {
    if (value === null || value === undefined) return "–";
    if (value > 0 && value < 0.001) return value < 1e-9 ? "~0" : value.toExponential(0);
    if (value > 0.9995 && value < 1) return "0.999+";
    return value > 0 && value < 0.0995 ? value.toPrecision(2) : value.toFixed(3); // ratios of small ones are told too
  }

  function tiny(value) {
    if (value === null || value === undefined) return "–";
    if (value >= 0.995) return value === 1 ? "1" : ">.99";
    if (value > 0 && value < 0.005) return "~0";
    return value === 0 ? "0" : value.toFixed(2).slice(1);
  }

  function milliseconds(seconds) {
    const ms = seconds * 1000;
    return (ms >= 100 ? ms.toFixed(0) : ms >= 1 ? ms.toFixed(1) : ms.toFixed(2)) + " ms";
  }

  // From nothing to whole seconds, for an axis.
  function duration(seconds) {
    if (seconds === 0) return "0";
    return seconds >= 1 ? seconds.toFixed(2) + " s" : milliseconds(seconds);
  }

  function percent(share) {
    if (share === null || share === undefined) return "–";
    return (share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0) + "%";
  }

  // Where and when the numbers of a run were taken.
  function originWords(run) {
    const { created, device, dtype } = run.start;
    return word("stage.origin", { time: created.slice(0, 16).replace("T", " "), device, dtype });
  }

  // The badge of a run's figures: whether they are measured now or were recorded, and where and when.
  function drawOrigin(badge, run) {
    say(badge, word(run.source === "live" ? "stage.measured" : "stage.recorded"));
    put(badge, "title", originWords(run));
  }

  // A token as text: signs for what cannot be seen are set apart from letters.
  function tokenText(text) {
    const parts = text.split(/(␣+|[↵⇥∅◌]|⟨[0-9A-F]+⟩|<0x[0-9A-F]{2}>)/);
    return parts.map((part, i) => (i % 2 ? el("i", "sv-glyph", part) : part)).filter(Boolean);
  }

  // ---- Canvases ----------------------------------------------------------------------------

  // The colours in force, read once for each theme.
  function inksOf(root) {
    const style = getComputedStyle(root);
    const inks = {};
    for (const name of INKS) inks[name] = style.getPropertyValue("--" + name).trim() || "#888888";
    inks.mono = "11px " + style.getPropertyValue("--mono");
    inks.font = style.fontFamily;
    return inks;
  }

  // A canvas of that size in CSS pixels, cleared, sharp on dense screens.
  function clearCanvas(canvas, width, height) {
    const dense = Math.min(window.devicePixelRatio || 1, 2);
    const [w, h] = [Math.max(1, Math.round(width * dense)), Math.max(1, Math.round(height * dense))];
    if (canvas.width !== w || canvas.height !== h) {
      Object.assign(canvas, { width: w, height: h });
      Object.assign(canvas.style, { width: width + "px", height: height + "px" });
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(dense, 0, 0, dense, 0, 0);
    pen.clearRect(0, 0, width, height);
    return pen;
  }

  return {
    word, tell: SpecVizWords.tell, ICONS, MARKS, PARTS, el, svg, put, say, show, icon, setIcon, markPath,
    button, select, checkbox, pool, fit, number, chance, tiny, milliseconds, duration, percent, tokenText,
    originWords, drawOrigin, inksOf, clearCanvas,
  };
})();
