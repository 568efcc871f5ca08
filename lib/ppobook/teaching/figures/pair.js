// One pair of texts that DPO moves apart. The reader guesses, moves the pair, and sees where the probability of all six
// texts goes. The small form has one pair, one policy and the bars.

const STYLE_OF_PAIR = `
  .pair .settings { display: grid; grid-template-columns: auto 1fr; align-items: center; gap: 0 14px; margin: 6px 0; }
  .pair .shown { font-weight: 600; display: inline-block; min-width: 2.4em; }
  .pair .panels { display: grid; grid-template-columns: 1fr 1fr; gap: 6px 24px; margin: 10px 0 0; }
  .pair.small .panels { grid-template-columns: minmax(0, 480px); justify-content: center; }
  .pair .word { paint-order: stroke; stroke: var(--paper); stroke-width: 4px; stroke-linejoin: round; }
  .figure.pair svg .good { fill: var(--good-text); }
  .figure.pair svg .bad { fill: var(--bad-text); }
  .pair .facts { display: grid; grid-template-columns: repeat(6, auto); gap: 8px 16px; margin: 10px 0 0; }
  .pair .facts div { display: flex; flex-direction: column-reverse; justify-content: flex-end; }
  .pair .facts dt { color: var(--muted-text); font-size: 13.5px; }
  .pair .facts dd { margin: 0; font-size: 19px; font-weight: 600; }
  .pair .says { margin: 10px 0 0; min-height: 3em; }
  @container (max-width: 560px) {
    .pair .settings { grid-template-columns: 1fr; }
    .pair .panels { grid-template-columns: 1fr; gap: 14px; }
    .pair .facts { grid-template-columns: repeat(3, 1fr); }
    .pair .says { min-height: 4.5em; }
  }
`;

// The policy once the pair is h apart: along the one shared parameter, or by the two logits of the pair.
function policyOf(ref, kind, [chosen, rejected], h, shared) {
  const moves = ref.map((_, y) => (shared ? (h / (kind[chosen] - kind[rejected])) * kind[y] : y === chosen ? h / 2 : y === rejected ? -h / 2 : 0));
  const logits = ref.map((p, y) => Math.log(p) + moves[y]), top = Math.max(...logits);
  const sum = logits.reduce((total, logit) => total + Math.exp(logit - top), 0);
  return logits.map((logit) => Math.exp(logit - top) / sum);
}

