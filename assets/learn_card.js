// A chapter as a card: what it says, the guess, the one thing to do and whether it was done. It
// paints what it is told and reports clicks; it knows no run.

const SpecVizLearnCard = (function () {
  const { word, tell, el, put, say, show, button, icon } = SpecVizDom;

  // `act` is {enter(number, isByKey), again(), step(isByKey)}.
  function makeCard(chapters, act) {
    const steps = chapters.map((chapter, i) => {
      const step = el("a", "svl-step", el("span", "", String(i + 1)));
      step.href = "?chapter=" + (i + 1);
      step.title = word("learn." + chapter.name + ".title");
      step.addEventListener("click", (event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return; // a link like any other
        event.preventDefault();
        act.enter(i + 1, step.matches(":focus-visible"));
      });
      return step;
    });
    const list = el("nav", "svl-steps", ...steps);
    list.setAttribute("aria-label", word("learn.chapters"));
    const title = el("h3", "svl-title");
    title.tabIndex = -1;
    const text = el("p", "svl-text");
    const ask = el("p", "svl-ask");
    const options = el("div", "svl-options");
    options.setAttribute("role", "group");
    const verdict = el("p", "svl-verdict");
    const guess = el("div", "svl-guess", ask, options);
    const [mark, todo] = [el("span", "svl-mark"), el("span", "svl-todo")];
    mark.append(icon("check"));
    mark.setAttribute("role", "img");
    const step = el("button", "svl-press", icon("forward"), el("span", ""));
    step.type = "button";
    step.addEventListener("click", () => act.step(step.matches(":focus-visible")));
    const task = el("div", "svl-task", mark, el("div", "", todo, step));
    const outcome = el("p", "svl-outcome");
    const note = el("p", "svl-note");
    const live = el("div", "svl-live", verdict, outcome, note);
    live.setAttribute("role", "status");
    const moves = { back: button("", word("learn.back")), again: button("", word("learn.again")), next: button("", "") };
    for (const name in moves) moves[name].replaceChildren(el("span", "", name === "next" ? "" : word("learn." + name)));
    moves.next.classList.add("svl-next");
    moves.again.addEventListener("click", act.again);
    const foot = el("div", "svl-moves", moves.back, moves.again, moves.next);
    const root = el("div", "svl-card", list,
      el("div", "svl-say", title, text), el("div", "svl-try", guess, task, live), foot);
    const view = { root, steps, title, text, guess, ask, options, verdict, task, step, mark, todo, outcome, note, moves, at: 0 };
    moves.back.addEventListener("click", () => act.enter(view.at - 1, moves.back.matches(":focus-visible")));
    moves.next.addEventListener("click", () => act.enter(view.at + 1, moves.next.matches(":focus-visible")));
    return view;
  }

  // `state` is {number, chapters, done {name: values}, asked (values of the question, or null),
  // options, guessed, truth (null while it is not out), note}.
  function drawCard(view, state, onGuess) {
    const { number, chapters, done } = state;
    const { name } = chapters[number - 1];
    const key = "learn." + name + ".";
    view.at = number;
    chapters.forEach((chapter, i) => {
      const isHere = i + 1 === number;
      view.steps[i].toggleAttribute("data-done", Boolean(done[chapter.name]));
      if (isHere) put(view.steps[i], "aria-current", "step");
      else view.steps[i].removeAttribute("aria-current");
      put(view.steps[i], "aria-label", word(done[chapter.name] ? "learn.step_done" : "learn.step",
        { n: i + 1, title: word("learn." + chapter.name + ".title") }));
    });
    say(view.title, word("learn.heading", { n: number, title: word(key + "title") }));
    say(view.text, word(key + "text"));
    say(view.todo, word(key + "do"));
    const { step } = chapters[number - 1];
    show(view.step, Boolean(step));
    if (step) say(view.step.lastChild, word("stage.move." + step[0]));
    drawGuess(view, state, key, onGuess);
    const said = done[name];
    put(view.task, "data-done", Boolean(said));
    put(view.mark, "aria-label", word(said ? "learn.done" : "learn.to_do"));
    say(view.outcome, said ? word(key + "done", said) : "");
    show(view.outcome, Boolean(said));
    say(view.note, tell(state.note));
    show(view.note, Boolean(state.note));
    view.moves.back.disabled = number === 1;
    view.moves.next.disabled = number === chapters.length;
    const onward = word(said ? "learn.next" : "learn.skip");
    say(view.moves.next.firstChild, onward);
    put(view.moves.next, "aria-label", onward);
    put(view.moves.next, "data-invites", Boolean(said) && number < chapters.length);
    view.moves.next.title = onward;
  }

  function drawGuess(view, state, key, onGuess) {
    const { asked, options, guessed, truth } = state;
    show(view.guess, Boolean(asked));
    const isGuessed = guessed !== undefined;
    const isOut = truth !== null;
    show(view.verdict, Boolean(asked) && (isGuessed || isOut));
    if (!asked) return;
    say(view.ask, word(key + "ask", asked));
    view.options.setAttribute("aria-label", view.ask.textContent);
    const texts = options.map(String);
    if (view.options.dataset.texts !== texts.join()) {
      view.options.dataset.texts = texts.join();
      view.options.replaceChildren(...texts.map((text) => {
        const choice = el("button", "svl-option", text);
        choice.type = "button";
        choice.addEventListener("click", () => onGuess(text));
        return choice;
      }));
    }
    for (const choice of view.options.children) {
      put(choice, "aria-pressed", choice.textContent === guessed);
      put(choice, "data-truth", isOut && choice.textContent === truth);
      choice.disabled = isOut || (isGuessed && choice.textContent !== guessed);
    }
    const how = !isOut ? "guessed" : !isGuessed ? "told" : guessed === truth ? "right" : "other";
    say(view.verdict, isGuessed || isOut ? word("learn.guess." + how, { guess: guessed ?? "", truth: truth ?? "" }) : "");
  }

  return { makeCard, drawCard };
})();
