// The first use of a word of the glossary: its sentence is shown while the pointer or the keyboard is on the word.
// (A screen reader reads it from the end of the page, where it stands for everyone.)
document.addEventListener("DOMContentLoaded", () => {
  const terms = [...document.querySelectorAll("a.term")];
  const tip = document.createElement("div");
  tip.id = "term-tip";
  tip.hidden = true;
  tip.setAttribute("aria-hidden", "true");
  document.body.append(tip);
  let shown = null;
  let leaving;
  const hide = () => {
    tip.hidden = true;
    shown = null;
  };
  const show = (term) => {
    clearTimeout(leaving);
    tip.textContent = document.getElementById(term.getAttribute("aria-describedby")).textContent;
    tip.hidden = false;
    shown = term;
    // Below the word, above it at the window's lower edge, and never beyond its sides.
    const word = term.getClientRects()[0];
    const below = word.bottom + 6;
    const fits = below + tip.offsetHeight < window.innerHeight;
    tip.style.top = `${fits ? below : word.top - tip.offsetHeight - 6}px`;
    tip.style.left = `${Math.max(8, Math.min(word.left, document.documentElement.clientWidth - tip.offsetWidth - 8))}px`;
  };
  // One can go to the sentence without losing it.
  const leave = () => { leaving = setTimeout(hide, 200); };
  tip.addEventListener("pointerenter", () => clearTimeout(leaving));
  tip.addEventListener("pointerleave", leave);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
  window.addEventListener("scroll", () => {
    if (shown && shown !== document.activeElement) hide();
    else if (shown) show(shown);
  }, { passive: true });
  // All words are one stop of the keyboard: the one nearest to what is on the screen. Arrow keys lead to the others.
  const select = (chosen) => terms.forEach((term) => { term.tabIndex = term === chosen ? 0 : -1; });
  for (const [at, term] of terms.entries()) {
    term.addEventListener("pointerenter", (event) => { if (event.pointerType !== "touch") show(term); });
    term.addEventListener("pointerleave", leave);
    term.addEventListener("focus", () => show(term));
    term.addEventListener("blur", hide);
    // A finger shows the sentence first; touched again, the word leads to the glossary.
    let read = false;
    term.addEventListener("pointerdown", () => { read = shown === term; });
    term.addEventListener("click", (event) => {
      if (event.pointerType !== "touch" || read) return;
      event.preventDefault();
      show(term);
    });
    term.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
      const rest = step && terms.slice(step > 0 ? at + 1 : 0, step > 0 ? undefined : at).filter((t) => t.checkVisibility());
      const next = rest?.at(step > 0 ? 0 : -1);
      if (!next) return;
      event.preventDefault();
      select(next);
      next.focus();
    });
  }
  select(terms.find((term) => term.checkVisibility()));
  const near = new IntersectionObserver((seen) => {
    const first = seen.find((one) => one.isIntersecting)?.target;
    if (first && !document.activeElement.matches("a.term")) select(first);
  });
  terms.forEach((term) => near.observe(term));
});
