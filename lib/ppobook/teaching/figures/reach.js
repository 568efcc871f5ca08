// How far λ reaches. A push at step 150, a fall at step 200: the reader slides λ, and the steps that hardly count fade.

const STYLE_OF_REACH = `
  .reach .settings { display: grid; grid-template-columns: auto 1fr; align-items: center; gap: 0 14px; margin: 2px 0; }
  .reach .shown { font-weight: 600; display: inline-block; min-width: 2.8em; }
  .reach .says { margin: 6px 0 0; }
`;

const weightOf = (gamma, lam, ahead) => (gamma * lam) ** ahead;

function render({ model, el }) {
  const { root, say, close } = stage(el, "reach", STYLE_OF_REACH);
  root.setAttribute("aria-label", "Interactive figure: how far λ reaches");
  const gamma = model.get("gamma"), lambdas = model.get("lambdas"), asked = model.get("asked");
  const [push, fall] = model.get("steps"), ahead = fall - push;
  const nearest = (value) => lambdas.reduce((best, entry, i) => (Math.abs(entry - value) < Math.abs(lambdas[best] - value) ? i : best), 0);
  let at = nearest(model.get("lam")), telling = false;

  const guess = prediction(`When GAE judges the push at step ${push}, how much does the fall ${ahead} steps later count at the usual λ\u00a0=\u00a0${asked}?`,
    ["Nearly in full", "About half", "Less than a tenth"], 2,
    `Each step ahead counts ${format(gamma * asked)} times as much as the step before it. For a fall so far ahead, the critic has to give the warning.`);
  const shown = html("span", { class: "number shown" });
  const slider = html("input", { type: "range", id: "lam", min: 0, max: lambdas.length - 1, step: 1, oninput: () => move(Number(slider.value)) });
  const says = html("p", { class: "says" });
  const view = twoWidths(root, draw);
  root.prepend(guess.node, view.picture, html("div", { class: "settings" }, html("span", {}, html("label", { for: "lam" }, "λ"), " ", shown), slider), says);

  // A cart whose pole leans more and more, and lies at the fall.
  function cart(x, ground, share, strength) {
    const angle = 0.06 + 1.5 * share ** 3, length = 34;
    return svg("g", { opacity: 0.08 + 0.92 * strength },
      svg("line", { x1: x, y1: ground - 12, x2: x + length * Math.sin(angle), y2: ground - 12 - length * Math.cos(angle), stroke: "var(--vanilla)", "stroke-width": 5, "stroke-linecap": "round" }),
      svg("rect", { x: x - 13, y: ground - 13, width: 26, height: 11, rx: 3, fill: "var(--ink)" }));
  }

  function draw(picture, W) {
    const lam = lambdas[at], H = 212, ground = 78, top = 100, bottom = 174, left = 20, right = W - 56;
    const x = (k) => left + (k / ahead) * (right - left), wide = ((right - left) / ahead) * 0.72;
    const text = (tx, ty, words, more) => svg("text", { x: tx, y: ty, "font-size": 13.5, "text-anchor": "middle", ...more }, words);
    const parts = [svg("line", { x1: 4, x2: W - 4, y1: ground, y2: ground, stroke: "var(--muted)", "stroke-width": 1.5 })];
    for (let k = 0; k <= ahead; k += 10) parts.push(cart(x(k), ground - 1, k / ahead, weightOf(gamma, lam, k)));
    parts.push(text(x(0), 14, "the push"), text(x(ahead), 14, "the fall"));
    for (let k = 0; k <= ahead; k++) {
      const height = Math.max(weightOf(gamma, lam, k) * (bottom - top), 0.6);
      parts.push(svg("rect", { x: x(k) - wide / 2, y: bottom - height, width: wide, height, fill: k === ahead ? "var(--bad)" : "var(--ppo)" }));
    }
    parts.push(svg("line", { x1: left - 8, x2: right + 8, y1: bottom, y2: bottom, stroke: "var(--line)" }));
    for (let k = 0; k <= ahead; k += W > 400 ? 10 : 25) parts.push(text(x(k), bottom + 17, String(push + k)));
    parts.push(text((left + right) / 2, bottom + 35, "step"));
    const share = weightOf(gamma, lam, ahead);
    parts.push(text(right + 8, bottom - Math.max(share * (bottom - top), 2) - 8, `${format(100 * share, 0)} %`, {
      "text-anchor": "start", "font-weight": 600, style: "fill: var(--bad-text)", "data-number": "share", "data-value": JSON.stringify(share),
    }));
    set(picture, { viewBox: `0 0 ${W} ${H}`, "aria-label": `Bars: the weight of each step from ${push} to ${fall}. They fall from 100 % to ${format(100 * share, 0)} %. Above them, carts that fade with the weight.` });
    picture.replaceChildren(...parts);
  }

  function put() {
    const lam = lambdas[at];
    view.redraw();
    slider.value = at;
    shown.textContent = format(lam);
    set(slider, { "aria-valuetext": format(lam) });
    says.textContent = `A bar is a step's weight in the estimate. The fall has ${format(100 * weightOf(gamma, lam, ahead), 0)} % of the weight of step ${push}${lam === 1 ? ": only the discount γ makes it smaller." : lam === 0 ? ": one step, and then the critic." : "."}`;
  }
  function move(to) {
    at = to;
    put();
    if (lambdas[at] <= asked) guess.moved();
    telling = true;
    model.set("lam", lambdas[at]);
    model.save_changes();
    telling = false;
    say(`λ ${format(lambdas[at])}. ${says.textContent}`);
  }

  const follow = () => { if (!telling) move(nearest(model.get("lam"))); };
  model.on("change:lam", follow);
  put();
  return () => { close(); view.close(); model.off("change:lam", follow); };
}

export default { render };
