// E4. The three parts of PPO's loss on a recorded batch. The reader scales the rewards and moves the value coefficient:
// arrows show where the parts pull the weights of a shared trunk. The loss and the other weights stand behind a toggle.

const STYLE_OF_PARTS = `
  .parts .settings { margin: 2px 0; }
  .parts .shown { min-width: 3.1em; }
  .parts .panels { align-items: start; }
  .parts .facts { grid-template-columns: repeat(2, 1fr); }
  .parts .says { margin: 0; }
  @container (max-width: 560px) { .parts .settings { grid-template-columns: 1fr; } }
`;

// The parts of the loss, from the samples; and the pulls on the trunk, from the scalar products of the parts' gradients.
function partsOf(batch, stops, clip_eps, value_coef, entropy_coef) {
  const count = batch.ratios.length, mean = (f) => batch.ratios.reduce((sum, _, i) => sum + f(i), 0) / count;
  const low = 1 - clip_eps, high = 1 + clip_eps;
  const policy_loss = -mean((i) => Math.min(batch.ratios[i] * batch.advantages[i], clamp(batch.ratios[i], low, high) * batch.advantages[i]));
  const value_loss = mean((i) => (batch.values[i] - batch.returns[i]) ** 2) / 2;
  const entropy = mean((i) => batch.entropy[i]);
  const above = (i) => batch.ratios[i] > high, below = (i) => batch.ratios[i] < low;
  const p = batch.products, k = stops.clip_eps.indexOf(clip_eps);
  // Policy loss and entropy; the value loss; all three.
  const own = p.policy_policy[k] - 2 * entropy_coef * p.policy_entropy[k] + entropy_coef ** 2 * p.entropy_entropy;
  const across = value_coef * (p.policy_value[k] - entropy_coef * p.value_entropy);
  const both = own + 2 * across + value_coef ** 2 * p.value_value;
  const turn = own > 0 && both > 0
    ? (Math.acos(clamp((own + across) / Math.sqrt(own * both), -1, 1)) * 180) / Math.PI : null;
  return {
    policy_loss, value_loss, entropy, loss: policy_loss + value_coef * value_loss - entropy_coef * entropy,
    clip_fraction: mean((i) => (above(i) || below(i) ? 1 : 0)),
    flat_fraction: mean((i) => ((above(i) && batch.advantages[i] > 0) || (below(i) && batch.advantages[i] < 0) ? 1 : 0)),
    policy_pull: Math.sqrt(Math.max(own, 0)), value_pull: value_coef * Math.sqrt(p.value_value), across,
    both_pull: Math.sqrt(Math.max(both, 0)), turn,
  };
}

