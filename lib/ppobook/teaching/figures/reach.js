// How far λ reaches. A push at step 150, a fall at step 200: the reader slides λ, and the steps that hardly count fade.

const weightOf = (gamma, lam, ahead) => (gamma * lam) ** ahead;

function render({ model, el }) {
  const { root, say, close } = stage(el, "reach", "", "Interactive figure: how far λ reaches");
  const gamma = model.get("gamma"), lambdas = model.get("lambdas"), usual = model.get("usual");
  const [push, fall] = model.get("steps"), ahead = fall - push;
  let at = nearest(lambdas, model.get("lam"));

  const guess = prediction({
    asks: `When GAE judges the push at step ${push}, how much does the fall ${ahead} steps later count at the usual λ\u00a0=\u00a0${usual}?`,
    options: ["Nearly in full", "About half", "Less than a tenth"], right: 2,
    answer: `Each step ahead counts ${format(gamma * usual)} times as much as the step before it. For a fall so far ahead, the critic has to give the warning.`,
  });
  const lamSlider = slider("lam", "λ", [0, lambdas.length - 1], (to) => move(to));
  const says = html("p", { class: "says", "data-room": longest(lambdas.map(sentence)) });
  const view = twoWidths(root, draw);
  root.prepend(guess.node, view.picture, html("div", { class: "settings" }, ...lamSlider.parts), says);

  // A cart whose pole leans more and more, and lies at the fall.
  function cart(x, ground, share, strength) {
    const angle = 0.06 + 1.5 * share ** 3, length = 34;
    return svg("g", { opacity: 0.08 + 0.92 * strength },
      line(x, ground - 12, x + length * Math.sin(angle), ground - 12 - length * Math.cos(angle), { stroke: "var(--vanilla)", "stroke-width": 5, "stroke-linecap": "round" }),
      svg("rect", { x: x - 13, y: ground - 13, width: 26, height: 11, rx: 3, fill: "var(--ink)" }));
  }

  function draw(picture, W) {
    const lam = lambdas[at], H = 212, ground = 78, top = 100, bottom = 174, left = 28, right = W - 56;
    const x = (k) => left + (k / ahead) * (right - left), wide = ((right - left) / ahead) * 0.72;
    const name = (tx, ty, words) => text(tx, ty, words, { "text-anchor": "middle" });
    const parts = [line(4, ground, W - 4, ground, { stroke: "var(--muted)", "stroke-width": 1.5 })];
    for (let k = 0; k <= ahead; k += 10) parts.push(cart(x(k), ground - 1, k / ahead, weightOf(gamma, lam, k)));
    parts.push(name(x(0), 14, "the push"), name(x(ahead), 14, "the fall"));
    for (let k = 0; k <= ahead; k++) {
      const height = Math.max(weightOf(gamma, lam, k) * (bottom - top), 0.6);
      parts.push(svg("rect", { x: x(k) - wide / 2, y: bottom - height, width: wide, height, fill: k === ahead ? "var(--bad)" : "var(--ppo)" }));
    }
    parts.push(line(left - 8, bottom, right + 8, bottom, { stroke: "var(--line)" }));
    for (let k = 0; k <= ahead; k += W > 400 ? 10 : 25) parts.push(name(x(k), bottom + 17, push + k));
    parts.push(name((left + right) / 2, bottom + 35, "step"));
    const share = weightOf(gamma, lam, ahead);
    parts.push(text(right + 8, bottom - Math.max(share * (bottom - top), 2) - 8, `${format(100 * share, 0)} %`, {
      class: "word bad", "font-weight": 600, "data-number": "share", "data-value": JSON.stringify(share),
    }));
    set(picture, { viewBox: `0 0 ${W} ${H}`, "aria-label": `Bars: the weight of each step from ${push} to ${fall}. They fall from 100 % to ${format(100 * share, 0)} %. Above them, carts that fade with the weight.` });
    picture.replaceChildren(...parts);
  }

  function sentence(lam) {
    return `A bar is a step's weight in the estimate. The fall has ${format(100 * weightOf(gamma, lam, ahead), 0)} % of the weight of step ${push}${lam === 1 ? ": only the discount γ makes it smaller." : lam === 0 ? ": one step, and then the critic." : "."}`;
  }

  function put() {
    const lam = lambdas[at];
    view.redraw();
    lamSlider.put(at, format(lam));
    says.textContent = sentence(lam);
  }
  function move(to) {
    at = to;
    put();
    if (lambdas[at] <= usual) guess.moved();
    link.tell({ lam: lambdas[at] });
    say(`λ ${format(lambdas[at])}. ${says.textContent}`);
  }

  const link = shared(model, ["lam"], (now) => move(nearest(lambdas, now.lam)));
  put();
  return () => { close(); view.close(); link.close(); };
}

export default { render };
