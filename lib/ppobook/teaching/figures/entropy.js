// E7. Policies that lose their entropy, without the bonus and with it. Halfway through, an arm that nobody liked becomes
// the best; the reader plays the updates, or slides through them, and sees who can still find it.

const STYLE_OF_ENTROPY = `
  .entropy .settings { grid-template-columns: auto auto 1fr; }
  .entropy .panels > div { display: flex; flex-direction: column; justify-content: space-between; }
  .entropy .key { display: flex; flex-wrap: wrap; gap: 2px 16px; margin: 10px 0 0; padding: 0; list-style: none; font-size: 14px; }
  .entropy .key i { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 6px; vertical-align: -1px; border: 1px solid var(--line); }
  @container (max-width: 560px) {
    .entropy .settings { gap: 0 8px; }
    .entropy .panels { grid-template-columns: 1fr 1fr; gap: 10px; }
    .entropy .key { font-size: 13px; }
    .entropy .facts { grid-template-columns: 1fr; }
  }
`;
const SHADES_OF_ARMS = ["ink", "muted", "faint", "good"];
const SECONDS_OF_ENTROPY = 6; // from the first update to the last

// Thousandths of all arms but the last, policy by policy, to probabilities; their entropy; what they earn.
function probsOf(packed, arms) {
  const numbers = numbersOf(packed).map((entry) => entry / 1000), rows = [];
  for (let i = 0; i < numbers.length; i += arms - 1) {
    const row = numbers.slice(i, i + arms - 1);
    rows.push([...row, Math.max(0, 1 - row.reduce((a, b) => a + b, 0))]);
  }
  return rows;
}
const entropyOf = (probs) => probs.reduce((sum, p) => (p > 0 ? sum - p * Math.log(p) : sum), 0);
const payOf = (probs, pays) => probs.reduce((sum, p, arm) => sum + p * pays[arm], 0);

