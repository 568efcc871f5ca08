// One pair of texts that DPO moves apart. The reader chooses the pair, the policy and the distance h, and sees where the
// probability of all six texts goes.

const STYLE_OF_PAIR = `
  .pair .settings { display: grid; grid-template-columns: auto 1fr; align-items: center; gap: 0 14px; margin: 6px 0; }
  .pair .shown { font-weight: 600; display: inline-block; min-width: 2.4em; }
  .pair .panels { display: grid; grid-template-columns: 1fr 1fr; gap: 6px 24px; margin: 10px 0 0; }
  .pair .word { paint-order: stroke; stroke: var(--paper); stroke-width: 4px; stroke-linejoin: round; }
  .figure.pair svg .good { fill: var(--good-text); }
  .figure.pair svg .bad { fill: var(--bad-text); }
  .figure.pair svg .none { fill: var(--muted-text); }
  .pair .facts { display: grid; grid-template-columns: repeat(6, auto); gap: 8px 16px; margin: 10px 0 0; }
  .pair .facts div { display: flex; flex-direction: column-reverse; justify-content: flex-end; }
  .pair .facts dt { color: var(--muted-text); font-size: 13.5px; }
  .pair .facts dd { margin: 0; font-size: 19px; font-weight: 600; }
  .pair .says { margin: 10px 0 0; min-height: 4.5em; }
  @container (max-width: 560px) {
    .pair .panels { grid-template-columns: 1fr; gap: 14px; }
    .pair .facts { grid-template-columns: repeat(3, 1fr); }
    .pair .says { min-height: 7.5em; }
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

  const W = 340, H = 226, P = { left: 34, right: W - 6, top: 16, bottom: H - 40 }, FULL = 34; // a bar of 1 ends below the names
  const bars = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img" });
  const curves = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img" });
  const { facts, fact } = numberList();
  const says = html("p", { class: "says" });

  root.prepend(
    html("div", { class: "row" }, html("label", { for: "pair" }, "People chose"), choosePair, html("label", { for: "policy" }, "Policy"), choosePolicy),
    html("div", { class: "settings" }, ...control("h", hs, "Distance h"), ...control("beta", betas, "β")),
    html("div", { class: "panels" },
      html("div", {}, html("div", { class: "title" }, "Probability, by kind words"), bars),
      html("div", {}, html("div", { class: "title" }, "Change of log π, against h"), curves)),
    html("dl", { class: "facts" },
      fact("chosen", "chosen, nats"), fact("rejected", "rejected, nats"), fact("elsewhere", "on other texts"),
      fact("gold", "mean gold"), fact("choice", "σ(βh)"), fact("weight", "weight βσ(−βh)")),
    says);

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
    const slot = (P.right - P.left) / p.length, y = (value) => P.bottom - value * (P.bottom - FULL);
    const parts = [];
    for (const value of [0, 0.5, 1]) {
      parts.push(line(P.left, y(value), P.right, y(value), { stroke: value ? "var(--faint)" : "var(--line)" }));
      parts.push(text(P.left - 6, y(value) + 5, format(value, value % 1 ? 1 : 0), { "text-anchor": "end" }));
    }
    p.forEach((value, k) => {
      const x = P.left + (k + 0.16) * slot, width = 0.68 * slot;
      parts.push(svg("rect", { x, width, y: y(value), height: P.bottom - y(value), fill: `var(--${hue(k)})`, rx: 1.5 }));
      parts.push(svg("rect", { x, width, y: y(ref[k]), height: P.bottom - y(ref[k]), fill: "none", stroke: "var(--ink)", "stroke-width": 1.4, "stroke-dasharray": "2 3" }));
      parts.push(text(x + width / 2, P.bottom + 18, String(kind[k]), { "text-anchor": "middle" }));
    });
    parts.push(text(P.left, FULL - 16, "■ chosen", { class: "word good" }));
    parts.push(text(P.left + 84, FULL - 16, "■ rejected", { class: "word bad" }));
    parts.push(text(P.left + 178, FULL - 16, "■ in no pair", { class: "word none" }));
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
    parts.push(text((P.left + P.right) / 2, P.bottom + 36, "h, in nats", { "text-anchor": "middle" }));
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
    const words = `The policy's texts have ${format(mean, 1)} kind words on average, the chosen one has ${kind[chosen]}.`;
    says.textContent = h === 0 ? "The policy is its reference. Move the pair apart."
      : !at.shared ? "Only the two logits of the pair move. The chosen text gains, and the others stay in proportion to one another."
      : (mean - kind[chosen]) * (kind[chosen] - kind[rejected]) > 0 ? `${words} The policy has gone past it: from here on the chosen text falls as well, and what gains is in no pair.`
      : `${words} The policy has not come that far, so the chosen text still gains.`;
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
