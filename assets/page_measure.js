// "Measure it": the setting of a what-if, put into the form and run beside plain decoding. It decides
// nothing about runs and knows no setting; the server says whether it can be run.

const FORM_SECONDS = 6; // so long Gradio may take to show what it was told
const FORM_LOOK = 100; // milliseconds between two looks

// `isBusy()`: a run goes on; `follow(recipe)` shows a recipe in the form; `holds(recipe)`: it is there.
function makeMeasure({ server, say, isBusy, follow, holds }) {
  async function isShown(recipe) {
    for (let waited = 0; waited < FORM_SECONDS * 1000; waited += FORM_LOOK) {
      if (holds(recipe)) return true;
      await new Promise((done) => setTimeout(done, FORM_LOOK));
    }
    return false;
  }

  return async function measure(recipe) {
    if (isBusy()) return say(["what_if.busy", {}], true);
    const reason = await server.why_not(recipe);
    if (reason) return say(["what_if.refused", { reason }], true);
    follow(recipe);
    if (!(await isShown(recipe))) return say(["what_if.ready", {}]);
    return document.querySelector("#specviz-run").click();
  };
}
