// Runs of a record in panels, each with one measure of the same runs. The first is open; the others appear as far as the
// reader has moved, once they have guessed.

const STYLE_OF_REVEAL = `
  .reveal .settings { display: grid; grid-template-columns: auto 1fr; align-items: center; gap: 0 14px; }
  .reveal .shown { font-weight: 600; display: inline-block; min-width: 1.6em; }
  .reveal .panels { display: grid; grid-template-columns: 1fr 1fr; gap: 2px 24px; margin: 4px 0 0; }
  .reveal .panels svg { cursor: ew-resize; touch-action: pan-y; }
  .reveal .texts { margin: 6px 0 0; display: grid; grid-template-columns: auto 1fr; gap: 2px 12px; align-content: start; font-size: 14px; min-height: 2.9em; }
  .reveal .texts dt { color: var(--muted-text); }
  .reveal .texts dd { margin: 0; }
  @container (max-width: 560px) {
    .reveal .panels { grid-template-columns: 1fr; gap: 4px; }
    .reveal .texts { grid-template-columns: 1fr; min-height: 8.6em; gap: 0; }
    .reveal .texts dd { margin: 0 0 4px; }
  }
`;

function render({ model, el }) {
  const { root, say, close } = stage(el, "reveal", STYLE_OF_REVEAL);
  const xs = model.get("x"), last = xs.length - 1, asked = model.get("question");
  const panels = model.get("panels").map(({ title, hue, runs }) => ({ title, hue, runs: runs.map((run) => run.split(" ").map(Number)) }));
  const averages = panels.map(({ runs }) => xs.map((_, i) => runs.reduce((sum, run) => sum + run[i], 0) / runs.length));
  let at = model.get("at"), furthest = at, telling = false;
  root.setAttribute("aria-label", `Interactive figure: ${panels.map(({ title }) => title).join("; ")}`);

  const guess = prediction(asked.words, asked.options, asked.right, asked.answer, () => move(at));
  const shown = html("span", { class: "number shown" });
  const slider = html("input", { type: "range", id: "at", min: 0, max: last, step: 1, oninput: () => move(Number(slider.value)) });
  const texts = html("dl", { class: "texts" });
  const W = 340, H = 172, P = { left: 30, right: 332, top: 8, bottom: 148 };
  const graphs = panels.map(() => svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img" }));
  root.prepend(
    guess.node,
    html("div", { class: "settings" }, html("span", {}, html("label", { for: "at" }, model.get("xlabel")), " ", shown), slider),
    html("div", { class: "panels" }, ...panels.map(({ title, hue }, i) =>
      html("div", {}, html("div", { class: "title", style: `color: var(--${hue}-text)` }, title), graphs[i]))),
    texts);

  const text = (x, y, content, more) => svg("text", { x, y, "font-size": 13.8, ...more }, content);
  const line = (x1, y1, x2, y2, more) => svg("line", { x1, y1, x2, y2, ...more });
  const px = (i) => P.left + ((xs[i] - xs[0]) / (xs[last] - xs[0])) * (P.right - P.left);

  for (const graph of graphs) {
    const drag = (event) => {
      const place = graph.getBoundingClientRect();
      const x = ((event.clientX - place.left) / place.width) * W;
      move(xs.reduce((best, _, i) => (Math.abs(px(i) - x) < Math.abs(px(best) - x) ? i : best), 0));
    };
    graph.addEventListener("pointerdown", (event) => { graph.setPointerCapture(event.pointerId); drag(event); });
    graph.addEventListener("pointermove", (event) => { if (graph.hasPointerCapture(event.pointerId)) drag(event); });
  }

  function drawGraph(number) {
    const { title, hue, runs } = panels[number], open = number === 0, until = open ? last : furthest;
    const least = Math.min(0, ...runs.flat()), most = Math.max(...runs.flat()), step = most - least > 4 ? 2 : 1;
    // A little over the edge is room enough.
    const low = Math.floor(least / step + 0.2) * step, high = Math.ceil(most / step - 0.1) * step;
    const y = (value) => P.bottom - ((value - low) / (high - low)) * (P.bottom - P.top);
    const parts = [];
    for (let value = low; value <= high; value += step) {
      parts.push(line(P.left, y(value), P.right, y(value), { stroke: value ? "var(--faint)" : "var(--line)" }));
      parts.push(text(P.left - 7, y(value) + 5, format(value, 0), { "text-anchor": "end" }));
    }
    for (const i of [0, Math.floor(last / 2), last]) parts.push(text(px(i), P.bottom + 18, xs[i], { "text-anchor": i === last ? "end" : "middle" }));
    const d = (values, to) => values.slice(0, to + 1).map((value, i) => `${i ? "L" : "M"}${px(i).toFixed(1)} ${y(value).toFixed(1)}`).join("");
    const hidden = !open && !guess.made();
    if (!hidden) {
      for (const run of runs) parts.push(svg("path", { class: "run", d: d(run, until), fill: "none", stroke: `var(--${hue})`, "stroke-width": 1, "stroke-opacity": 0.45 }));
      parts.push(svg("path", { d: d(averages[number], until), fill: "none", stroke: `var(--${hue})`, "stroke-width": 3.5, "stroke-linejoin": "round" }));
      parts.push(line(px(at), P.top, px(at), P.bottom, { stroke: "var(--ink)", "stroke-dasharray": "1 3" }));
      parts.push(svg("circle", { cx: px(at), cy: y(averages[number][at]), r: 6, fill: `var(--${hue})`, stroke: "var(--paper)", "stroke-width": 2 }));
    } else {
      parts.push(text((P.left + P.right) / 2, y((low + high) / 2) + 14, "?", { "text-anchor": "middle", "font-size": 44, "font-weight": 600, style: "fill: var(--muted-text)" }));
    }
    graphs[number].replaceChildren(...parts);
    set(graphs[number], {
      "data-number": `mean-${number}`, "data-value": JSON.stringify(hidden ? null : averages[number][at]),
      "aria-label": hidden ? `${title}: hidden until you guess.` : `${title}, ${runs.length} runs: ${format(averages[number][at], 1)} on average at ${xs[at]}.`,
    });
  }

  function draw() {
    panels.forEach((_, number) => drawGraph(number));
    slider.value = at;
    shown.textContent = String(xs[at]);
    set(slider, { "aria-valuetext": `${xs[at]}` });
    texts.replaceChildren(...model.get("texts").filter((one) => one.at === 0 || (guess.made() && furthest >= one.at))
      .flatMap(({ title, text: words }) => [html("dt", {}, title), html("dd", {}, words)]));
  }

  function move(to) {
    at = Math.min(Math.max(Math.round(to), 0), last);
    furthest = guess.made() ? Math.max(furthest, at) : 0;
    if (guess.made() && furthest === last) guess.moved();
    draw();
    telling = true;
    model.set("at", at);
    model.save_changes();
    telling = false;
    say(graphs.map((graph) => graph.getAttribute("aria-label")).join(" "));
  }

  // Python may move it too, in JupyterLab.
  const follow = () => { if (!telling && model.get("at") !== at) move(model.get("at")); };
  model.on("change:at", follow);
  draw();
  return () => { close(); model.off("change:at", follow); };
}

export default { render };
