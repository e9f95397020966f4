// Settings that are put into the form take Gradio a moment. Who presses Run meanwhile means these: the
// press waits until they are there.

const FORM_SECONDS = 6; // so long Gradio may take to show what it was told
const FORM_LOOK = 100; // milliseconds between two looks

// `holds(recipe)`: the form shows it; `onWait()`: a press waits now.
function makeSettle({ holds, onWait }) {
  let awaited = null; // the recipe that is under way
  let isPressed = false;

  async function isShown(recipe) {
    for (let waited = 0; waited < FORM_SECONDS * 1000; waited += FORM_LOOK) {
      if (holds(recipe)) return true;
      await new Promise((done) => setTimeout(done, FORM_LOOK));
    }
    return false;
  }

  document.addEventListener("click", (event) => {
    if (!awaited || !event.target.closest("#specviz-run")) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    isPressed = true;
    onWait();
  }, true);

  return {
    isShown,
    async expect(recipe) {
      awaited = recipe;
      await isShown(recipe);
      if (awaited !== recipe) return; // another one came after it
      awaited = null;
      if (isPressed) document.querySelector("#specviz-run").click();
      isPressed = false;
    },
  };
}
