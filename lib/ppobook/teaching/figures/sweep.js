// E6. What λ trades. The reader slides λ and chooses a critic: the weights on the n-step returns, and the squared bias, the
// variance and their sum in a world whose true values are known. γ and the numbers are folded.

const STYLE_OF_SWEEP = `
  .sweep .shown { min-width: 3.1em; }
  @container (max-width: 560px) {
    .sweep .settings, .sweep .panels { margin: 0; }
    .sweep .row { gap: 6px 8px; }
    .sweep .row button, .sweep .row select { font-size: 13.5px; padding: 4px 8px; }
    .sweep .says { margin: 4px 0 0; }
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

const SAYS_OF_LEAST = {
  least: "This is the least sum: a smaller λ would take more bias from the critic, a larger one more variance from the rewards.",
  first: "This is the least sum: this critic is so good that one reward and its word are the best estimate.",
  last: "This is the least sum: this critic is so wrong that it is best not to listen to it.",
};

// λ has two decimals, or three where it needs them.
const lambdaText = (lam) => format(lam, Math.abs(lam * 100 - Math.round(lam * 100)) < 1e-9 ? 2 : 3);

function render({ model, el }) {
  const { root, say, close } = stage(el, "sweep", STYLE_OF_SWEEP, "Interactive figure: what λ trades");
  const gammas = model.get("gammas"), lambdas = model.get("lambdas"), bars = model.get("bars");
  const critics = model.get("critics").map((critic) => ({
    name: critic.name, squared_bias: critic.squared_bias.map(numbersOf), variance: critic.variance.map(numbersOf),
  }));
  const at = { g: nearest(gammas, model.get("gamma")), l: nearest(lambdas, model.get("lam")), critic: model.get("critic") };

  // Controls
  const lamSlider = slider("lam", "λ", [0, lambdas.length - 1], (l) => move({ l }));
  const gammaSlider = slider("gamma", "γ", [0, gammas.length - 1], (g) => move({ g }));
  const choose = choice("critic", critics.map(({ name }) => name), (critic) => { move({ critic }); guess.moved(); });
  const button = html("button", { type: "button", onclick: () => move({ l: best() }) }, "To the least sum");

  const W = 340, H = 164, P = { left: 46, right: 332, top: 14, bottom: 124 };
  const weights = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img" });
  const curves = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img" });
  draggable(curves, (px) => move({ l: nearest(lambdas, (px - P.left) / (P.right - P.left)) }));

  const { fact, put } = numberList();
  const says = html("p", { class: "says", "data-room": longest(Object.values(SAYS_OF_LEAST)) });
  const guess = prediction({
    asks: "A wrong critic takes the place of a right one. Which way does the λ with the least error move?",
    options: ["Down", "Up", "It stays"], right: 1,
    answer: "A larger λ asks the critic later, and so less: with each of the wrong critics, the least sum is at a larger λ than with the right one.",
  });

  root.prepend(
    guess.node,
    html("div", { class: "row" }, html("label", { for: "critic" }, "Critic"), choose),
    html("div", { class: "settings sticky" }, ...lamSlider.parts),
    html("div", { class: "panels" },
      html("div", {},
        html("div", { class: "title" }, "Weights of the n-step returns"), weights),
      html("div", {},
        html("div", { class: "title" }, "Error of the advantage, against λ"), curves)),
    says,
    behind("Numbers and γ", html("div", { class: "settings" }, ...gammaSlider.parts), button, html("dl", { class: "facts" },
      fact("squared_bias", "bias²"), fact("variance", "variance"), fact("sum", "sum"),
      fact("best", "least sum at λ"), fact("reach", "reach 1/(1 − γλ)"))));

  const part = (name) => critics[at.critic][name][at.g];
  const sums = () => part("squared_bias").map((value, i) => value + part("variance")[i]);
  const best = () => { const all = sums(); return all.indexOf(Math.min(...all)); };

  function move(changes) {
    for (const [key, value] of Object.entries(changes)) {
      at[key] = clamp(value, 0, { g: gammas, l: lambdas, critic: critics }[key].length - 1);
    }
    draw();
    link.tell({
      gamma: gammas[at.g], lam: lambdas[at.l], critic: at.critic,
      errors: { squared_bias: part("squared_bias")[at.l], variance: part("variance")[at.l] },
    });
  }

  function drawWeights(lam, reach) {
    const all = weightsOf(lam, bars), slot = (P.right - P.left) / all.length;
    const y = (value) => P.bottom - value * (P.bottom - P.top);
    const middle = (k) => P.left + (k + 0.5) * slot;
    const parts = yAxis(P, y, [0, 0.5, 1]);
    all.forEach((weight, k) => parts.push(svg("rect", {
      x: middle(k) - slot * 0.36, width: slot * 0.72, y: y(weight), height: Math.max(0, P.bottom - y(weight)), fill: k === bars ? "var(--muted)" : "var(--ink)", rx: 1.5,
    })));
    parts.push(...xAxis(P, (n) => middle(n - 1), [1, 3, 5, 7, 9, 11], "n"), text(middle(bars) + 6, P.bottom + 18, `${bars + 1}+`, { "text-anchor": "end" }));
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
    const top = Math.max(highest * 1.06, roundStep(highest));
    const x = (value) => P.left + value * (P.right - P.left), y = (value) => P.bottom - (value / top) * (P.bottom - P.top);
    const parts = [...yAxis(P, y, multiples(0, top)), ...xAxis(P, x, multiples(0, 1), "λ")];
    const path = (values, more) => svg("path", { d: trace(values.map((value, i) => [x(lambdas[i]), y(value)])), fill: "none", ...more });
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
    parts.push(dot(px, y(all[at.l]), 8, "truth"));
    curves.replaceChildren(...parts);
    set(curves, { "aria-label": `Squared bias, variance and their sum against λ. The bias falls from ${format(bias[0], 3)} to ${format(bias[end], 3)}, the variance grows from ${format(variance[0], 3)} to ${format(variance[end], 3)}; the sum is least, ${format(Math.min(...all), 3)}, at λ = ${lambdaText(lambdas[best()])}.` });
  }

  function draw() {
    const lam = lambdas[at.l], gamma = gammas[at.g], reach = reachOf(gamma, lam), all = sums(), least = best();
    drawWeights(lam, reach);
    drawCurves();
    for (const name of ["squared_bias", "variance"]) put(name, part(name)[at.l], format(part(name)[at.l], 4));
    put("sum", all[at.l], format(all[at.l], 4));
    put("best", lambdas[least], lambdaText(lambdas[least]));
    put("reach", reach, reach === null ? "no end" : format(reach, 1));
    lamSlider.put(at.l, lambdaText(lam));
    gammaSlider.put(at.g, format(gamma));
    choose.value = at.critic;
    const ratio = all[at.l] / all[least];
    says.textContent = at.l === least
      ? SAYS_OF_LEAST[least === 0 ? "first" : least === lambdas.length - 1 ? "last" : "least"]
      : `${format(ratio, ratio < 9.95 ? 1 : 0)} times the least sum. ${at.l < least ? "A larger λ would save bias: the estimate leans on the critic." : "A smaller λ would save variance: the estimate leans on rewards far ahead."}`;
    say(`λ ${lambdaText(lam)}, γ ${format(gamma)}: squared bias ${format(part("squared_bias")[at.l], 4)}, variance ${format(part("variance")[at.l], 4)}. ${says.textContent}`);
  }

  const link = shared(model, ["gamma", "lam", "critic"], ({ gamma, lam, critic }) => move({ g: nearest(gammas, gamma), l: nearest(lambdas, lam), critic }));
  draw();
  return () => { close(); link.close(); };
}

export default { render };
