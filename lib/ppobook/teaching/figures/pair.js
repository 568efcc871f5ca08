// One pair of texts that DPO moves apart. The reader guesses, moves the pair, and sees where the probability of all six
// texts goes. The small form has one pair, one policy and the bars.

const STYLE_OF_PAIR = `
  .pair.small .panels { grid-template-columns: minmax(0, 380px); justify-content: center; }
  @container (max-width: 560px) { .pair .settings, .pair.small .panels { grid-template-columns: 1fr; } }
`;

// The policy once the pair is h apart: along the one shared parameter, or by the two logits of the pair.
function policyOf(ref, kind, [chosen, rejected], h, shared) {
  const moves = ref.map((_, y) => (shared ? (h / (kind[chosen] - kind[rejected])) * kind[y] : y === chosen ? h / 2 : y === rejected ? -h / 2 : 0));
  const logits = ref.map((p, y) => Math.log(p) + moves[y]), top = Math.max(...logits);
  const sum = logits.reduce((total, logit) => total + Math.exp(logit - top), 0);
  return logits.map((logit) => Math.exp(logit - top) / sum);
}

function render({ model, el }) {
  const { root, say, close } = stage(el, "pair", STYLE_OF_PAIR, "Interactive figure: where probability goes when DPO moves a pair apart");
  const [ref, kind, gold, pairs, hs, betas] = ["ref", "kind", "gold", "pairs", "hs", "betas"].map((name) => model.get(name));
  const at = { pair: model.get("pair"), shared: model.get("shared"), h: nearest(hs, model.get("h")), beta: nearest(betas, model.get("beta")) };
  const small = model.get("small");
  root.classList.toggle("small", small);

  const hSlider = slider("h", small ? "Moved apart, in nats" : "Distance h", [0, hs.length - 1], (h) => move({ h }));
  const betaSlider = slider("beta", "β", [0, betas.length - 1], (beta) => move({ beta }));
  const choosePair = choice("pair", pairs.map(([chosen, rejected]) => `${kind[chosen]} over ${kind[rejected]} kind words`), (pair) => move({ pair }));
  const choosePolicy = choice("policy", ["one θ for all texts", "a logit for each text"], (own) => move({ shared: !own }));

  const guess = prediction(small ? {
    asks: "DPO moves these two texts apart, the chosen one above the rejected one. What happens to the probability of the chosen text?",
    options: ["It climbs", "It falls"], right: 1,
    answer: "It falls, only less than that of the rejected text. The texts that gain are not in the pair.",
  } : {
    asks: "People chose 3 kind words over none, and one θ moves all texts. Does the chosen text become less probable?",
    todo: "Choose that pair, and move it apart.", options: ["At once", "Only later", "Never"], right: 1,
    answer: "It falls once the policy's texts have more than 3 kind words on average.",
  });

  const W = 340, H = small ? 186 : 212, P = { left: 34, right: W - 6, top: 18, bottom: H - 40 };
  const bars = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img" });
  const curves = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img" });
  const { facts, fact, put } = numberList();
  const meanWords = (mean, chosen) => `The policy's texts have ${format(mean, 1)} kind words on average, and the chosen text has ${kind[chosen]}.`;
  const FALLS = " So here, the chosen text falls as well.";
  const says = html("p", { class: "says", "data-room": meanWords(0, 0) + FALLS });

  const heading = (title, more) => [html("div", { class: "title" }, title), html("div", { class: "quiet" }, more)];
  const chosenBars = html("div", {}, ...heading("Probability of each text", "by kind words; dotted: the reference"), bars);
  const distance = html("div", { class: "settings sticky" }, ...hSlider.parts);
  if (small) root.prepend(guess.node, distance, html("div", { class: "panels" }, chosenBars), says);
  else root.prepend(
    guess.node,
    html("div", { class: "row" }, html("label", { for: "pair" }, "People chose"), choosePair, html("label", { for: "policy" }, "Policy"), choosePolicy),
    distance,
    html("div", { class: "panels" }, chosenBars,
      html("div", {}, ...heading("Change of log π", "against the distance h, in nats"), curves)),
    says,
    behind("Numbers", html("div", { class: "settings" }, ...betaSlider.parts), html("dl", { class: "facts" },
      fact("chosen", "chosen, nats"), fact("rejected", "rejected, nats"), fact("elsewhere", "on other texts"),
      fact("gold", "mean gold"), fact("choice", "σ(βh)"), fact("weight", "weight βσ(−βh)"))));

  const policyAt = (h) => policyOf(ref, kind, pairs[at.pair], h, at.shared);
  const change = (h) => { const p = policyAt(h); return pairs[at.pair].map((y) => Math.log(p[y]) - Math.log(ref[y])); };
  function now() {
    const h = hs[at.h], beta = betas[at.beta], p = policyAt(h), [chosen, rejected] = change(h);
    const choice = 1 / (1 + Math.exp(-beta * (chosen - rejected)));
    return {
      chosen, rejected, elsewhere: 1 - pairs[at.pair].reduce((sum, y) => sum + p[y], 0),
      gold: p.reduce((sum, q, y) => sum + q * gold[y], 0), choice, weight: beta * (1 - choice),
    };
  }

  function move(changes) {
    Object.assign(at, changes);
    draw();
    if (small ? hs[at.h] >= 0.5 : at.pair === 2 && at.shared && hs[at.h] >= 6) guess.moved();
    link.tell({ ...at, h: hs[at.h], beta: betas[at.beta], moved: now() });
  }

  const hue = (y) => (y === pairs[at.pair][0] ? "good" : y === pairs[at.pair][1] ? "bad" : "muted");

  function drawBars(p) {
    const slot = (P.right - P.left) / p.length, y = (value) => P.bottom - value * (P.bottom - P.top);
    const parts = yAxis(P, y, [0, 0.5, 1]);
    p.forEach((value, k) => {
      const x = P.left + (k + 0.16) * slot, width = 0.68 * slot;
      parts.push(svg("rect", { x, width, y: y(value), height: P.bottom - y(value), fill: `var(--${hue(k)})`, rx: 1.5 }));
      parts.push(svg("rect", { x, width, y: y(ref[k]), height: P.bottom - y(ref[k]), fill: "none", stroke: "var(--ink)", "stroke-width": 1.4, "stroke-dasharray": "2 3" }));
      parts.push(text(x + width / 2, P.bottom + 17, String(kind[k]), { "text-anchor": "middle" }));
      if (pairs[at.pair].includes(k)) parts.push(text(x + width / 2 + (k > Math.min(...pairs[at.pair]) ? 2 : -2), P.bottom + 35, hue(k) === "good" ? "chosen" : "rejected", { "text-anchor": "middle", "font-size": 13, class: `word ${hue(k)}` }));
    });
    bars.replaceChildren(...parts);
    set(bars, { "aria-label": `Probabilities: ${p.map((value, k) => `${kind[k]} kind words ${format(value)}, in the reference ${format(ref[k])}`).join("; ")}.` });
  }

  function drawCurves() {
    const all = hs.map(change), low = Math.min(-1, ...all.flat()), high = Math.max(1, ...all.flat());
    const x = (h) => P.left + (h / hs[hs.length - 1]) * (P.right - P.left - 8), y = (value) => P.bottom - ((value - low) / (high - low)) * (P.bottom - P.top);
    const parts = [...yAxis(P, y, multiples(low, high)), ...xAxis(P, x, [0, 2, 4, 6, 8], "h")];
    parts.push(line(x(hs[at.h]), P.top, x(hs[at.h]), P.bottom, { stroke: "var(--ink)", "stroke-dasharray": "1 3" }));
    ["good", "bad"].forEach((name, side) => {
      parts.push(svg("path", { d: trace(all.map((pair, i) => [x(hs[i]), y(pair[side])])), fill: "none", stroke: `var(--${name})`, "stroke-width": 3 }));
      parts.push(dot(x(hs[at.h]), y(all[at.h][side]), 6, name));
      const mark = 50;
      parts.push(text(x(hs[mark]), y(all[mark][side]) + (side ? 20 : -10), side ? "rejected" : "chosen", { "text-anchor": side ? "end" : "start", class: `word ${name}` }));
    });
    curves.replaceChildren(...parts);
    const end = all[hs.length - 1];
    set(curves, { "aria-label": `Change of log π against h: at h = 8 the chosen text has changed by ${format(end[0], 1)} nats, the rejected one by ${format(end[1], 1)}.` });
  }

  function draw() {
    const found = now(), h = hs[at.h], p = policyAt(h);
    drawBars(p);
    drawCurves();
    for (const name of Object.keys(facts)) put(name, found[name], format(found[name], name === "weight" ? 3 : 2));
    hSlider.put(at.h, format(h, 1));
    betaSlider.put(at.beta, String(betas[at.beta]));
    choosePair.value = at.pair;
    choosePolicy.value = Number(!at.shared);
    const [chosen, rejected] = pairs[at.pair], mean = p.reduce((sum, q, y) => sum + q * kind[y], 0);
    const words = meanWords(mean, chosen);
    says.textContent = h === 0 ? "The policy is still its reference."
      : !at.shared ? "Only the two logits of the pair move. The chosen text gains, and the others stay in proportion to one another."
      : (mean - kind[chosen]) * (kind[chosen] - kind[rejected]) > 0 ? words + FALLS
      : `${words} So the chosen text still gains.`;
    say(`h ${format(h, 1)}: chosen ${format(found.chosen)} nats, rejected ${format(found.rejected)}, on other texts ${format(found.elsewhere)}. ${says.textContent}`);
  }

  const link = shared(model, Object.keys(at), (now) => move({ ...now, h: nearest(hs, now.h), beta: nearest(betas, now.beta) }));
  draw();
  return () => { close(); link.close(); };
}

export default { render };
