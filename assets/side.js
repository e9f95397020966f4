// A page beside the one with the stage: its head, its language, and files to save. What it says and
// computes comes from the server, which is told the language and answers with the words.

function startSide({ element, adopt }, settings) {
  const { SpecVizWords: words } = new Function(settings.words + "\nreturn { SpecVizWords };")();
  const query = new URLSearchParams(location.search);
  const root = element.querySelector(".specviz-head");

  function paint() {
    document.documentElement.lang = words.language();
    document.title = "SpecViz: " + words.word("nav." + settings.page);
    paintTop(root, words, words.word("nav." + settings.page + ".purpose"), chooseLanguage);
  }

  function chooseLanguage(language) {
    keep("localStorage").setItem("specviz.language", language);
    // The address may name another one, and would win again after a reload.
    query.delete("lang");
    const rest = query.toString();
    history.replaceState(history.state, "", location.pathname + (rest ? "?" + rest : "") + location.hash);
    words.choose(language);
    adopt({ language });
  }

  // A link may name a part of the page, which is there only after Gradio has made it.
  function goToPart(triesLeft) {
    const part = document.getElementById(location.hash.slice(1));
    if (part) part.scrollIntoView();
    else if (location.hash && triesLeft) setTimeout(() => goToPart(triesLeft - 1), 100);
  }

  document.body.classList.toggle("specviz-embed", query.get("embed") === "1");
  words.choose(firstLanguage(words, query));
  words.listen(paint);
  paint();
  globalThis.specviz = {
    page: settings.page,
    // [name, type, text] as the server made it; nothing if there is nothing to save.
    save(file) {
      if (!file) return;
      const [name, type, text] = JSON.parse(file);
      saveFile(name, text, type);
    },
  };
  adopt({ language: words.language(), asked: Object.fromEntries(query) });
  goToPart(100);
}
