// E8. One update of each method, from the same softmax policy over three actions. The reader sees the simplex of policies
// with the KL ball and the clip region around the old one, and where vanilla policy gradient, natural gradient, TRPO and
// PPO-clip end; the old policy can be dragged. The parameters are the logits; all expectations are exact.

const STYLE_OF_SIMPLEX = `
  .simplex .settings { margin: 6px 0 0; }
  .simplex .word { font-weight: 600; }
  .simplex th, .simplex td { text-align: right; padding: 3px 0 3px 8px; border-bottom: 1px solid var(--faint); font-weight: 400; }
  .simplex thead th { color: var(--muted-text); font-size: 14px; white-space: nowrap; }
  .simplex th:first-child { text-align: left; padding-left: 0; }
  .simplex td { width: 4.1em; }
  .simplex td.out { font-weight: 700; }
  .simplex td.out::before { content: "▸"; font-weight: 400; color: var(--muted-text); padding-right: 2px; }
  .simplex .methods { gap: 2px 16px; }
  .simplex .methods label { display: flex; align-items: center; gap: 6px; font-weight: 400; min-height: 32px; cursor: pointer; }
  .simplex input[type=checkbox] { width: 19px; height: 19px; margin: 0; flex: none; accent-color: var(--ink); }
  .figure.simplex svg.sample { width: 42px; height: 20px; flex: none; overflow: hidden; }
  .simplex .whole { cursor: grab; touch-action: none; }
  .simplex .handle { fill: transparent; }
  .simplex .turn { display: none; }
  .simplex tr.off td { color: var(--muted-text); }
  @container (max-width: 560px) {
    .simplex .panels[data-view=near] > :first-child, .simplex .panels[data-view=whole] > :last-child { display: none; }
    .simplex .turn { display: block; }
    .simplex .settings { gap: 0 8px; }
    .simplex .methods { gap: 0 10px; }
    .simplex .methods label { gap: 4px; min-height: 28px; font-size: 14px; }
    .figure.simplex svg.sample { width: 30px; }
    .simplex th, .simplex td { padding-left: 4px; font-size: 13.5px; }
    .simplex td { width: auto; }
    .simplex td.out::before { content: none; }
    .simplex td.out { text-decoration: underline; text-underline-offset: 3px; }
  }
`;

// Name, colour, dashes, width of the line, mark and its size. Vanilla's step is also the
// first large step of PPO: its line and mark are wide enough to show around what lies on top.
const LOOKS_OF_METHODS = {
  vanilla: { name: "vanilla", hue: "vanilla", width: 6.5, mark: "circle", size: 9 },
  natural: { name: "natural", hue: "ink", dashes: "9 3 2 3", width: 2.4, mark: "square", size: 6.5 },
  trpo: { name: "TRPO", hue: "trpo", width: 3.4, mark: "diamond", size: 7.5 },
  ppo_small: { name: "PPO, tiny steps", hue: "ppo", width: 3.4, mark: "up", size: 7.5 },
  ppo_large: { name: "PPO, steps of α", hue: "ppo", dashes: "4 3", width: 2.6, mark: "down", size: 7 },
};

const sumOf = (values) => values.reduce((sum, value) => sum + value, 0);
function softmaxOf(logits) {
  const most = Math.max(...logits);
  const weights = logits.map((value) => Math.exp(value - most));
  const total = sumOf(weights);
  return weights.map((weight) => weight / total);
}
const klOf = (p, q) => sumOf(p.map((value, k) => value * (Math.log(value) - Math.log(q[k]))));
function centred(p, a) {
  const mean = sumOf(p.map((value, k) => value * a[k]));
  return a.map((value) => (Math.abs(value - mean) < 1e-12 ? 0 : value - mean));
}