function render({ model, el }) {
  const { root, say, close } = stage(el, "parts", STYLE_OF_PARTS, "Interactive figure: the parts of PPO's loss");
  const NAMES = ["clip_eps", "value_coef", "entropy_coef"];
  const stops = model.get("stops"), batches = model.get("batches");
  const at = Object.fromEntries(NAMES.map((name) => [name, nearest(stops[name], model.get(name))]));
  at.batch = model.get("batch");

  // Controls
  const control = (name, words) => slider(name, words, [0, stops[name].length - 1], (to) => move({ [name]: to }));
  const sliders = { clip_eps: control("clip_eps", "Clip ε"), value_coef: control("value_coef", "Value coefficient"), entropy_coef: control("entropy_coef", "Entropy coefficient") };
  // The answer holds for the coefficients at the start.
  const start = Object.fromEntries(NAMES.map((name) => [name, stops[name][at[name]]]));
  const turned = batches.map((batch) => format(partsOf(batch, stops, ...Object.values(start)).turn, 0));
  const guess = prediction({
    asks: "If the rewards were ten times as large, would a shared trunk still go where the policy pulls?", todo: "Then choose larger rewards.",
    options: ["Yes", "Nearly", "No"], right: 2,
    answer: `The advantages are normalized, but the critic's errors grow with the rewards. With the coefficients at the start, the step turns by ${turned[1]}° instead of ${turned[0]}°.`,
  });
  const choose = choice("batch", batches.map(({ name }) => name), (batch) => move({ batch }));

  const W = 340;
  const bars = svg("svg", { viewBox: `0 0 ${W} 228`, role: "img" });
  const plane = svg("svg", { viewBox: `0 0 ${W} 176`, role: "img" });
  const { facts, fact, put } = numberList();
  const says = html("p", { class: "says", "data-room": sentence({ turn: 99, value_pull: 99.9, policy_pull: 1 }, 1) });

  root.prepend(
    guess.node,
    html("div", { class: "row" }, html("label", { for: "batch" }, "A batch with"), choose),
    html("div", { class: "settings" }, ...sliders.value_coef.parts),
    html("div", { class: "panels" }, html("div", {}, html("div", { class: "title" }, "Pulls on a shared trunk"), plane), says),
    behind("The loss itself, ε, the entropy coefficient and all numbers",
      html("div", { class: "settings" }, ...sliders.clip_eps.parts, ...sliders.entropy_coef.parts),
      html("div", { class: "panels" },
        html("div", {}, html("div", { class: "title" }, "What each part adds to the loss"), bars),
        html("dl", { class: "facts" },
          fact("policy_pull", "pull of policy, entropy"), fact("value_pull", "pull of value loss"), fact("turn", "turned by"),
          fact("clip_fraction", "clip_fraction"), fact("flat_fraction", "flat_fraction")))));

  const now = () => partsOf(batches[at.batch], stops, ...NAMES.map((name) => stops[name][at[name]]));
  // As many digits as make a number of this size readable.
  const digits = (value) => format(value, Math.abs(value) >= 10 ? 1 : Math.abs(value) >= 1 ? 2 : Math.abs(value) >= 0.01 || value === 0 ? 3 : 5);

  function move(changes) {
    Object.assign(at, changes);
    draw();
    if (at.batch === 1) guess.moved();
    link.tell({ ...Object.fromEntries(NAMES.map((name) => [name, stops[name][at[name]]])), batch: at.batch, parts: now() });
  }

  function drawBars(found, value_coef, entropy_coef) {
    const rows = [
      ["policy loss", found.policy_loss, "policy_loss"],
      [`${value_coef} × value loss`, value_coef * found.value_loss, "value_part"],
      [`−${entropy_coef} × entropy`, -entropy_coef * found.entropy, "entropy_part"],
      ["loss", found.loss, "loss"],
    ];
    // The scale goes by factors of ten and is written below, so that bars keep their length while a slider moves.
    const largest = Math.max(...rows.map((row) => Math.abs(row[1])));
    const full = 10 ** Math.ceil(Math.log10(Math.max(largest, 0.01)) - 1e-9), zero = W / 2, unit = (W / 2 - 62) / full;
    const parts = [];
    rows.forEach(([name, value, key], i) => {
      const top = 24 + i * 46, last = i === 3;
      parts.push(text(4, top - 6, name, last ? { "font-weight": 600 } : {}));
      const width = Math.abs(value) * unit;
      parts.push(svg("rect", { x: value < 0 ? zero - width : zero, y: top, width, height: 20, rx: 2, fill: last ? "var(--truth)" : "var(--muted)" }));
      parts.push(text(value < 0 ? zero - width - 6 : zero + width + 6, top + 15, digits(value), {
        class: "word number", "text-anchor": value < 0 ? "end" : "start", "data-number": key, "data-value": JSON.stringify(value), ...(last ? { "font-weight": 600 } : {}),
      }));
    });
    // An axis in pieces, so that it crosses no name.
    const axis = rows.map((_, i) => line(zero, 21 + i * 46, zero, 47 + i * 46, { stroke: "var(--ink)", "stroke-width": 1.5 }));
    const ticks = [-full, 0, full].map((value) => text(zero + value * unit, 212, short(value), { "text-anchor": "middle" }));
    bars.replaceChildren(line(zero - full * unit, 194, zero + full * unit, 194, { stroke: "var(--line)" }), ...axis, ...parts, ...ticks);
    set(bars, { "aria-label": rows.map(([name, value]) => `${name}: ${digits(value)}`).join("; ") });
  }

  // The two pulls and their sum, in the plane in which they lie; that of the policy points to the right.
  function drawPlane(found) {
    const { policy_pull: own, value_pull: value } = found;
    const cosine = own * value > 0 ? clamp(found.across / (own * value), -1, 1) : 0;
    const tip = [value * cosine, value * Math.sqrt(1 - cosine ** 2)];
    const ends = [["policy and entropy", [own, 0], "muted"], ["value loss", tip, "muted"], ["all", [own + tip[0], tip[1]], "truth"]];
    const all = [[0, 0], ...ends.map((end) => end[1])];
    const [left, right, top] = [Math.min(...all.map((p) => p[0])), Math.max(...all.map((p) => p[0])), Math.max(...all.map((p) => p[1]))];
    const unit = Math.min(126 / Math.max(top, 1e-9), 176 / Math.max(right - left, 1e-9));
    const [cx, cy] = [W / 2 - ((right + left) / 2) * unit, 150];
    const spot = ([px, py]) => [cx + px * unit, cy - py * unit];
    const parts = [];
    const [ox, oy] = spot([own, 0]), [vx, vy] = spot(tip), [bx, by] = spot(all[3]);
    parts.push(svg("path", { d: trace([[ox, oy], [bx, by], [vx, vy]]), fill: "none", stroke: "var(--faint)", "stroke-width": 1.5, "stroke-dasharray": "4 4" }));
    for (const [name, end, hue] of ends) {
      const [px, py] = spot(end), length = Math.hypot(px - cx, py - cy);
      if (length < 1.5) continue;
      parts.push(...arrow(cx, cy, px, py, { colour: `var(--${hue})`, width: name === "all" ? 4.5 : 3, head: Math.min(12, 0.7 * length) }));
    }
    // Names: below the policy's arrow, left of the value's, right of what all do together.
    if (own > 0) parts.push(text(Math.max(cx, 8), cy + 19, "policy and entropy"));
    if (value * unit > 14) parts.push(text(vx - 8, Math.max(vy + 4, 14), "value loss", { "text-anchor": "end" }));
    if (value * unit > 14 && own > 0) parts.push(text(bx + 8, Math.max(by + 4, 14), "all", { "font-weight": 600 }));
    plane.replaceChildren(...parts);
    set(plane, { "aria-label": `On a shared trunk, policy loss and entropy pull with ${digits(own)}, the value loss with ${digits(value)}; together they go ${found.turn === null ? "nowhere" : `${format(found.turn, 0)} degrees away from where policy and entropy alone would go`}.` });
  }

  function sentence({ turn, value_pull, policy_pull }, value_coef) {
    if (turn === null) return "Nothing pulls the policy here.";
    const ratio = value_pull / policy_pull, why = value_coef ? `: the value loss pulls ${format(ratio, ratio < 1 ? 2 : 1)} times as strongly as they do` : ", as nothing else pulls";
    return `The step turns ${format(turn, 0)}° away from where policy and entropy alone would go${why}. With two networks, each gray arrow would move its own weights, and nothing would turn the policy's.`;
  }

  function draw() {
    const [clip_eps, value_coef, entropy_coef] = NAMES.map((name) => stops[name][at[name]]);
    const found = now();
    drawBars(found, value_coef, entropy_coef);
    drawPlane(found);
    for (const name of Object.keys(facts)) {
      put(name, found[name], name === "turn" ? (found.turn === null ? "–" : `${format(found.turn, 0)}°`)
        : name.endsWith("fraction") ? format(found[name]) : digits(found[name]));
    }
    sliders.clip_eps.put(at.clip_eps, format(clip_eps));
    sliders.value_coef.put(at.value_coef, String(value_coef));
    sliders.entropy_coef.put(at.entropy_coef, String(entropy_coef));
    choose.value = at.batch;
    says.textContent = sentence(found, value_coef);
    say(`ε ${format(clip_eps)}, value coefficient ${value_coef}, entropy coefficient ${entropy_coef}: loss ${digits(found.loss)}. ${says.textContent}`);
  }

  const link = shared(model, [...NAMES, "batch"], (now) => move({ ...Object.fromEntries(NAMES.map((name) => [name, nearest(stops[name], now[name])])), batch: now.batch }));
  draw();
  return () => { close(); link.close(); };
}

export default { render };
