// Episodes as line drawings, side by side where there is room, over and over. Nothing moves for a reader who has asked for less
// motion, until they press Play.

const STYLE_OF_DRAWN = `
  .drawn .goal { margin: 0 0 8px; font-weight: 600; }
  .drawn .episodes { display: flex; flex-wrap: wrap; gap: 4px 20px; }
  .drawn .episode { margin: 0 0 4px; flex: 1 1 280px; }
  .drawn .episode p { margin: 0; display: flex; justify-content: space-between; gap: 12px; font-size: 14px; }
  .drawn .episode svg { max-height: 240px; }
  @media print { .drawn button { display: none; } }
`;
const REST = 1.5; // seconds between the last picture and the first

function render({ model, el }) {
  const { root, say, close } = stage(el, "drawn", STYLE_OF_DRAWN);
  const episodes = model.get("episodes"), ground = model.get("ground"), rate = model.get("rate");
  const [left, bottom, right, top] = model.get("frame");
  root.setAttribute("aria-label", "Film: episodes as line drawings");
  const scale = 600 / (right - left), height = (top - bottom) * scale;
  const longest = Math.max(...episodes.map((one) => one.pictures.length)) - 1;
  const place = (node, [x1, y1, x2, y2]) => set(node, {
    x1: (x1 - left) * scale, y1: (top - y1) * scale, x2: (x2 - left) * scale, y2: (top - y2) * scale,
  });
  const draw = (lines, colour) => lines.map((line) => {
    const node = svg("line", { stroke: `var(--${colour})`, "stroke-width": 5, "stroke-linecap": "round" });
    place(node, line);
    return node;
  });

  const rows = episodes.map((one) => {
    // Pictures differ in how many lines they have.
    const lines = draw(one.pictures.reduce((a, b) => (b.length > a.length ? b : a)), "ppo"), note = html("span", { class: "number" });
    const label = one.end ? `${one.name}: ${one.end}` : one.name;
    const picture = svg("svg", { viewBox: `-6 -6 612 ${height + 12}`, role: "img", "aria-label": label }, ...draw(ground, "muted"), ...lines);
    const row = html("div", { class: "episode" }, html("p", {}, html("span", { class: "title" }, one.name), note), picture);
    const show = (at) => {
      const last = one.pictures.length - 1;
      const now = one.pictures[Math.min(at, last)];
      lines.forEach((node, i) => {
        node.style.visibility = now[i] ? "visible" : "hidden";
        if (now[i]) place(node, now[i]);
      });
      note.textContent = at >= last ? one.end : "";
    };
    return { row, show };
  });

  const show = (at) => {
    root.dataset.picture = at;
    for (const row of rows) row.show(at);
  };
  const { button, pause } = play({ root, say }, { last: longest, rate, rest: REST, show, stands: () => "The film stands still." });
  const goal = model.get("goal");
  root.append(...(goal ? [html("p", { class: "goal" }, goal)] : []),
    html("div", { class: "episodes" }, ...rows.map(({ row }) => row)), html("div", { class: "row" }, button));
  return () => { pause(); close(); };
}

export default { render };
