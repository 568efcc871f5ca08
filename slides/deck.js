// Sets the formulas, puts a figure that is nearly square beside its text, and starts reveal.js.
addEventListener("load", () => {
  for (const formula of document.querySelectorAll(".math"))
    katex.render(formula.textContent, formula, { displayMode: formula.matches("div") });
  for (const image of document.images) {
    const frame = image.closest(".frame");
    const square = image.naturalWidth < 1.45 * image.naturalHeight;
    frame.classList.toggle("side", square && frame.children.length > 2);
  }
  const size = { width: 1280, height: 720, margin: 0, center: false };
  Reveal.initialize({ ...size, plugins: [RevealNotes], hash: true, slideNumber: "c/t", transition: "none" });
});