function render({ model, el }) {
  const { root, say, close } = stage(el, "entropy", STYLE_OF_ENTROPY, "Interactive figure: policies that lose their entropy");
  const every = model.get("every"), change = model.get("change"), pays = model.get("pays"), later = model.get("later");
  const runs = model.get("runs").map((run) => ({ coef: run.coef, probs: run.probs.map((packed) => probsOf(packed, pays.length)) }));
  const last = (runs[0].probs.length - 1) * every;
  let update = clamp(Math.round(model.get("update") / every) * every, 0, last), coef = model.get("coef");

  // Controls
  const updateSlider = slider("update", "Update", [0, last, every], (to) => { player.pause(); move(to); });
  const player = playOn(root, { words: "Play", first: 0, last, step: every, rate: last / SECONDS_OF_ENTROPY, at: () => update, move });
  const choose = choice("coef", runs.slice(1).map((run) => run.coef), (to) => { coef = to; drawCurves(); move(update); });

  // Side by side on a phone, too: half as wide, and letters as large.
  const H = 262, C = { left: 34, top: 4, bottom: 98 }, E = { top: 128, bottom: 222 };
  let W;
  const size = (narrow) => {
    W = narrow ? 150 : 340;
    Object.assign(C, narrow ? { left: 24, right: 148 } : { left: 34, right: 336 });
    for (const { picture } of [without, bonus]) set(picture, { viewBox: `0 0 ${W} ${H}`, style: `font-size: ${narrow ? 12 : 14}px` });
  };
  const x = (at) => C.left + (at / last) * (C.right - C.left);
  const y = (value) => E.bottom - (value / 1.45) * (E.bottom - E.top);
  const panel = (side) => {
    const columns = svg("g"), curves = svg("g"), marks = svg("g");
    const picture = svg("svg", { role: "img" }, columns, curves, marks);
    const title = html("div", { class: "title" });
    const node = html("div", {}, title, picture);
    const name = html("div", { class: "title" });
    const list = html("div", {}, name, html("dl", { class: "facts" }, ...Object.entries({ entropy: "mean entropy", pay: "mean pay", found: "prefer arm 4" }).map(([key, term]) => fact(`${side}-${key}`, term))));
    return { side, node, list, name, title, picture, columns, curves, marks };
  };
  const { fact, put } = numberList();
  const without = panel("without"), bonus = panel("with");
  const most = runs[0].probs.at(-1).filter((probs) => probs.indexOf(Math.max(...probs)) === pays.length - 1).length;
  const guess = prediction({
    asks: `At update ${change}, arm 4 becomes the best. How many of the ${runs[0].probs[0].length} policies without a bonus prefer it ${last - change} updates later?`,
    options: ["All", "Over half", "Hardly any"], right: 1,
    answer: `Only ${most} do. All were nearly certain of the first arm. The others, by chance, have tried this one too rarely.`,
  });

  root.prepend(
    guess.node,
    html("div", { class: "settings sticky" }, player.button, ...updateSlider.parts),
    html("ul", { class: "key" }, ...pays.map((pay, arm) => html("li", {},
      html("i", { style: `background: var(--${SHADES_OF_ARMS[arm]})` }),
      `arm ${arm + 1} pays ${pay}${later[arm] === pay ? "" : `, from update ${change} on ${later[arm]}`}`)), html("li", { class: "quiet" }, "a column: one policy")),
    html("div", { class: "panels" }, without.node, bonus.node),
    behind("Numbers and other bonuses",
      html("div", { class: "row" }, html("label", { for: "coef" }, "Bonus with entropy coefficient"), choose),
      html("div", { class: "panels" }, without.list, bonus.list)));

  const sides = () => [[without, runs[0]], [bonus, runs[coef + 1]]];

  // What does not move: axes, and the whole of the curves.
  function drawCurves() {
    for (const [side, run] of sides()) {
      const parts = [...yAxis(C, y, [0, 0.5, 1]), ...xAxis({ ...C, ...E }, x, [0, 40, 80, 120].filter((at) => at <= last), "update")];
      parts.push(line(x(change), E.top - 4, x(change), E.bottom, { stroke: "var(--ink)", "stroke-width": 1.5, "stroke-dasharray": "4 4" }));
      const path = (values, more) => svg("path", { d: trace(values.map((value, i) => [x(i * every), y(value)])), fill: "none", ...more });
      const all = run.probs.map((rows) => rows.map(entropyOf));
      all[0].forEach((_, seed) => parts.push(path(all.map((row) => row[seed]), { stroke: "var(--muted)", "stroke-width": 1, "stroke-opacity": 0.55 })));
      parts.push(path(all.map(meanOf), { stroke: "var(--truth)", "stroke-width": 3.5 }));
      parts.push(text(x(change) + 4, E.top + 6, "arm 4 is best"), text(C.left + 2, E.top - 12, W > 150 ? "entropy: each policy, and the mean" : "entropy, and mean"));
      side.curves.replaceChildren(...parts);
    }
  }

  function numbers(run) {
    const rows = run.probs[update / every], now = update < change ? pays : later;
    return { entropy: meanOf(rows.map(entropyOf)), pay: meanOf(rows.map((probs) => payOf(probs, now))), found: rows.filter((probs) => probs.indexOf(Math.max(...probs)) === probs.length - 1).length };
  }

  function draw() {
    for (const [side, run] of sides()) {
      const rows = run.probs[update / every], slot = (C.right - C.left) / rows.length, parts = [];
      rows.forEach((probs, seed) => {
        let floor = C.bottom;
        probs.forEach((p, arm) => {
          const height = p * (C.bottom - C.top);
          floor -= height;
          parts.push(svg("rect", { x: C.left + (seed + 0.1) * slot, width: 0.8 * slot, y: floor, height, fill: `var(--${SHADES_OF_ARMS[arm]})` }));
        });
      });
      side.columns.replaceChildren(...parts);
      const found = numbers(run);
      side.marks.replaceChildren(line(x(update), E.top - 4, x(update), E.bottom, { stroke: "var(--ink)", "stroke-width": 1 }),
        dot(x(update), y(found.entropy), 7, "truth"));
      side.name.textContent = run.coef ? `Bonus ${run.coef}` : "No bonus";
      side.title.textContent = `${side.name.textContent}: ${found.found} of ${rows.length} prefer arm 4`;
      for (const [name, value] of Object.entries(found)) put(`${side.side}-${name}`, value, name === "found" ? `${value} of ${rows.length}` : format(value));
      set(side.picture, { "aria-label": `${side.title.textContent}, update ${update}: columns for ${rows.length} policies and their entropy over the updates. Mean entropy ${format(found.entropy)}.` });
    }
    updateSlider.put(update, String(update), `${update}${update < change ? "" : ", arm 4 has changed"}`);
    choose.value = coef;
    root.dataset.update = update;
  }

  function tell() {
    const [a, b] = sides().map(([, run]) => numbers(run));
    say(`Update ${update}. Without a bonus: entropy ${format(a.entropy)}, ${a.found} prefer arm 4. With it: entropy ${format(b.entropy)}, ${b.found} prefer arm 4.`);
  }

  function move(to, spoken = true) {
    update = clamp(to, 0, last);
    draw();
    if (update === last) guess.moved();
    link.tell({ update, coef });
    if (spoken) tell();
  }

  const link = shared(model, ["update", "coef"], (now) => {
    coef = now.coef;
    drawCurves();
    move(Math.round(now.update / every) * every);
  });
  size(false);
  drawCurves();
  draw();
  const unwatch = whenNarrow(root, (narrow) => { size(narrow); drawCurves(); draw(); });
  return () => { player.pause(); unwatch(); close(); link.close(); };
}

export default { render };
