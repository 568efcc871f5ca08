// Films, over and over: games of CartPole at the game's own speed, one below the other; or episodes as line drawings, side by
// side where there is room. Nothing moves for a reader who has asked for less motion, until they press Play.

const STYLE_OF_FILM = `
  .film .goal { margin: 0 0 8px; font-weight: 600; }
  .film .shots { display: flex; flex-wrap: wrap; gap: 4px 20px; }
  .film .shot { margin: 0 0 4px; flex: 1 1 280px; }
  .film .shot svg { max-height: 240px; }
  .film .game { flex-basis: 100%; }
  .film .game p { margin: 0; display: flex; justify-content: space-between; gap: 12px; font-size: 14px; }
  .film .game svg { max-height: 150px; }
  .film .over { color: var(--muted-text); }
  .film .over svg { opacity: 0.55; }
`;
const REST = 1.5; // seconds between the last picture and the first

// Both return shots: {node, last, show}, where `show(at)` draws a picture and `last` is the last one's number.
function gamesOf(model) {
  const rail = model.get("rail"), length = model.get("pole");
  const SCALE = 100, HALF = (rail + 0.5) * SCALE, GROUND = 122;
  return model.get("games").map((game) => {
    const pole = svg("line", { y1: GROUND - 18, stroke: "var(--vanilla)", "stroke-width": 7, "stroke-linecap": "round" });
    const cart = svg("rect", { y: GROUND - 18, width: 50, height: 16, rx: 3, fill: "var(--ink)" });
    const count = html("span", { class: "number" });
    const picture = svg("svg", { viewBox: `${-HALF} 0 ${2 * HALF} ${GROUND + 4}`, role: "img", "aria-label": `${game.name}: ${game.end} ${game.pushes}` },
      line(-rail * SCALE, GROUND, rail * SCALE, GROUND, { stroke: "var(--muted)", "stroke-width": 2 }), cart, pole);
    const node = html("div", { class: "shot game" }, html("p", {}, html("span", { class: "title" }, game.name), count), picture);
    const show = (push) => {
      const over = push >= game.pushes;
      const at = Math.min(push, game.pushes), x = game.x[at] * SCALE, angle = game.angle[at];
      set(cart, { x: x - 25 });
      set(pole, { x1: x, x2: x + length * SCALE * Math.sin(angle), y2: GROUND - 18 - length * SCALE * Math.cos(angle) });
      node.classList.toggle("over", over);
      count.textContent = over ? `${game.end} ${at}` : `${at} pushes`;
    };
    return { node, last: game.pushes, show };
  });
}

function drawingsOf(model) {
  const [left, bottom, right, top] = model.get("frame"), scale = 600 / (right - left), height = (top - bottom) * scale;
  const place = (node, [x1, y1, x2, y2]) => set(node, {
    x1: (x1 - left) * scale, y1: (top - y1) * scale, x2: (x2 - left) * scale, y2: (top - y2) * scale,
  });
  const draw = (lines, colour) => lines.map((line) => {
    const node = svg("line", { "stroke-width": 5, "stroke-linecap": "round", stroke: colour });
    place(node, line);
    return node;
  });
  return model.get("episodes").map(({ name, pictures, end }) => {
    // Pictures differ in how many lines they have.
    const lines = draw(pictures.reduce((a, b) => (b.length > a.length ? b : a)), "currentcolor"), last = pictures.length - 1;
    const [good, words] = end ?? [true, ""], kind = good ? "good" : "bad";
    const note = text(300, height * 0.4, "", { "text-anchor": "middle", "font-size": 32, "font-weight": 700, class: `word number ${kind}` });
    const picture = svg("svg", { viewBox: `-6 -6 612 ${height + 12}`, role: "img", "aria-label": words ? `${name}: ${words}` : name },
      ...draw(model.get("ground"), "var(--muted)"), ...lines, note);
    const show = (at) => {
      const now = pictures[Math.min(at, last)], over = at >= last && words;
      lines.forEach((node, i) => {
        node.style.visibility = now[i] ? "visible" : "hidden";
        if (now[i]) place(node, now[i]);
      });
      note.textContent = over ? `${good ? "✓" : "✗"} ${words}` : "";
      picture.style.color = `var(--${over ? kind : "ppo"})`;
    };
    return { node: html("div", { class: "shot" }, html("div", { class: "title" }, name), picture), last, show };
  });
}

function render({ model, el }) {
  const games = model.get("games"), ask = model.get("ask"), goal = model.get("goal");
  const { root, say, close } = stage(el, "film", STYLE_OF_FILM, games ? "Film: games of CartPole" : "Film: episodes as line drawings");
  const shots = games ? gamesOf(model) : drawingsOf(model);
  const show = (at) => {
    root.dataset.push = at;
    for (const shot of shots) shot.show(at);
  };
  const { button, pause } = play({ root, say }, {
    last: Math.max(...shots.map(({ last }) => last)), rate: model.get("rate"), rest: REST, show,
    stands: (at) => `The film stands still${games ? `, after ${at} pushes` : ""}.`,
  });
  if (ask) {
    // A film has nothing to move, so a guess is answered at once.
    const guess = prediction(ask);
    guess.moved();
    root.prepend(guess.node);
  }
  root.append(...(goal ? [html("p", { class: "goal" }, goal)] : []),
    html("div", { class: "shots" }, ...shots.map(({ node }) => node)), html("div", { class: "row" }, button));
  return () => { pause(); close(); };
}

export default { render };
