// Recorded runs: a question about what a change of one setting does, a button for each setting, and a curve for each seed.
// The curves of the setting before stay in gray.

const STYLE_OF_RUNS = `
  .runs .choices { margin: 8px 0 6px; }
  .runs .choices button[aria-pressed=true] { color: var(--paper); background: var(--ink); border-color: var(--ink); }
  .runs .gray { min-height: 1.45em; }
  .figure.runs .plot { max-height: 300px; }
  .runs .says { font-weight: 600; }
`;

function render({ model, el }) {
  const settings = model.get("settings").map((one) => ({ ...one, curves: one.curves.split("/").map(numbersOf) }));
  const { root, say, close } = stage(el, "runs", STYLE_OF_RUNS, `Interactive figure: recorded runs, ${settings.map((one) => one.name).join("; ")}`);
  const x = model.get("x"), [low, high] = model.get("limits"), level = model.get("level"), ask = model.get("ask");
  const guess = prediction(ask);

  // A narrow figure gets a picture of its own, so that letters keep their size.
  const narrow = (el.getBoundingClientRect().width || 700) < 480;
  const W = narrow ? 340 : 700, H = narrow ? 250 : 280, P = { left: 46, right: W - 14, top: 26, bottom: H - 40 };
  const end = Math.max(x.at(-1), ...model.get("x_ticks"));
  const across = (value) => P.left + ((value - x[0]) / (end - x[0])) * (P.right - P.left);
  const up = (value) => P.bottom - ((value - low) / (high - low)) * (P.bottom - P.top);
  const id = `runs-${Math.random().toString(36).slice(2)}`;
  const curtain = svg("rect", { x: P.left, y: 0, width: 0, height: H });
  const before = svg("g"), now = svg("g", { "clip-path": `url(#${id})` });
  const plot = svg("svg", { viewBox: `0 0 ${W} ${H}`, class: "plot", role: "img" },
    svg("clipPath", { id }, curtain),
    ...yAxis(P, up, model.get("y_ticks")), ...xAxis(P, across, model.get("x_ticks"), model.get("x_label")), text(P.left, 14, model.get("y_label")),
    ...level ? [line(P.left, up(level[0]), P.right, up(level[0]), { stroke: "var(--ink)", "stroke-width": 1.5, "stroke-dasharray": "2 4" })] : [],
    before, now,
    ...level ? [text(P.right, up(level[0]) + 17, level[1], { "text-anchor": "end" })] : []);
  const grayOf = ({ name }) => `gray: ${name}`;
  const says = html("p", { class: "says number", "data-room": longest(settings.map((one) => one.says)) }), gray = html("span", { class: "quiet gray", style: `flex-basis: ${longest(settings.map(grayOf)).length}ch` });
  const buttons = settings.map((one, i) => html("button", { type: "button", onclick: () => choose(i) }, one.name));
  root.prepend(guess.node, html("div", { class: "row choices" }, ...buttons, gray), plot, says);

  const draw = ({ curves, hue }, look) => curves.map((curve) => svg("path", {
    d: trace(curve.map((value, i) => [across(x[i]), up(value)])),
    fill: "none", stroke: `var(--${hue})`, "stroke-width": 2, "stroke-opacity": 0.75, ...look,
  }));

  let chosen = model.get("setting"), frame = 0;
  function choose(index) {
    const last = chosen;
    chosen = index;
    gray.textContent = last === index ? "" : grayOf(settings[last]);
    show(last === index ? [] : draw(settings[last], { stroke: "var(--muted)", "stroke-width": 1, "stroke-opacity": 0.4 }));
    link.tell({ setting: index });
    say(`${settings[index].name}: ${settings[index].says}`);
  }

  function show(ghosts) {
    const one = settings[chosen];
    before.replaceChildren(...ghosts);
    now.replaceChildren(...draw(one));
    buttons.forEach((button, i) => set(button, { "aria-pressed": i === chosen }));
    says.textContent = "";
    set(plot, { "aria-label": `${model.get("y_label")} against ${model.get("x_label")}, ${one.curves.length} runs, ${one.name}. ${one.says}` });
    const ready = () => {
      set(curtain, { width: W });
      says.textContent = one.says;
      if (chosen === ask.decides) guess.moved();
    };
    cancelAnimationFrame(frame);
    if (calm()) { ready(); return; }
    const start = performance.now();
    const step = (time) => {
      const part = Math.min(1, Math.max(0, time - start) / 1200);
      if (part === 1) { ready(); return; }
      set(curtain, { width: part * (P.right - P.left) });
      frame = requestAnimationFrame(step);
    };
    frame = requestAnimationFrame(step);
  }

  const link = shared(model, ["setting"], ({ setting }) => choose(setting));
  show([]);
  return () => { cancelAnimationFrame(frame); close(); link.close(); };
}

export default { render };
