// Run in the text that is to be printed, laid out as wide as the page.
async () => {
  setFormulas();
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
  // Each heading that a reader sees, and the anchors that are to lead there. (A formula is in the text twice, once for
  // screen readers.)
  const headings = [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].filter((part) => part.checkVisibility());
  window.headings = () => headings.map((heading) => {
    const seen = heading.cloneNode(true);
    for (const twice of seen.querySelectorAll(".katex-mathml")) twice.remove();
    const leaf = heading.closest(".leaf");
    const anchors = [...heading.querySelectorAll("span[id]")].map((anchor) => anchor.id);
    if (leaf && leaf.querySelector("h2") === heading) anchors.push(leaf.id);
    return [seen.textContent.replace(/\s+/g, " ").trim(), anchors];
  });
  window.numberContents = (numbers) => {
    for (const place of document.querySelectorAll(".book-contents .at")) place.textContent = numbers[place.dataset.of];
  };
}
