// E2. One text in the course of an update: each token's ratio, whether the clip has stopped it, and what its gradient does.
// Other texts, the update without the clip, and the token that is chosen, written out in numbers, are folded.

const STYLE_OF_TOKENS = `
  .tokens .row .row { gap: 6px; }
  .tokens .settings { margin: 0; }
  .tokens table { width: 100%; border-collapse: separate; border-spacing: 0; table-layout: fixed; }
  .tokens th { font-weight: 600; font-size: 14px; padding: 2px 4px; text-align: right; vertical-align: bottom; }
  .tokens th:first-child { text-align: left; width: 17%; padding-left: 0; }
  .tokens th.plot { width: 52%; text-align: center; }
  .tokens th.does { width: 15%; text-align: left; }
  .tokens td { padding: 0 4px; text-align: right; font-size: 14px; border-bottom: 1px solid var(--faint); }
  .tokens tbody th { font-weight: 400; border-bottom: 1px solid var(--faint); padding: 1px 0; }
  .tokens td.does { text-align: left; white-space: nowrap; }
  .tokens tbody button { display: block; width: 100%; min-height: 24px; padding: 0 4px; text-align: left; border: 0; background: none; }
  .tokens tr.chosen { background: var(--raised); outline: 2px solid var(--ink); outline-offset: -1px; }
  .tokens .good { color: var(--good-text); }
  .tokens .bad { color: var(--bad-text); }
  .tokens .lane { position: relative; height: 24px; overflow: hidden; }
  .tokens .lane i { position: absolute; }
  .tokens .lane .box { top: 0; bottom: 0; background: var(--faint); opacity: 0.6; }
  .tokens .lane .one { left: 50%; top: 0; bottom: 0; border-left: 1px solid var(--line); }
  .tokens .lane .stem { top: calc(50% - 1px); height: 2px; }
  .tokens .lane .dot { top: calc(50% - 6px); width: 12px; height: 12px; margin-left: -6px; border-radius: 50%; border: 2.5px solid; }
  .tokens .lane .dot.beyond { border-radius: 2px; }
  .tokens .lane .dot.flat { background: var(--paper) !important; }
  .tokens .scale { position: relative; height: 1.3em; font-size: 13px; font-weight: 400; }
  .tokens .scale span { position: absolute; transform: translateX(-50%); }
  .tokens .key { margin: 4px 0 0; font-size: 14px; }
  .tokens .sum { margin: 10px 0 0; padding: 8px 12px; border-left: 4px solid var(--ppo); }
  .tokens .sum p { margin: 0 0 3px; }
  .tokens .sum .result { font-weight: 600; }
  .tokens .whole { margin: 0 0 4px; }
  .tokens dl { display: grid; grid-template-columns: repeat(3, 1fr); gap: 4px 14px; margin: 10px 0 0; }
  .tokens dl div { border-top: 2px solid var(--faint); padding-top: 3px; }
  .tokens dt { font-size: 14px; color: var(--muted-text); }
  .tokens dd { margin: 0; font-weight: 600; font-size: 16px; }
  @container (max-width: 560px) {
    .tokens th, .tokens td { font-size: 12.5px; padding: 0 0 0 4px; }
    .tokens tbody th { padding: 0; }
    .tokens tbody button { font-size: 13px; min-height: 20px; padding: 0 2px; line-height: 1.2; }
    .tokens .lane { height: 20px; }
    .tokens th:first-child { width: 22%; }
    .tokens th.plot { width: 42%; }
    .tokens th.does { width: 21%; }
    .tokens .key { font-size: 13px; line-height: 1.35; }
    .tokens dl { grid-template-columns: 1fr 1fr; }
    .tokens .sum { padding: 8px 0 8px 10px; }
  }
`;

// One token, as in clip.js: the smaller of both surrogates, and its slope by log π_θ, which is ρ A or 0. At the knee there is
// no single slope; a ratio of several digits does not stand there.
function tokenOf(oldLogp, newLogp, advantage, eps) {
  const ratio = Math.exp(newLogp - oldLogp);
  const outside = Math.abs(ratio - 1) > eps;
  const flat = outside && (ratio > 1 ? advantage > 0 : advantage < 0);
  const surrogate = ratio * advantage, clipped = clamp(ratio, 1 - eps, 1 + eps) * advantage;
  return { ratio, outside, flat, surrogate, clipped, objective: Math.min(surrogate, clipped), slope: flat || advantage === 0 ? 0 : surrogate };
}

