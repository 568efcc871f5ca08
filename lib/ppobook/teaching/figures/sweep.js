// E6. What λ trades. The reader slides λ and chooses a critic: the weights on the n-step returns, and the squared bias, the
// variance and their sum in a world whose true values are known. γ and the numbers are folded.

const STYLE_OF_SWEEP = `
  .sweep .settings { display: grid; grid-template-columns: auto 1fr; align-items: center; gap: 0 14px; margin: 6px 0; }
  .sweep .shown { font-weight: 600; display: inline-block; min-width: 3.1em; }
  .sweep .panels { display: grid; grid-template-columns: 1fr 1fr; gap: 6px 24px; margin: 10px 0 0; }
  .sweep .curves { cursor: ew-resize; touch-action: pan-y; }
  .sweep .word { paint-order: stroke; stroke: var(--paper); stroke-width: 4px; stroke-linejoin: round; }
  .sweep .facts { display: grid; grid-template-columns: repeat(5, auto); gap: 8px 16px; margin: 10px 0 0; }
  .sweep .facts div { display: flex; flex-direction: column-reverse; justify-content: flex-end; }
  .sweep .facts dt { color: var(--muted-text); font-size: 13.5px; }
  .sweep .facts dd { margin: 0; font-size: 19px; font-weight: 600; }
  .sweep .says { margin: 10px 0 0; min-height: 3em; }
  @container (max-width: 560px) {
    .sweep .settings { margin: 0; }
    .sweep .row { gap: 6px 8px; }
    .sweep .row button, .sweep .row select { font-size: 13.5px; padding: 4px 8px; }
    .sweep .panels { grid-template-columns: 1fr; margin: 0; gap: 4px; }
    .sweep .facts { grid-template-columns: repeat(3, 1fr); }
    .sweep .says { margin: 4px 0 0; min-height: 4.4em; }
  }
`;

// The weights of the n-step returns, n = 1, 2, …: so many, and then what is left for all later ones.
function weightsOf(lam, bars) {
  return [...Array.from({ length: bars }, (_, k) => (1 - lam) * lam ** k), lam ** bars];
}
// How many steps ahead GAE looks: the sum of (γλ)^k. Null where it has no end.
function reachOf(gamma, lam) {
  return gamma * lam < 1 ? 1 / (1 - gamma * lam) : null;
}

// λ has two decimals, or three where it needs them.
const lambdaText = (lam) => format(lam, Math.abs(lam * 100 - Math.round(lam * 100)) < 1e-9 ? 2 : 3);

