// Run in the text that is to be printed, laid out as wide as the page.
() => {
  // Formulas, as book.js sets them on the site.
  for (const place of document.querySelectorAll(".math")) {
    for (const node of [...place.childNodes].filter((n) => n.nodeType === Node.TEXT_NODE)) {
      const tex = /^\s*\\([([])([\s\S]*)\\[)\]]\s*$/.exec(node.data);
      if (!tex) continue;
      const set = document.createElement("span");
      katex.render(tex[2], set, { displayMode: tex[1] === "[" });
      node.replaceWith(set);
    }
  }
  // What is too wide becomes smaller. (All is measured before anything changes: each change lays out the book anew.)
  const shrink = (selector, widths) => {
    const parts = [...document.querySelectorAll(selector)].map((part) => [part, ...widths(part)]);
    for (const [part, needs, has] of parts) {
      if (needs > has + 0.5) part.style.zoom = Math.floor((990 * has) / needs) / 1000;
    }
  };
  shrink("div.math > span:not(.eqno)", (span) => [span.scrollWidth, span.clientWidth]);
  shrink(".bd-article table", (table) => {
    const box = table.parentElement;
    return [table.scrollWidth, box.clientWidth];
  });
  // What still is, by name; what a screen reader is told of a formula has no width on paper.
  window.tooWide = () => {
    const right = document.body.getBoundingClientRect().right + 1;
    const parts = [...document.querySelectorAll(".bd-article :is(pre, table, img, .katex, p, li, h2, h3, h4)")];
    return parts.filter((part) => part.getBoundingClientRect().right > right).slice(0, 20).map((part) => {
      const leaf = part.closest(".leaf")?.id ?? "";
      return `${leaf}: ${part.tagName.toLowerCase()} ${part.textContent.trim().slice(0, 60)}`;
    });
  };
  window.numberContents = (numbers) => {
    for (const place of document.querySelectorAll(".contents .at")) {
      place.textContent = numbers[place.dataset.of] ?? "";
    }
  };
}
