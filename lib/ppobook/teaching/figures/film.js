// Games of CartPole at the game's own speed, one below the other, over and over. Nothing moves for a reader who
// has asked for less motion, until they press Play.

const STYLE_OF_FILM = `
  .film .game { margin: 0 0 4px; }
  .film .game p { margin: 0; display: flex; justify-content: space-between; gap: 12px; font-size: 14px; }
  .film .game svg { max-height: 150px; }
  .film .over { color: var(--muted-text); }
  .film .over svg { opacity: 0.55; }
`;
const REST = 1.5; // seconds between the last picture and the first

function render({ model, el }) {
  const { root, say, close } = stage(el, "film", STYLE_OF_FILM, "Film: games of CartPole");
  const games = model.get("games"), rate = model.get("rate"), rail = model.get("rail"), length = model.get("pole");
  const SCALE = 100, HALF = (rail + 0.5) * SCALE, GROUND = 122;
  const longest = Math.max(...games.map((game) => game.pushes));

  const rows = games.map((game) => {
    const pole = svg("line", { y1: GROUND - 18, stroke: "var(--vanilla)", "stroke-width": 7, "stroke-linecap": "round" });
    const cart = svg("rect", { y: GROUND - 18, width: 50, height: 16, rx: 3, fill: "var(--ink)" });
    const count = html("span", { class: "number" });
    const picture = svg("svg", { viewBox: `${-HALF} 0 ${2 * HALF} ${GROUND + 4}`, role: "img", "aria-label": `${game.name}: ${game.end} ${game.pushes}` },
      svg("line", { x1: -rail * SCALE, x2: rail * SCALE, y1: GROUND, y2: GROUND, stroke: "var(--muted)", "stroke-width": 2 }),
      cart, pole);
    const row = html("div", { class: "game" }, html("p", {}, html("span", { class: "title" }, game.name), count), picture);
    const show = (push) => {
      const over = push >= game.pushes;
      const at = Math.min(push, game.pushes), x = game.x[at] * SCALE, angle = game.angle[at];
      set(cart, { x: x - 25 });
      set(pole, { x1: x, x2: x + length * SCALE * Math.sin(angle), y2: GROUND - 18 - length * SCALE * Math.cos(angle) });
      row.classList.toggle("over", over);
      count.textContent = over ? `${game.end} ${at}` : `${at} pushes`;
    };
    return { row, show };
  });

  const show = (at) => {
    root.dataset.push = at;
    for (const row of rows) row.show(at);
  };
  const { button, pause } = play({ root, say }, { last: longest, rate, rest: REST, show, stands: (at) => `The film stands still, after ${at} pushes.` });
  const ask = model.get("ask");
  if (ask) {
    // A film has nothing to move, so a guess is answered at once.
    const guess = prediction(ask);
    guess.moved();
    root.prepend(guess.node);
  }
  root.append(...rows.map(({ row }) => row), html("div", { class: "row" }, button));
  return () => { pause(); close(); };
}

export default { render };
