// Recorded runs in panels, drawn as far as the reader has moved, to answer a guess. If only the first panel is open, the
// others are hidden until there is a guess. A panel may have several groups of runs, each with its name.

const STYLE_OF_REVEAL = `
  .reveal .settings { grid-template-columns: auto auto 1fr; margin: 0; }
  .reveal .panels { gap: 2px 24px; margin: 4px 0 0; }
  .reveal .panels > :only-child { grid-column: 1 / -1; }
  .reveal .texts { margin: 6px 0 0; display: grid; grid-template-columns: auto 1fr; gap: 2px 12px; align-content: start; font-size: 14px; }
  .reveal .texts dt { color: var(--muted-text); }
  .reveal .texts dd { margin: 0; }
  @container (max-width: 560px) {
    .reveal .panels { gap: 4px; }
    .reveal .texts { grid-template-columns: 1fr; gap: 0; }
    .reveal .texts dd { margin: 0 0 4px; }
  }
`;
const SECONDS_OF_REVEAL = 6; // from the first place to the last

function render({ model, el }) {
  const xs = model.get("x"), last = xs.length - 1, start = model.get("at"), xlabel = model.get("xlabel"), open = model.get("first_is_open");
  const panels = model.get("panels").map((panel) => ({ ...panel, groups: panel.groups.map(({ name, hue, runs }) => {
    const curves = runs.map(numbersOf);
    return { name, hue, curves, mean: xs.map((_, i) => meanOf(curves.map((curve) => curve[i]))) };
  }) }));
  const { root, say, close } = stage(el, "reveal", STYLE_OF_REVEAL, `Interactive figure: ${panels.map(({ title }) => title).join("; ")}`);
  let at = start;

  const guess = prediction(model.get("ask"), () => move(at));
  const place = slider("at", xlabel, [0, last], (to) => { player.pause(); move(to); });
  const player = playOn(root, { words: "Play", first: start, last, rate: last / SECONDS_OF_REVEAL, at: () => at, move });
  const texts = model.get("texts").map((one) => ({ ...one, nodes: [html("dt", {}, one.title), html("dd", {}, one.text)] })), wide = panels.length === 1;
  const views = panels.map((panel, k) => twoWidths(root, (picture, W) => drawPanel(panel, k, picture, W), wide ? 720 : 340));
  const values = panels.map(() => html("span", { class: "number" }));
  root.prepend(
    guess.node,
    html("div", { class: "settings" }, player.button, ...place.parts),
    html("div", { class: "panels" }, ...panels.map(({ title, groups }, k) => html("div", {},
      html("div", { class: "title", style: wide ? null : `color: var(--${groups[0].hue}-text)` }, title, " ", values[k]), views[k].picture))),
    ...(texts.length ? [html("dl", { class: "texts" }, ...texts.flatMap(({ nodes }) => nodes))] : []));

  const H = wide ? 236 : 186;
  const frameOf = (W) => ({ left: 38, right: W - (wide ? 62 : 8), top: 8, bottom: H - 40 });
  for (const { picture } of views) draggable(picture, (x) => {
    const { left, right } = frameOf(picture.viewBox.baseVal.width);
    player.pause();
    move(nearest(xs, xs[0] + ((x - left) / (right - left)) * (xs[last] - xs[0])));
  });

  function drawPanel({ title, groups, level }, k, picture, W) {
    const P = frameOf(W), hidden = open && k > 0 && !guess.made();
    const all = groups.flatMap(({ curves }) => curves.flat()), least = Math.min(0, ...all), most = Math.max(...all), step = roundStep(most - least);
    // A little over the edge is room enough.
    const low = Math.floor(least / step + 0.2), high = Math.ceil(most / step - 0.1), decimals = step < 1 ? 2 : wide ? 0 : 1;
    const x = (value) => P.left + ((value - xs[0]) / (xs[last] - xs[0])) * (P.right - P.left), here = x(xs[at]);
    const y = (value) => P.bottom - ((value / step - low) / (high - low)) * (P.bottom - P.top);
    const curve = (values, hue, more) => svg("path", { d: trace(values.slice(0, at + 1).map((value, i) => [x(xs[i]), y(value)])), fill: "none", stroke: `var(--${hue})`, ...more });
    const parts = [...yAxis(P, y, multiples(low * step, high * step)), ...xAxis(P, x, multiples(xs[0], xs[last]), xlabel.toLowerCase())];
    if (level) parts.push(line(P.left, y(level[0]), P.right, y(level[0]), { stroke: "var(--ink)", "stroke-dasharray": "2 4" }), text(P.left + 6, y(level[0]) + 17, level[1]));
    if (hidden) {
      parts.push(text((P.left + P.right) / 2, y(((low + high) / 2) * step) + 14, "?", { "text-anchor": "middle", "font-size": 44, "font-weight": 600, class: "word muted" }));
    } else {
      parts.push(line(here, P.top, here, P.bottom, { stroke: "var(--ink)", "stroke-dasharray": "1 3" }));
      for (const { curves, hue } of groups) parts.push(...curves.map((one) => curve(one, hue, { class: "run", "stroke-width": 1, "stroke-opacity": 0.45 })));
      const names = apart(groups.map(({ mean }) => y(mean[at])));
      groups.forEach(({ name, hue, mean }, g) => {
        parts.push(curve(mean, hue, { "stroke-width": 3.5, "stroke-linejoin": "round" }), dot(here, y(mean[at]), 6, hue));
        if (name) parts.push(text(here + 10, names[g] + 5, name, { "font-weight": 600, class: `word ${hue}` }));
      });
    }
    const means = groups.map(({ mean }) => (hidden ? null : mean[at]));
    values[k].textContent = groups.length > 1 || hidden ? "" : format(means[0], decimals);
    set(picture, {
      viewBox: `0 0 ${W} ${H}`, "data-number": `mean-${k}`, "data-value": JSON.stringify(groups.length > 1 ? means : means[0]),
      "aria-label": hidden ? `${title}: hidden until you guess.` : `${title} at ${xlabel.toLowerCase()} ${xs[at]}, ${groups[0].curves.length} runs each: ${groups.map(({ name }, g) => `${name} ${format(means[g], decimals)} on average`.trim()).join("; ")}.`,
    });
    picture.replaceChildren(...parts);
  }

  function draw() {
    for (const view of views) view.redraw();
    place.put(at, String(xs[at]));
    for (const one of texts) for (const node of one.nodes) node.style.visibility = one.at === 0 || (guess.made() && at >= one.at) ? "" : "hidden";
  }

  function move(to, spoken = true) {
    at = clamp(Math.round(to), 0, last);
    draw();
    if (at === last && (guess.made() || !open)) guess.moved();
    link.tell({ at });
    if (spoken) say(views.map(({ picture }) => picture.getAttribute("aria-label")).join(" "));
  }

  const link = shared(model, ["at"], (now) => move(now.at));
  draw();
  return () => { player.pause(); for (const one of [link, ...views]) one.close(); close(); };
}

export default { render };
