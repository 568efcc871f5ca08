// Formulas: the site's TeX, between marks of its own, set by KaTeX. (The PDF calls this too.)
function setFormulas() {
  for (const place of document.querySelectorAll(".math")) {
    for (const node of [...place.childNodes].filter((n) => n.nodeType === Node.TEXT_NODE)) {
      const tex = /^\s*\\([([])([\s\S]*)\\[)\]]\s*$/.exec(node.data);
      if (!tex) continue;
      const displayed = tex[1] === "[", set = document.createElement("span");
      if (displayed && !tex[2].includes("\\begin{")) inLines(set, tex[2]);
      else katex.render(tex[2], set, { displayMode: displayed, throwOnError: false });
      node.replaceWith(set);
    }
  }
}

// A displayed formula without lines of its own. Where it is too wide, it breaks between its parts, or else after a relation, an
// operator, or a comma with a space; within brackets only if what they hold is wider than a line.
function inLines(set, tex) {
  set.className = "in-lines";
  for (const part of tex.split(/\\qquad|(?=\\quad\s*\\Longrightarrow)/)) {
    const span = set.appendChild(document.createElement("span"));
    const source = part.replaceAll("\\mid", "\\mid\\nobreak ").replace(/,\\[ ;]/g, "$&\\allowbreak ");
    katex.render(`\\displaystyle ${source}`, span, { throwOnError: false });
    let depth = 0, group = null;
    for (const base of span.querySelectorAll(".katex-base")) {
      for (const { classList } of base.children) depth += classList.contains("mopen") - classList.contains("mclose");
      if (depth > 0 && !group) base.before(group = document.createElement("span"));
      group?.append(base);
      if (depth <= 0) group = null;
    }
  }
}
// Before anything measures the page.
document.addEventListener("DOMContentLoaded", () => { if (typeof katex !== "undefined") setFormulas(); });
