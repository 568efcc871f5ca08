// E1. The clipped surrogate of one sample. The reader moves ρ, A and ε, and sees both surrogates, the smaller of the
// two and its slope; a table of the cases says which one this is. The numbers, and which of two counters the sample adds to,
// stand behind a toggle.

const STYLE_OF_CLIP = `
  .clip .settings { margin: 0; }
  .clip .best { font-weight: 600; }
  .clip table { width: 100%; border-collapse: separate; border-spacing: 4px; table-layout: fixed; margin: 2px -4px 0; }
  .clip th { font-weight: 400; font-size: 13.5px; color: var(--muted-text); padding: 0; }
  .clip tbody th { text-align: left; font-weight: 600; }
  .clip tbody th.good { color: var(--good-text); }
  .clip tbody th.bad { color: var(--bad-text); }
  .clip th:first-child { width: 3.6em; }
  .clip td { padding: 0; }
  .clip td button { width: 100%; min-height: 54px; padding: 3px 2px; line-height: 1.3; }
  .clip td button b { display: block; font-weight: 600; font-size: 14.5px; }
  .clip td button span { font-size: 13px; color: var(--muted-text); }
  .clip td button[aria-pressed=true] { border-color: var(--ink); box-shadow: 0 0 0 1.5px var(--ink); background: none; }
  .clip .counts { margin: 6px 0 0; }
  @container (max-width: 560px) { .clip .settings { gap: 0 8px; } }
`;

// The two surrogates, the smaller one, its slope in ρ, and what the sample adds to the two counters. The ends of
// the clip range belong to it. At the knee there is no single slope: null.
function clipSample(r, a, eps) {
  const low = 1 - eps, high = 1 + eps;
  const atLow = Math.abs(r - low) < 1e-9, atHigh = Math.abs(r - high) < 1e-9;
  const above = r > high && !atHigh, below = r < low && !atLow;
  const flat = (above && a > 0) || (below && a < 0);
  const knee = (atHigh && a > 0) || (atLow && a < 0);
  const surrogate = r * a, clipped = clamp(r, low, high) * a;
  return {
    surrogate, clipped, objective: Math.min(surrogate, clipped), slope: knee ? null : flat ? 0 : a,
    clip_fraction: above || below ? 1 : 0, flat_fraction: flat ? 1 : 0,
  };
}

const SAYS_OF_CLIP = {
  good: {
    below: "A good action that lost probability, and is below the clip range. The minimum is ρ A, so nothing is clipped, and the full slope pulls ρ back up.",
    inside: "A good action inside the clip range. Both surrogates are ρ A, and the slope pushes ρ up.",
    above: "A good action whose ρ has grown past the clip range. The minimum is clip(ρ) A, so there is nothing more to gain, and the slope is 0.",
  },
  bad: {
    below: "A bad action whose ρ has shrunk past the clip range. The minimum is clip(ρ) A, so there is nothing more to gain, and the slope is 0.",
    inside: "A bad action inside the clip range. Both surrogates are ρ A, and the slope pushes ρ down.",
    above: "A bad action that gained probability, and is above the clip range. The minimum is ρ A, so nothing is clipped, and the full slope pulls ρ back down, however far it went.",
  },
};

