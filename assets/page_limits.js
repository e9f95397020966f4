// Numbers beyond a slider's ends. Gradio takes the nearest end when its field is left, without a word:
// here it is said at the field, and once more beside Run when a run is asked for with it.

function makeLimits({ words }) {
  const said = new Map(); // the field's block: the sentence

  function blockOf(input) {
    return input.closest(".block") || input.parentElement;
  }

  function paint(block) {
    let note = block.querySelector(".specviz-limit");
    if (!said.has(block)) return note?.remove();
    if (!note) {
      note = make("p", "specviz-note specviz-limit");
      note.setAttribute("role", "alert");
      block.append(note);
    }
    note.textContent = words.tell(said.get(block));
    return undefined;
  }

  // The sentence about what stands in the field now; null if it is within the ends.
  function sentenceOf(input) {
    const [low, high] = [Number(input.min), Number(input.max)];
    const given = input.value.trim();
    if (given !== "" && Number(given) >= low && Number(given) <= high) return null;
    const label = input.closest(".block").querySelector("[data-testid=block-info]")?.textContent.trim() || "";
    const value = Math.min(Math.max(Number(given), low), high);
    return ["page.limited", { label, low, high, value, given: given || ["refusal.nothing", {}] }];
  }

  // On its way down, so that the number is read before Gradio changes it.
  document.addEventListener("blur", (event) => {
    const input = event.target;
    if (!input.matches?.("#specviz-form input[type=number]") || !input.max || input.closest(".specviz-own-lane")) return;
    const sentence = sentenceOf(input);
    if (!sentence) return;
    said.set(blockOf(input), sentence);
    paint(blockOf(input));
  }, true);
  document.addEventListener("input", (event) => {
    const block = event.target.matches?.("#specviz-form input") ? blockOf(event.target) : null;
    if (block && event.isTrusted && said.delete(block)) paint(block);
  });
  words.listen(() => [...said.keys()].forEach(paint));
  return {
    // All that was changed and still stands, as one message; null if nothing.
    changed: () => [...said.values()].reduce((one, two) => (one ? ["page.both", { one, two }] : two), null),
  };
}
