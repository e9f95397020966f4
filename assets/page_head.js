// What stands at the top of every page: the name, the way to the other pages, the language switch.
// It knows the pages' names and nothing of what is on them.

const SPECVIZ_PAGES = ["watch", "labs", "benchmark", "choose"]; // the first is the page at the root

function make(tag, name, text) {
  const node = document.createElement(tag);
  if (name) node.className = name;
  if (text !== undefined) node.textContent = text;
  return node;
}

function makeButton(name, text, onClick) {
  const button = make("button", name, text);
  button.type = "button";
  button.addEventListener("click", onClick);
  return button;
}

// The language a page begins in: the address's, else the one chosen before, else the browser's.
function firstLanguage(words, query) {
  const asked = [query.get("lang"), keep("localStorage").getItem("specviz.language"), navigator.language];
  const short = asked.map((one) => String(one || "").slice(0, 2));
  return short.find((one) => words.languages().includes(one)) || "en";
}

// Where the pages lie: the app may be served below a path of its own.
function pagesRoot() {
  const parts = location.pathname.split("/");
  const isSide = SPECVIZ_PAGES.slice(1).includes(parts.at(-1));
  return (isSide ? parts.slice(0, -1).join("/") : location.pathname.replace(/\/$/, "")) + "/";
}

function pageNow() {
  const name = location.pathname.split("/").at(-1);
  return SPECVIZ_PAGES.slice(1).includes(name) ? name : SPECVIZ_PAGES[0];
}

// What of the address holds for every page: look and language, no run and no place; and `more`.
function sharedQuery(more) {
  const now = new URLSearchParams(location.search);
  const kept = ["__theme", "lang", "embed"].filter((name) => now.has(name));
  const pairs = [...kept.map((name) => [name, now.get(name)]), ...Object.entries(more)];
  const query = new URLSearchParams(pairs).toString();
  return query ? "?" + query : "";
}

function pageAddress(name, more = {}) {
  return pagesRoot() + (name === SPECVIZ_PAGES[0] ? "" : name) + sharedQuery(more);
}

function makeNav(words) {
  const nav = document.createElement("nav");
  nav.className = "specviz-nav";
  nav.setAttribute("aria-label", words.word("nav.label"));
  for (const name of SPECVIZ_PAGES) {
    const link = document.createElement("a");
    link.textContent = words.word("nav." + name);
    link.href = pageAddress(name);
    if (name === pageNow()) link.setAttribute("aria-current", "page");
    nav.append(link);
  }
  return nav;
}

// Name, one line on the page, the other pages, and a switch for each other language.
function paintTop(root, words, purpose, onLanguage) {
  const others = words.languages().filter((one) => one !== words.language());
  const switches = others.map((language) => {
    const button = makeButton("specviz-language", words.word("page.language." + language), () =>
      onLanguage(language));
    button.lang = language;
    return button;
  });
  const title = make("div", "specviz-title");
  title.append(make("h1", "", "SpecViz"), make("p", "", purpose));
  root.replaceChildren(title, makeNav(words), ...switches);
}
