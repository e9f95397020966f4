// The cost account of a lane, told at its end: a mean round as a stacked bar in plain steps, beside a
// plain step and what the round yields, with the break-even line; the numbers behind it in a fold.
// Every number comes in the item (specviz/views/judgement.py); here lengths are scaled, no more.

const SpecVizAccount = (function () {
  const { word, el, number, milliseconds, show, drawOrigin } = SpecVizDom;
  const { lastEnd } = SpecVizRun;
  const PARTS = { draft: "draft", read: "verify", host: "commit" }; // part of a round, and its colour
  const ROOM = 1.08; // of the scale, so that the longest bar does not end at the edge

  function makeAccount() {
    const bars = el("div", "sv-accountbars");
    const words = el("p", "sv-accountwords");
    const numbers = el("div", "sv-accountnumbers");
    const fold = el("details", "sv-fold", el("summary", "", el("span", "sv-foldname", word("account.numbers"))), numbers);
    const badge = el("span", "sv-badge");
    const root = el("section", "sv-panel sv-account", el("div", "sv-panelhead", el("h4", "", word("account.title")), badge),
      bars, words, fold);
    show(root, false);
    return { root, badge, bars, words, numbers, key: "" };
  }

  function accountOf(run, lane) {
    const said = run.judged[lane.info.lane];
    return said ? said.account : null;
  }

  // Only when the lane is over, and the playhead behind its last round.
  function drawAccount(view, run, lane, time) {
    const account = accountOf(run, lane);
    const isShown = Boolean(account) && time >= lastEnd(lane);
    show(view.root, isShown);
    const key = run.id + lane.info.lane;
    if (!isShown || view.key === key) return;
    view.key = key;
    drawOrigin(view.badge, run);
    fill(view, account);
  }

  function fill(view, account) {
    const { tau, rho, speedup } = account;
    const most = Math.max(tau, rho, 1) * ROOM;
    const line = el("span", "sv-breakeven", el("span", "", word("account.break_even", { rho: number(rho, 2) })));
    line.style.left = (100 * rho) / most + "%";
    line.setAttribute("data-side", rho > most / 2 ? "left" : "right");
    const yields = el("b", "sv-accountpart");
    yields.style.width = (100 * tau) / most + "%";
    yields.setAttribute("data-part", "yield");
    yields.setAttribute("data-pays", tau >= rho);
    view.bars.replaceChildren(
      row("account.plain_step", stacked(account.plain, most), word("account.steps", { n: number(1, 2) })),
      row("account.round", stacked(account.parts, most), word("account.steps", { n: number(rho, 2) })),
      row("account.yields", [yields], word("account.tokens", { n: number(tau, 2) })),
      el("div", "sv-accountline", el("span"), el("span", "sv-accountspan", line), el("span")));
    const words = Object.keys(PARTS).map((name) => word("account.part." + name, { n: number(account.parts[name], 2) }));
    view.words.textContent = word("account.says", { parts: words.join(" + "), rho: number(rho, 2), tau: number(tau, 2),
      speedup: number(speedup, 2) });
    view.numbers.replaceChildren(...numbersOf(account));
  }

  function row(name, bars, words) {
    const track = el("span", "sv-accounttrack", ...bars);
    return el("div", "sv-accountrow", el("span", "", word(name)), track, el("span", "sv-depthwords", words));
  }

  function stacked(parts, most) {
    return Object.entries(PARTS).map(([name, colour]) => {
      const bar = el("b", "sv-accountpart sv-part sv-" + colour);
      bar.style.width = (100 * parts[name]) / most + "%";
      bar.setAttribute("data-part", name);
      bar.title = word("account.part." + name, { n: number(parts[name], 3) });
      return bar;
    });
  }

  function numbersOf(account) {
    const { plain_step: step, draft_step: draft, host, alpha } = account;
    const made = [
      line("account.name.plain_step", word("account.spread", spreadOf(step))),
      line("account.name.c", draft === null ? word("account.no_passes")
        : word("account.c", { ...spreadOf(draft), n: number(account.c, 3), steps: number(account.steps, 1) })),
      line("account.name.eta", word("account.eta", { ...spreadOf(host), n: number(account.eta, 3) })),
      line("account.name.rho", word("account.rho", { rho: number(account.rho, 3), delta: number(account.delta, 3),
        steps: number(account.steps, 1), c: number(account.c, 3), eta: number(account.eta, 3),
        medians: number(account.rho_of_medians, 3) })),
    ];
    if (alpha) {
      const [rate, low, high, tried] = alpha;
      made.push(line("account.name.alpha", word("account.alpha", { alpha: number(rate, 3), low: number(low, 2),
        high: number(high, 2), n: tried })));
    }
    if (account.predicted) {
      const [k, tau, rho, speedup] = account.predicted;
      made.push(line("account.name.predicted", word("account.predicted", { k, tau: number(tau, 2), rho: number(rho, 2),
        speedup: number(speedup, 2), measured: number(account.speedup, 2) })));
    }
    return [el("dl", "sv-accountlist", ...made), readsOf(account.reads), el("p", "sv-none", word("account.batch_one"))];
  }

  function line(name, words) {
    return el("div", "", el("dt", "", word(name)), el("dd", "", words));
  }

  function spreadOf([low, median, high]) {
    return { low: milliseconds(low), median: milliseconds(median), high: milliseconds(high) };
  }

  // What a pass over so many rows cost: the curve that delta(n) is read off.
  function readsOf(reads) {
    const head = ["rows", "count", "time", "delta"].map((name) => el("th", "", word("account.column." + name)));
    const rows = reads.map(([rows, count, seconds, delta]) =>
      el("tr", "", ...[rows, count, milliseconds(seconds), number(delta, 2)].map((text) => el("td", "", String(text)))));
    return el("div", "sv-readsbox sv-table", el("table", "", el("thead", "", el("tr", "", ...head)), el("tbody", "", ...rows)));
  }

  return { makeAccount, drawAccount };
})();
