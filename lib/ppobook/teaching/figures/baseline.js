// E3. One sample from a three-armed bandit gives one of three estimates of the policy gradient. The reader slides the
// baseline: the three arrows shrink, turn and grow, and their mean, the exact gradient, stays where it is. Faint arrows
// show the estimates without a baseline. The spread against the baseline, and the numbers, are folded.

const STYLE_OF_BASELINE = `
  .baseline th { color: var(--muted-text); font-weight: 400; }
  .baseline > .panels { margin: 0; }
  .baseline td:last-child { font-weight: 600; white-space: nowrap; }
  .baseline .facts { grid-template-columns: 1fr 1fr; }
  .baseline .facts div:last-child { grid-column: 1 / -1; }
  .baseline .drawn { margin-top: 10px; }
  .baseline .drawn p { margin: 0; flex: 1 1 260px; }
  @container (max-width: 560px) {
    .baseline .jumps { gap: 6px; }
    .baseline .jumps button { flex: 1 1 0; padding: 4px 2px; }
  }
`;

// The estimate from a pull of arm a, (r_a − b)(e_a − π), for every arm; and how far one of them lies from their
// mean, as the root of the mean square.
function estimates(bandit, b) {
  return bandit.rewards.map((reward, a) =>
    bandit.probs.map((p, k) => (reward - b) * ((a === k ? 1 : 0) - p)));
}
function average(bandit, vectors) {
  return bandit.probs.map((_, k) => vectors.reduce((sum, vector, a) => sum + bandit.probs[a] * vector[k], 0));
}
function squared(x, y) {
  return x.reduce((sum, entry, k) => sum + (entry - y[k]) ** 2, 0);
}
function spread(bandit, b) {
  const vectors = estimates(bandit, b);
  const mean = average(bandit, vectors);
  return Math.sqrt(vectors.reduce((sum, vector, a) => sum + bandit.probs[a] * squared(vector, mean), 0));
}

// The entries of an estimate sum to zero. Seen along (1, 1, 1) the three logits point up, to the lower right and
// to the lower left, and lengths are true.
const DIRECTIONS = [90, -30, 210].map((degrees) => {
  const angle = (degrees * Math.PI) / 180;
  return [Math.cos(angle), -Math.sin(angle)];
});
function project(vector) {
  const along = (i) => Math.sqrt(2 / 3) * vector.reduce((sum, entry, k) => sum + entry * DIRECTIONS[k][i], 0);
  return [along(0), along(1)];
}

const vectorText = (vector) => `(${vector.map((entry) => format(entry)).join(", ")})`;

