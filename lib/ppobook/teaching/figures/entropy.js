// E7. Policies that lose their entropy, without the bonus and with it. Halfway through, an arm that nobody liked becomes
// the best; the reader plays the updates, or slides through them, and sees who can still find it.

const STYLE_OF_ENTROPY = `
  .entropy .settings { display: grid; grid-template-columns: auto auto 1fr; align-items: center; gap: 0 14px; margin: 6px 0; }
  .entropy .shown { font-weight: 600; display: inline-block; min-width: 2em; }
  .entropy .panels { display: grid; grid-template-columns: 1fr 1fr; gap: 6px 24px; margin: 10px 0 0; }
  .entropy .panels > div { display: flex; flex-direction: column; justify-content: space-between; }
  .entropy .word { paint-order: stroke; stroke: var(--paper); stroke-width: 4px; stroke-linejoin: round; }
  .entropy .facts { display: grid; grid-template-columns: repeat(3, 1fr); gap: 8px 12px; margin: 4px 0 0; }
  .entropy .facts div { display: flex; flex-direction: column-reverse; justify-content: flex-end; }
  .entropy .facts dt { color: var(--muted-text); font-size: 13.5px; }
  .entropy .facts dd { margin: 0; font-size: 19px; font-weight: 600; }
  .entropy .key { display: flex; flex-wrap: wrap; gap: 2px 16px; margin: 10px 0 0; padding: 0; list-style: none; font-size: 14px; }
  .entropy .key i { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 6px; vertical-align: -1px; border: 1px solid var(--line); }
  @media print { .entropy button { display: none; } }
  @container (max-width: 560px) {
    .entropy .settings { gap: 0 8px; }
    .entropy .panels { gap: 10px; }
    .entropy .key { font-size: 13px; }
    .entropy .facts { grid-template-columns: 1fr; }
  }
`;
const SHADES_OF_ARMS = ["ink", "muted", "faint", "good"];
const SECONDS_OF_ENTROPY = 6; // from the first update to the last

// Thousandths of all arms but the last, policy by policy, to probabilities; their entropy; what they earn.
function probsOf(packed, arms) {
  const numbers = packed.split(" ").map((entry) => Number(entry) / 1000), rows = [];
  for (let i = 0; i < numbers.length; i += arms - 1) {
    const row = numbers.slice(i, i + arms - 1);
    rows.push([...row, Math.max(0, 1 - row.reduce((a, b) => a + b, 0))]);
  }
  return rows;
}
const entropyOf = (probs) => probs.reduce((sum, p) => (p > 0 ? sum - p * Math.log(p) : sum), 0);
const payOf = (probs, pays) => probs.reduce((sum, p, arm) => sum + p * pays[arm], 0);

