// E4. The three parts of PPO's loss on a recorded batch. The reader scales the rewards and moves the value coefficient:
// arrows show where the parts pull the weights of a shared trunk. The loss and the other weights stand behind a toggle.

const STYLE_OF_PARTS = `
  .parts .settings { display: grid; grid-template-columns: auto 1fr; align-items: center; gap: 0 14px; margin: 2px 0; }
  .parts .shown { font-weight: 600; display: inline-block; min-width: 3.1em; }
  .parts .panels { display: grid; grid-template-columns: 1fr 1fr; gap: 6px 24px; margin: 6px 0 0; align-items: start; }
  .parts .word { paint-order: stroke; stroke: var(--paper); stroke-width: 4px; stroke-linejoin: round; }
  .parts .facts { display: grid; grid-template-columns: repeat(2, 1fr); gap: 8px 16px; margin: 10px 0 0; }
  .parts .facts div { display: flex; flex-direction: column-reverse; justify-content: flex-end; }
  .parts .facts dt { color: var(--muted-text); font-size: 13.5px; }
  .parts .facts dd { margin: 0; font-size: 19px; font-weight: 600; }
  .parts .says { margin: 0; min-height: 4.5em; }
  @container (max-width: 560px) {
    .parts .settings { grid-template-columns: 1fr; }
    .parts .panels { grid-template-columns: 1fr; gap: 6px; }
    .parts .says { min-height: 6em; }
  }
`;

// The parts of the loss, from the samples; and the pulls on the trunk, from the scalar products of the parts' gradients.
function partsOf(batch, stops, clip_eps, value_coef, entropy_coef) {
  const count = batch.ratios.length, mean = (f) => batch.ratios.reduce((sum, _, i) => sum + f(i), 0) / count;
  const low = 1 - clip_eps, high = 1 + clip_eps;
  const policy_loss = -mean((i) => Math.min(batch.ratios[i] * batch.advantages[i], Math.min(Math.max(batch.ratios[i], low), high) * batch.advantages[i]));
  const value_loss = mean((i) => (batch.values[i] - batch.returns[i]) ** 2) / 2;
  const entropy = mean((i) => batch.entropy[i]);
  const above = (i) => batch.ratios[i] > high, below = (i) => batch.ratios[i] < low;
  const p = batch.products, k = stops.clip_eps.indexOf(clip_eps);
  // Policy loss and entropy; the value loss; all three.
  const own = p.policy_policy[k] - 2 * entropy_coef * p.policy_entropy[k] + entropy_coef ** 2 * p.entropy_entropy;
  const across = value_coef * (p.policy_value[k] - entropy_coef * p.value_entropy);
  const both = own + 2 * across + value_coef ** 2 * p.value_value;
  const turn = own > 0 && both > 0
    ? (Math.acos(Math.min(1, Math.max(-1, (own + across) / Math.sqrt(own * both)))) * 180) / Math.PI : null;
  return {
    policy_loss, value_loss, entropy, loss: policy_loss + value_coef * value_loss - entropy_coef * entropy,
    clip_fraction: mean((i) => (above(i) || below(i) ? 1 : 0)),
    flat_fraction: mean((i) => ((above(i) && batch.advantages[i] > 0) || (below(i) && batch.advantages[i] < 0) ? 1 : 0)),
    policy_pull: Math.sqrt(Math.max(own, 0)), value_pull: value_coef * Math.sqrt(p.value_value), across,
    both_pull: Math.sqrt(Math.max(both, 0)), turn,
  };
}

