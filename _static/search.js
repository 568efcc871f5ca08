// The search: results while one types, chapters and sections before exercises, and these before names of the
// library. What it searches is fetched when somebody begins to.
document.addEventListener("DOMContentLoaded", () => {
  const root = document.documentElement.dataset.content_root ?? "./";
  const onPage = document.querySelector(".search-page input");
  const dialog = document.getElementById("pst-search-dialog");
  const WEIGHT = {
    chapter: 4, "chapter-section": 2.5, reference: 1.6, "reference-section": 1.2,
    exercise: 1.1, "exercise-section": 0.9, library: 0.3,
  };
  // One word for what has several names.
  const SAME = new Map(Object.entries({
    epsilon: "ε", eps: "ε", varepsilon: "ε", "ϵ": "ε", lambda: "λ", lam: "λ", gamma: "γ", beta: "β", delta: "δ",
    theta: "θ", pi: "π", sigma: "σ", mu: "μ", advantages: "advantage", "â": "advantage", ratios: "ratio",
    normalise: "normalize", optimisation: "optimization", generalised: "generalized", regularised: "regularized",
  }));
  const oneWord = (word) => {
    const low = word.toLowerCase();
    const same = SAME.get(low) ?? low;
    return same.length > 4 && same.endsWith("s") && !same.endsWith("ss") ? same.slice(0, -1) : same;
  };

  const script = (source) => new Promise((resolve, reject) => {
    const element = Object.assign(document.createElement("script"), { src: root + source, onload: resolve });
    element.onerror = () => reject(new Error(`${source} is missing`));
    document.head.append(element);
  });
  let loading;
  const load = () => loading ??= Promise.all([
    script("_static/vendored/minisearch/minisearch.js"), script("search-data.js"),
  ]).then(() => {
    const index = new MiniSearch({
      fields: ["title", "page", "text", "words"],
      storeFields: ["url", "title", "page", "kind", "text"],
      processTerm: (term) => oneWord(term) || null,
      searchOptions: {
        boost: { title: 6, words: 6, page: 1.5 },
        prefix: (term) => term.length > 2,
        fuzzy: (term) => (term.length > 5 ? 0.15 : false),
        boostDocument: (_id, _term, stored) => WEIGHT[stored.kind],
      },
    });
    index.addAll(window.bookEntries.map(([url, title, page, kind, text, words], id) =>
      ({ id, url, title, page, kind, text, words })));
    delete window.bookEntries;
    return index;
  });

  // A passage around the first word that was found.
  const excerpt = (text, terms) => {
    const words = [...text.matchAll(/[\p{L}\p{N}]+/gu)];
    const hit = words.find((word) => terms.has(oneWord(word[0])));
    const from = hit ? Math.max(0, text.lastIndexOf(" ", Math.max(0, hit.index - 60)) + 1) : 0;
    const passage = document.createElement("p");
    let at = from;
    const end = text.length > from + 190 ? text.lastIndexOf(" ", from + 190) : text.length;
    if (from) passage.append("… ");
    for (const word of words.filter((word) => word.index >= from && word.index < end && terms.has(oneWord(word[0])))) {
      const mark = document.createElement("mark");
      mark.textContent = word[0];
      passage.append(text.slice(at, word.index), mark);
      at = word.index + word[0].length;
    }
    passage.append(text.slice(at, Math.max(at, end)), end < text.length ? " …" : "");
    return passage;
  };

  const KINDS = { library: "library", exercise: "exercises", "exercise-section": "exercise" };
  const show = async (query, box, most) => {
    if (!query.trim()) return box.replaceChildren();
    let index;
    try {
      index = await load();
    } catch (error) {
      box.textContent = `The search does not work here: ${error.message}.`;
      return;
    }
    if (box.dataset.query !== query) return; // somebody has typed on
    const all = index.search(query, { combineWith: "AND" });
    const found = all.length ? all : index.search(query, { combineWith: "OR" });
    // Who writes a word wants it explained; names of the library come last, in a fourth of the room or what is left.
    const named = found.filter((one) => one.kind === "library");
    const explained = found.filter((one) => one.kind !== "library");
    const room = Math.max(most - named.length, Math.ceil(most * 0.75));
    const shown = [...explained.slice(0, room), ...named].slice(0, most);
    const said = document.createElement("p");
    said.className = "found";
    said.setAttribute("role", "status");
    const number = (n) => (n === 1 ? "1 place" : `${n} places`);
    said.textContent = all.length ? number(all.length)
      : found.length ? "No place has all of these words; these have some" : "Nothing found";
    const list = document.createElement("ul");
    for (const one of shown) {
      const item = document.createElement("li");
      const link = Object.assign(document.createElement("a"), { href: root + one.url, textContent: one.title });
      link.addEventListener("click", () => {
        try { localStorage.setItem("sphinx_highlight_terms", query); } catch { /* not marked, then */ }
      });
      item.append(link);
      if (one.page !== one.title || KINDS[one.kind]) {
        const where = document.createElement("span");
        where.className = "where";
        where.textContent = [one.page !== one.title && one.page, KINDS[one.kind]].filter(Boolean).join(" · ");
        item.append(" ", where);
      }
      if (one.text) item.append(excerpt(one.text, new Set(one.terms)));
      list.append(item);
    }
    box.replaceChildren(said, list);
    box.dataset.shown = query;
  };

  // Up and down go through the results, from the field and back to it.
  const walk = (event, field, box) => {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const stops = [field, ...box.querySelectorAll("a")];
    const next = stops.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
    if (next < 0 || next >= stops.length) return;
    event.preventDefault();
    stops[next].focus();
  };
  const connect = (field, box, most) => {
    let waiting;
    const begin = () => {
      box.dataset.query = field.value;
      show(field.value, box, most);
    };
    field.addEventListener("focus", () => load().catch(() => {}));
    field.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(begin, 120); });
    for (const part of [field, box]) part.addEventListener("keydown", (event) => walk(event, field, box));
    return begin;
  };

  // Ctrl+K, which opens the search, is the theme's. So does "/", but where one types; and since a key without another
  // may get in the way of who speaks to the computer, it can be turned off.
  const OFF = "search-key-off";
  let slash = true;
  try { slash = !localStorage.getItem(OFF); } catch { /* it cannot be turned off for longer than the page */ }
  const keyLine = () => {
    const line = document.createElement("p");
    line.className = "search-keys";
    line.innerHTML = '<label><input type="checkbox"/> The key <kbd>/</kbd> opens this search, too</label>';
    const box = line.querySelector("input");
    box.checked = slash;
    box.addEventListener("change", () => {
      slash = box.checked;
      try {
        if (slash) localStorage.removeItem(OFF);
        else localStorage.setItem(OFF, "1");
      } catch { /* as above */ }
    });
    return line;
  };
  const TYPING = "textarea, select, [contenteditable], input:not([type=checkbox], [type=radio], [type=range], [type=button])";
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.target.closest(TYPING) || document.querySelector("dialog[open]")) return;
    event.stopPropagation(); // Sphinx's own "/" leads to a field that is hidden, and can't be turned off
    if (!slash) return;
    event.preventDefault();
    if (onPage) onPage.focus();
    else document.querySelector(".search-button__button")?.click();
  }, true);

  if (onPage) {
    const asked = new URLSearchParams(window.location.search).get("q");
    // A lost reader's address: its last words say what they came for.
    const lost = onPage.closest("[data-lost]") && decodeURIComponent(window.location.pathname);
    const words = lost && lost.replace(/\.\w+$/, "").split("/").filter(Boolean).at(-1)?.replace(/[\d_-]+/g, " ").trim();
    onPage.value = asked ?? (words || "");
    connect(onPage, document.getElementById("search-results"), 60)();
    onPage.focus();
  }
  const field = dialog?.querySelector("input[type=search]");
  if (field && !onPage) {
    const box = Object.assign(document.createElement("div"), { className: "search-results" });
    dialog.append(keyLine(), box);
    connect(field, box, 12);
    dialog.addEventListener("close", () => { field.value = ""; box.replaceChildren(); });
  }
});