function render({ model, el }) {
  const { root, say, close } = stage(el, "pair", STYLE_OF_PAIR);
  root.setAttribute("aria-label", "Interactive figure: where probability goes when DPO moves a pair apart");
  const [ref, kind, gold, pairs, hs, betas] = ["ref", "kind", "gold", "pairs", "hs", "betas"].map((name) => model.get(name));
  const nearest = (list, value) => list.reduce((best, entry, i) => (Math.abs(entry - value) < Math.abs(list[best] - value) ? i : best), 0);
  const at = { pair: model.get("pair"), shared: model.get("shared"), h: nearest(hs, model.get("h")), beta: nearest(betas, model.get("beta")) };
  const small = model.get("small");
  root.classList.toggle("small", small);
  let telling = false;

  // Controls
  const shown = {}, sliders = {};
  const control = (name, stops, words) => {
    shown[name] = html("span", { class: "number shown" });
    sliders[name] = html("input", { type: "range", id: name, min: 0, max: stops.length - 1, step: 1, oninput: (event) => move({ [name]: Number(event.target.value) }) });
    return [html("span", {}, html("label", { for: name }, words), " ", shown[name]), sliders[name]];
  };
  const choosePair = html("select", { id: "pair", onchange: () => move({ pair: Number(choosePair.value) }) },
    ...pairs.map(([chosen, rejected], i) => html("option", { value: i }, `${kind[chosen]} over ${kind[rejected]} kind words`)));
  const choosePolicy = html("select", { id: "policy", onchange: () => move({ shared: choosePolicy.value === "shared" }) },
    html("option", { value: "shared" }, "one θ for all texts"), html("option", { value: "own" }, "a logit for each text"));

  const guess = small
    ? prediction("DPO moves these two texts apart, the chosen one above the rejected one. What happens to the probability of the chosen text?",
      ["It climbs", "It falls"], 1,
      "It falls, only less than that of the rejected text. The texts that gain are not in the pair.")
    : prediction("People chose 3 kind words over none, and one θ moves all texts. Does the chosen text become less probable? Choose that pair, and move it apart.",
      ["At once", "Only later", "Never"], 1,
      "It falls once the policy's texts have more than 3 kind words on average.");

  const W = small ? 430 : 340, H = small ? 186 : 212, P = { left: 34, right: W - 6, top: 18, bottom: H - 40 };
  const bars = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img" });
  const curves = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img" });
  const { facts, fact } = numberList();
  const says = html("p", { class: "says" });

  const heading = (title, more) => [html("div", { class: "title" }, title), html("div", { class: "quiet" }, more)];
  const chosenBars = html("div", {}, ...heading("Probability of each text", "by kind words; dotted: the reference"), bars);
  const distance = html("div", { class: "settings sticky" }, ...control("h", hs, small ? "Moved apart, in nats" : "Distance h"));
  const beta = html("div", { class: "settings" }, ...control("beta", betas, "β"));
  if (small) root.prepend(guess.node, distance, html("div", { class: "panels" }, chosenBars), says);
  else root.prepend(
    guess.node,
    html("div", { class: "row" }, html("label", { for: "pair" }, "People chose"), choosePair, html("label", { for: "policy" }, "Policy"), choosePolicy),
    distance,
    html("div", { class: "panels" }, chosenBars,
      html("div", {}, ...heading("Change of log π", "against the distance h, in nats"), curves)),
    says,
    behind("Numbers", beta, html("dl", { class: "facts" },
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
    at.h = Math.min(Math.max(at.h, 0), hs.length - 1);
    at.beta = Math.min(Math.max(at.beta, 0), betas.length - 1);
    draw();
    if (small ? hs[at.h] >= 0.5 : at.pair === 2 && at.shared && hs[at.h] >= 6) guess.moved();
    telling = true;
    model.set("pair", at.pair);
    model.set("shared", at.shared);
    model.set("h", hs[at.h]);
    model.set("beta", betas[at.beta]);
    model.set("moved", now());
    model.save_changes();
    telling = false;
  }

  const line = (x1, y1, x2, y2, more) => svg("line", { x1, y1, x2, y2, ...more });
  const text = (x, y, content, more) => svg("text", { x, y, class: "word", "font-size": 14, ...more }, content);
  const hue = (y) => (y === pairs[at.pair][0] ? "good" : y === pairs[at.pair][1] ? "bad" : "muted");

  function drawBars(p) {
    const slot = (P.right - P.left) / p.length, y = (value) => P.bottom - value * (P.bottom - P.top);
    const parts = [];
    for (const value of [0, 0.5, 1]) {
      parts.push(line(P.left, y(value), P.right, y(value), { stroke: value ? "var(--faint)" : "var(--line)" }));
      parts.push(text(P.left - 6, y(value) + 5, format(value, value % 1 ? 1 : 0), { "text-anchor": "end" }));
    }
    p.forEach((value, k) => {
      const x = P.left + (k + 0.16) * slot, width = 0.68 * slot;
      parts.push(svg("rect", { x, width, y: y(value), height: P.bottom - y(value), fill: `var(--${hue(k)})`, rx: 1.5 }));
      parts.push(svg("rect", { x, width, y: y(ref[k]), height: P.bottom - y(ref[k]), fill: "none", stroke: "var(--ink)", "stroke-width": 1.4, "stroke-dasharray": "2 3" }));
      parts.push(text(x + width / 2, P.bottom + 17, String(kind[k]), { "text-anchor": "middle" }));
      if (pairs[at.pair].includes(k)) parts.push(text(x + width / 2, P.bottom + 35, hue(k) === "good" ? "chosen" : "rejected", { "text-anchor": "middle", "font-size": small ? 14 : 13, class: `word ${hue(k)}` }));
    });
    bars.replaceChildren(...parts);
    set(bars, { "aria-label": `Probabilities: ${p.map((value, k) => `${kind[k]} kind words ${format(value)}, in the reference ${format(ref[k])}`).join("; ")}.` });
  }

  function drawCurves() {
    const all = hs.map(change), low = Math.min(-1, ...all.flat()), high = Math.max(1, ...all.flat());
    const x = (h) => P.left + (h / hs[hs.length - 1]) * (P.right - P.left - 8), y = (value) => P.bottom - ((value - low) / (high - low)) * (P.bottom - P.top);
    const step = high - low > 12 ? 5 : high - low > 5 ? 2 : 1, parts = [];
    for (let value = Math.ceil(low / step) * step; value <= high; value += step) {
      parts.push(line(P.left, y(value), P.right, y(value), { stroke: value ? "var(--faint)" : "var(--line)" }));
      parts.push(text(P.left - 6, y(value) + 5, format(value, 0), { "text-anchor": "end" }));
    }
    for (const h of [0, 2, 4, 6, 8]) parts.push(text(x(h), P.bottom + 18, String(h), { "text-anchor": "middle" }));
    parts.push(line(x(hs[at.h]), P.top, x(hs[at.h]), P.bottom, { stroke: "var(--ink)", "stroke-dasharray": "1 3" }));
    ["good", "bad"].forEach((name, side) => {
      parts.push(svg("path", { d: all.map((pair, i) => `${i ? "L" : "M"}${x(hs[i]).toFixed(1)} ${y(pair[side]).toFixed(1)}`).join(""), fill: "none", stroke: `var(--${name})`, "stroke-width": 3 }));
      parts.push(svg("circle", { cx: x(hs[at.h]), cy: y(all[at.h][side]), r: 6, fill: `var(--${name})`, stroke: "var(--paper)", "stroke-width": 2 }));
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
    for (const [name, node] of Object.entries(facts)) {
      node.dataset.value = JSON.stringify(found[name]);
      node.textContent = format(found[name], name === "weight" ? 3 : 2);
    }
    for (const [name, words] of [["h", format(h, 1)], ["beta", String(betas[at.beta])]]) {
      sliders[name].value = at[name];
      shown[name].textContent = words;
      sliders[name].setAttribute("aria-valuetext", words);
    }
    choosePair.value = String(at.pair);
    choosePolicy.value = at.shared ? "shared" : "own";
    const [chosen, rejected] = pairs[at.pair], mean = p.reduce((sum, q, y) => sum + q * kind[y], 0);
    const words = `The policy's texts have ${format(mean, 1)} kind words on average, and the chosen text has ${kind[chosen]}.`;
    says.textContent = h === 0 ? "The policy is still its reference."
      : !at.shared ? "Only the two logits of the pair move. The chosen text gains, and the others stay in proportion to one another."
      : (mean - kind[chosen]) * (kind[chosen] - kind[rejected]) > 0 ? `${words} So here, the chosen text falls as well.`
      : `${words} So the chosen text still gains.`;
    say(`h ${format(h, 1)}: chosen ${format(found.chosen)} nats, rejected ${format(found.rejected)}, on other texts ${format(found.elsewhere)}. ${says.textContent}`);
  }

  // Python may move it too, in JupyterLab.
  const NAMES = ["pair", "shared", "h", "beta"];
  const follow = () => {
    if (telling) return;
    move({ pair: model.get("pair"), shared: model.get("shared"), h: nearest(hs, model.get("h")), beta: nearest(betas, model.get("beta")) });
  };
  for (const name of NAMES) model.on(`change:${name}`, follow);
  draw();
  return () => { close(); for (const name of NAMES) model.off(`change:${name}`, follow); };
}

export default { render };
