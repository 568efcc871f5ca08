// The words of a search are marked in the section that it led to, until Escape: whole words, and not in listings,
// nor in what a reader opens step by step: hints, solutions, what is asked afterwards.
// What search.js has left is read once. A browser without highlights of its own marks nothing.
document.addEventListener("DOMContentLoaded", () => {
  const OUT = "pre, .math, script, style, button, .sd-dropdown, .flash-card";
  const mark = () => {
    let found = null;
    try {
      found = JSON.parse(sessionStorage.getItem("book-found"));
    } catch { /* nothing is kept here */ }
    if (found?.to !== window.location.href) return;
    sessionStorage.removeItem("book-found");
    const place = document.getElementById(decodeURIComponent(window.location.hash.slice(1)));
    const section = place ?? document.querySelector(".bd-article");
    if (!section || !window.CSS?.highlights) return;
    const sought = new Set(found.words);
    const ranges = [];
    const texts = document.createTreeWalker(section, NodeFilter.SHOW_TEXT);
    for (let text = texts.nextNode(); text; text = texts.nextNode()) {
      if (text.parentElement.closest(OUT)) continue;
      for (const { 0: word, index } of text.data.matchAll(new RegExp(found.word, "gu"))) {
        if (!sought.has(word)) continue;
        const range = new Range();
        range.setStart(text, index);
        range.setEnd(text, index + word.length);
        ranges.push(range);
        // A folded box of the section that has a word is opened.
        for (let box = place && text.parentElement.closest("details"); box; box = box.parentElement.closest("details")) {
          box.open = true;
        }
      }
    }
    CSS.highlights.set("book-found", new Highlight(...ranges));
    if (place) place.scrollIntoView();
  };
  mark();
  window.addEventListener("hashchange", mark);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") window.CSS?.highlights?.delete("book-found");
  });
});
