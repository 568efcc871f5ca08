// A sampler that lags. The reader guesses, moves the lag, and sees gold and KL of ten seeds along the way with three
// losses. What the gauges say at the end is folded.

const STYLE_OF_LAG = `
  .lag .settings { display: grid; grid-template-columns: auto 1fr; align-items: center; gap: 0 14px; margin: 6px 0; }
  .lag .shown { font-weight: 600; display: inline-block; min-width: 2.2em; }
  .lag .panels { display: grid; grid-template-columns: 1fr 1fr; gap: 6px 20px; }
  .lag table { border-collapse: collapse; width: 100%; margin: 8px 0 0; font-size: 14px; }
  .lag th, .lag td { text-align: right; padding: 3px 6px; border-bottom: 1px solid var(--faint); }
  .lag th:first-child { text-align: left; font-weight: 400; padding-left: 0; }
  .lag .says { margin: 8px 0; min-height: 3em; }
  .lag .word { paint-order: stroke; stroke: var(--paper); stroke-width: 4px; stroke-linejoin: round; font-weight: 600; }
  .figure.lag svg .grpo { fill: var(--grpo-text); }
  .figure.lag svg .muted { fill: var(--muted-text); }
  @container (max-width: 560px) {
    .lag .panels { grid-template-columns: 1fr; }
    .lag .says { min-height: 4.4em; }
    .lag th, .lag td { padding: 3px 2px; font-size: 12px; }
  }
`;
const LOOKS = {
  both: { hue: "grpo", line: { "stroke-dasharray": "7 5" }, name: "decoupled" },
  corrected: { hue: "grpo", line: {}, name: "corrected" },
  "not corrected": { hue: "muted", line: {}, name: "not corrected" },
};
const FAR = 16; // the lag that the question is about
const NAMES_OF_GAUGES = {
  gold: ["gold", 2], kl: ["KL to the reference", 1], lag_kl: ["KL(sampler, policy), a token", 2],
  clip_fraction: ["clip fraction", 2], ended: ["share that ends", 2],
};
const meanOf = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

