// E3. One sample from a three-armed bandit gives one of three estimates of the policy gradient. The reader slides the
// baseline: the three arrows shrink, turn and grow, and their mean, the exact gradient, stays where it is. Faint arrows
// show the estimates without a baseline. The spread against the baseline, and the numbers, are folded.

const STYLE_OF_BASELINE = `
  .baseline .panels { display: grid; grid-template-columns: 1fr 1fr; gap: 6px 22px; }
  .baseline details .panels { margin: 10px 0 4px; }
  .baseline .setting { display: grid; grid-template-columns: auto 1fr; align-items: center; gap: 0 14px; margin-top: 8px; }
  .baseline .setting .shown { font-weight: 600; display: inline-block; min-width: 2.6em; }
  .baseline table { width: 100%; border-collapse: collapse; font-size: 14px; margin: 4px 0 0; }
  .baseline th, .baseline td { text-align: right; padding: 2px 4px; border-bottom: 1px solid var(--faint); font-weight: 400; }
  .baseline th { color: var(--muted-text); }
  .baseline th:first-child { text-align: left; }
  .baseline td:last-child { font-weight: 600; white-space: nowrap; }
  .baseline .facts { display: grid; grid-template-columns: 1fr 1fr; gap: 8px 18px; margin: 12px 0 0; padding: 0; }
  .baseline .facts div:last-child { grid-column: 1 / -1; }
  .baseline .facts div { display: flex; flex-direction: column-reverse; justify-content: flex-end; }
  .baseline .facts dt { color: var(--muted-text); font-size: 13.5px; }
  .baseline .facts dd { margin: 0; font-size: 20px; font-weight: 600; }
  .baseline .curve { cursor: ew-resize; touch-action: pan-y; }
  .baseline .word { paint-order: stroke; stroke: var(--paper); stroke-width: 4px; stroke-linejoin: round; }
  .figure.baseline svg .tinted { fill: var(--vanilla-text); }
  .baseline .drawn { margin-top: 10px; }
  .baseline .drawn p { margin: 0; flex: 1 1 260px; }
  @container (max-width: 560px) {
    .baseline .panels { grid-template-columns: 1fr; }
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
  const { root, say, close } = stage(el, "baseline", STYLE_OF_BASELINE);
  root.setAttribute("aria-label", "Interactive figure: a baseline and the spread of a policy-gradient estimate");
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
  const shown = html("span", { class: "number shown" });
  const slider = html("input", { type: "range", id: "b", oninput: () => { stop(); move(Number(slider.value)); } });
  const choose = html("select", { id: "bandit", onchange: () => { stop(); pick(Number(choose.value)); } },
    ...bandits.map((option, i) => html("option", { value: i }, option.name)));
  const jumps = [
    html("button", { type: "button", onclick: () => glide(bandit.range[0] > 0 ? bandit.range[0] : 0) }),
    html("button", { type: "button", onclick: () => glide(bandit.expected) }),
    html("button", { type: "button", onclick: () => glide(bandit.best) }),
  ];
  const button = html("button", { type: "button", onclick: () => { asked = true; pull(); draw(); tell(); } },
    `Average ${pulls} samples`);
  const ask = model.get("ask"), guess = prediction(`${ask.asks} ${ask.todo}`, ask.options, ask.right, ask.answer);
  const report = html("p", { class: "number" });

  // Left: the plane of the three estimates
  const W = 340, H = 252, CX = 150, CY = 166, REACH = 124, LENS = { x: 268, y: 72, r: 68 };
  const clip = `lens-${Math.random().toString(36).slice(2)}`;
  const axes = svg("g");
  const scene = svg("g");
  const lens = svg("g");
  const lensScene = svg("g", { "clip-path": `url(#${clip})` });
  const lensWord = svg("text", { x: LENS.x, y: LENS.y + LENS.r + 17, "text-anchor": "middle", "font-size": 13 });
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
  const drag = (event) => {
    const box = curve.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * W;
    const value = bandit.range[0] + ((at - P.left) / (P.right - P.left)) * (bandit.range[1] - bandit.range[0]);
    stop();
    move(Math.round(value / bandit.step) * bandit.step);
  };
  curve.addEventListener("pointerdown", (event) => { curve.setPointerCapture(event.pointerId); drag(event); });
  curve.addEventListener("pointermove", (event) => { if (curve.hasPointerCapture(event.pointerId)) drag(event); });

  // Numbers
  const body = html("tbody");
  const fact = (name, term) => {
    const value = html("dd", { class: "number", "data-number": name });
    return [value, html("div", {}, html("dt", {}, term), value)];
  };
  const [spreadFact, spreadBox] = fact("spread", "spread of one sample");
  const [meanFact, meanBox] = fact("mean", "mean, the same for every baseline");
  const [needFact, needBox] = fact("pulls", "samples for an error of 0.1");

  root.prepend(
    html("div", { class: "panels" },
      html("div", {}, guess.node,
        html("div", { class: "setting" }, html("span", {}, html("label", { for: "b" }, "Baseline "), shown), slider)),
      html("div", {},
        html("div", { class: "title" }, "What one sample says"),
        html("div", { class: "quiet" }, "black dot: average of many samples; faint arrows: no baseline"), plane)),
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
          html("dl", { class: "facts" }, spreadBox, needBox, meanBox))),
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
    set(slider, { min: bandit.range[0], max: bandit.range[1], step: bandit.step });
    choose.value = String(index);
    jumps[0].textContent = `${format(Math.max(0, bandit.range[0]), 0)}: none`;
    jumps[1].textContent = `${format(bandit.expected)}: average`;
    jumps[2].textContent = `${format(bandit.best)}: best`;
    drawFixed();
    model.set("bandit", index);
    move(Math.min(Math.max(b, bandit.range[0]), bandit.range[1]));
  }

  function move(value) {
    b = Math.min(Math.max(Number(value.toFixed(6)), bandit.range[0]), bandit.range[1]);
    model.set("baseline", b);
    model.save_changes();
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

    const round = (span) => [1, 2, 5, 10, 20, 50, 100, 200, 500].find((size) => span / size <= 5) ?? span / 5;
    const tick = round(top());
    const across = round(bandit.range[1] - bandit.range[0]);
    const lines = [];
    for (let value = 0; value <= top(); value += tick) {
      lines.push(svg("line", { x1: P.left, x2: P.right, y1: y(value), y2: y(value), stroke: "var(--faint)" }));
      lines.push(svg("text", { x: P.left - 14, y: y(value) + 5, "text-anchor": "end", "font-size": 13.5 }, format(value, 0)));
    }
    for (let value = Math.ceil(bandit.range[0] / across) * across; value <= bandit.range[1]; value += across) {
      lines.push(svg("text", { x: x(value), y: P.bottom + 19, "text-anchor": "middle", "font-size": 13.5 }, format(value, 0)));
    }
    lines.push(svg("text", { x: (P.left + P.right) / 2, y: P.bottom + 38, "text-anchor": "middle", "font-size": 14 }, "baseline"));
    const expectedFirst = bandit.expected < bandit.best;
    for (const [value, word, first] of [[bandit.expected, "average", expectedFirst], [bandit.best, "best", !expectedFirst]]) {
      lines.push(svg("line", {
        x1: x(value), x2: x(value), y1: P.top - 4, y2: P.bottom, stroke: "var(--muted)", "stroke-dasharray": "2 4", "stroke-width": 1.5,
      }));
      lines.push(svg("text", {
        class: "word", x: x(value) + (first ? -5 : 5), y: P.top - 8, "text-anchor": first ? "end" : "start", "font-size": 14,
      }, word));
    }
    frame.replaceChildren(...lines);
    path.setAttribute("d", bandit.grid.map((value, i) =>
      `${i ? "L" : "M"}${x(value).toFixed(2)} ${y(bandit.spread[i]).toFixed(2)}`).join(""));
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
      const head = Math.min(13, length * 0.7);
      const [bx, by] = [px - ux * head, py - uy * head];
      const hue = bandit.rewards[a] > b ? "var(--good)" : "var(--bad)";
      parts.push(svg("line", { x1: cx, y1: cy, x2: bx, y2: by, stroke: hue, "stroke-width": small ? 2.5 : 3.5 }));
      parts.push(svg("path", {
        d: `M${px} ${py}L${bx - uy * head * 0.5} ${by + ux * head * 0.5}L${bx + uy * head * 0.5} ${by - ux * head * 0.5}Z`, fill: hue,
      }));
      if (!small && length > 34) {
        parts.push(svg("text", {
          class: "word", x: px + ux * 11, y: py + uy * 11 + 5, "text-anchor": "middle", "font-size": 14, "font-weight": 600,
        }, String(a + 1)));
      }
    });
    if (!small) {
      parts.push(svg("text", {
        class: "word number tinted", x: 8, y: 20, "font-size": 14.5, "font-weight": 600,
      }, `spread ${format(spread(bandit, b))}`));
    }
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

    slider.value = b;
    const decimals = Math.abs(b * 10 - Math.round(b * 10)) < 1e-9 ? 1 : 2;
    shown.textContent = format(b, decimals);
    slider.setAttribute("aria-valuetext", `${format(b, decimals)}, spread ${format(wide)}`);
    spreadFact.textContent = format(wide);
    spreadFact.dataset.value = wide;
    meanFact.textContent = vectorText(mean);
    meanFact.dataset.value = JSON.stringify(mean);
    // The mean of n pulls strays spread / √n.
    const need = Math.ceil((wide / 0.1) ** 2 - 1e-9);
    needFact.textContent = need.toLocaleString("en");
    needFact.dataset.value = need;
    body.replaceChildren(...bandit.rewards.map((reward, a) => {
      const sign = reward > b ? "good" : reward < b ? "bad" : "muted";
      const push = reward === b ? "0, no push" : reward > b ? "↑" : "↓";
      return html("tr", {},
        html("th", { scope: "row" }, String(a + 1)),
        html("td", { class: "number" }, `${format(bandit.probs[a] * 100, 0)} %`),
        html("td", { class: "number" }, format(reward, Number.isInteger(reward) ? 0 : 1)),
        html("td", { class: "number", style: `color: var(--${sign}-text)` },
          reward === b ? push : `${reward > b ? "+" : ""}${format(reward - b, decimals)} ${push}`));
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

  const follow = () => { if (model.get("baseline") !== b) { b = model.get("baseline"); draw(); } };
  model.on("change:baseline", follow);
  pick(model.get("bandit"));
  return () => { stop(); close(); model.off("change:baseline", follow); };
}

export default { render };
