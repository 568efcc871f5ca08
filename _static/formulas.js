// Formulas: the site's TeX, between marks of its own, set by KaTeX. (The PDF calls this too.)
function setFormulas() {
  for (const place of document.querySelectorAll(".math")) {
    for (const node of [...place.childNodes].filter((n) => n.nodeType === Node.TEXT_NODE)) {
      const tex = /^\s*\\([([])([\s\S]*)\\[)\]]\s*$/.exec(node.data);
      if (!tex) continue;
      const set = document.createElement("span");
      katex.render(tex[2], set, { displayMode: tex[1] === "[", throwOnError: false });
      node.replaceWith(set);
    }
  }
}
// Before anything measures the page.
document.addEventListener("DOMContentLoaded", () => { if (typeof katex !== "undefined") setFormulas(); });
