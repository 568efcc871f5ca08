// Run in the text that is to be printed, laid out as wide as the page.
async () => {
  // Formulas, as book.js sets them on the site.
  for (const place of document.querySelectorAll(".math")) {
    for (const node of [...place.childNodes].filter((n) => n.nodeType === Node.TEXT_NODE)) {
      const tex = /^\s*\\([([])([\s\S]*)\\[)\]]\s*$/.exec(node.data);
      if (!tex) continue;
      const set = document.createElement("span");
      katex.render(tex[2], set, { displayMode: tex[1] === "[", throwOnError: false });
      node.replaceWith(set);
    }
  }
  // Letters that formulas alone need are fetched once they are laid out.
  document.body.getBoundingClientRect();
  await document.fonts.ready;
  // What is too wide becomes smaller. (All is measured before anything changes: each change lays out the book anew.)
  const shrink = (selector, widths) => {
    const parts = [...document.querySelectorAll(selector)].map((part) => [part, ...widths(part)]);
    for (const [part, needs, has, property] of parts) {
      if (needs > has + 0.5) part.style[property] = `${Math.floor((990 * has) / needs) / 10}%`;
    }
  };
  shrink("div.math > span:not(.eqno)", (span) => [span.scrollWidth, span.clientWidth, "fontSize"]);
  shrink(".bd-article table", (table) => [table.scrollWidth, table.parentElement.clientWidth, "zoom"]);
  // What is wrong still, by name. (What a screen reader is told of a formula has no width on paper.)
  const named = (part) => `${part.closest(".leaf")?.id}: ${part.textContent.trim().slice(0, 80)}`;
  window.tooWide = () => {
    const right = document.body.getBoundingClientRect().right + 1;
    const parts = [...document.querySelectorAll(".bd-article :is(pre, table, img, .katex-html, p, li, h2, h3, h4)")];
    return parts.filter((part) => part.getBoundingClientRect().right > right).map(named);
  };
  window.wrongFormulas = () => [...document.querySelectorAll(".katex-error")].map(named);
  // Each heading that a reader sees. (A formula is in the text twice, once for screen readers.)
  const headings = [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].filter((part) => part.checkVisibility());
  window.headings = () => headings.map((heading) => {
    const seen = heading.cloneNode(true);
    for (const twice of seen.querySelectorAll(".katex-mathml")) twice.remove();
    return seen.textContent.replace(/\s+/g, " ").trim();
  });
  window.numberContents = (numbers) => {
    for (const place of document.querySelectorAll(".book-contents .at")) {
      place.textContent = numbers[place.dataset.of] ?? "";
    }
  };
}