function render({ model, el }) {
  const { root, say, close } = stage(el, "tokens", STYLE_OF_TOKENS, "Interactive figure: the ratio of each token of a text");
  const paths = model.get("paths"), steps = model.get("steps"), range = model.get("range");
  const texts = model.get("texts").map((text) => ({
    name: text.name, words: text.words, old: numbersOf(text.old), advantages: numbersOf(text.advantages),
    fresh: text.new.map((path) => path.map(numbersOf)),
  }));
  const NAMES = ["text", "path", "step", "token", "clip_eps"];
  const at = Object.fromEntries(NAMES.map((name) => [name, model.get(name)]));
  let cells = [];

  // The axis of ratios is logarithmic and the same in all pictures, so that they compare. What is further away stands at its end.
  const furthest = Math.max(...texts.flatMap((text) => text.fresh.flat().flatMap((row) => row.map((logp, t) => Math.abs(logp - text.old[t])))));
  const END = clamp(1.08 * furthest, Math.log(1.6), Math.log(3.3));
  const across = (ratio) => 50 + 50 * clamp(Math.log(ratio) / END, -1, 1) * 0.94;

  // Controls
  const chooseText = choice("text", texts.map(({ name }) => name), (text) => move({ text }));
  const choosePath = choice("path", paths, (path) => move({ path }));
  const stepSlider = slider("step", "Gradient steps", [0, steps.length - 1], (step) => move({ step }));
  const clipSlider = slider("clip_eps", "Clip ε", range, (clip_eps) => move({ clip_eps }));
  const labelled = (id, words, node, more = {}) => html("span", { class: "row", ...more }, html("label", { for: id }, words), node);

  const scale = html("div", { class: "scale number", "aria-hidden": "true" });
  const every = [0.5, 1, 2].filter((ratio) => Math.abs(Math.log(ratio)) <= 0.97 * END);
  const ticks = every.length > 1 ? every : [0.7, 1, 1.4];
  scale.append(...ticks.map((ratio) => html("span", { style: `left: ${across(ratio)}%` }, String(ratio))));
  const body = html("tbody");
  const sum = html("div", { class: "sum number" });
  const { cell: number, fact, put: putFact } = numberList();

  // The guess is about the first text, in the first path.
  const whole = Math.exp(texts[0].fresh[0].at(-1).reduce((total, logp, t) => total + logp - texts[0].old[t], 0));
  const guess = prediction({
    asks: `The clip acts on each token's ratio. After ${steps.at(-1)} gradient steps, where is the ratio of the whole text?`,
    options: [`Within ${format(at.clip_eps, 1)} of 1`, "Further away"], right: Math.abs(whole - 1) > at.clip_eps ? 1 : 0,
    answer: `It is the product of all the tokens' ratios, and ends at ${format(whole, 2)}.`,
  });
  const numbers = behind("One token in numbers, other texts",
    html("div", { class: "row" }, labelled("text", "Text", chooseText), labelled("path", "Update", choosePath, paths.length > 1 ? {} : { style: "display: none" })),
    html("div", { class: "settings" }, ...clipSlider.parts),
    sum,
    html("dl", {}, fact("kl", "mean log-ratio, old − new"), fact("clip_fraction", "outside the range"), fact("flat_fraction", "without gradient")));
  root.prepend(
    guess.node,
    html("div", { class: "settings" }, ...stepSlider.parts),
    html("p", { class: "whole" }, "Ratio of the whole text: ", number("product", "b")),
    html("table", {},
      html("thead", {}, html("tr", {}, html("th", { scope: "col" }, "token"), html("th", { scope: "col", class: "plot" }, html("span", { class: "unseen" }, "ratio"), scale),
        html("th", { scope: "col" }, "ratio"), html("th", { scope: "col", class: "does" }, "gradient"))),
      body),
    html("p", { class: "quiet key" }, "Green: A > 0. Orange: A < 0. Hollow: past the clip range, no gradient. Square: beyond the axis. Gray: the clip range."),
    numbers);

  function rows() {
    const text = texts[at.text];
    cells = text.words.map((word, t) => {
      const button = html("button", { type: "button", onclick: () => { numbers.open = true; move({ token: t }); }, onfocus: () => { if (at.token !== t) move({ token: t }); } }, word);
      const ratio = html("td", { class: "number", "data-number": `ratio-${t}` }), slope = html("td", { class: "does", "data-number": `slope-${t}` });
      const box = html("i", { class: "box" }), stem = html("i", { class: "stem" }), dot = html("i", { class: "dot" });
      const lane = html("div", { class: "lane", "aria-hidden": "true" }, box, html("i", { class: "one" }), stem, dot);
      const row = html("tr", { onpointermove: (event) => { if (event.pointerType === "mouse" && at.token !== t) move({ token: t }); } },
        html("th", { scope: "row" }, button), html("td", {}, lane), ratio, slope);
      return { row, button, ratio, slope, box, stem, dot };
    });
    body.replaceChildren(...cells.map(({ row }) => row));
  }

  const put = (node, value, words) => { node.dataset.value = JSON.stringify(value); node.textContent = words; };
  const bracketed = (value) => (value < 0 ? `(${format(value, 3)})` : format(value, 3));

  function draw() {
    const text = texts[at.text], fresh = text.fresh[at.path][at.step], eps = at.clip_eps;
    const found = text.words.map((_, t) => tokenOf(text.old[t], fresh[t], text.advantages[t], eps));
    cells.forEach((cell, t) => {
      const one = found[t], kind = text.advantages[t] > 0 ? "good" : "bad", hue = text.advantages[t] ? `var(--${kind})` : "var(--muted)";
      put(cell.ratio, one.ratio, format(one.ratio));
      const back = one.outside && !one.flat && one.slope;
      put(cell.slope, one.slope, one.flat ? "stopped" : !one.slope ? "none" : one.slope > 0 ? (back ? "↑ back" : "↑ up") : back ? "↓ back" : "↓ down");
      cell.slope.className = `does ${one.flat || !one.slope ? "quiet" : kind}`;
      const x = across(one.ratio), low = across(1 - eps), high = across(1 + eps);
      cell.box.style.cssText = `left: ${low}%; width: ${high - low}%`;
      cell.stem.style.cssText = `left: ${Math.min(50, x)}%; width: ${Math.abs(x - 50)}%; background: ${hue}`;
      cell.dot.style.cssText = `left: ${x}%; border-color: ${hue}; background: ${hue}`;
      cell.dot.classList.toggle("flat", one.flat);
      cell.dot.classList.toggle("beyond", Math.abs(Math.log(one.ratio)) > END);
      cell.row.classList.toggle("chosen", at.token === t);
      set(cell.button, { "aria-pressed": at.token === t, "aria-label": `${text.words[t]}: ratio ${format(one.ratio)}, advantage ${format(text.advantages[t])}, ${cell.slope.textContent}` });
    });
    const total = found.reduce((s, { ratio }) => s + Math.log(ratio), 0), n = found.length;
    putFact("product", Math.exp(total), Math.exp(total) < 1000 ? format(Math.exp(total), Math.exp(total) < 0.1 ? 4 : 2) : Math.exp(total).toExponential(1));
    putFact("kl", -total / n, format(-total / n, 3));
    const outside = found.filter((one) => one.outside).length, flat = found.filter((one) => one.flat).length;
    putFact("clip_fraction", outside / n, `${outside} of ${n}`);
    putFact("flat_fraction", flat / n, `${flat} of ${n}`);
    sum.replaceChildren(...arithmetic(found[at.token]));
    chooseText.value = at.text;
    choosePath.value = at.path;
    stepSlider.put(at.step, String(steps[at.step]), `${steps[at.step]} gradient steps`);
    clipSlider.put(eps, format(eps));
    return found;
  }

  function arithmetic(one) {
    const text = texts[at.text], t = at.token, a = text.advantages[t], eps = at.clip_eps;
    const now = text.fresh[at.path][at.step][t];
    const line = (className, ...parts) => html("p", { class: className }, ...parts);
    const edge = one.ratio > 1 ? 1 + eps : 1 - eps;
    return [
      line("result", `“${text.words[t]}”, token ${t + 1}, with A = ${signed(a)}`),
      line("", "ratio = exp(log π", html("sub", {}, "θ"), " − log π", html("sub", {}, "old"), `) = exp(${format(now, 3)} − ${bracketed(text.old[t])}) = ${format(one.ratio, 3)}`),
      line("", `ratio × A = ${format(one.surrogate, 3)}; clipped, ${one.outside ? `${format(edge)} × A` : "the same"}: ${format(one.clipped, 3)}; the smaller one: ${format(one.objective, 3)}`),
      line("", says(one, a)),
    ];
  }

  function says(one, a) {
    if (at.step === 0) return "Before the first step the policy is the one that wrote the text: every ratio is 1. The gradient is that of chapter 1, A times the gradient of log π.";
    if (a === 0) return "An advantage of 0 pushes nowhere.";
    const wanted = a > 0 ? "more" : "less";
    if (one.flat) return `This word was to become ${wanted} likely, and has by more than ε. There is no more to gain: its gradient is 0, in this step. Other words may still move it.`;
    if (one.outside) return `This word was to become ${wanted} likely, and went the other way by more than ε, carried along by others. It is not clipped: its gradient pulls it back.`;
    const moved = (one.ratio > 1) === (a > 0) ? "has moved that way" : "has moved the other way";
    return `This word is to become ${wanted} likely; it ${moved}, and is inside the range. Its gradient pushes it ${a > 0 ? "up" : "down"}, with the weight ratio × A.`;
  }

  function move(changes) {
    const before = at.text;
    for (const [name, value] of Object.entries(changes)) {
      const most = { text: texts.length - 1, path: paths.length - 1, step: steps.length - 1, token: 99 }[name];
      at[name] = name === "clip_eps" ? clamp(Number(value.toFixed(6)), range[0], range[1]) : clamp(Math.round(value), 0, most);
    }
    at.token = Math.min(at.token, texts[at.text].words.length - 1);
    if (at.text !== before) rows();
    const found = draw();
    if (at.text === 0 && at.path === 0 && at.step === steps.length - 1) guess.moved();
    link.tell({ ...at, ratios: found.map(({ ratio }) => ratio) });
    say(`${steps[at.step]} gradient steps. ${[...sum.querySelectorAll("p")].map((p) => p.textContent).join(" ")}`);
  }

  // Up and down go from token to token.
  body.addEventListener("keydown", (event) => {
    const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!way) return;
    event.preventDefault();
    cells[clamp(at.token + way, 0, cells.length - 1)].button.focus();
  });

  const link = shared(model, NAMES, move);
  rows();
  draw();
  return () => { close(); link.close(); };
}

export default { render };