function render({ model, el }) {
  const { root, say, close } = stage(el, "parts", STYLE_OF_PARTS);
  root.setAttribute("aria-label", "Interactive figure: the parts of PPO's loss");
  const NAMES = ["clip_eps", "value_coef", "entropy_coef"];
  const stops = model.get("stops"), batches = model.get("batches");
  const nearest = (list, value) => list.reduce((best, entry, i) => (Math.abs(entry - value) < Math.abs(list[best] - value) ? i : best), 0);
  const at = Object.fromEntries(NAMES.map((name) => [name, nearest(stops[name], model.get(name))]));
  at.batch = model.get("batch");
  let telling = false;

  // Controls
  const shown = {}, sliders = {};
  const control = (name, words) => {
    shown[name] = html("span", { class: "number shown" });
    sliders[name] = html("input", { type: "range", id: name, min: 0, max: stops[name].length - 1, step: 1, oninput: (event) => move({ [name]: Number(event.target.value) }) });
    return [html("span", {}, html("label", { for: name }, words), " ", shown[name]), sliders[name]];
  };
  // The answer holds for the coefficients at the start.
  const start = Object.fromEntries(NAMES.map((name) => [name, stops[name][at[name]]]));
  const turned = batches.map((batch) => format(partsOf(batch, stops, ...Object.values(start)).turn, 0));
  const guess = prediction("If the rewards were ten times as large, would a shared trunk still go where the policy pulls? Then choose larger rewards.",
    ["Yes", "Nearly", "No"], 2,
    `The advantages are normalized, but the critic's errors grow with the rewards. With the coefficients at the start, the step turns by ${turned[1]}° instead of ${turned[0]}°.`);
  const choose = html("select", { id: "batch", onchange: () => move({ batch: Number(choose.value) }) },
    ...batches.map((batch, i) => html("option", { value: i }, batch.name)));

  const W = 340;
  const bars = svg("svg", { viewBox: `0 0 ${W} 228`, role: "img" });
  const plane = svg("svg", { viewBox: `0 0 ${W} 176`, role: "img" });
  const { facts, fact } = numberList();
  const says = html("p", { class: "says" });

  root.prepend(
    guess.node,
    html("div", { class: "row" }, html("label", { for: "batch" }, "A batch with"), choose),
    html("div", { class: "settings" }, ...control("value_coef", "Value coefficient")),
    html("div", { class: "panels" }, html("div", {}, html("div", { class: "title" }, "Pulls on a shared trunk"), plane), says),
    behind("The loss itself, ε, the entropy coefficient and all numbers",
      html("div", { class: "settings" }, ...control("clip_eps", "Clip ε"), ...control("entropy_coef", "Entropy coefficient")),
      html("div", { class: "panels" },
        html("div", {}, html("div", { class: "title" }, "What each part adds to the loss"), bars),
        html("dl", { class: "facts" },
          fact("policy_pull", "pull of policy, entropy"), fact("value_pull", "pull of value loss"), fact("turn", "turned by"),
          fact("clip_fraction", "clip_fraction"), fact("flat_fraction", "flat_fraction")))));

  const now = () => partsOf(batches[at.batch], stops, ...NAMES.map((name) => stops[name][at[name]]));
  // As many digits as make a number of this size readable.
  const digits = (value) => format(value, Math.abs(value) >= 10 ? 1 : Math.abs(value) >= 1 ? 2 : Math.abs(value) >= 0.01 || value === 0 ? 3 : 5);
  const coefText = (value) => String(value);

  function move(changes) {
    Object.assign(at, changes);
    for (const name of NAMES) at[name] = Math.min(Math.max(at[name], 0), stops[name].length - 1);
    draw();
    if (at.batch === 1) guess.moved();
    telling = true;
    for (const name of NAMES) model.set(name, stops[name][at[name]]);
    model.set("batch", at.batch);
    model.set("parts", now());
    model.save_changes();
    telling = false;
  }

  const line = (x1, y1, x2, y2, more) => svg("line", { x1, y1, x2, y2, ...more });
  const text = (x, y, content, more) => svg("text", { x, y, class: "word", "font-size": 14.5, ...more }, content);

  function drawBars(found, value_coef, entropy_coef) {
    const rows = [
      ["policy loss", found.policy_loss, "policy_loss"],
      [`${coefText(value_coef)} × value loss`, value_coef * found.value_loss, "value_part"],
      [`−${coefText(entropy_coef)} × entropy`, -entropy_coef * found.entropy, "entropy_part"],
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
    const ticks = [-full, 0, full].map((value) => text(zero + value * unit, 212, String(value).replace("-", "−"), { "text-anchor": "middle", "font-size": 13 }));
    bars.replaceChildren(line(zero - full * unit, 194, zero + full * unit, 194, { stroke: "var(--line)" }), ...axis, ...parts, ...ticks);
    set(bars, { "aria-label": rows.map(([name, value]) => `${name}: ${digits(value)}`).join("; ") });
  }

  // The two pulls and their sum, in the plane in which they lie; that of the policy points to the right.
  function drawPlane(found) {
    const { policy_pull: own, value_pull: value } = found;
    const cosine = own * value > 0 ? Math.min(1, Math.max(-1, found.across / (own * value))) : 0;
    const tip = [value * cosine, value * Math.sqrt(1 - cosine ** 2)];
    const ends = [["policy and entropy", [own, 0], "muted"], ["value loss", tip, "muted"], ["all", [own + tip[0], tip[1]], "truth"]];
    const all = [[0, 0], ...ends.map((end) => end[1])];
    const [left, right, top] = [Math.min(...all.map((p) => p[0])), Math.max(...all.map((p) => p[0])), Math.max(...all.map((p) => p[1]))];
    const unit = Math.min(126 / Math.max(top, 1e-9), 176 / Math.max(right - left, 1e-9));
    const [cx, cy] = [W / 2 - ((right + left) / 2) * unit, 150];
    const spot = ([px, py]) => [cx + px * unit, cy - py * unit];
    const parts = [];
    const [ox, oy] = spot([own, 0]), [vx, vy] = spot(tip), [bx, by] = spot(all[3]);
    parts.push(svg("path", { d: `M${ox} ${oy}L${bx} ${by}L${vx} ${vy}`, fill: "none", stroke: "var(--faint)", "stroke-width": 1.5, "stroke-dasharray": "4 4" }));
    for (const [name, end, hue] of ends) {
      const [px, py] = spot(end), length = Math.hypot(px - cx, py - cy);
      if (length < 1.5) continue;
      const [ux, uy] = [(px - cx) / length, (py - cy) / length], head = Math.min(12, 0.7 * length);
      const [hx, hy] = [px - ux * head, py - uy * head];
      const thick = name === "all" ? 4.5 : 3;
      parts.push(line(cx, cy, hx, hy, { stroke: `var(--${hue})`, "stroke-width": thick }));
      parts.push(svg("path", { d: `M${px} ${py}L${hx - uy * head * 0.55} ${hy + ux * head * 0.55}L${hx + uy * head * 0.55} ${hy - ux * head * 0.55}Z`, fill: `var(--${hue})` }));
    }
    // Names: below the policy's arrow, left of the value's, right of what all do together.
    if (own > 0) parts.push(text(Math.max(cx, 8), cy + 19, "policy and entropy"));
    if (value * unit > 14) parts.push(text(vx - 8, Math.max(vy + 4, 14), "value loss", { "text-anchor": "end" }));
    if (value * unit > 14 && own > 0) parts.push(text(bx + 8, Math.max(by + 4, 14), "all", { "font-weight": 600 }));
    plane.replaceChildren(...parts);
    set(plane, { "aria-label": `On a shared trunk, policy loss and entropy pull with ${digits(own)}, the value loss with ${digits(value)}; together they go ${found.turn === null ? "nowhere" : `${format(found.turn, 0)} degrees away from where policy and entropy alone would go`}.` });
  }

  function draw() {
    const [clip_eps, value_coef, entropy_coef] = NAMES.map((name) => stops[name][at[name]]);
    const found = now();
    drawBars(found, value_coef, entropy_coef);
    drawPlane(found);
    for (const [name, node] of Object.entries(facts)) {
      node.dataset.value = JSON.stringify(found[name]);
      node.textContent = name === "turn" ? (found.turn === null ? "–" : `${format(found.turn, 0)}°`)
        : name.endsWith("fraction") ? format(found[name]) : digits(found[name]);
    }
    for (const [name, value] of [["clip_eps", clip_eps], ["value_coef", value_coef], ["entropy_coef", entropy_coef]]) {
      const words = name === "clip_eps" ? format(value) : coefText(value);
      sliders[name].value = at[name];
      shown[name].textContent = words;
      sliders[name].setAttribute("aria-valuetext", words);
    }
    choose.value = String(at.batch);
    says.textContent = found.turn === null ? "Nothing pulls the policy here."
      : `The step turns ${format(found.turn, 0)}° away from where policy and entropy alone would go`
        + `${value_coef ? `: the value loss pulls ${format(found.value_pull / found.policy_pull, found.value_pull < found.policy_pull ? 2 : 1)} times as strongly as they do` : ", as nothing else pulls"}. `
        + "With two networks, each gray arrow would move its own weights, and nothing would turn the policy's.";
    say(`ε ${format(clip_eps)}, value coefficient ${coefText(value_coef)}, entropy coefficient ${coefText(entropy_coef)}: loss ${digits(found.loss)}. ${says.textContent}`);
  }

  // Python may move it too, in JupyterLab.
  const follow = () => {
    if (telling) return;
    move({ ...Object.fromEntries(NAMES.map((name) => [name, nearest(stops[name], model.get(name))])), batch: model.get("batch") });
  };
  for (const name of [...NAMES, "batch"]) model.on(`change:${name}`, follow);
  draw();
  return () => { close(); for (const name of [...NAMES, "batch"]) model.off(`change:${name}`, follow); };
}

export default { render };