function render({ model, el }) {
  const { root, say, close } = stage(el, "baseline", STYLE_OF_BASELINE, "Interactive figure: a baseline and the spread of a policy-gradient estimate");
  const bandits = model.get("bandits");
  const pulls = model.get("pulls");
  const random = generator(model.get("seed"));
  let bandit = bandits[model.get("bandit")];
  let b = model.get("baseline");
  // The arms of each average: the same samples are judged anew under each baseline.
  let learners = [];
  let asked = false;
  let gliding = 0;

  // Controls
  const bSlider = slider("b", "Baseline", bandit.range, (to) => { stop(); move(to); });
  const choose = choice("bandit", bandits.map(({ name }) => name), (index) => { stop(); pick(index); });
  const jumps = [
    html("button", { type: "button", onclick: () => glide(bandit.range[0] > 0 ? bandit.range[0] : 0) }),
    html("button", { type: "button", onclick: () => glide(bandit.expected) }),
    html("button", { type: "button", onclick: () => glide(bandit.best) }),
  ];
  const button = html("button", { type: "button", onclick: () => { asked = true; pull(); draw(); tell(); } },
    `Average ${pulls} samples`);
  const guess = prediction(model.get("ask"));
  const report = html("p", { class: "number" });

  // Left: the plane of the three estimates
  const W = 340, H = 252, CX = 150, CY = 166, REACH = 124, LENS = { x: 268, y: 72, r: 68 };
  const clip = `lens-${Math.random().toString(36).slice(2)}`;
  const axes = svg("g");
  const scene = svg("g");
  const lens = svg("g");
  const lensScene = svg("g", { "clip-path": `url(#${clip})` });
  const lensWord = text(LENS.x, LENS.y + LENS.r + 17, "", { "text-anchor": "middle", "font-size": 13 });
  lens.append(
    svg("clipPath", { id: clip }, svg("circle", { cx: LENS.x, cy: LENS.y, r: LENS.r })),
    svg("circle", { cx: LENS.x, cy: LENS.y, r: LENS.r, fill: "var(--paper)", stroke: "var(--line)" }),
    lensScene, lensWord);
  const plane = svg("svg", { viewBox: `0 0 ${W} ${H}`, class: "plane", role: "img" }, axes, scene, lens);

  // Right: the spread against the baseline
  const P = { left: 38, right: 330, top: 26, bottom: 210 };
  const frame = svg("g");
  const path = svg("path", { fill: "none", stroke: "var(--vanilla)", "stroke-width": 3 });
  const drop = svg("line", { stroke: "var(--ink)", "stroke-width": 1, y2: P.bottom });
  const dot = svg("circle", { r: 8, fill: "var(--vanilla)", stroke: "var(--ink)", "stroke-width": 2 });
  const dotWord = svg("text", { class: "word number", "font-size": 15, "font-weight": 600 });
  const curve = svg("svg", { viewBox: `0 0 ${W} 254`, class: "curve", role: "img" }, frame, path, drop, dot, dotWord);
  const x = (value) => P.left + ((value - bandit.range[0]) / (bandit.range[1] - bandit.range[0])) * (P.right - P.left);
  const top = () => Math.max(...bandit.spread) * 1.04;
  const y = (value) => P.bottom - (value / top()) * (P.bottom - P.top);
  draggable(curve, (at) => {
    const value = bandit.range[0] + ((at - P.left) / (P.right - P.left)) * (bandit.range[1] - bandit.range[0]);
    stop();
    move(Math.round(value / bandit.step) * bandit.step);
  });

  // Numbers
  const body = html("tbody");
  const { fact, put } = numberList();

  root.prepend(
    html("div", { class: "panels" },
      html("div", {}, guess.node,
        html("div", { class: "settings" }, ...bSlider.parts)),
      html("div", {},
        html("div", { class: "title" }, "What one sample says"),
        html("div", { class: "quiet" }, "dot: average of many samples; faint arrows: no baseline"), plane)),
    behind("Numbers, averages and other bandits",
      html("div", { class: "row" }, html("label", { for: "bandit" }, "Bandit"), choose),
      html("div", { class: "row jumps" }, ...jumps),
      html("div", { class: "panels" },
        html("div", {}, html("div", { class: "title" }, "Spread of one sample"), html("div", { class: "quiet" }, "against the baseline; drag the dot"), curve),
        html("div", {},
          html("table", {},
            html("thead", {}, html("tr", {},
              ...["arm", "probability", "pays", "pays − baseline"].map((word) => html("th", { scope: "col" }, word)))),
            body),
          html("dl", { class: "facts" }, fact("spread", "spread of one sample"), fact("pulls", "samples for an error of 0.1"), fact("mean", "mean, the same for every baseline")))),
      html("div", { class: "row drawn" }, button, report)));

  function pull() {
    const arms = Array.from({ length: pulls }, () => {
      let u = random(), arm = 0;
      while (arm < bandit.probs.length - 1 && u >= bandit.probs[arm]) u -= bandit.probs[arm++];
      return arm;
    });
    learners = [...learners.slice(-59), arms];
  }

  function pick(index) {
    bandit = bandits[index];
    learners = [];
    asked = false;
    for (let i = 0; i < model.get("learners"); i++) pull();
    set(bSlider.input, { min: bandit.range[0], max: bandit.range[1], step: bandit.step });
    choose.value = index;
    jumps[0].textContent = `${format(Math.max(0, bandit.range[0]), 0)}: none`;
    jumps[1].textContent = `${format(bandit.expected)}: average`;
    jumps[2].textContent = `${format(bandit.best)}: best`;
    drawFixed();
    model.set("bandit", index);
    move(b);
  }

  function move(value) {
    b = clamp(Number(value.toFixed(6)), bandit.range[0], bandit.range[1]);
    link.tell({ baseline: b });
    draw();
    tell();
    if (Math.abs(b - bandit.expected) < 1) guess.moved();
  }

  function stop() {
    cancelAnimationFrame(gliding);
  }

  // A jump that the eye can follow.
  function glide(target) {
    stop();
    if (calm()) { move(target); return; }
    const from = b, start = performance.now();
    const step = (now) => {
      const t = Math.min(1, (now - start) / 600);
      if (t === 1) { move(target); return; }
      b = from + (target - from) * (1 - (1 - t) ** 3);
      draw();
      gliding = requestAnimationFrame(step);
    };
    gliding = requestAnimationFrame(step);
  }

  const scale = () => REACH / Math.max(...bandit.range.flatMap((end) =>
    estimates(bandit, end).map((vector) => Math.hypot(...vector))));

  function drawFixed() {
    axes.replaceChildren(...DIRECTIONS.flatMap(([dx, dy], k) => [
      svg("line", { x1: CX, y1: CY, x2: CX + dx * REACH, y2: CY + dy * REACH, stroke: "var(--faint)", "stroke-width": 1.5 }),
      svg("text", {
        x: k === 0 ? CX - 7 : CX + dx * (REACH + 22), y: k === 0 ? CY - REACH + 8 : CY + dy * (REACH + 18) + 8,
        "text-anchor": k === 0 ? "end" : "middle", "font-size": 14,
      }, `arm ${k + 1} up`),
    ]));

    const lines = [...yAxis(P, y, multiples(0, top())), ...xAxis(P, x, multiples(...bandit.range), "baseline")];
    const expectedFirst = bandit.expected < bandit.best;
    for (const [value, word, first] of [[bandit.expected, "average", expectedFirst], [bandit.best, "best", !expectedFirst]]) {
      lines.push(line(x(value), P.top - 4, x(value), P.bottom, { stroke: "var(--muted)", "stroke-dasharray": "2 4", "stroke-width": 1.5 }));
      lines.push(text(x(value) + (first ? -5 : 5), P.top - 8, word, { "text-anchor": first ? "end" : "start" }));
    }
    frame.replaceChildren(...lines);
    path.setAttribute("d", trace(bandit.grid.map((value, i) => [x(value), y(bandit.spread[i])])));
  }

  // Everything in the plane, seen `zoom` times as large, with the origin at (cx, cy).
  function drawScene(vectors, mean, zoom, cx, cy, small) {
    const unit = scale() * zoom;
    const at = (vector) => { const [px, py] = project(vector); return [cx + px * unit, cy + py * unit]; };
    const [mx, my] = at(mean);
    const parts = [svg("circle", { cx: mx, cy: my, r: spread(bandit, b) * unit, fill: "var(--vanilla)", "fill-opacity": 0.16 })];
    if (!small) {
      for (const vector of estimates(bandit, 0)) {
        const [px, py] = at(vector);
        parts.push(svg("line", { x1: cx, y1: cy, x2: px, y2: py, stroke: "var(--muted)", "stroke-width": 2, "stroke-opacity": 0.45 }));
        parts.push(svg("circle", { cx: px, cy: py, r: 3.5, fill: "var(--muted)", "fill-opacity": 0.45 }));
      }
    }
    for (const [i, arms] of (asked ? learners : []).entries()) {
      const [px, py] = at(batch(arms, vectors));
      const last = asked && i === learners.length - 1;
      parts.push(svg("circle", {
        cx: px, cy: py, r: last ? 5.5 : 3, fill: "var(--vanilla)", "fill-opacity": last ? 1 : 0.75,
        stroke: last ? "var(--ink)" : "none", "stroke-width": 1.5,
      }));
    }
    vectors.forEach((vector, a) => {
      const [px, py] = at(vector);
      const length = Math.hypot(px - cx, py - cy);
      if (length < 1) return;
      const [ux, uy] = [(px - cx) / length, (py - cy) / length];
      const colour = bandit.rewards[a] > b ? "var(--good)" : "var(--bad)";
      parts.push(...arrow(cx, cy, px, py, { colour, width: small ? 2.5 : 3.5, head: Math.min(13, length * 0.7) }));
      if (!small && length > 34) parts.push(text(px + ux * 11, py + uy * 11 + 5, a + 1, { "text-anchor": "middle", "font-weight": 600 }));
    });
    if (!small) parts.push(text(8, 20, `spread ${format(spread(bandit, b))}`, { class: "word number vanilla", "font-weight": 600 }));
    parts.push(svg("circle", { cx: mx, cy: my, r: 5, fill: "var(--truth)", stroke: "var(--paper)", "stroke-width": 1.5 }));
    return parts;
  }

  function batch(arms, vectors) {
    return bandit.probs.map((_, k) => arms.reduce((sum, a) => sum + vectors[a][k], 0) / arms.length);
  }

  function draw() {
    const vectors = estimates(bandit, b);
    const mean = average(bandit, vectors);
    const wide = spread(bandit, b);
    scene.replaceChildren(...drawScene(vectors, mean, 1, CX, CY, false));

    // The lens looks at the exact gradient, so closely that the smallest spread fills it. It does so only where that
    // spread is too small to be seen without it.
    const unit = scale();
    const zoom = [16, 8, 4, 2].find((factor) => factor * unit * Math.min(...bandit.spread) < 0.8 * LENS.r);
    lens.setAttribute("display", zoom > 2 ? "inline" : "none");
    if (zoom > 2) {
      const [mx, my] = project(mean).map((entry) => entry * unit * zoom);
      lensScene.replaceChildren(...drawScene(vectors, mean, zoom, LENS.x - mx, LENS.y - my, true));
      lensWord.textContent = `the mean, × ${zoom}`;
    }

    set(drop, { x1: x(b), x2: x(b), y1: y(wide) });
    set(dot, { cx: x(b), cy: y(wide) });
    const right = b < (bandit.range[0] + bandit.range[1]) / 2;
    set(dotWord, { x: x(b) + (right ? 14 : -14), y: Math.max(y(wide) - 6, P.top + 14), "text-anchor": right ? "start" : "end" });
    dotWord.textContent = format(wide);

    const decimals = Math.abs(b * 10 - Math.round(b * 10)) < 1e-9 ? 1 : 2;
    bSlider.put(b, format(b, decimals), `${format(b, decimals)}, spread ${format(wide)}`);
    put("spread", wide, format(wide));
    put("mean", mean, vectorText(mean));
    // The mean of n pulls strays spread / √n.
    const need = Math.ceil((wide / 0.1) ** 2 - 1e-9);
    put("pulls", need, need.toLocaleString("en"));
    body.replaceChildren(...bandit.rewards.map((reward, a) => {
      const sign = reward > b ? "good" : reward < b ? "bad" : "muted";
      const push = reward === b ? "0, no push" : reward > b ? "↑" : "↓";
      return html("tr", {},
        html("th", { scope: "row" }, String(a + 1)),
        html("td", { class: "number" }, `${format(bandit.probs[a] * 100, 0)} %`),
        html("td", { class: "number" }, format(reward, Number.isInteger(reward) ? 0 : 1)),
        html("td", { class: "number", style: `color: var(--${sign}-text)` },
          reward === b ? push : `${signed(reward - b, decimals)} ${push}`));
    }));

    const distances = learners.map((arms) => squared(batch(arms, vectors), mean));
    const typical = Math.sqrt(distances.reduce((sum, square) => sum + square, 0) / distances.length);
    const theory = wide / Math.sqrt(pulls);
    const all = `${learners.length} such averages (small dots) lie ${format(typical)} from the exact gradient; `
      + `by the formula: ${format(wide)}/√${pulls} = ${format(theory)}.`;
    report.textContent = asked
      ? `Average of ${pulls} samples: ${vectorText(batch(learners.at(-1), vectors))}, off by ${format(Math.sqrt(distances.at(-1)))}. ${all}`
      : "";
    set(plane, { "aria-label": `Estimates from one sample: ${vectors.map((vector, a) => `arm ${a + 1} ${vectorText(vector)}`).join(", ")}. Their mean: ${vectorText(mean)}.` });
    set(curve, { "aria-label": `The spread of one sample against the baseline, a curve with its lowest point at ${format(bandit.best)}. At ${format(b)} it is ${format(wide)}.` });
  }

  function tell() {
    const mean = vectorText(bandit.mean);
    say(`Baseline ${format(b)}: spread ${format(spread(bandit, b))}, mean ${mean} as before.`
      + (asked ? ` ${report.textContent.split(". ")[0]}.` : ""));
  }

  const link = shared(model, ["baseline"], (now) => { b = now.baseline; draw(); });
  pick(model.get("bandit"));
  return () => { stop(); close(); link.close(); };
}

export default { render };
