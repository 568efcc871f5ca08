// A reward model that stays as it is while the policy moves. The reader guesses, then moves the policy on, and two curves
// are drawn as far as it has come: how often the reward model is right about the policy's texts, and their gold.

const STYLE_OF_LEFT = `
  .left .settings { display: grid; grid-template-columns: auto 1fr; align-items: center; gap: 0 14px; margin: 6px 0; }
  .left .shown { font-weight: 600; display: inline-block; min-width: 1.5em; }
  .left .panels { display: grid; grid-template-columns: 1fr 1fr; gap: 6px 20px; }
  .left .says { margin: 8px 0 0; min-height: 1.5em; }
  @container (max-width: 560px) {
    .left .panels { grid-template-columns: 1fr; gap: 8px; }
    .left .says { min-height: 3em; }
  }
`;
const PANELS = {
  order: { title: "Pairs ranked right", ticks: [0.25, 0.5, 0.75, 1], decimals: 2, level: 0.5, words: "a coin" },
  gold: { title: "Gold, the true score", ticks: [-4, -2, 0, 2], decimals: 0, level: 0, words: "" },
};

function render({ model, el }) {
  const { root, say, close } = stage(el, "left", STYLE_OF_LEFT);
  root.setAttribute("aria-label", "Interactive figure: a policy leaves its reward model behind");
  const updates = model.get("updates"), columns = model.get("columns"), end = updates.length - 1;
  const looks = model.get("looks").map((look) => Object.fromEntries(look.split("/").map((part, i) => [columns[i], part.split(" ").map(Number)])));
  const meanOf = (column, k) => looks[k][column].reduce((sum, value) => sum + value, 0) / looks[k][column].length;
  let at = model.get("at"), telling = false;

  const guess = prediction("The reward model learned once, before update 0. Then the policy learns to please it. After 45 updates, how often does the reward model pick the better of two new texts?",
    ["As often as before", "In 7 of 10 cases", "In half of them, like a coin"], 2,
    "On average, the reward model does no better than a coin, and gold has fallen.");
  const shown = html("span", { class: "number shown" });
  const slider = html("input", { type: "range", id: "update", min: 0, max: end, step: 1, oninput: () => move(Number(slider.value)) });
  const W = 340, H = 176, P = { left: 38, right: W - 8, top: 10, bottom: H - 38 };
  const graphs = Object.fromEntries(columns.map((column) => [column, svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img" })]));
  const says = html("p", { class: "says" });
  root.prepend(
    guess.node,
    html("div", { class: "settings sticky" }, html("span", {}, html("label", { for: "update" }, "Update"), " ", shown), slider),
    html("div", { class: "panels" }, ...columns.map((column) => html("div", {}, html("div", { class: "title" }, PANELS[column].title), graphs[column]))),
    says);

  const text = (x, y, content, more) => svg("text", { x, y, "font-size": 13.8, ...more }, content);

  function drawGraph(column) {
    const { ticks, decimals, level, words } = PANELS[column], all = looks.flatMap((look) => look[column]);
    const low = Math.min(...ticks, ...all), high = Math.max(...ticks, ...all);
    const x = (k) => P.left + (updates[k] / updates[end]) * (P.right - P.left), y = (value) => P.bottom - ((value - low) / (high - low)) * (P.bottom - P.top);
    const parts = [];
    for (const value of ticks) {
      parts.push(svg("line", { x1: P.left, y1: y(value), x2: P.right, y2: y(value), stroke: value === level ? "var(--line)" : "var(--faint)" }));
      parts.push(text(P.left - 6, y(value) + 5, format(value, decimals), { "text-anchor": "end" }));
    }
    parts.push(text(P.left + 6, y(level) + 17, words));
    updates.forEach((value, k) => parts.push(text(x(k), P.bottom + 17, String(value), { "text-anchor": "middle" })));
    parts.push(text((P.left + P.right) / 2, P.bottom + 34, "update", { "text-anchor": "middle" }));
    const upTo = looks.slice(0, at + 1), look = { fill: "none", stroke: "var(--ppo)", "stroke-linejoin": "round" };
    const trace = (values) => values.map((value, k) => `${k ? "L" : "M"}${x(k).toFixed(1)} ${y(value).toFixed(1)}`).join("");
    looks[0][column].forEach((_, seed) => parts.push(svg("path", { class: "run", d: trace(upTo.map((one) => one[column][seed])), "stroke-width": 1, "stroke-opacity": 0.4, ...look })));
    parts.push(svg("path", { d: trace(upTo.map((_, k) => meanOf(column, k))), "stroke-width": 3.5, ...look }));
    parts.push(svg("circle", { cx: x(at), cy: y(meanOf(column, at)), r: 6, fill: "var(--ppo)", stroke: "var(--paper)", "stroke-width": 2 }));
    graphs[column].dataset.mean = meanOf(column, at);
    graphs[column].replaceChildren(...parts);
    set(graphs[column], { "aria-label": `${PANELS[column].title}, up to update ${updates[at]}: ${upTo.map((_, k) => format(meanOf(column, k))).join(", ")}.` });
  }

  function draw() {
    for (const column of columns) drawGraph(column);
    slider.value = at;
    shown.textContent = String(updates[at]);
    set(slider, { "aria-valuetext": `update ${updates[at]}` });
    says.textContent = `At update ${updates[at]}, the reward model ranks ${Math.round(100 * meanOf("order", at))} of 100 pairs as gold does.`;
  }

  function move(to) {
    at = Math.min(Math.max(Math.round(to), 0), end);
    draw();
    if (at === end) guess.moved();
    telling = true;
    model.set("at", at);
    model.save_changes();
    telling = false;
    say(`${says.textContent} Mean gold ${format(meanOf("gold", at), 1)}.`);
  }

  // Python may move it too, in JupyterLab.
  const follow = () => { if (!telling && model.get("at") !== at) move(model.get("at")); };
  model.on("change:at", follow);
  draw();
  return () => { close(); model.off("change:at", follow); };
}

export default { render };