function render({ model, el }) {
  const { root, say, close } = stage(el, "entropy", STYLE_OF_ENTROPY);
  root.setAttribute("aria-label", "Interactive figure: policies that lose their entropy");
  const every = model.get("every"), change = model.get("change"), pays = model.get("pays"), later = model.get("later");
  const runs = model.get("runs").map((run) => ({ coef: run.coef, probs: run.probs.map((packed) => probsOf(packed, pays.length)) }));
  const last = (runs[0].probs.length - 1) * every;
  let update = Math.min(Math.max(Math.round(model.get("update") / every) * every, 0), last), coef = model.get("coef");
  let telling = false, frame = 0;

  // Controls
  const shown = html("span", { class: "number shown" });
  const slider = html("input", { type: "range", id: "update", min: 0, max: last, step: every, oninput: () => { const to = Number(slider.value); pause(); move(to); } });
  const button = html("button", { type: "button", class: "main", onclick: () => (frame ? pause(true) : play()) });
  const choose = html("select", { id: "coef", onchange: () => { coef = Number(choose.value); drawCurves(); move(update); } },
    ...runs.slice(1).map((run, i) => html("option", { value: i }, String(run.coef))));

  // Side by side on a phone, too: half as wide, and letters as large.
  const H = 262, C = { left: 34, top: 4, bottom: 98 }, E = { top: 128, bottom: 222 };
  let W;
  const size = (narrow) => {
    W = narrow ? 150 : 340;
    Object.assign(C, narrow ? { left: 24, right: 148 } : { left: 34, right: 336 });
    for (const { picture } of [without, bonus]) set(picture, { viewBox: `0 0 ${W} ${H}`, "font-size": narrow ? 12 : 14 });
  };
  const x = (at) => C.left + (at / last) * (C.right - C.left);
  const y = (value) => E.bottom - (value / 1.45) * (E.bottom - E.top);
  const panel = (side) => {
    const columns = svg("g"), curves = svg("g"), marks = svg("g"), facts = {};
    const picture = svg("svg", { role: "img" }, columns, curves, marks);
    const title = html("div", { class: "title" });
    const fact = (name, term) => {
      facts[name] = html("dd", { class: "number", "data-number": `${side}-${name}` });
      return html("div", {}, html("dt", {}, term), facts[name]);
    };
    const node = html("div", {}, title, picture);
    const name = html("div", { class: "title" });
    const list = html("div", {}, name, html("dl", { class: "facts" }, fact("entropy", "mean entropy"), fact("pay", "mean pay"), fact("found", "prefer arm 4")));
    return { node, list, name, title, picture, columns, curves, marks, facts };
  };
  const without = panel("without"), bonus = panel("with");
  const most = runs[0].probs.at(-1).filter((probs) => probs.indexOf(Math.max(...probs)) === pays.length - 1).length;
  const guess = prediction(`At update ${change}, arm 4 becomes the best. How many of the ${runs[0].probs[0].length} policies without a bonus prefer it ${last - change} updates later?`,
    ["All", "Over half", "Hardly any"], 1,
    `Only ${most} do. All were nearly certain of the first arm. The others, by chance, have tried this one too rarely.`);

  root.prepend(
    guess.node,
    html("div", { class: "settings sticky" }, button, html("span", {}, html("label", { for: "update" }, "Update "), shown), slider),
    html("ul", { class: "key" }, ...pays.map((pay, arm) => html("li", {},
      html("i", { style: `background: var(--${SHADES_OF_ARMS[arm]})` }),
      `arm ${arm + 1} pays ${pay}${later[arm] === pay ? "" : `, from update ${change} on ${later[arm]}`}`)), html("li", { class: "quiet" }, "a column: one policy")),
    html("div", { class: "panels" }, without.node, bonus.node),
    behind("Numbers and other bonuses",
      html("div", { class: "row" }, html("label", { for: "coef" }, "Bonus with entropy coefficient"), choose),
      html("div", { class: "panels" }, without.list, bonus.list)));

  const sides = () => [[without, runs[0]], [bonus, runs[coef + 1]]];
  const line = (x1, y1, x2, y2, more) => svg("line", { x1, y1, x2, y2, ...more });
  const text = (tx, ty, content, more) => svg("text", { x: tx, y: ty, class: "word", ...more }, content);

  // What does not move: axes, and the whole of the curves.
  function drawCurves() {
    for (const [side, run] of sides()) {
      const parts = [];
      for (const value of [0, 0.5, 1]) {
        parts.push(line(C.left, y(value), C.right, y(value), { stroke: value ? "var(--faint)" : "var(--line)" }));
        parts.push(text(C.left - 6, y(value) + 5, format(value, value % 1 ? 1 : 0), { "text-anchor": "end" }));
      }
      for (const at of [0, 40, 80, 120]) if (at <= last) parts.push(text(x(at), E.bottom + 18, String(at), { "text-anchor": at === last ? "end" : "middle" }));
      parts.push(text((C.left + C.right) / 2, E.bottom + 36, "update", { "text-anchor": "middle" }));
      parts.push(line(x(change), E.top - 4, x(change), E.bottom, { stroke: "var(--ink)", "stroke-width": 1.5, "stroke-dasharray": "4 4" }));
      const path = (values, more) => svg("path", { d: values.map((value, i) => `${i ? "L" : "M"}${x(i * every).toFixed(1)} ${y(value).toFixed(1)}`).join(""), fill: "none", ...more });
      const all = run.probs.map((rows) => rows.map(entropyOf));
      all[0].forEach((_, seed) => parts.push(path(all.map((row) => row[seed]), { stroke: "var(--muted)", "stroke-width": 1, "stroke-opacity": 0.55 })));
      parts.push(path(all.map((row) => row.reduce((a, b) => a + b, 0) / row.length), { stroke: "var(--truth)", "stroke-width": 3.5 }));
      parts.push(text(x(change) + 4, E.top + 6, "arm 4 is best"), text(C.left + 2, E.top - 12, W > 150 ? "entropy: each policy, and the mean" : "entropy, and mean"));
      side.curves.replaceChildren(...parts);
    }
  }

  function numbers(run) {
    const rows = run.probs[update / every], now = update < change ? pays : later;
    const mean = (f) => rows.reduce((sum, probs) => sum + f(probs), 0) / rows.length;
    return { entropy: mean(entropyOf), pay: mean((probs) => payOf(probs, now)), found: rows.filter((probs) => probs.indexOf(Math.max(...probs)) === probs.length - 1).length };
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
        svg("circle", { cx: x(update), cy: y(found.entropy), r: 7, fill: "var(--truth)", stroke: "var(--paper)", "stroke-width": 2 }));
      side.name.textContent = run.coef ? `Bonus ${run.coef}` : "No bonus";
      side.title.textContent = `${side.name.textContent}: ${found.found} of ${rows.length} prefer arm 4`;
      for (const [name, node] of Object.entries(side.facts)) {
        node.dataset.value = JSON.stringify(found[name]);
        node.textContent = name === "found" ? `${found.found} of ${rows.length}` : format(found[name]);
      }
      set(side.picture, { "aria-label": `${side.title.textContent}, update ${update}: columns for ${rows.length} policies and their entropy over the updates. Mean entropy ${format(found.entropy)}.` });
    }
    slider.value = update;
    shown.textContent = String(update);
    slider.setAttribute("aria-valuetext", `${update}${update < change ? "" : ", arm 4 has changed"}`);
    choose.value = String(coef);
    button.textContent = frame ? "Pause" : "Play";
    root.dataset.playing = Boolean(frame);
    root.dataset.update = update;
  }

  function tell() {
    const [a, b] = sides().map(([, run]) => numbers(run));
    say(`Update ${update}. Without a bonus: entropy ${format(a.entropy)}, ${a.found} prefer arm 4. With it: entropy ${format(b.entropy)}, ${b.found} prefer arm 4.`);
  }

  function move(to, spoken = true) {
    update = Math.min(Math.max(to, 0), last);
    draw();
    if (update === last) guess.moved();
    telling = true;
    model.set("update", update);
    model.set("coef", coef);
    model.save_changes();
    telling = false;
    if (spoken) tell();
  }

  // Nothing moves before the reader asks for it.
  function play() {
    if (update >= last) update = 0;
    const start = performance.now() - (update / last) * SECONDS_OF_ENTROPY * 1000;
    const tick = (now) => {
      const at = Math.floor((((now - start) / 1000 / SECONDS_OF_ENTROPY) * last) / every) * every;
      frame = at < last ? requestAnimationFrame(tick) : 0;
      if (at !== update || !frame) move(at, !frame);
    };
    frame = requestAnimationFrame(tick);
    draw();
  }
  function pause(spoken = false) {
    cancelAnimationFrame(frame);
    frame = 0;
    draw();
    if (spoken) tell();
  }

  // Python may move it too, in JupyterLab.
  const follow = () => {
    if (telling) return;
    coef = model.get("coef");
    drawCurves();
    move(Math.round(model.get("update") / every) * every);
  };
  for (const name of ["update", "coef"]) model.on(`change:${name}`, follow);
  size(false);
  drawCurves();
  draw();
  const unwatch = whenNarrow(root, (narrow) => { size(narrow); drawCurves(); draw(); });
  return () => { cancelAnimationFrame(frame); unwatch(); close(); for (const name of ["update", "coef"]) model.off(`change:${name}`, follow); };
}

export default { render };