// The gradient of Σ p min(ρ A, clip(ρ) A) by the logits of q, ρ = q / p; without ε, that of Σ p ρ A.
function slopeOf(p, a, q, eps = Infinity) {
  const weights = q.map((value, k) => {
    const r = value / p[k];
    return (a[k] > 0 && r > 1 + eps) || (a[k] < 0 && r < 1 - eps) ? 0 : value * a[k];
  });
  const total = sumOf(weights);
  return weights.map((weight, k) => weight - q[k] * total);
}

// Where a method goes: its path in logits, the number of steps, and whether no gradient was left.
function simplexPath(method, p, a, { max_kl, clip_eps, length, small, epochs }) {
  const start = p.map(Math.log);
  const along = (direction, size) => start.map((value, k) => value + size * direction[k]);
  if (method === "vanilla") return { path: [start, along(slopeOf(p, a, p), length)], steps: 1, stopped: false };
  // F⁺ g is A, up to a number that is the same for all logits and changes no policy.
  if (method === "natural") return { path: [start, along(a, length)], steps: 1, stopped: false };
  if (method === "trpo") {
    const curvature = sumOf(p.map((value, k) => value * a[k] ** 2));
    const size = Math.sqrt((2 * max_kl) / Math.max(curvature, 1e-30));
    for (let tried = 1; tried <= 10; tried++) {
      const logits = along(a, size * 0.8 ** (tried - 1));
      const q = softmaxOf(logits);
      const gain = sumOf(q.map((value, k) => (value - p[k]) * a[k]));
      if (gain > 0 && klOf(p, q) <= max_kl) return { path: [start, logits], steps: tried, stopped: false };
    }
    return { path: [start, start], steps: 10, stopped: false };
  }
  const [size, most] = method === "ppo_small" ? small : [length, epochs];
  const path = [start];
  for (let step = 0; step < most; step++) {
    const here = path.at(-1);
    const slope = slopeOf(p, a, softmaxOf(here), clip_eps);
    if (Math.max(...slope.map(Math.abs)) <= 1e-12) return { path, steps: step, stopped: true };
    path.push(here.map((value, k) => value + size * slope[k]));
  }
  return { path, steps: most, stopped: false };
}

// The curve KL(p, ·) = δ, by bisection on rays from p.
function ballAround(p, delta) {
  return Array.from({ length: 120 }, (_, i) => {
    const angle = (2 * Math.PI * i) / 120;
    const ray = [2 * Math.cos(angle), -Math.cos(angle) + 1.7 * Math.sin(angle), -Math.cos(angle) - 1.7 * Math.sin(angle)];
    let low = 0, high = Math.min(...ray.map((value, k) => (value < 0 ? -p[k] / value : Infinity))) * (1 - 1e-9);
    const at = (t) => p.map((value, k) => value + t * ray[k]);
    for (let n = 0; n < 40; n++) {
      const middle = (low + high) / 2;
      if (klOf(p, at(middle)) <= delta) low = middle; else high = middle;
    }
    return at(low);
  });
}

// Corners of the clip region: the simplex, cut by (1 − ε) p ≤ π ≤ (1 + ε) p for each action.
function boxAround(p, eps) {
  let corners = [[1, 0, 0], [0, 1, 0], [0, 0, 1]];
  for (let k = 0; k < 3; k++) {
    for (const [sign, bound] of [[1, (1 - eps) * p[k]], [-1, -(1 + eps) * p[k]]]) {
      corners = corners.flatMap((here, i) => {
        const before = corners.at(i - 1);
        const d0 = sign * before[k] - bound, d1 = sign * here[k] - bound;
        const cut = before.map((value, j) => value + ((here[j] - value) * d0) / (d0 - d1));
        return [...((d0 < 0) !== (d1 < 0) ? [cut] : []), ...(d1 >= 0 ? [here] : [])];
      });
    }
  }
  return corners;
}

const RAREST = 0.15; // the least probability of an action that the reader can choose

// The nearest policy with no action rarer than that.
function nearestInside(values) {
  let probs = values.map((value) => Math.max(value, RAREST));
  for (let round = 0; round < 3; round++) {
    const excess = (sumOf(probs) - 1) / probs.filter((value) => value > RAREST).length;
    probs = probs.map((value) => (value > RAREST ? Math.max(value - excess, RAREST) : value));
  }
  return probs;
}

