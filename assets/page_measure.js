// "Measure it": the setting of a what-if, put into the form and run beside plain decoding. It decides
// nothing about runs and knows no setting; the server says whether it can be run.

// `isBusy()`: a run goes on; `follow(recipe)` shows a recipe in the form; `isShown(recipe)`: a
// promise of whether it is there in time.
function makeMeasure({ server, say, isBusy, follow, isShown }) {
  return async function measure(recipe) {
    if (isBusy()) return say(["what_if.busy", {}], true);
    const reason = await server.why_not(recipe);
    if (reason) return say(["what_if.refused", { reason }], true);
    follow(recipe);
    if (!(await isShown(recipe))) return say(["what_if.ready", {}]);
    return document.querySelector("#specviz-run").click();
  };
}