function render({ model, el }) {
  const { root, say, close } = stage(el, "clip", STYLE_OF_CLIP, "Interactive figure: the clipped surrogate of one sample");
  const NAMES = ["ratio", "advantage", "clip_eps"];
  const ranges = model.get("ranges");
  const at = Object.fromEntries(NAMES.map((name) => [name, model.get(name)]));

  // Controls
  const control = (name, words) => slider(name, words, ranges[name], (value) => move({ [name]: value }));
  const sliders = { ratio: control("ratio", "Ratio ρ"), advantage: control("advantage", "Advantage A"), clip_eps: control("clip_eps", "Clip ε") };

  // The graph
  const W = 340, H = 318, P = { left: 40, right: 332, top: 12, bottom: 272 };
  const END = ranges.ratio[1];
  const frameId = `frame-${Math.random().toString(36).slice(2)}`;
  const ground = svg("g"), curves = svg("g", { "clip-path": `url(#${frameId})` }), words = svg("g");
  const graph = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img" },
    svg("clipPath", { id: frameId }, svg("rect", { x: P.left, y: P.top - 3, width: P.right - P.left, height: P.bottom - P.top + 6 })),
    ground, curves, words);
  draggable(graph, (px) => move({ ratio: Math.round((((px - P.left) / (P.right - P.left)) * END) / ranges.ratio[2]) * ranges.ratio[2] }));

  // The cases
  const REGIONS = ["below", "inside", "above"];
  const buttons = {};
  const heads = REGIONS.map(() => html("th", { scope: "col" }));
  const row = (kind, sign) => html("tr", {},
    html("th", { scope: "row", class: kind }, html("span", {}, kind), html("br"), html("span", { class: "number" }, sign)),
    ...REGIONS.map((region) => {
      const flat = region === (kind === "good" ? "above" : "below");
      const word = region === "inside" ? (kind === "good" ? "push up" : "push down") : flat ? "enough" : kind === "good" ? "go on" : "undo";
      buttons[kind + region] = html("button", {
        type: "button", "aria-label": `${kind} action, ρ ${region} the clip range: ${word}, slope ${flat ? "0" : "A"}`,
        onclick: () => jump(kind, region),
      }, html("b", {}, word), html("span", {}, `slope ${flat ? "0" : "A"}`));
      return html("td", {}, buttons[kind + region]);
    }));
  const says = html("p", { class: "says", "data-room": longest(Object.values(SAYS_OF_CLIP).flatMap(Object.values)) }), counts = html("p", { class: "counts" });
  const guess = prediction({
    asks: "A good action (A = +1) becomes more likely. Once ρ is past the gray clip range, how hard does its sample push?", todo: "Then drag ρ past 1.2.",
    options: ["Harder", "As hard as before", "Not at all"], right: 2, answer: "There the minimum is flat, so the slope is 0.",
  });
  const { facts, fact, put } = numberList();

  root.prepend(
    guess.node,
    html("div", { class: "settings" }, ...Object.values(sliders).flatMap(({ parts }) => parts)),
    html("div", { class: "panels" },
      html("div", {},
        html("div", { class: "title" }, "What one sample adds to the objective"),
        html("div", { class: "quiet" }, "drag the dot; gray: the clip range"), graph),
      html("div", {},
        html("div", { class: "title" }, "Which case is it?"),
        html("table", {},
          html("thead", {}, html("tr", {}, html("th", { scope: "col" }, html("span", { class: "unseen" }, "action")), ...heads)),
          html("tbody", {}, row("good", "A > 0"), row("bad", "A < 0"))),
        says,
        behind("Numbers", html("dl", { class: "facts" },
          fact("surrogate", "ρ A"), fact("clipped", "clip(ρ) A"), fact("objective", "minimum"),
          fact("slope", "slope in ρ"), fact("clip_fraction", "clip_fraction"), fact("flat_fraction", "flat_fraction")), counts))));

  const region = (r, eps) => (r > 1 + eps + 1e-9 ? "above" : r < 1 - eps - 1e-9 ? "below" : "inside");

  // A cell of the table: there, with the same |A|, at a distance from the clip range that can be seen.
  function jump(kind, where) {
    const size = Math.abs(at.advantage) || 1;
    const target = { below: Math.max(ranges.ratio[0], 1 - at.clip_eps - 0.3), inside: 1, above: 1 + at.clip_eps + 0.3 }[where];
    move({ ratio: target, advantage: kind === "good" ? size : -size });
  }

  function move(changes) {
    for (const [name, value] of Object.entries(changes)) {
      const [low, high] = ranges[name];
      at[name] = clamp(Number(value.toFixed(6)), low, high);
    }
    draw();
    link.tell({ ...at, sample: clipSample(at.ratio, at.advantage, at.clip_eps) });
  }

  function draw() {
    const { ratio: r, advantage: a, clip_eps: eps } = at;
    const low = 1 - eps, high = 1 + eps;
    const now = clipSample(r, a, eps);
    const kind = a < 0 ? "bad" : "good";
    const hue = a === 0 ? "muted" : kind;

    // The axis reaches to the end of ρ A, and turns over with the sign of A.
    const scale = Math.max(1, Math.abs(a));
    const [bottom, top] = a < 0 ? [-2.65 * scale, 0.35 * scale] : [-0.35 * scale, 2.65 * scale];
    const x = (value) => P.left + (value / END) * (P.right - P.left);
    const y = (value) => P.bottom - ((value - bottom) / (top - bottom)) * (P.bottom - P.top);
    ground.replaceChildren(
      svg("rect", { x: x(low), y: P.top - 3, width: x(high) - x(low), height: P.bottom - P.top + 3, fill: "var(--faint)", "fill-opacity": 0.55 }),
      ...yAxis(P, y, multiples(bottom, top, 4)), ...xAxis(P, x, [0, 0.5, 1, 1.5, 2, 2.5], "ratio ρ"));

    const pathOf = (value) => trace([0, low, high, END].map((at) => [x(at), y(value(at))]));
    const thin = { fill: "none", stroke: "var(--muted)", "stroke-width": 1.6 };
    const clipped = (value) => clamp(value, low, high) * a;
    const px = x(r), py = y(now.objective);
    const marks = [
      svg("path", { d: pathOf((value) => value * a), ...thin }),
      svg("path", { d: pathOf(clipped), ...thin }),
      svg("path", { d: pathOf((value) => Math.min(value * a, clipped(value))), fill: "none", stroke: `var(--${hue})`, "stroke-width": 6, "stroke-linejoin": "round" }),
      line(px, py, px, P.bottom, { stroke: "var(--ink)", "stroke-width": 1, "stroke-dasharray": "1 3" }),
    ];
    curves.replaceChildren(...marks);

    // The arrow points along the curve to where the objective grows.
    const pointer = [];
    if (now.slope) {
      const [dx, dy] = [x(1) - x(0), (y(1) - y(0)) * now.slope];
      const size = Math.hypot(dx, dy), sign = Math.sign(now.slope);
      const [ux, uy] = [(sign * dx) / size, (sign * dy) / size];
      // A longer arrow for a steeper slope, but never so short that it hides behind the dot.
      const length = 26 + 22 * Math.min(1, Math.abs(now.slope));
      pointer.push(...arrow(px, py, px + ux * length, py + uy * length, { colour: "var(--ink)", width: 3.5, head: 12 }));
    } else if (now.slope === 0) {
      pointer.push(line(Math.max(px - 24, P.left), py, Math.min(px + 24, P.right), py, { stroke: "var(--ink)", "stroke-width": 3.5 }));
    }
    pointer.push(svg("circle", { cx: px, cy: py, r: 8.5, fill: `var(--${hue})`, stroke: "var(--ink)", "stroke-width": 2.5 }));

    // Names of the curves: ρ A and clip(ρ) A above their free ends, the minimum below its own.
    const below = (position) => y(Math.min(position * a, clipped(position)));
    const names = a < 0
      ? [text(x(0.22) + 7, y(0.22 * a) - 5, "ρ A"),
        text(P.right - 2, y(high * a) - 7, "clip(ρ) A", { "text-anchor": "end" }),
        r > 1.4 ? text(x(low) - 6, below(0) + 24, "minimum", { "text-anchor": "end", class: `word best ${kind}` })
          : text(x(2.05) - 10, below(2.05) + 14, "minimum", { "text-anchor": "end", class: `word best ${kind}` })]
      : [text(x(2) - 10, y(2 * a) - 5, "ρ A", { "text-anchor": "end" }),
        text(P.left + 4, y(low * a) - 8, "clip(ρ) A"),
        r > 1.15 ? text(x(0.5) + 12, below(0.5) + 22, "minimum", { class: `word best ${kind}` })
          : text(P.right - 2, below(END) + 24, "minimum", { "text-anchor": "end", class: `word best ${kind}` })];
    const slopeWord = now.slope === null ? "the knee" : `slope ${now.slope ? signed(now.slope) : "0"}`;
    const room = 92;
    const label = a < 0
      ? px - P.left < room + 14 ? { x: Math.max(px - 10, P.left + 4), y: py + 27, "text-anchor": "start" } : { x: px - 12, y: Math.min(py + 26, P.bottom - 6), "text-anchor": "end" }
      : P.right - px < room ? { x: Math.min(px + 10, P.right), y: py + 27, "text-anchor": "end" } : { x: px + 12, y: py + 26, "text-anchor": "start" };
    words.replaceChildren(...(a === 0 ? [] : names), ...pointer, text(label.x, label.y, slopeWord, { class: "word number best", "font-size": 15, ...label }));

    // Words and numbers
    sliders.ratio.put(r, format(r), `${format(r)}, ${region(r, eps)} the clip range`);
    sliders.advantage.put(a, signed(a, 1), `${format(a, 1)}${a ? `, a ${kind} action` : ""}`);
    sliders.clip_eps.put(eps, format(eps), `${format(eps)}, clip range from ${format(low)} to ${format(high)}`);
    heads[0].textContent = `ρ < ${format(low)}`;
    heads[1].textContent = "inside";
    heads[2].textContent = `ρ > ${format(high)}`;
    const here = region(r, eps);
    for (const [name, button] of Object.entries(buttons)) button.setAttribute("aria-pressed", a !== 0 && name === kind + here);
    says.textContent = sentence(kind, here, now.slope);
    counts.textContent = counted(now);
    if (now.flat_fraction && kind === "good") guess.moved();
    for (const name of Object.keys(facts)) {
      const value = now[name];
      put(name, value, name.endsWith("fraction") ? (value ? "counts" : "no") : name !== "slope" ? format(value)
        : value !== null ? (value ? signed(value) : "0") : a > 0 ? `${signed(a)} | 0` : `0 | ${signed(a)}`);
    }
    set(graph, {
      "aria-label": `Both surrogates against ρ, and the smaller one: for A = ${format(a, 1)} it is `
        + (a > 0 ? `flat from ρ = ${format(high)} on, at ${format(high * a)}.` : a < 0 ? `flat up to ρ = ${format(low)}, at ${format(low * a)}.` : "0 everywhere.")
        + ` At ρ = ${format(r)} it is ${format(now.objective)}.`,
    });
    say(`ρ ${format(r)}, A ${format(a, 1)}, ε ${format(eps)}: minimum ${format(now.objective)}. ${says.textContent} ${counts.textContent}`);
  }

  function sentence(kind, here, slope) {
    const { ratio: r, advantage: a } = at;
    if (a === 0) return "An advantage of 0 pushes nowhere, whatever ρ is.";
    if (slope === null) return `The knee, ρ = ${format(r)}: the slope is ${format(a, 1)} on ${a > 0 ? "its left and 0 on its right" : "its right and 0 on its left"}. The end of the clip range still belongs to it.`;
    const edge = Math.abs(Math.abs(r - 1) - at.clip_eps) < 1e-9
      ? " This end of the clip range is not a knee, because ρ A goes on straight." : "";
    return `${SAYS_OF_CLIP[kind][here]}${edge}`;
  }

  function counted(now) {
    if (now.flat_fraction) return "It counts to clip_fraction and to flat_fraction.";
    if (!now.clip_fraction) return "It counts to neither fraction.";
    return "It counts to clip_fraction, not to flat_fraction." + (at.advantage ? "" : " The first looks at ρ alone.");
  }

  const link = shared(model, NAMES, move);
  draw();
  return () => { close(); link.close(); };
}

export default { render };
