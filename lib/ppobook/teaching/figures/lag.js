// A sampler that lags. The reader guesses, moves the lag, and sees gold and KL of ten seeds along the way with three
// losses. What the gauges say at the end is folded.

const STYLE_OF_LAG = `
  .lag .panels { margin: 0; }
  .lag .says { margin: 8px 0; }
  @container (max-width: 560px) { .lag th, .lag td { padding: 3px 0 3px 6px; font-size: 12px; } }
`;
const LOOKS = {
  both: { hue: "grpo", name: "decoupled" },
  corrected: { hue: "ppo_kl", name: "corrected" },
  "not corrected": { hue: "bad", name: "not corrected" },
};
const FAR = 16; // the lag that the question is about
const NAMES_OF_GAUGES = {
  gold: ["gold", 2], kl: ["KL to the reference", 1], lag_kl: ["KL(sampler, policy), a token", 2],
  clip_fraction: ["clip fraction", 2], ended: ["share that ends", 2],
};

function render({ model, el }) {
  const { root, say, close } = stage(el, "lag", STYLE_OF_LAG, "Interactive figure: a sampler that lags");
  const lags = model.get("lags"), losses = model.get("losses"), updates = model.get("updates"), columns = model.get("columns");
  const runs = model.get("runs").map((ofLag) => ofLag.map((looks) => looks.map((look) => columnsOf(look, columns))));
  let at = model.get("lag");

  const lagSlider = slider("lag", "Lag, in updates", [0, lags.length - 1], (to) => move(to));
  const guess = prediction({
    asks: "Without a correction, all ratios start at 1, as they do with fresh data. Where does this policy end if its data are 16 updates old?",
    options: ["Near the reference", "Far, much gold", "Far, little gold"], right: 2,
    answer: "On average, it ends far away, with the least gold of the three.",
  });
  const W = 340, P = { left: 34, right: 244, top: 18 };
  const graphs = Object.fromEntries(["gold", "kl"].map((column) => [column, svg("svg", { role: "img" })]));
  const { cell, put } = numberList();
  const says = html("p", { class: "says", "data-room": longest(lags.map((_, lag) => verdict(lag))) });
  root.prepend(
    guess.node,
    html("div", { class: "settings sticky" }, ...lagSlider.parts),
    html("div", { class: "panels" },
      html("div", {}, html("div", { class: "title" }, "Gold"), graphs.gold),
      html("div", {}, html("div", { class: "title" }, "KL to the reference"), graphs.kl)),
    says,
    behind("Numbers", html("table", {},
      html("thead", {}, html("tr", {}, html("th", { scope: "col" }, "At the end, mean"), ...losses.map((loss) => html("th", { scope: "col" }, LOOKS[loss].name)))),
      html("tbody", {}, ...columns.map((column) => html("tr", {}, html("th", { scope: "row" }, NAMES_OF_GAUGES[column][0]), ...losses.map((loss) => cell(`${column}-${loss}`))))))));

  // The axes are the same for all lags, so that curves compare. KL's is of its square root.
  const TICKS = { gold: [-4, -2, 0, 2, 4], kl: [0, 5, 20, 50, 100, 200] };
  function drawGraph(column) {
    const bend = column === "kl" ? (value) => Math.sqrt(Math.max(value, 0)) : (value) => value;
    const ticks = TICKS[column], low = bend(ticks[0]), high = bend(ticks.at(-1)), end = updates.at(-1);
    const x = (value) => P.left + (value / end) * (P.right - P.left);
    const y = (value) => P.bottom - ((bend(value) - low) / (high - low)) * (P.bottom - P.top);
    const parts = [...yAxis(P, y, ticks), ...xAxis(P, x, updates, "update")];
    // Without a lag, the three are one. Names stand at the ends of the curves.
    const hueOf = (loss) => (lags[at] ? LOOKS[loss].hue : "ink");
    const pathOf = (values) => trace(values.map((value, i) => [x(updates[i]), y(value)]));
    losses.forEach((loss, l) => {
      const looks = runs[at][l];
      looks[0][column].forEach((_, seed) => parts.push(svg("path", { class: "run", d: pathOf(looks.map((look) => look[column][seed])), fill: "none", "stroke-width": 1, "stroke-opacity": 0.3, stroke: `var(--${hueOf(loss)})` })));
    });
    const shown = lags[at] ? losses : losses.slice(1, 2);
    const names = shown.map((loss) => {
      const means = runs[at][losses.indexOf(loss)].map((look) => meanOf(look[column])), hue = hueOf(loss);
      parts.push(svg("path", { d: pathOf(means), fill: "none", "stroke-width": 3.5, "stroke-linejoin": "round", stroke: `var(--${hue})` }));
      return { words: lags[at] ? LOOKS[loss].name : "all three", hue, height: y(means.at(-1)) };
    });
    apart(names.map(({ height }) => height)).forEach((height, i) => parts.push(text(P.right + 8, height + 5, names[i].words, { class: `word ${names[i].hue}`, "font-size": 13, "font-weight": 600 })));
    graphs[column].replaceChildren(...parts);
    set(graphs[column], { "aria-label": `${NAMES_OF_GAUGES[column][0]} against updates at lag ${lags[at]}. At the end: ${losses.map((loss, l) => `${LOOKS[loss].name} ${format(meanOf(runs[at][l].at(-1)[column]))}`).join(", ")}.` });
  }

  function verdict(lag) {
    if (!lags[lag]) return "Without a lag, the three losses are the same: GRPO.";
    const fresh = meanOf(runs[0][0].at(-1).gold), lost = runs[lag].map((looks) => fresh - meanOf(looks.at(-1).gold));
    return `With data ${lags[lag] === 1 ? "1 update" : `${lags[lag]} updates`} old, gold ends lower by ${losses.map((loss, l) => `${format(lost[l], 1)} (${LOOKS[loss].name})`).join(", ")}.`;
  }

  function draw() {
    drawGraph("gold");
    drawGraph("kl");
    for (const column of columns) losses.forEach((loss, l) => {
      const value = meanOf(runs[at][l].at(-1)[column]);
      put(`${column}-${loss}`, value, format(value, NAMES_OF_GAUGES[column][1]));
    });
    says.textContent = verdict(at);
    lagSlider.put(at, String(lags[at]), `${lags[at]} updates`);
  }

  function move(to) {
    at = clamp(Math.round(to), 0, lags.length - 1);
    draw();
    if (lags[at] >= FAR) guess.moved();
    link.tell({ lag: at });
    say(`Lag ${lags[at]}. ${says.textContent}`);
  }

  const link = shared(model, ["lag"], ({ lag }) => move(lag));
  const size = (narrow) => {
    P.bottom = narrow ? 124 : 184;
    for (const graph of Object.values(graphs)) set(graph, { viewBox: `0 0 ${W} ${P.bottom + 38}` });
    draw();
  };
  size(false);
  const unwatch = whenNarrow(root, size);
  return () => { unwatch(); close(); link.close(); };
}

export default { render };
