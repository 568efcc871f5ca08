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
  for (const term of terms) {
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
  }
  oneStop(terms, { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 });
});