// In the plane: action 1 on top, 2 at the lower left, 3 at the lower right, sides of length 1.
const planeOf = (q) => [q[2] + q[0] / 2, (-Math.sqrt(3) / 2) * q[0]];
const tripleText = (values, decimals = 2) => `(${values.map((value) => format(value, decimals)).join(", ")})`;

function markOf({ mark, size, hue }, x, y) {
  const look = { fill: `var(--${hue})`, stroke: "var(--paper)", "stroke-width": 1.5 };
  if (mark === "circle") return svg("circle", { cx: x, cy: y, r: size, ...look });
  const s = size;
  const shape = {
    square: `M${x - s} ${y - s}h${2 * s}v${2 * s}h${-2 * s}Z`,
    diamond: `M${x} ${y - s * 1.2}L${x + s * 1.2} ${y}L${x} ${y + s * 1.2}L${x - s * 1.2} ${y}Z`,
    up: `M${x} ${y - s}L${x + s} ${y + s * 0.8}H${x - s}Z`,
    down: `M${x} ${y + s}L${x + s} ${y - s * 0.8}H${x - s}Z`,
  }[mark];
  return svg("path", { d: shape, ...look });
}

// Labels where they hide least: each takes, of its places, the one that overlaps the fewest marks, lines and labels.
function placed(labels, obstacles, frame) {
  const taken = [...obstacles];
  return labels.map(({ text, hue, places }) => {
    const wide = 8.6 * text.length, high = 20;
    let best = null;
    for (const [x, y, anchor] of places) {
      const left = anchor === "start" ? x : anchor === "end" ? x - wide : x - wide / 2;
      const box = { left, right: left + wide, top: y - 14, bottom: y - 14 + high };
      const outside = Math.max(0, frame.left - box.left) + Math.max(0, box.right - frame.right)
        + Math.max(0, frame.top - box.top) + Math.max(0, box.bottom - frame.bottom);
      let cost = 200 * outside;
      for (const other of taken) {
        const across = Math.min(box.right, other.right) - Math.max(box.left, other.left);
        const down = Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top);
        if (across > 0 && down > 0) cost += other.weight ?? across * down * 4;
      }
      if (!best || cost < best.cost - 1e-9) best = { x, y, anchor, box, cost };
    }
    taken.push(best.box);
    return svg("text", {
      x: best.x, y: best.y, "text-anchor": best.anchor, class: "word", "font-size": 14.5,
      style: hue ? `fill: var(--${hue}-text)` : null,
    }, text);
  });
}

