// E9. The price β of the KL. The reader guesses which β ends with the most gold, moves β, and sees where ten seeds end:
// their reward and, after the guess, their gold against the KL to the reference. Gold is drawn for the β that were tried. What was written there, the numbers, and the other reward
// model are folded. The last place of the slider is the policy after SFT.

const STYLE_OF_BETA = `
  .beta .shown { min-width: 3.4em; }
  .beta .panels { margin: 0; }
  .beta .key { margin: 2px 0 0; font-size: 14px; }
  .beta .texts { margin: 8px 0 0; padding: 8px 12px; border-left: 4px solid var(--ppo); }
  .beta .texts p { margin: 0 0 6px; }
  @container (max-width: 560px) {
    .beta .key { font-size: 13px; }
    .beta .texts { padding: 8px 0 8px 10px; }
  }
`;
const NAMES_OF_NUMBERS = {
  kl: ["KL to the reference, nats a text", 1], proxy: ["reward model's reward", 2], gold: ["gold", 2],
  held_out: ["held-out reward model's", 2], length: ["tokens of a text", 1], ended: ["share that ends", 2],
};

function render({ model, el }) {
  const { root, say, close } = stage(el, "beta", STYLE_OF_BETA, "Interactive figure: the price β of the KL");
  const betas = model.get("betas"), updates = model.get("updates"), columns = model.get("columns");
  const poolings = model.get("poolings").map((one) => ({ ...one, runs: one.runs.map((looks) => looks.map((look) => columnsOf(look, columns))) }));
  const NAMES = ["pooling", "beta"];
  const at = Object.fromEntries(NAMES.map((name) => [name, model.get(name)]));
  const most = { pooling: poolings.length - 1, beta: betas.length };
  const isSft = ({ beta } = at) => beta === betas.length;
  // The ten seeds where they end; those of SFT are the first look of any β.
  const here = () => { const { runs } = poolings[at.pooling]; return isSft() ? runs[0][0] : runs[at.beta].at(-1); };

  // Controls
  const choosePooling = choice("pooling", poolings.map(({ words }) => words), (pooling) => move({ pooling }));
  const betaSlider = slider("beta", "β", [0, most.beta], (beta) => move({ beta }));

  const W = 340, H = 168, P = { left: 36, right: 334, top: 10, bottom: 128 };
  const graphs = { proxy: svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img" }), gold: svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img" }) };
  const { facts, cell, put } = numberList();
  const says = html("p", { class: "says", "data-room": longest(poolings.flatMap((_, pooling) => [...betas, ""].map((_, beta) => verdict({ pooling, beta })))) }), texts = html("div", { class: "texts" });

  // Where gold ends highest: the answer is that of the reward model that is shown first.
  const goldAt = poolings[at.pooling].runs.map((looks) => meanOf(looks.at(-1).gold));
  const best = goldAt.indexOf(Math.max(...goldAt)), seen = new Set([at.beta]);
  const guess = prediction({
    asks: "Which β ends with the most gold?", options: ["β = 0", `β = ${betas.at(-1)}`, "One between"],
    right: best === 0 ? 0 : best === betas.length - 1 ? 1 : 2,
    answer: `β = ${betas[best]} ends with ${format(goldAt[best], 1)} on average, β = 0 with ${format(goldAt[0], 1)}.`,
  }, () => move({}));
  root.prepend(
    guess.node,
    html("div", { class: "settings" }, ...betaSlider.parts),
    html("div", { class: "panels" },
      html("div", {}, html("div", { class: "title" }, "The reward model's reward"), graphs.proxy),
      html("div", {}, html("div", { class: "title" }, "Gold"), graphs.gold)),
    html("p", { class: "quiet key" }, "Blue: your β, with ten seeds where they end. Gray: other β. Each line is the mean path of ten seeds, from SFT on."),
    says,
    behind("Texts, numbers, another reward model",
      html("div", { class: "row" }, html("label", { for: "pooling" }, "The reward model reads"), choosePooling),
      texts,
      html("table", {},
        html("thead", {}, html("tr", {}, ...["Ten seeds", "mean", "least", "most"].map((words) => html("th", { scope: "col" }, words)))),
        html("tbody", {}, ...columns.map((column) => html("tr", {}, html("th", { scope: "row" }, NAMES_OF_NUMBERS[column][0]),
          ...["mean", "least", "most"].map((what) => cell(`${column}-${what}`))))))));

  const root2 = (kl) => Math.sqrt(Math.max(kl, 0));

  // One scale for all β, updates and seeds of a reward model, so that what moves is the policy.
  function drawGraph(column) {
    const { runs } = poolings[at.pooling];
    const all = (name) => runs.flat().flatMap((look) => look[name]);
    const right = Math.max(...all("kl").map(root2)), low = Math.min(0, ...all(column)), high = Math.max(...all(column));
    const step = roundStep(high - low, 6);
    const bottom = Math.floor(low / step + 0.1) * step, top = Math.ceil(high / step - 0.1) * step; // a little over the edge is room enough
    const x = (value) => P.left + (value / right) * (P.right - P.left);
    const y = (value) => P.bottom - ((value - bottom) / (top - bottom)) * (P.bottom - P.top);
    const parts = [
      ...yAxis(P, y, multiples(bottom, top, 6)),
      ...xAxis(P, (kl) => x(root2(kl)), [0, 1, 5, 10, 20, 40, 80, 160].filter((kl) => root2(kl) <= right), "KL to the reference, nats")];
    if (column === "gold" && !guess.made()) {
      graphs.gold.replaceChildren(...parts, text((P.left + P.right) / 2, (P.top + P.bottom) / 2 + 16, "?", { "text-anchor": "middle", "font-size": 44, "font-weight": 600, class: "word muted" }));
      set(graphs.gold, { "aria-label": "Gold: hidden until you guess." });
      return;
    }
    const pathOf = (looks) => trace(looks.map((look) => [x(root2(meanOf(look.kl))), y(meanOf(look[column]))]));
    const names = [];
    runs.forEach((looks, i) => {
      if (i === at.beta || (column === "gold" && !seen.has(i))) return;
      const end = looks.at(-1);
      parts.push(svg("path", { d: pathOf(looks), fill: "none", stroke: "var(--muted)", "stroke-width": 1.5, "stroke-opacity": 0.6 }));
      names.push(text(x(root2(meanOf(end.kl))), y(meanOf(end[column])) - 6, betas[i], { "text-anchor": "middle", class: "word muted", "font-size": 13 }));
    });
    if (!isSft()) parts.push(svg("path", { d: pathOf(runs[at.beta]), fill: "none", stroke: "var(--ppo)", "stroke-width": 3.5, "stroke-linejoin": "round" }));
    const ends = here();
    ends.kl.forEach((kl, i) => parts.push(svg("circle", { class: "run", cx: x(root2(kl)), cy: y(ends[column][i]), r: 4, fill: "var(--ppo)", "fill-opacity": 0.55 })));
    parts.push(svg("circle", { cx: x(root2(meanOf(ends.kl))), cy: y(meanOf(ends[column])), r: 8, fill: "var(--ppo)", stroke: "var(--ink)", "stroke-width": 2.5 }));
    graphs[column].replaceChildren(...parts, ...names);
    set(graphs[column], { "aria-label": `${NAMES_OF_NUMBERS[column][0]} against the KL. ${nameOf()}, ten seeds: ${ends[column].map((value) => format(value)).join(", ")}.` });
  }

  const nameOf = () => (isSft() ? "After SFT" : `β ${betas[at.beta]}`);

  // What became of gold since its highest, in the mean of ten seeds.
  function verdict({ pooling, beta }) {
    if (isSft({ beta })) return "The policy after SFT, before any update. With an infinite β, the policy would stay here.";
    const looks = poolings[pooling].runs[beta];
    const golds = looks.map((look) => meanOf(look.gold)), proxies = looks.map((look) => meanOf(look.proxy));
    const best = golds.indexOf(Math.max(...golds));
    const fall = golds[best] - golds.at(-1), rise = proxies.at(-1) - proxies[best];
    if (fall < 0.1) return `After ${updates.at(-1)} updates gold is about as high as it has been on the way: ${format(golds.at(-1))} on average.`;
    return `Gold was highest after ${updates[best]} updates, ${format(golds[best])} on average. By update ${updates.at(-1)} it has fallen by ${format(fall)}, and the reward has ${rise > 0 ? `risen by ${format(rise)}` : `fallen by ${format(-rise)}`}.`;
  }

  function draw() {
    const ends = here();
    drawGraph("proxy");
    drawGraph("gold");
    for (const column of columns) {
      const values = { mean: meanOf(ends[column]), least: Math.min(...ends[column]), most: Math.max(...ends[column]) };
      for (const [what, value] of Object.entries(values)) put(`${column}-${what}`, value, format(value, NAMES_OF_NUMBERS[column][1]));
    }
    says.textContent = guess.made() ? verdict(at) : "";
    texts.replaceChildren(...poolings[at.pooling].texts[at.beta].map((one) => html("p", {}, html("span", { class: "quiet" }, `${one.prompt} `), html("span", { class: "written" }, one.text),
      html("span", { class: "quiet number" }, ` (gold ${format(one.gold)}, reward ${format(one.proxy)})`))));
    choosePooling.value = at.pooling;
    betaSlider.put(at.beta, isSft() ? "(SFT)" : betas[at.beta], isSft() ? "the policy after SFT" : betas[at.beta]);
  }

  function move(to) {
    for (const [name, value] of Object.entries(to)) at[name] = clamp(Math.round(value), 0, most[name]);
    draw();
    seen.add(at.beta);
    if (guess.made() && [0, best, betas.length - 1].every((beta) => seen.has(beta))) guess.moved();
    link.tell(at);
    say(`${nameOf()}: KL ${facts["kl-mean"].textContent}, reward ${facts["proxy-mean"].textContent}${guess.made() ? `, gold ${facts["gold-mean"].textContent}` : ""}. ${says.textContent} ${texts.textContent}`);
  }

  const link = shared(model, NAMES, move);
  draw();
  return () => { close(); link.close(); };
}

export default { render };
