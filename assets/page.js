// The page around the stage: which run the stage listens to, and which button shows. It knows
// nothing of what is painted. Called once by Gradio's component, with what Gradio gives it and
// `words`: sentences and names from the server.

function startPage({ element, props, server, watch }, words) {
  const readiness = element.querySelector(".specviz-readiness");
  const chooser = element.querySelector(".specviz-recorded");
  const stage = SpecVizStage.mount(element.querySelector(".specviz-stage"));
  let run = null; // the live run that is listened to; null when there is none
  let opening = null; // the recorded run that was asked for last
  let silence = 0; // the timer that counts the server as lost

  function newRun() {
    const bytes = crypto.getRandomValues(new Uint8Array(12));
    return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  }

  function listenTo(id) {
    const hadFocus = document.activeElement?.id === "specviz-stop";
    run = id;
    clearTimeout(silence);
    document.body.classList.toggle("specviz-running", id !== null);
    for (const button of chooser.querySelectorAll("button")) button.disabled = id !== null;
    if (id === null && hadFocus)
      document.querySelector("#specviz-run").focus({ preventScroll: true });
  }

  // Stop appears where Run was: the second half of a double click, or a key held down, must not
  // press it.
  function holdStop() {
    const stop = document.querySelector("#specviz-stop");
    stop.disabled = true;
    setTimeout(() => {
      stop.disabled = false;
      if (document.activeElement === document.body) stop.focus({ preventScroll: true });
    }, 400);
  }

  function giveUp(message) {
    if (run === null) return;
    listenTo(null);
    stage.interrupted(message);
  }

  function lose() {
    giveUp(words.lost);
    document.querySelector("#specviz-stop").click(); // should the server be there after all
  }

  function receive(text) {
    if (!text || run === null) return;
    const envelope = JSON.parse(text);
    if (envelope.run !== run) return; // the tail of a run that was stopped
    clearTimeout(silence);
    silence = setTimeout(lose, words.silenceSeconds * 1000);
    stage.receive(text);
    if (envelope.last) listenTo(null);
  }

  async function open(name) {
    for (const button of chooser.querySelectorAll("button"))
      button.setAttribute("aria-pressed", button.dataset.name === name);
    const wanted = (opening = newRun());
    const text = await server.load_recorded({ name, run: wanted });
    if (run === null && opening === wanted && text) stage.receive(text);
  }

  function offerRecorded() {
    const label = document.createElement("span");
    label.textContent = words.recordedLabel;
    chooser.append(label);
    for (const name of words.recorded) {
      const button = document.createElement("button");
      button.type = "button";
      button.dataset.name = name;
      button.textContent = name.replaceAll("_", " ");
      button.addEventListener("click", () => open(name));
      chooser.append(button);
    }
    open(words.recorded[0]);
  }

  async function watchModel() {
    const state = JSON.parse((await server.model_state("")) || "null");
    if (!state) return setTimeout(watchModel, 2000);
    const share = state.total > 0 ? Math.min(1, state.done / state.total) : 0;
    readiness.dataset.state = state.state;
    readiness.style.setProperty("--share", share);
    readiness.textContent = state.message;
    if (state.state === "loading") setTimeout(watchModel, 1000);
  }

  globalThis.specviz = {
    // Names a run before the server knows of it, so that nothing of an older one is shown.
    begin() {
      listenTo(newRun());
      holdStop();
      stage.pending(words.sending);
      return run;
    },
    submit() {
      if (run === null) document.querySelector("#specviz-run").click();
    },
    stop: () => giveUp(words.stopped),
    refused: () => giveUp(words.refused),
  };

  watch("value", () => receive(props.value));
  if (words.recorded.length) offerRecorded();
  if (words.hasModel) watchModel();
}
