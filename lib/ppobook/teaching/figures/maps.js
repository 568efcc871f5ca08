// Maps of PPO's settings. The reader points at a cell, or walks there with the arrow keys, and sees its ten seeds: how each
// ended and in which update it fell. One choice says what both panels show. Other maps and the numbers are folded.

const STYLE_OF_MAPS = `
  .maps .choose { flex-wrap: nowrap; }
  .maps select { min-width: 0; }
  .maps .map { cursor: pointer; touch-action: pan-y; border-radius: 6px; }
  .maps thead th { font-weight: 600; vertical-align: bottom; }
  .maps .says { margin: 6px 0 0; }
`;
// A cell's text: mean, low and high / the gauges' worst values / for each run its end, its fall, and when each gauge rang.
function cellOf(text, gauges) {
  const numbers = (part) => part.split(" ").map((entry) => (entry === "-" ? null : Number(entry)));
  const [[mean, low, high], worst, ...runs] = text.split("/").map(numbers);
  return {
    mean, low, high,
    worst: Object.fromEntries(gauges.map(({ name }, k) => [name, worst[k]])),
    runs: runs.map(([final, fell, ...rang]) => ({ final, fell, rang: Object.fromEntries(gauges.map(({ name }, k) => [name, rang[k]])) })),
  };
}
const countOf = (runs, holds) => runs.filter(holds).length;
// How many updates before a fall a gauge rang, in the runs where it did.
const leadsOf = (runs, gauge) => runs.filter((run) => run.fell !== null && run.rang[gauge] !== null && run.rang[gauge] < run.fell).map((run) => run.fell - run.rang[gauge]);
function medianOf(values) {
  const sorted = [...values].sort((a, b) => a - b), half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

function render({ model, el }) {
  const { root, say, close } = stage(el, "maps", STYLE_OF_MAPS, "Interactive figure: measured maps of PPO's settings");
  const gauges = model.get("gauges"), rates = model.get("rates"), top = model.get("top"), updates = model.get("updates");
  const maps = model.get("maps").map((map) => ({ ...map, cells: map.cells.map((text) => cellOf(text, gauges)) }));
  const NAMES = ["map", "row", "column"];
  const at = Object.fromEntries(NAMES.map((name) => [name, model.get(name)]));

  // What a cell of the map may show: a number, and how much of the colour that is.
  const views = [
    { name: "return", title: "return", words: "mean return at the end", colour: "ppo", of: (cell) => cell.mean, full: top },
    { name: "fell", title: "falls", words: "seeds that fell", colour: "bad", of: (cell) => countOf(cell.runs, (run) => run.fell !== null) },
    ...gauges.map(({ name, title }) => ({ name, title, words: "seeds in which it rang", colour: "muted", of: (cell) => countOf(cell.runs, (run) => run.rang[name] !== null) })),
  ];
  let view = 0;
  const here = () => maps[at.map].cells[at.row * rates.length + at.column];

  // Controls
  const choose = choice("map", maps.map((map) => `${map.title} (${map.about})`), (map) => move({ map, row: maps[map].base }));
  const guess = prediction({
    asks: "Where does the alarm “explained variance” ring most often?", todo: "Then choose it under “Show”.",
    options: ["In runs that fall", "In good runs"], right: 1,
    answer: "It rings most often at ε = 0.4 and a learning rate of 0.003, where most runs end well.",
  });

  const W = 340, H = 178, M = { left: 38, right: 340, top: 4, bottom: 138 };
  const S = { left: 6, right: 212, ends: [238, 332], top: 4, bottom: 138 };
  const grid = svg("svg", { viewBox: `0 0 ${W} ${H}`, class: "map", role: "img", tabindex: 0, "aria-roledescription": "map, to be walked with the arrow keys", onkeydown: (event) => walk(event) });
  const seeds = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img" });
  draggable(grid, (x, y) => {
    const inside = (share, count) => clamp(Math.floor(share * count), 0, count - 1);
    move({ column: inside((x - M.left) / (M.right - M.left), rates.length), row: inside((M.bottom - y) / (M.bottom - M.top), maps[at.map].values.length) });
  });

  const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [1, 0], ArrowDown: [-1, 0] };
  function walk(event) {
    const step = STEPS[event.key];
    if (!step) return;
    event.preventDefault();
    const inside = (value, count) => clamp(value, 0, count - 1);
    move({ row: inside(at.row + step[0], maps[at.map].values.length), column: inside(at.column + step[1], rates.length) });
  }

  const { cell, put } = numberList();
  const rangIn = (count) => `This alarm rang in ${count} of 10 seeds here. `;
  const title = html("div", { class: "title" }), says = html("p", { class: "says", "data-room": rangIn(10) + longest(maps.flatMap(({ cells }) => cells.map(verdict))) });
  const see = choice("view", views.map((one) => one.title), (to) => {
    view = to;
    draw();
    if (views[view].name === "ev") guess.moved();
    tell();
  });

  root.prepend(
    guess.node,
    html("div", { class: "row choose" }, html("label", { for: "view" }, "Show"), see),
    html("div", { class: "panels" },
      html("div", {}, title, grid),
      html("div", {}, html("div", { class: "title" }, "Ten seeds of the framed cell"), seeds)),
    says,
    behind("Other maps and numbers",
      html("div", { class: "row choose" }, html("label", { for: "map", style: "white-space: nowrap" }, "Map of"), choose),
      html("p", { class: "number" }, "Return at the end: ", cell("mean", "b"), " on average, 95 % interval ", cell("low", "span"), " to ", cell("high", "span"), ". ", cell("fell", "b"), " of 10 seeds fell on the way."),
      html("table", {},
        html("thead", {}, html("tr", {}, ...["Gauge", "worst value (median)", "rang in seeds", "before a fall"].map((words) => html("th", { scope: "col" }, words)))),
        html("tbody", {}, ...gauges.map((gauge) => html("tr", {}, html("th", { scope: "row" }, gauge.title),
          ...["worst", "rang", "ahead"].map((column) => cell(`${gauge.name}-${column}`))))))));

  function drawMap() {
    const map = maps[at.map], { of, full = 10, colour, words } = views[view], rows = map.values.length;
    const wide = (M.right - M.left) / rates.length, high = (M.bottom - M.top) / rows;
    const parts = [];
    map.cells.forEach((cell, i) => {
      const x = M.left + (i % rates.length) * wide, y = M.bottom - (Math.floor(i / rates.length) + 1) * high, value = of(cell);
      parts.push(svg("rect", { x, y, width: wide, height: high, fill: `var(--${colour})`, "fill-opacity": (0.55 * value) / full }));
      parts.push(text(x + wide / 2, y + high / 2 + 5, format(value, 0), { "text-anchor": "middle", "font-size": 14, class: "number" }));
    });
    map.values.forEach((value, row) => parts.push(text(M.left - 6, M.bottom - (row + 0.5) * high + 5, value, { "text-anchor": "end" })));
    rates.forEach((rate, column) => parts.push(text(M.left + (column + 0.5) * wide, M.bottom + 17, rate.length > 5 ? Number(rate).toExponential() : rate, { "text-anchor": "middle" })));
    parts.push(text(4, M.bottom + 36, `↑ ${map.title}`), text(M.right, M.bottom + 36, "learning rate →", { "text-anchor": "end" }));
    parts.push(svg("rect", { x: M.left + at.column * wide + 1.5, y: M.bottom - (at.row + 1) * high + 1.5, width: wide - 3, height: high - 3, fill: "none", stroke: "var(--ink)", "stroke-width": 3, rx: 2 }));
    grid.replaceChildren(...parts);
    title.textContent = words[0].toUpperCase() + words.slice(1);
    set(grid, { "aria-label": `Map of ${map.title} by learning rate, ${map.about}. Cells show ${views[view].title}, ${words}. ${map.values.map((value, row) => `${map.title} ${value}: ${map.cells.slice(row * rates.length, (row + 1) * rates.length).map((cell) => format(of(cell), 0)).join(", ")}`).join("; ")}.` });
  }

  function drawSeeds(cell) {
    const parts = [], slot = (S.bottom - S.top) / cell.runs.length;
    const x = (update) => S.left + (update / updates) * (S.right - S.left);
    const end = (value) => S.ends[0] + (value / top) * (S.ends[1] - S.ends[0]);
    parts.push(svg("rect", { x: end(cell.low), y: S.top, width: Math.max(end(cell.high) - end(cell.low), 0.5), height: S.bottom - S.top, fill: "var(--faint)" }));
    parts.push(line(end(cell.mean), S.top, end(cell.mean), S.bottom, { stroke: "var(--ink)", "stroke-width": 2 }));
    cell.runs.forEach((run, i) => {
      const y = S.top + (i + 0.5) * slot;
      parts.push(line(S.left, y + slot / 2, S.right, y + slot / 2, { stroke: "var(--faint)" }));
      if (run.fell !== null) parts.push(svg("rect", { x: x(run.fell) - 1.75, y: y - slot / 2 + 1, width: 3.5, height: slot - 2, fill: "var(--bad)" }));
      const rang = view > 1 ? run.rang[views[view].name] : null;
      if (rang !== null) parts.push(svg("circle", { cx: x(rang), cy: y, r: 4.5, fill: "var(--ink)" }));
      parts.push(svg("circle", { cx: end(run.final), cy: y, r: 5, fill: "var(--ppo)", stroke: "var(--paper)", "stroke-width": 1.5 }));
    });
    for (const update of [0, 10, 20, 30]) {
      parts.push(line(x(update), S.bottom, x(update), S.bottom + 4, { stroke: "var(--line)" }));
      parts.push(text(x(update), S.bottom + 18, String(update), { "text-anchor": "middle" }));
    }
    for (const value of [0, top]) parts.push(text(end(value), S.bottom + 18, String(value), { "text-anchor": "middle" }));
    parts.push(line(S.ends[0], S.bottom, S.ends[1], S.bottom, { stroke: "var(--line)" }));
    parts.push(text(S.left, S.bottom + 36, "▮ fell", { class: "word bad" }), text(S.right, S.bottom + 36, "update", { "text-anchor": "end" }));
    if (view > 1) parts.push(text(S.left + 52, S.bottom + 36, "● rang"));
    parts.push(text((S.ends[0] + S.ends[1]) / 2, S.bottom + 36, "return at the end", { "text-anchor": "middle" }));
    seeds.replaceChildren(...parts);
    set(seeds, { "aria-label": `Ten seeds, the best first. ${cell.runs.map((run) => `Return ${format(run.final, 0)}${run.fell === null ? "" : `, fell in update ${run.fell}`}`).join("; ")}.` });
  }

  // The gauge that saw the falls: in most of them, or in as many and the furthest ahead.
  function verdict(cell) {
    const fell = countOf(cell.runs, (run) => run.fell !== null);
    const rang = gauges.filter(({ name }) => cell.runs.some((run) => run.rang[name] !== null));
    if (!fell) return rang.length ? `No seed fell, but ${rang.map(({ name, title }) => `${title} rang in ${countOf(cell.runs, (run) => run.rang[name] !== null)}`).join(", ")}.` : "No seed fell, and no gauge rang.";
    const seen = gauges.map(({ name, title }) => ({ title, leads: leadsOf(cell.runs, name) })).filter(({ leads }) => leads.length);
    if (!seen.length) return `${fell} of 10 fell, and no gauge rang before.`;
    seen.sort((a, b) => b.leads.length - a.leads.length || medianOf(b.leads) - medianOf(a.leads));
    const [{ title, leads }] = seen, n = medianOf(leads);
    return `${fell} of 10 fell. The best warning: ${title}, before ${leads.length} of them, ${format(n, n % 1 ? 1 : 0)} update${n === 1 ? "" : "s"} ahead${leads.length > 1 ? " (median)" : ""}.`;
  }

  function draw() {
    const cell = here();
    drawMap();
    drawSeeds(cell);
    for (const name of ["mean", "low", "high"]) put(name, cell[name], format(cell[name], 0));
    const fell = countOf(cell.runs, (run) => run.fell !== null);
    put("fell", fell, String(fell));
    for (const { name } of gauges) {
      const worst = cell.worst[name], rang = countOf(cell.runs, (run) => run.rang[name] !== null), ahead = leadsOf(cell.runs, name).length;
      put(`${name}-worst`, worst, format(worst, Math.abs(worst) < 0.01 ? 4 : Math.abs(worst) < 0.1 ? 3 : 2));
      put(`${name}-rang`, rang, String(rang));
      put(`${name}-ahead`, ahead, String(ahead));
    }
    const { of } = views[view];
    says.textContent = (view > 1 ? rangIn(of(cell)) : "") + verdict(cell);
    choose.value = at.map;
    see.value = view;
    Object.assign(root.dataset, at);
  }

  function move(to) {
    Object.assign(at, to);
    at.row = Math.min(at.row, maps[at.map].values.length - 1);
    draw();
    link.tell(at);
    tell();
  }
  function tell() {
    say(`${maps[at.map].title} ${maps[at.map].values[at.row]}, learning rate ${rates[at.column]}: mean return ${format(here().mean, 0)}. ${says.textContent}`);
  }

  const link = shared(model, NAMES, move);
  draw();
  return () => { close(); link.close(); };
}

export default { render };
