// Episodes as line drawings, side by side where there is room, over and over. Nothing moves for a reader who has asked for less
// motion, until they press Play.

const STYLE_OF_DRAWN = `
  .drawn .goal { margin: 0 0 8px; font-weight: 600; }
  .drawn .episodes { display: flex; flex-wrap: wrap; gap: 4px 20px; }
  .drawn .episode { margin: 0 0 4px; flex: 1 1 280px; }
  .drawn .episode svg { max-height: 240px; }
`;
const REST = 1.5; // seconds between the last picture and the first

function render({ model, el }) {
  const { root, say, close } = stage(el, "drawn", STYLE_OF_DRAWN, "Film: episodes as line drawings");
  const episodes = model.get("episodes"), ground = model.get("ground"), rate = model.get("rate");
  const [left, bottom, right, top] = model.get("frame");
  const scale = 600 / (right - left), height = (top - bottom) * scale;
  const longest = Math.max(...episodes.map((one) => one.pictures.length)) - 1;
  const place = (node, [x1, y1, x2, y2]) => set(node, {
    x1: (x1 - left) * scale, y1: (top - y1) * scale, x2: (x2 - left) * scale, y2: (top - y2) * scale,
  });
  const draw = (lines, colour) => lines.map((line) => {
    const node = svg("line", { "stroke-width": 5, "stroke-linecap": "round", stroke: colour });
    place(node, line);
    return node;
  });

  const rows = episodes.map((one) => {
    // Pictures differ in how many lines they have.
    const lines = draw(one.pictures.reduce((a, b) => (b.length > a.length ? b : a)), "currentcolor");
    const [good, words] = one.end ?? [true, ""], kind = good ? "good" : "bad";
    const note = text(300, height * 0.4, "", { "text-anchor": "middle", "font-size": 32, "font-weight": 700, class: `word number ${kind}` });
    const picture = svg("svg", { viewBox: `-6 -6 612 ${height + 12}`, role: "img", "aria-label": words ? `${one.name}: ${words}` : one.name },
      ...draw(ground, "var(--muted)"), ...lines, note);
    const row = html("div", { class: "episode" }, html("div", { class: "title" }, one.name), picture);
    const show = (at) => {
      const last = one.pictures.length - 1;
      const now = one.pictures[Math.min(at, last)];
      lines.forEach((node, i) => {
        node.style.visibility = now[i] ? "visible" : "hidden";
        if (now[i]) place(node, now[i]);
      });
      const over = at >= last && words;
      note.textContent = over ? `${good ? "✓" : "✗"} ${words}` : "";
      picture.style.color = `var(--${over ? kind : "ppo"})`;
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