function render({ model, el }) {
  const { root, say, close } = stage(el, "simplex", STYLE_OF_SIMPLEX, "Interactive figure: one step of each method in the simplex of policies");
  const presets = model.get("presets"), methods = model.get("methods");
  const deltas = model.get("deltas"), lengths = model.get("lengths"), [epsLow, epsHigh, epsStep] = model.get("eps_range");
  const clipping = methods.some((method) => method.startsWith("ppo"));
  const stepping = methods.some((method) => ["vanilla", "natural", "ppo_large"].includes(method));
  const fixed = { small: model.get("small"), epochs: model.get("epochs") };
  const at = Object.fromEntries(["max_kl", "clip_eps", "length"].map((name) => [name, model.get(name)]));
  const hidden = new Set();
  let preset = model.get("preset");
  let old = model.get("old");
  const guess = prediction(model.get("ask"));
  let advantages = model.get("advantages");

  // Controls
  const choose = html("select", { id: "preset", onchange: () => pick(Number(choose.value)) },
    ...presets.map(({ old, advantages }, i) => html("option", { value: i },
      `old (${old.map(short).join(", ")}), A (${advantages.map(short).join(", ")})`)),
    html("option", { value: -1, hidden: "" }, "your own"));
  const sliders = {};
  const control = (name, word, values) => {
    sliders[name] = slider(name, word, values ? [0, values.length - 1] : [epsLow, epsHigh, epsStep], (value) => {
      at[name] = values ? values[value] : Number(value.toFixed(6));
      changed();
    });
    return sliders[name].parts;
  };
  const own = [0, 1, 2].map((k) => slider(`pay${k}`, `Action ${k + 1} pays`, [-4, 4, 0.05], () => {
    advantages = centred(old, own.map(({ input }) => Number(input.value)));
    choose.value = "-1";
    changed();
  }));

  // The two views
  const W = 340, H = 318;
  const views = ["whole", "near"].map((name) => {
    const id = `${name}-${Math.random().toString(36).slice(2)}`;
    const frame = name === "near" ? { left: 18, right: 322, top: 7, bottom: 311 } : { left: 0, right: W, top: 0, bottom: H };
    const scene = svg("g", { "clip-path": `url(#${id})` }), words = svg("g");
    const node = svg("svg", { viewBox: `0 0 ${W} ${H}`, class: name },
      svg("clipPath", { id }, svg("rect", { x: frame.left, y: frame.top, width: frame.right - frame.left, height: frame.bottom - frame.top })),
      scene, words);
    return { name, frame, scene, words, node };
  });
  const [whole, near] = views;
  near.node.setAttribute("role", "img");

  // The old policy moves with the pointer or the arrow keys, but not to an edge: where an action is rare, ten thousand tiny
  // steps may not reach the end of the clip range, or end far outside.
  const handle = svg("circle", { class: "handle", r: 16, tabindex: 0, role: "slider", "aria-label": "Old policy, probability of action 1 in percent", "aria-valuemin": 100 * RAREST, "aria-valuemax": 100 - 200 * RAREST });
  whole.node.append(handle);
  const start = (probs) => {
    const [first, second, third] = nearestInside(probs).map((value) => Number(value.toFixed(4)));
    old = [first, second, third + (1 - first - second - third)];
    advantages = centred(old, advantages);
    choose.value = "-1";
    changed();
  };
  draggable(whole.node, (x, y) => {
    const first = (290 - y) / 296 / (Math.sqrt(3) / 2), third = (x - 22) / 296 - first / 2;
    start([first, 1 - first - third, third]);
  });
  handle.addEventListener("keydown", (event) => {
    const toward = { ArrowUp: [1, 0, 0], ArrowDown: [0, 0.5, 0.5], ArrowLeft: [0, 1, 0], ArrowRight: [0, 0, 1] }[event.key];
    if (!toward) return;
    event.preventDefault();
    start(old.map((value, k) => value + 0.04 * (toward[k] - value)));
  });

  // The legend switches methods off and on; the table has their numbers.
  const cells = ["r1", "r2", "r3", "kl"], rows = {};
  const legend = methods.map((method) => {
    const look = LOOKS_OF_METHODS[method];
    const box = html("input", { type: "checkbox", onchange: () => {
      hidden[box.checked ? "delete" : "add"](method);
      draw();
    } });
    box.checked = true;
    const values = Object.fromEntries(cells.map((name) => [name, html("td", { class: "number", "data-number": `${method}-${name}` })]));
    rows[method] = { row: html("tr", {}, html("th", { scope: "row" }, look.name), ...Object.values(values)), values };
    return html("label", {}, box, svg("svg", { viewBox: "0 0 42 20", class: "sample", "aria-hidden": "true" },
      svg("line", { x1: 1, x2: 41, y1: 10, y2: 10, stroke: `var(--${look.hue})`, "stroke-width": Math.min(look.width, 5), "stroke-dasharray": look.dashes ?? null }),
      markOf({ ...look, size: Math.min(look.size, 7) }, 21, 10)), look.name);
  });
  const key = html("div", { class: "quiet" }), note = html("p");
  const panels = html("div", { class: "panels", "data-view": "near" },
    html("div", {}, html("div", { class: "title" }, "All policies over three actions"),
      html("div", { class: "quiet" }, "a corner is one action; drag the circle"), whole.node),
    html("div", {}, html("div", { class: "title" }, "Close to the old policy"),
      html("div", { class: "quiet" }, clipping ? "pink: KL limit; blue: clip range" : "pink: KL limit"), near.node));
  let turned = false;
  const turn = html("button", { type: "button", class: "turn", onclick: () => {
    const { dataset } = panels;
    dataset.view = dataset.view === "near" ? "whole" : "near";
    turn.textContent = dataset.view === "near" ? "Whole triangle" : "Close-up";
  } }, "Whole triangle");

  root.prepend(
    guess.node,
    html("div", { class: "settings" }, ...(stepping ? control("length", "Step length α", lengths) : [])),
    panels,
    html("div", { class: "row methods" }, ...legend, turn),
    behind("Numbers and other settings",
      html("div", { class: "row" }, html("label", { for: "preset" }, "Start"), choose),
      html("div", { class: "settings" },
        ...control("max_kl", "KL limit δ", deltas),
        ...(clipping ? control("clip_eps", "Clip range ε") : []),
        ...own.flatMap(({ parts }) => parts)),
      html("table", {},
        html("thead", {}, html("tr", {},
          html("th", { scope: "col" }, "one update of"),
          ...["ρ₁", "ρ₂", "ρ₃"].map((word) => html("th", { scope: "col" }, word)), html("th", { scope: "col" }, "KL"))),
        html("tbody", {}, ...methods.map((method) => rows[method].row))),
      key, note));

  function pick(index) {
    preset = index;
    ({ old, advantages } = presets[index]);
    choose.value = String(index);
    advantages = centred(old, advantages);
    for (const [k, { input }] of own.entries()) input.value = advantages[k];
    changed();
  }

  function changed() {
    draw();
    const steps = Object.entries(found()).map(([method, { ratios, kl, steps, stopped }]) => [method, { ratios, kl, steps, stopped }]);
    link.tell({ ...at, preset, old, advantages, steps: Object.fromEntries(steps) });
  }

  // Thousands of small steps: computed once for each setting.
  let held = { key: "" };
  function found() {
    const key = JSON.stringify([old, advantages, at]);
    if (held.key !== key) {
      held = { key, all: {} };
      for (const method of methods) {
        const result = simplexPath(method, old, advantages, { ...at, ...fixed });
        const probs = softmaxOf(result.path.at(-1));
        held.all[method] = { ...result, probs, ratios: probs.map((value, k) => value / old[k]), kl: klOf(old, probs) };
      }
    }
    return held.all;
  }

  function draw() {
    const all = found();
    const visible = methods.filter((method) => !hidden.has(method));
    const ball = ballAround(old, at.max_kl), box = boxAround(old, at.clip_eps);
    const [ox, oy] = planeOf(old);
    const reach = 1.45 * Math.max(...[...ball, ...(clipping ? box : [])].map((q) => {
      const [x, y] = planeOf(q);
      return Math.max(Math.abs(x - ox), Math.abs(y - oy));
    }));
    const zoom = 152 / reach;
    near.at = (q) => { const [x, y] = planeOf(q); return [170 + (x - ox) * zoom, 159 + (y - oy) * zoom]; };
    whole.at = (q) => { const [x, y] = planeOf(q); return [22 + 296 * x, 290 + 296 * y]; };
    const inFrame = ({ frame }, [x, y]) => x > frame.left + 2 && x < frame.right - 2 && y > frame.top + 2 && y < frame.bottom - 2;
    const pathOf = (view, points, end = "") => trace(points.map(view.at)) + end;

    // One step in the logits is a curve among the probabilities.
    const curveOf = (from, to) => Array.from({ length: 61 }, (_, i) =>
      softmaxOf(from.map((value, k) => value + (i / 60) * (to[k] - value))));
    const curves = Object.fromEntries(methods.map((method) => {
      const { path } = all[method];
      const every = Math.ceil(path.length / 150);
      return [method, method.startsWith("ppo")
        ? path.filter((_, i) => i % every === 0 || i === path.length - 1).map(softmaxOf) : curveOf(...path)];
    }));
    const rest = visible.filter((method) => method === "vanilla" || method === "natural").map((method) => {
      const { path: [from, to] } = all[method];
      const far = from.map((value, k) => value + ((to[k] - value) / at.length) * lengths.at(-1));
      const points = Array.from({ length: 241 }, (_, i) => softmaxOf(from.map((value, k) => value + (i / 240) ** 2 * (far[k] - value))));
      return { method, points };
    });

    for (const view of views) {
      const small = view === whole;
      const parts = [];
      if (!small) parts.push(svg("rect", { x: 18, y: 7, width: 304, height: 304, fill: "none", stroke: "var(--line)", "stroke-dasharray": "2 4" }));
      parts.push(svg("path", { d: pathOf(view, [[1, 0, 0], [0, 1, 0], [0, 0, 1]], "Z"), fill: "none", stroke: "var(--line)", "stroke-width": 1.5 }));
      if (small) parts.push(svg("path", { d: pathOf(view, [[1, 0, 0], [0, 1, 0], [0, 0, 1]].map(nearestInside), "Z"), fill: "none", stroke: "var(--line)", "stroke-dasharray": "1 4" }));
      parts.push(svg("path", { d: pathOf(view, ball, "Z"), fill: "var(--trpo)", "fill-opacity": 0.2, stroke: "var(--trpo)", "stroke-width": 1.8 }));
      if (clipping) parts.push(svg("path", { d: pathOf(view, box, "Z"), fill: "none", stroke: "var(--ppo)", "stroke-width": 1.8 }));
      for (const { method, points } of rest) {
        parts.push(svg("path", { d: pathOf(view, points), fill: "none", stroke: `var(--${LOOKS_OF_METHODS[method].hue})`, "stroke-width": 1.2, "stroke-opacity": 0.6 }));
      }
      const shrink = small ? 0.7 : 1;
      for (const method of visible) {
        const look = LOOKS_OF_METHODS[method];
        parts.push(svg("path", {
          d: pathOf(view, curves[method]), fill: "none", stroke: `var(--${look.hue})`, "stroke-width": look.width * shrink, "stroke-dasharray": look.dashes ?? null,
        }));
        if (method === "ppo_large") {
          for (const q of curves[method].slice(1, -1)) {
            const [x, y] = view.at(q);
            parts.push(svg("circle", { cx: x, cy: y, r: 3.2 * shrink, fill: "var(--ppo)" }));
          }
        }
      }
      for (const method of visible) {
        const look = LOOKS_OF_METHODS[method];
        parts.push(markOf({ ...look, size: look.size * (small ? 0.8 : 1) }, ...view.at(all[method].probs)));
      }
      const [px, py] = view.at(old);
      parts.push(svg("circle", { cx: px, cy: py, r: small ? 5 : 7, fill: "var(--paper)", stroke: "var(--ink)", "stroke-width": 2, "stroke-dasharray": "3 2" }));
      if (small) {
        const [nx, ny] = [px - reach * 296, py - reach * 296];
        parts.push(svg("rect", { x: nx, y: ny, width: 2 * reach * 296, height: 2 * reach * 296, fill: "none", stroke: "var(--line)", "stroke-dasharray": "2 4" }));
      }
      view.scene.replaceChildren(...parts);
      view.words.replaceChildren(...wordsOf(view, all, visible, curves, ball, box, inFrame));
    }

    const asked = methods.filter((method) => ["vanilla", "natural", "ppo_large"].includes(method));
    if (asked.length && asked.every((method) => all[method].kl > (clipping ? 3 : 1) * at.max_kl)) {
      guess.moved();
      if (!turned) turn.click(); // the path ends outside of the close-up
      turned = true;
    }
    const [hx, hy] = whole.at(old);
    set(handle, { cx: hx, cy: hy, "aria-valuenow": Math.round(100 * old[0]), "aria-valuetext": tripleText(old) });
    tabulate(all);
    set(whole.node, { "aria-label": `The simplex of policies. Old policy ${tripleText(old)}. ${visible.map((method) => `${LOOKS_OF_METHODS[method].name} ends at ${tripleText(all[method].probs)}`).join("; ")}.` });
    set(near.node, {
      "aria-label": `Close-up of the KL ball${clipping ? " and the clip region" : ""}. ${visible.map((method) => {
        const { ratios, kl } = all[method];
        const boxed = clipping ? `, ${ratios.some(outOfBox) ? "outside" : "inside"} the region` : "";
        return `${LOOKS_OF_METHODS[method].name} ends ${kl > at.max_kl + 1e-12 ? "outside" : "inside"} the ball${boxed}`;
      }).join("; ")}.`,
    });
  }

  // By the digits that are shown: a small step that ends a hair beyond 0.8 shows 0.800.
  const outOfBox = (r) => r > 1 + at.clip_eps + 5e-4 || r < 1 - at.clip_eps - 5e-4;

  function wordsOf(view, all, visible, curves, ball, box, inFrame) {
    const small = view === whole;
    const around = ([x, y], far) => [
      [x + far, y + 5, "start"], [x - far, y + 5, "end"], [x + far * 0.75, y - far * 0.6, "start"], [x - far * 0.75, y - far * 0.6, "end"],
      [x + far * 0.75, y + far + 7, "start"], [x - far * 0.75, y + far + 7, "end"], [x, y - far - 1, "middle"], [x, y + far + 13, "middle"],
      [x + far + 3, y - far - 8, "start"], [x - far - 3, y - far - 8, "end"], [x + far + 3, y + far + 18, "start"], [x - far - 3, y + far + 18, "end"],
    ];
    const obstacles = [];
    const blot = ([x, y], r, weight) => obstacles.push({ left: x - r, right: x + r, top: y - r, bottom: y + r, weight });
    for (const method of visible) {
      for (const q of curves[method]) if (inFrame(view, view.at(q))) blot(view.at(q), 2, 6);
      blot(view.at(all[method].probs), 9, 400);
    }
    blot(view.at(old), 9, 400);
    const labels = visible.map((method) => ({ method, spot: view.at(all[method].probs) }))
      // In the whole simplex, only what the close-up does not show is named.
      .filter(({ method, spot }) => (small ? !inFrame(near, near.at(all[method].probs)) : inFrame(near, spot)))
      .map(({ method, spot }) => ({ text: LOOKS_OF_METHODS[method].name, hue: LOOKS_OF_METHODS[method].hue, places: around(spot, 14) }));
    if (small) {
      const corners = [[1, 0, 0], [0, 1, 0], [0, 0, 1]].map(whole.at);
      const names = corners.map(([x, y], k) => svg("text", {
        x: k === 1 ? x - 16 : k === 2 ? x + 16 : x, y: k ? y + 22 : y - 15, "text-anchor": ["middle", "start", "end"][k], "font-size": 14.5,
      }, `action ${k + 1}`));
      for (const [k, [x, y]] of corners.entries()) obstacles.push({ left: x - 34, right: x + 34, top: k ? y + 8 : y - 29, bottom: k ? y + 26 : y - 11 });
      return [...names, ...placed(labels, obstacles, view.frame)];
    }
    labels.push({ text: "old policy", places: around(view.at(old), 13) });
    const rim = (points, far) => points.map((q) => {
      const [x, y] = view.at(q), [px, py] = view.at(old);
      const size = Math.hypot(x - px, y - py) || 1;
      const [ux, uy] = [(x - px) / size, (y - py) / size];
      return [x + ux * far, y + uy * far + 5, ux > 0.4 ? "start" : ux < -0.4 ? "end" : "middle"];
    });
    for (const q of ball) blot(view.at(q), 1.5, 5);
    const ends = visible.map((method) => view.at(all[method].probs));
    const room = (q) => { const [x, y] = view.at(q); return Math.min(...ends.map(([ex, ey]) => Math.hypot(x - ex, y - ey)), 1e9); };
    const farFirst = (points) => [...points].sort((p, q) => room(q) - room(p));
    labels.push({ text: `KL = ${at.max_kl}`, hue: "trpo", places: rim(farFirst(ball.filter((_, i) => i % 5 === 2)), 9) });
    if (clipping) {
      const middles = box.map((q, i) => q.map((value, k) => (value + box.at(i - 1)[k]) / 2));
      for (const [i, q] of box.entries()) {
        for (let n = 0; n <= 20; n++) blot(view.at(q.map((value, k) => value + (n / 20) * (box.at(i - 1)[k] - value))), 1.5, 5);
      }
      const inward = rim(farFirst(middles), -13).map(([x, y, anchor]) => [x, y, { start: "end", end: "start", middle: "middle" }[anchor]]);
      labels.push({ text: "clip range", hue: "ppo", places: [...inward, ...rim(farFirst(middles), 10)] });
    }
    return placed(labels, obstacles, view.frame);
  }

  function tabulate(all) {
    for (const name of Object.keys(sliders)) {
      const values = { max_kl: deltas, length: lengths }[name];
      if (values) sliders[name].put(values.indexOf(at[name]), String(at[name]));
      else sliders[name].put(at[name], format(at[name]));
    }
    for (const [k, { input, put }] of own.entries()) {
      const pays = Number(input.value);
      put(pays, format(pays), `${format(pays)}, advantage ${format(advantages[k])}`);
    }
    for (const method of methods) {
      const { ratios, kl } = all[method];
      const { row, values } = rows[method];
      row.classList.toggle("off", hidden.has(method));
      cells.forEach((name, k) => {
        const value = k < 3 ? ratios[k] : kl;
        const out = k < 3 ? clipping && outOfBox(value) : value > at.max_kl + 1e-12;
        values[name].dataset.value = value;
        values[name].classList.toggle("out", out);
        values[name].replaceChildren(format(value, k < 3 ? (value < 9.9995 ? 3 : 1) : 4), ...(out ? [html("span", { class: "unseen" }, k < 3 ? " outside the region" : " outside the ball")] : []));
      });
    }
    key.textContent = `Bold: outside ${clipping ? "the clip range (a ratio) or the KL limit" : "the KL limit"}.${stepping ? " Thin lines: other lengths α." : ""}`;

    const small = all.ppo_small;
    if (small) {
      const many = small.steps.toLocaleString("en");
      note.textContent = small.stopped
        ? `PPO’s tiny steps stopped after ${many}: no action has a gradient left.${small.ratios.some(outOfBox) ? " An action that still had one moved another out of the clip range." : ""}`
        : `After ${many} tiny steps of PPO there is still a gradient.`;
    }
    say(methods.filter((method) => !hidden.has(method)).map((method) =>
      `${LOOKS_OF_METHODS[method].name}: ratios ${tripleText(all[method].ratios)}, KL ${format(all[method].kl, 4)}`).join(". "));
  }

  const link = shared(model, [...Object.keys(at), "preset", "old", "advantages"], (now) => {
    for (const name of Object.keys(at)) at[name] = now[name];
    if (now.preset !== preset) { pick(now.preset); return; }
    if (now.advantages !== advantages || now.old !== old) {
      old = now.old;
      advantages = centred(old, now.advantages);
      choose.value = "-1";
      for (const [k, { input }] of own.entries()) input.value = advantages[k];
    }
    changed();
  });
  choose.value = String(model.get("preset"));
  for (const [k, { input }] of own.entries()) input.value = advantages[k];
  draw();
  return () => { close(); link.close(); };
}

export default { render };
