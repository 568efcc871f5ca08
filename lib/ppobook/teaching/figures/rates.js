// Two learning rates. Ten runs of each, up to an update: the reader guesses what comes next, and then plays the rest.

const STYLE_OF_RATES = `
  .rates .settings { display: grid; grid-template-columns: auto auto 1fr; align-items: center; gap: 0 14px; margin: 4px 0 0; }
  .rates .shown { font-weight: 600; display: inline-block; min-width: 2em; }
  @media print { .rates button { display: none; } }
`;
const UPDATES_A_SECOND = 5;

function render({ model, el }) {
  const { root, say, close } = stage(el, "rates", STYLE_OF_RATES);
  root.setAttribute("aria-label", "Interactive figure: training with two learning rates");
  const top = model.get("top"), first = model.get("first");
  const sides = model.get("sides").map((side) => ({ ...side, runs: side.runs.map((text) => text.split(" ").map(Number)) }));
  const last = sides[0].runs[0].length, HUES = ["ppo", "bad"];
  let update = model.get("update"), frame = 0, telling = false;
  const meanAt = (side, at) => side.runs.reduce((sum, run) => sum + run[at - 1], 0) / side.runs.length;

  const [low, high] = sides;
  const guess = prediction(`After ${first} updates, the ten runs with the larger learning rate are ahead on average. What comes next?`,
    ["They stay ahead", "Both end at the top", "They level off"], 2,
    `Only ${high.arrived} of the ten trained policies earn ${model.get("good")} or more, against ${low.arrived} of ten with the smaller learning rate.`);
  const shown = html("span", { class: "number shown" });
  const slider = html("input", { type: "range", id: "update", min: 1, max: last, step: 1, oninput: () => { const to = Number(slider.value); pause(); move(to); } });
  const button = html("button", { type: "button", class: "main", onclick: () => (frame ? pause() : start()) });
  const view = twoWidths(root, draw);
  root.prepend(guess.node, view.picture,
    html("div", { class: "settings" }, button, html("span", {}, html("label", { for: "update" }, "Update"), " ", shown), slider));

  function draw(picture, W) {
    const H = 222, P = { left: 38, right: W - 62, top: 10, bottom: 182 };
    const x = (at) => P.left + ((at - 1) / (last - 1)) * (P.right - P.left), y = (value) => P.bottom - (value / top) * (P.bottom - P.top);
    const text = (tx, ty, words, more) => svg("text", { x: tx, y: ty, "font-size": 13.5, ...more }, words);
    const parts = [];
    for (const value of [0, top / 2, top]) {
      parts.push(svg("line", { x1: P.left, x2: P.right, y1: y(value), y2: y(value), stroke: value ? "var(--faint)" : "var(--line)" }));
      parts.push(text(P.left - 6, y(value) + 5, String(value), { "text-anchor": "end" }));
    }
    for (const at of [1, 10, 20, 30]) if (at <= last) parts.push(text(x(at), P.bottom + 18, String(at), { "text-anchor": "middle" }));
    parts.push(text((P.left + P.right) / 2, P.bottom + 36, "update", { "text-anchor": "middle" }), text(P.left + 6, P.top + 12, "return"));
    const line = (values, more) => svg("path", { d: values.map((value, i) => `${i ? "L" : "M"}${x(i + 1).toFixed(1)} ${y(value).toFixed(1)}`).join(""), fill: "none", ...more });
    const ends = sides.map((side) => y(meanAt(side, update)));
    // Names stay 17 units apart.
    const gap = Math.max(0, 17 - Math.abs(ends[0] - ends[1])) / 2, upper = ends[0] < ends[1] ? 0 : 1;
    sides.forEach((side, i) => {
      const stroke = `var(--${HUES[i]})`;
      for (const run of side.runs) parts.push(line(run.slice(0, update), { stroke, "stroke-width": 1, "stroke-opacity": 0.45 }));
      parts.push(line(Array.from({ length: update }, (_, k) => meanAt(side, k + 1)), { stroke, "stroke-width": 3.5 }));
      parts.push(svg("circle", { cx: x(update), cy: ends[i], r: 5, fill: stroke }));
      parts.push(text(x(update) + 10, ends[i] + 5 + (i === upper ? -gap : gap), side.name, {
        "font-weight": 600, style: `fill: var(--${HUES[i]}-text); paint-order: stroke; stroke: var(--paper); stroke-width: 4px`,
        "data-number": `mean-${i}`, "data-value": JSON.stringify(meanAt(side, update)),
      }));
    });
    set(picture, { viewBox: `0 0 ${W} ${H}`, "aria-label": `Return up to update ${update}, ten runs each. ${sides.map((side) => `Learning rate ${side.name}: ${format(meanAt(side, update), 0)} on average`).join("; ")}.` });
    picture.replaceChildren(...parts);
  }

  function put() {
    view.redraw();
    slider.value = update;
    shown.textContent = String(update);
    button.textContent = frame ? "Pause" : "Play on";
    root.dataset.playing = Boolean(frame);
    root.dataset.update = update;
  }
  function move(to, spoken = true) {
    update = Math.min(Math.max(to, 1), last);
    put();
    if (update >= last - 5) guess.moved();
    telling = true;
    model.set("update", update);
    model.save_changes();
    telling = false;
    if (spoken) say(`Update ${update}. ${sides.map((side) => `Learning rate ${side.name}: ${format(meanAt(side, update), 0)}`).join("; ")}.`);
  }
  // Nothing moves before the reader asks for it.
  function start() {
    if (update >= last) update = 1;
    const from = update, since = performance.now();
    const tick = (now) => {
      const at = Math.min(last, from + Math.max(0, Math.floor(((now - since) / 1000) * UPDATES_A_SECOND)));
      frame = at < last ? requestAnimationFrame(tick) : 0;
      if (at !== update || !frame) move(at, !frame);
    };
    frame = requestAnimationFrame(tick);
    put();
  }
  function pause() {
    cancelAnimationFrame(frame);
    frame = 0;
    put();
  }

  const follow = () => { if (!telling) move(model.get("update")); };
  model.on("change:update", follow);
  put();
  return () => { cancelAnimationFrame(frame); close(); view.close(); model.off("change:update", follow); };
}

export default { render };