function render({ model, el }) {
  const { root, say, close } = stage(el, "lag", STYLE_OF_LAG);
  root.setAttribute("aria-label", "Interactive figure: a sampler that lags");
  const lags = model.get("lags"), losses = model.get("losses"), updates = model.get("updates"), columns = model.get("columns");
  const runs = model.get("runs").map((ofLag) => ofLag.map((looks) => looks.map((look) =>
    Object.fromEntries(look.split("/").map((part, i) => [columns[i], part.split(" ").map(Number)])))));
  let at = model.get("lag"), telling = false;

  const shown = html("span", { class: "number shown" });
  const slider = html("input", { type: "range", id: "lag", min: 0, max: lags.length - 1, step: 1, oninput: () => move(Number(slider.value)) });
  const guess = prediction("Without a correction, all ratios start at 1, as they do with fresh data. Where does this policy end if its data are 16 updates old?",
    ["Near the reference", "Far, much gold", "Far, little gold"], 2,
    "On average, it ends far away, with the least gold of the three.");
  const W = 340, P = { left: 34, right: 244, top: 10 };
  const graphs = Object.fromEntries(["gold", "kl"].map((column) => [column, svg("svg", { role: "img" })]));
  const facts = {};
  const number = (name) => (facts[name] = html("td", { class: "number", "data-number": name }));
  const says = html("p", { class: "says" });
  root.prepend(
    guess.node,
    html("div", { class: "settings sticky" }, html("span", {}, html("label", { for: "lag" }, "Lag, in updates"), " ", shown), slider),
    html("div", { class: "panels" },
      html("div", {}, html("div", { class: "title" }, "Gold"), graphs.gold),
      html("div", {}, html("div", { class: "title" }, "KL to the reference"), graphs.kl)),
    says,
    behind("Numbers", html("table", {},
      html("thead", {}, html("tr", {}, html("th", { scope: "col" }, "At the end, mean"), ...losses.map((loss) => html("th", { scope: "col" }, LOOKS[loss].name)))),
      html("tbody", {}, ...columns.map((column) => html("tr", {}, html("th", { scope: "row" }, NAMES_OF_GAUGES[column][0]), ...losses.map((loss) => number(`${column}-${loss}`))))))));

  const text = (x, y, content, more) => svg("text", { x, y, "font-size": 13.8, ...more }, content);

  // The axes are the same for all lags, so that curves compare. KL's is of its square root.
  const TICKS = { gold: [-4, -2, 0, 2, 4], kl: [0, 5, 20, 50, 100, 200] };
  function drawGraph(column) {
    const bend = column === "kl" ? (value) => Math.sqrt(Math.max(value, 0)) : (value) => value;
    const ticks = TICKS[column], low = bend(ticks[0]), high = bend(ticks.at(-1)), end = updates.at(-1);
    const x = (value) => P.left + (value / end) * (P.right - P.left);
    const y = (value) => P.bottom - ((bend(value) - low) / (high - low)) * (P.bottom - P.top);
    const parts = [];
    for (const value of ticks) {
      parts.push(svg("line", { x1: P.left, y1: y(value), x2: P.right, y2: y(value), stroke: value ? "var(--faint)" : "var(--line)" }));
      parts.push(text(P.left - 6, y(value) + 5, format(value, 0), { "text-anchor": "end" }));
    }
    for (const value of updates) parts.push(text(x(value), P.bottom + 17, String(value), { "text-anchor": "middle" }));
    parts.push(text((P.left + P.right) / 2, P.bottom + 35, "update", { "text-anchor": "middle" }));
    const trace = (values) => values.map((value, i) => `${i ? "L" : "M"}${x(updates[i])} ${y(value)}`).join("");
    losses.forEach((loss, l) => {
      const looks = runs[at][l];
      looks[0][column].forEach((_, seed) => parts.push(svg("path", { class: "run", d: trace(looks.map((look) => look[column][seed])), fill: "none", "stroke-width": 1, "stroke-opacity": 0.3, stroke: `var(--${LOOKS[loss].hue})` })));
    });
    // Without a lag, the three are one. Names stand at the ends of the curves, a line apart.
    const shown = lags[at] ? losses : losses.slice(1, 2);
    const names = shown.map((loss) => {
      const means = runs[at][losses.indexOf(loss)].map((look) => meanOf(look[column])), { hue, line, name } = LOOKS[loss];
      parts.push(svg("path", { d: trace(means), fill: "none", "stroke-width": 3.5, "stroke-linejoin": "round", stroke: `var(--${hue})`, ...line }));
      return { words: lags[at] ? name : "all three", hue, height: y(means.at(-1)) };
    }).sort((one, other) => one.height - other.height);
    for (let round = 0; round < 20; round++) names.slice(1).forEach((lower, i) => {
      const push = Math.max(0, 17 - (lower.height - names[i].height)) / 2;
      names[i].height -= push;
      lower.height += push;
    });
    for (const { words, hue, height } of names) parts.push(text(P.right + 8, height + 5, words, { class: `word ${hue}`, "font-size": 13 }));
    graphs[column].replaceChildren(...parts);
    set(graphs[column], { "aria-label": `${NAMES_OF_GAUGES[column][0]} against updates at lag ${lags[at]}. At the end: ${losses.map((loss, l) => `${LOOKS[loss].name} ${format(meanOf(runs[at][l].at(-1)[column]))}`).join(", ")}.` });
  }

  function verdict() {
    if (!lags[at]) return "Without a lag, the three losses are the same: GRPO.";
    const fresh = meanOf(runs[0][0].at(-1).gold), lost = runs[at].map((looks) => fresh - meanOf(looks.at(-1).gold));
    return `With data ${lags[at] === 1 ? "1 update" : `${lags[at]} updates`} old, gold ends lower by ${losses.map((loss, l) => `${format(lost[l], 1)} (${LOOKS[loss].name})`).join(", ")}.`;
  }

  function draw() {
    drawGraph("gold");
    drawGraph("kl");
    for (const column of columns) losses.forEach((loss, l) => {
      const value = meanOf(runs[at][l].at(-1)[column]);
      const node = facts[`${column}-${loss}`];
      node.dataset.value = JSON.stringify(value);
      node.textContent = format(value, NAMES_OF_GAUGES[column][1]);
    });
    says.textContent = verdict();
    slider.value = at;
    shown.textContent = String(lags[at]);
    set(slider, { "aria-valuetext": `${lags[at]} updates` });
  }

  function move(to) {
    at = Math.min(Math.max(Math.round(to), 0), lags.length - 1);
    draw();
    if (lags[at] >= FAR) guess.moved();
    telling = true;
    model.set("lag", at);
    model.save_changes();
    telling = false;
    say(`Lag ${lags[at]}. ${says.textContent}`);
  }

  // Python may move it too, in JupyterLab.
  const follow = () => { if (!telling && model.get("lag") !== at) move(model.get("lag")); };
  model.on("change:lag", follow);
  const size = (narrow) => {
    P.bottom = narrow ? 116 : 176;
    for (const graph of Object.values(graphs)) set(graph, { viewBox: `0 0 ${W} ${P.bottom + 38}` });
    draw();
  };
  size(false);
  const unwatch = whenNarrow(root, size);
  return () => { unwatch(); close(); model.off("change:lag", follow); };
}

export default { render };
