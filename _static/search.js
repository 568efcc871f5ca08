// The search: results while one types, chapters and sections before exercises, and these before names of the
// library. What it searches is fetched when somebody begins to.
document.addEventListener("DOMContentLoaded", () => {
  const root = document.documentElement.dataset.content_root ?? "./";
  const onPage = document.querySelector(".search-page input");
  const dialog = document.getElementById("pst-search-dialog");
  const WEIGHT = {
    chapter: 4, "chapter-section": 2.5, "at-hand": 3, "at-hand-section": 2, word: 1.2, reference: 1.6,
    "reference-section": 1.2, exercise: 1.1, "exercise-section": 0.9, card: 0.25, library: 0.3,
  };
  // One word for what has several names.
  const SAME = new Map(Object.entries({
    epsilon: "ε", eps: "ε", varepsilon: "ε", "ϵ": "ε", lambda: "λ", lam: "λ", gamma: "γ", beta: "β", delta: "δ",
    theta: "θ", pi: "π", sigma: "σ", mu: "μ", "â": "advantage",
  }));
  const WORD = /\p{N}+\.\p{N}+|[\p{L}\p{N}]+(?:[_\-–’'][\p{L}\p{N}]+)*/gu;
  // A name of several parts, as clip_eps or on-policy, is one word, and each of its parts another.
  const termsOf = (word) => {
    const parts = word.split(/[_\-–’']/).map(oneWord);
    return parts.length > 1 ? [parts.join("-"), ...parts] : parts;
  };
  const known = new Map();
  let stemmer;
  const oneWord = (word) => {
    const low = word.toLowerCase();
    if (!known.has(low)) {
      const american = low.replace(/(?<=.{4})is(e[drs]?|ers?|ing|ations?)$/, "iz$1");
      known.set(low, SAME.get(low) ?? stemmer.stemWord(american));
    }
    return known.get(low);
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
    stemmer = new EnglishStemmer();
    const index = new MiniSearch({
      fields: ["title", "page", "text", "words"],
      storeFields: ["url", "title", "page", "kind", "text"],
      tokenize: (text) => [...text.matchAll(WORD)].flatMap(([word]) => termsOf(word)),
      processTerm: (term) => term,
      searchOptions: {
        combineWith: "OR",
        boost: { title: 6, words: 6, page: 1.5 },
        boostDocument: (_id, _term, stored) => WEIGHT[stored.kind],
        boostTerm: (term) => (term.includes("-") ? 3 : 1),
        fuzzy: (term) => (term.length > 5 ? 0.15 : false),
      },
    });
    index.addAll(window.bookEntries.map(([url, title, page, kind, text, words], id) =>
      ({ id, url, title, page, kind, text, words })));
    delete window.bookEntries;
    return index;
  });

  // What has the words of a query, best first, each with the share of them that it has.
  const search = (index, query) => {
    const words = [...query.matchAll(WORD)].map(([word]) => word);
    const telling = words.filter((word) => !window.bookSmallWords.includes(word.toLowerCase()));
    const asked = (telling.length ? telling : words).map(termsOf);
    const last = asked.at(-1)?.at(-1) ?? "";
    const terms = [...new Set(asked.flat())];
    const found = index.search(terms.join(" "), {
      tokenize: () => terms,
      prefix: (term) => term === last && term.length > 2, // it may be half a word
    });
    const phrase = words.length > 1 && words.join(" ").toLowerCase();
    for (const one of found) {
      const has = new Set(one.queryTerms);
      const whole = asked.filter(([name, ...parts]) => has.has(name) || (parts.length && parts.every((part) => has.has(part))));
      one.share = whole.length / asked.length;
      one.score *= one.share ** 3;
      if (phrase) one.score *= one.title.toLowerCase().includes(phrase) ? 3 : one.text.toLowerCase().includes(phrase) ? 2 : 1;
      // The top of a chapter lists what is to come; it answers who asks for the chapter.
      const isNamed = (term) => one.match[term]?.some((field) => field !== "text");
      if (one.kind === "chapter" && !asked.every((names) => names.some(isNamed))) one.score /= 2;
      // Half a word was meant whole where the whole one stands, too.
      one.terms = one.terms.filter((term) => has.has(term) || !one.queryTerms.some((start) => term.startsWith(start) && one.terms.includes(start)));
    }
    return found.filter((one) => one.share >= 0.5).sort((a, b) => b.score - a.score);
  };

  // A passage around the first word that was found.
  const excerpt = (text, terms) => {
    const words = [...text.matchAll(WORD)].filter(([word]) => isOneOf(word, terms));
    const from = words.length ? Math.max(0, text.lastIndexOf(" ", Math.max(0, words[0].index - 60)) + 1) : 0;
    const passage = document.createElement("p");
    let at = from;
    const end = text.length > from + 190 ? text.lastIndexOf(" ", from + 190) : text.length;
    if (from) passage.append("… ");
    for (const word of words.filter((word) => word.index >= from && word.index < end)) {
      const mark = document.createElement("mark");
      mark.textContent = word[0];
      passage.append(text.slice(at, word.index), mark);
      at = word.index + word[0].length;
    }
    passage.append(text.slice(at, Math.max(at, end)), end < text.length ? " …" : "");
    return passage;
  };
  const isOneOf = (word, terms) => termsOf(word).some((term) => terms.has(term));

  const KINDS = { library: "library", exercise: "exercises", "exercise-section": "exercise", card: "card" };
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
    const found = search(index, query);
    const all = found.filter((one) => one.share === 1);
    // Who writes a word wants it explained; names of the library come last, in a fourth of the room or what is left.
    const named = found.filter((one) => one.kind === "library");
    const explained = found.filter((one) => one.kind !== "library");
    const room = Math.max(most - named.length, Math.ceil(most * 0.75));
    const shown = [...explained.slice(0, room), ...named].slice(0, most);
    // Who writes a word of the glossary, a symbol, or a name of the library whole wants that: it comes first.
    const stems = (text) => [...text.matchAll(WORD)].map(([word]) => termsOf(word)[0]).join(" ");
    const asked = query.trim().toLowerCase();
    const form = Object.keys(window.bookForms).find((one) => stems(one) === stems(asked));
    const words = (form ? search(index, window.bookForms[form]) : explained).filter((one) => one.kind === "word");
    const same = (one) => one.title === asked || stems(one.title) === stems(asked);
    const itself = words.find((one) => form ? one.title === window.bookForms[form] : same(one))
      ?? (asked.includes("_") && named.find((one) => one.title.endsWith(asked)));
    if (itself) {
      const at = shown.findIndex((one) => one.id === itself.id);
      shown.unshift(...(at < 0 ? [itself] : shown.splice(at, 1)));
    }
    const said = document.createElement("p");
    said.className = "found";
    said.setAttribute("role", "status");
    const number = (n) => (n === 1 ? "1 place" : `${n} places`);
    said.textContent = all.length ? number(all.length) + (all.length < found.length ? " with all of these words; others have some" : "")
      : found.length ? "No place has all of these words; these have some" : "Nothing found";
    const list = document.createElement("ul");
    for (const one of shown) {
      const item = document.createElement("li");
      const link = Object.assign(document.createElement("a"), { href: root + one.url, textContent: one.title });
      link.addEventListener("click", () => {
        const terms = new Set(one.terms);
        const words = [...one.text.matchAll(WORD)].map(([word]) => word).filter((word) => isOneOf(word, terms));
        try { sessionStorage.setItem("book-found", JSON.stringify({ to: link.href, words, word: WORD.source })); } catch { /* not marked, then */ }
        dialog?.close();
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