function render({ model, el }) {
  const { root, say, close } = stage(el, "sweep", STYLE_OF_SWEEP);
  root.setAttribute("aria-label", "Interactive figure: what λ trades");
  const gammas = model.get("gammas"), lambdas = model.get("lambdas"), bars = model.get("bars");
  const numbers = (rows) => rows.map((row) => row.split(" ").map(Number));
  const critics = model.get("critics").map((critic) => ({
    name: critic.name, squared_bias: numbers(critic.squared_bias), variance: numbers(critic.variance),
  }));
  const nearest = (list, value) => list.reduce((best, entry, i) => (Math.abs(entry - value) < Math.abs(list[best] - value) ? i : best), 0);
  const at = { g: nearest(gammas, model.get("gamma")), l: nearest(lambdas, model.get("lam")), critic: model.get("critic") };
  let telling = false;

  // Controls
  const shown = {}, sliders = {};
  const control = (name, words, key, list) => {
    shown[name] = html("span", { class: "number shown" });
    sliders[name] = html("input", { type: "range", id: name, min: 0, max: list.length - 1, step: 1, oninput: (event) => move({ [key]: Number(event.target.value) }) });
    return [html("span", {}, html("label", { for: name }, words), " ", shown[name]), sliders[name]];
  };
  const choose = html("select", { id: "critic", onchange: () => { move({ critic: Number(choose.value) }); guess.moved(); } },
    ...critics.map((critic, i) => html("option", { value: i }, critic.name)));
  const button = html("button", { type: "button", onclick: () => move({ l: best() }) }, "To the least sum");

  const W = 340, H = 164, P = { left: 46, right: 332, top: 14, bottom: 124 };
  const weights = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img" });
  const curves = svg("svg", { viewBox: `0 0 ${W} ${H}`, class: "curves", role: "img" });
  const drag = (event) => {
    const box = curves.getBoundingClientRect();
    const value = (((event.clientX - box.left) / box.width) * W - P.left) / (P.right - P.left);
    move({ l: nearest(lambdas, value) });
  };
  curves.addEventListener("pointerdown", (event) => { curves.setPointerCapture(event.pointerId); drag(event); });
  curves.addEventListener("pointermove", (event) => { if (curves.hasPointerCapture(event.pointerId)) drag(event); });

  const { facts, fact } = numberList();
  const says = html("p", { class: "says" });
  const guess = prediction("A wrong critic takes the place of a right one. Which way does the λ with the least error move?",
    ["Down", "Up", "It stays"], 1,
    "A larger λ asks the critic later, and so less: with each of the wrong critics, the least sum is at a larger λ than with the right one.");

  root.prepend(
    guess.node,
    html("div", { class: "row" }, html("label", { for: "critic" }, "Critic"), choose),
    html("div", { class: "settings sticky" }, ...control("lam", "λ", "l", lambdas)),
    html("div", { class: "panels" },
      html("div", {},
        html("div", { class: "title" }, "Weights of the n-step returns"), weights),
      html("div", {},
        html("div", { class: "title" }, "Error of the advantage, against λ"), curves)),
    says,
    behind("Numbers and γ", html("div", { class: "settings" }, ...control("gamma", "γ", "g", gammas)), button, html("dl", { class: "facts" },
      fact("squared_bias", "bias²"), fact("variance", "variance"), fact("sum", "sum"),
      fact("best", "least sum at λ"), fact("reach", "reach 1/(1 − γλ)"))));

  const part = (name) => critics[at.critic][name][at.g];
  const sums = () => part("squared_bias").map((value, i) => value + part("variance")[i]);
  const best = () => { const all = sums(); return all.indexOf(Math.min(...all)); };

  function move(changes) {
    for (const [key, value] of Object.entries(changes)) {
      at[key] = Math.min(Math.max(value, 0), { g: gammas, l: lambdas, critic: critics }[key].length - 1);
    }
    draw();
    telling = true;
    model.set("gamma", gammas[at.g]);
    model.set("lam", lambdas[at.l]);
    model.set("critic", at.critic);
    model.set("errors", { squared_bias: part("squared_bias")[at.l], variance: part("variance")[at.l] });
    model.save_changes();
    telling = false;
  }

  const line = (x1, y1, x2, y2, more) => svg("line", { x1, y1, x2, y2, ...more });
  const text = (x, y, content, more) => svg("text", { x, y, class: "word", "font-size": 14, ...more }, content);

  function drawWeights(lam, reach) {
    const all = weightsOf(lam, bars), slot = (P.right - P.left) / all.length;
    const y = (value) => P.bottom - value * (P.bottom - P.top);
    const middle = (k) => P.left + (k + 0.5) * slot;
    const parts = [];
    for (const value of [0, 0.5, 1]) {
      parts.push(line(P.left, y(value), P.right, y(value), { stroke: value ? "var(--faint)" : "var(--line)" }));
      parts.push(text(P.left - 7, y(value) + 5, format(value, value % 1 ? 1 : 0), { "text-anchor": "end" }));
    }
    all.forEach((weight, k) => parts.push(svg("rect", {
      x: middle(k) - slot * 0.36, width: slot * 0.72, y: y(weight), height: Math.max(0, P.bottom - y(weight)), fill: k === bars ? "var(--muted)" : "var(--ink)", rx: 1.5,
    })));
    for (const k of [0, 2, 4, 6, 8, 10]) parts.push(text(middle(k), P.bottom + 19, String(k + 1), { "text-anchor": "middle" }));
    parts.push(text(middle(bars) + 6, P.bottom + 19, `${bars + 1}+`, { "text-anchor": "end" }));
    parts.push(text((P.left + P.right) / 2, P.bottom + 36, "n", { "text-anchor": "middle" }));
    // The reach, where the axis has room for it.
    const word = `reach ${reach === null ? "without end" : format(reach, 1)}`;
    if (reach !== null && reach <= bars) {
      const px = middle(reach - 1);
      parts.push(line(px, P.top + 18, px, P.bottom, { stroke: "var(--ink)", "stroke-width": 1.5, "stroke-dasharray": "4 4" }));
      parts.push(text(px, P.top + 12, word, { "text-anchor": px > W - 90 ? "end" : px < 100 ? "start" : "middle" }));
    } else parts.push(text(P.right, P.top + 12, `${word} →`, { "text-anchor": "end" }));
    weights.replaceChildren(...parts);
    set(weights, { "aria-label": `Weights of the n-step returns: ${all.slice(0, 4).map((weight, k) => `n = ${k + 1}: ${format(weight)}`).join(", ")}, and so on; all from n = ${bars + 1} on: ${format(all[bars])}.` });
  }

  function drawCurves() {
    const bias = part("squared_bias"), variance = part("variance"), all = sums();
    const highest = Math.max(...all);
    const tick = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5].find((size) => highest / size <= 5) ?? highest / 4;
    const top = Math.max(highest * 1.06, tick);
    const x = (value) => P.left + value * (P.right - P.left), y = (value) => P.bottom - (value / top) * (P.bottom - P.top);
    const parts = [];
    for (let k = 0; k * tick <= top; k++) {
      parts.push(line(P.left, y(k * tick), P.right, y(k * tick), { stroke: k ? "var(--faint)" : "var(--line)" }));
      parts.push(text(P.left - 7, y(k * tick) + 5, k ? format(k * tick, tick < 0.01 ? 3 : tick < 0.1 ? 2 : 1) : "0", { "text-anchor": "end" }));
    }
    for (const value of [0, 0.2, 0.4, 0.6, 0.8, 1]) parts.push(text(x(value), P.bottom + 19, format(value, value % 1 ? 1 : 0), { "text-anchor": "middle" }));
    parts.push(text((P.left + P.right) / 2, P.bottom + 36, "λ", { "text-anchor": "middle" }));
    const path = (values, more) => svg("path", { d: values.map((value, i) => `${i ? "L" : "M"}${x(lambdas[i]).toFixed(2)} ${y(value).toFixed(2)}`).join(""), fill: "none", ...more });
    parts.push(line(x(lambdas[at.l]), P.top, x(lambdas[at.l]), P.bottom, { stroke: "var(--ink)", "stroke-width": 1, "stroke-dasharray": "1 3" }));
    parts.push(path(bias, { stroke: "var(--muted)", "stroke-width": 2.5, "stroke-dasharray": "7 5" }));
    parts.push(path(variance, { stroke: "var(--muted)", "stroke-width": 3, "stroke-dasharray": "1.5 4.5", "stroke-linecap": "round" }));
    parts.push(path(all, { stroke: "var(--truth)", "stroke-width": 4 }));
    // Each name where its curve is far from the other part.
    const name = (content, values, i, more) => text(x(lambdas[i]), y(values[i]) - 9, content, more);
    const end = lambdas.length - 1;
    const heavy = bias[0] > 0.04 * top;
    if (heavy) parts.push(text(x(lambdas[2]), y(bias[2]) + 22, "bias²"), name("variance", variance, 5));
    else parts.push(text(x(0.645), y(0) - 4, "bias²"), text(P.right, y(variance[17]) + 17, "variance", { "text-anchor": "end" }));
    parts.push(name("sum", all, heavy ? 4 : 15, { "font-weight": 600, "text-anchor": heavy ? "start" : "end" }));
    const px = x(lambdas[at.l]);
    for (const values of [bias, variance]) parts.push(svg("circle", { cx: px, cy: y(values[at.l]), r: 4.5, fill: "var(--muted)" }));
    parts.push(svg("circle", { cx: px, cy: y(all[at.l]), r: 8, fill: "var(--truth)", stroke: "var(--paper)", "stroke-width": 2 }));
    curves.replaceChildren(...parts);
    set(curves, { "aria-label": `Squared bias, variance and their sum against λ. The bias falls from ${format(bias[0], 3)} to ${format(bias[end], 3)}, the variance grows from ${format(variance[0], 3)} to ${format(variance[end], 3)}; the sum is least, ${format(Math.min(...all), 3)}, at λ = ${lambdaText(lambdas[best()])}.` });
  }

  function draw() {
    const lam = lambdas[at.l], gamma = gammas[at.g], reach = reachOf(gamma, lam), all = sums(), least = best();
    drawWeights(lam, reach);
    drawCurves();
    const put = (name, value, words) => { facts[name].dataset.value = JSON.stringify(value); facts[name].textContent = words; };
    for (const name of ["squared_bias", "variance"]) put(name, part(name)[at.l], format(part(name)[at.l], 4));
    put("sum", all[at.l], format(all[at.l], 4));
    put("best", lambdas[least], lambdaText(lambdas[least]));
    put("reach", reach, reach === null ? "no end" : format(reach, 1));
    shown.lam.textContent = lambdaText(lam);
    shown.gamma.textContent = format(gamma);
    sliders.lam.value = at.l;
    sliders.gamma.value = at.g;
    set(sliders.lam, { "aria-valuetext": lambdaText(lam) });
    set(sliders.gamma, { "aria-valuetext": format(gamma) });
    choose.value = String(at.critic);
    const ratio = all[at.l] / all[least];
    says.textContent = at.l === least
      ? `This is the least sum: a smaller λ would take more bias from the critic, a larger one more variance from the rewards.`
      : `${format(ratio, ratio < 9.95 ? 1 : 0)} times the least sum. ${at.l < least ? "A larger λ would save bias: the estimate leans on the critic." : "A smaller λ would save variance: the estimate leans on rewards far ahead."}`;
    if (at.l === least && least === 0) says.textContent = "This is the least sum: this critic is so good that one reward and its word are the best estimate.";
    if (at.l === least && least === lambdas.length - 1) says.textContent = "This is the least sum: this critic is so wrong that it is best not to listen to it.";
    say(`λ ${lambdaText(lam)}, γ ${format(gamma)}: squared bias ${format(part("squared_bias")[at.l], 4)}, variance ${format(part("variance")[at.l], 4)}. ${says.textContent}`);
  }

  // Python may move it too, in JupyterLab.
  const NAMES = ["gamma", "lam", "critic"];
  const follow = () => {
    if (telling) return;
    move({ g: nearest(gammas, model.get("gamma")), l: nearest(lambdas, model.get("lam")), critic: model.get("critic") });
  };
  for (const name of NAMES) model.on(`change:${name}`, follow);
  draw();
  return () => { close(); for (const name of NAMES) model.off(`change:${name}`, follow); };
}

export default { render };
