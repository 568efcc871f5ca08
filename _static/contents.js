// The contents of the page follow the reader: the last heading above the middle of the first third of the screen
// is marked and kept in view, and a thin bar says how far it is to the end.
document.addEventListener("DOMContentLoaded", () => {
  const contents = document.getElementById("contents");
  if (!contents) return;
  // What a first reading leaves out would be every second line.
  for (const link of contents.querySelectorAll("a[href^='#']")) {
    if (link.textContent.trim().startsWith("Deeper: ")) link.closest("li").remove();
  }
  const bar = contents.querySelector(".progress > div");
  const lines = [...contents.querySelectorAll("a[href^='#']")]
    .map((link) => ({ link, place: document.getElementById(decodeURIComponent(link.hash.slice(1))) }))
    .filter(({ link, place }) => place && link.hash.length > 1);
  let marked = null;
  const mark = (line) => {
    if (line === marked) return;
    for (const link of contents.querySelectorAll("[aria-current]")) link.removeAttribute("aria-current");
    contents.querySelectorAll(".active").forEach((part) => part.classList.remove("active"));
    marked = line;
    if (!line) return;
    line.link.setAttribute("aria-current", "true");
    line.link.classList.add("active");
    for (let item = line.link.closest("li"); item; item = item.parentElement.closest("li")) item.classList.add("active");
    // Within its own box only: the page stays where it is.
    const box = contents.closest(".bd-sidebar-secondary");
    if (!box || box.scrollHeight <= box.clientHeight) return;
    const [own, around] = [line.link.getBoundingClientRect(), box.getBoundingClientRect()];
    if (own.top < around.top + 60 || own.bottom > around.bottom - 60) {
      box.scrollTop += own.top - around.top - box.clientHeight / 3;
    }
  };
  const follow = () => {
    const page = document.documentElement;
    const way = page.scrollHeight - window.innerHeight;
    bar.style.width = `${way > 0 ? Math.min(100, (100 * window.scrollY) / way) : 100}%`;
    const fold = Math.max(110, window.innerHeight / 6);
    const above = lines.filter(({ place }) => !place.hidden && place.getBoundingClientRect().top <= fold);
    // At the very end the last heading may never come up.
    const asked = lines.find(({ link }) => link.hash === window.location.hash);
    const top = asked?.place.getBoundingClientRect().top;
    const atEnd = way > 0 && window.scrollY >= way - 2;
    mark(atEnd && top > 0 && top < window.innerHeight ? asked : above.at(-1) ?? null);
  };
  let asked = 0;
  const soon = () => { asked ||= requestAnimationFrame(() => { asked = 0; follow(); }); };
  for (const event of ["scroll", "resize"]) window.addEventListener(event, soon, { passive: true });
  for (const event of ["hashchange", "load"]) window.addEventListener(event, soon);
  document.addEventListener("toggle", soon, true);
  new ResizeObserver(soon).observe(document.querySelector(".bd-article"));
  // On a narrow screen the contents lie over the page until a section is chosen.
  contents.addEventListener("click", (event) => {
    if (event.target.closest("a")) contents.closest("dialog")?.close();
  });
  follow();
});
