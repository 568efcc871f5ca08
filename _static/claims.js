// What was measured: a field that leaves only the sentences with all of its words, and opens the chapters they are of.
document.addEventListener("DOMContentLoaded", () => {
  const chapters = [...document.querySelectorAll(".bd-article details.claims-of")];
  if (!chapters.length) return;
  // A minus or a dash of any kind is typed as "-".
  const plain = (text) => text.toLowerCase().normalize("NFKD").replace(/\p{Mn}/gu, "").replace(/[‐-―−]/g, "-").replace(/\s+/g, " ");
  const claims = chapters.flatMap((chapter) => [...chapter.querySelectorAll("dt")].map((said) => {
    const parts = [said];
    for (let next = said.nextElementSibling; next?.tagName === "DD"; next = next.nextElementSibling) parts.push(next);
    // What is folded there is program and output, in which nearly every word stands.
    const words = parts.flatMap((part) => [...part.children].some((child) => child.tagName === "DETAILS")
      ? [...part.childNodes].filter((node) => node.nodeName !== "DETAILS").map((node) => node.textContent)
      : [part.textContent]);
    return { chapter, parts, words: plain(words.join(" ")) };
  }));

  const form = document.createElement("div");
  form.className = "claims-filter";
  form.setAttribute("role", "search");
  form.setAttribute("aria-label", "Sentences");
  form.innerHTML = '<label>Only sentences with <input type="search" autocomplete="off" spellcheck="false"></label>'
    + '<p role="status"></p>';
  const field = form.querySelector("input"), status = form.querySelector("p");
  chapters[0].before(form);

  let open = null; // which chapters were open before something was typed
  let soon = 0;
  function filter() {
    const wanted = plain(field.value).split(" ").filter(Boolean);
    const shown = claims.filter(({ words }) => wanted.every((word) => words.includes(word)));
    const kept = new Set(shown);
    const of = new Set(shown.map(({ chapter }) => chapter));
    for (const claim of claims) for (const part of claim.parts) part.hidden = !kept.has(claim);
    if (wanted.length) open ??= new Set(chapters.filter((chapter) => chapter.open));
    for (const chapter of chapters) {
      chapter.hidden = !of.has(chapter);
      if (open) chapter.open = wanted.length ? of.has(chapter) : open.has(chapter);
    }
    if (!wanted.length) open = null;
    // A screen reader says it once, when somebody has stopped typing.
    clearTimeout(soon);
    const all = claims.length, n = shown.length;
    const found = n ? `${n} of ${all} sentences, in ${of.size} chapter${of.size > 1 ? "s" : ""}.` : `None of ${all} sentences.`;
    soon = setTimeout(() => { status.textContent = wanted.length ? found : ""; }, 600);
  }
  field.addEventListener("input", filter);
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !field.value) return;
    event.preventDefault();
    field.value = "";
    filter();
  });
  // Whoever follows a link to a chapter wants to see it, whatever is typed.
  window.addEventListener("hashchange", () => {
    const place = document.getElementById(decodeURIComponent(window.location.hash.slice(1)));
    const chapter = place?.closest("details.claims-of");
    if (!chapter?.hidden) return;
    field.value = "";
    filter();
    chapter.open = true;
    place.scrollIntoView();
  });
  filter(); // a browser may have kept what was typed
});
