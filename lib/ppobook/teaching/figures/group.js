// Groups of completions of one prompt, each right or wrong. The reader moves the probability p and the size G, draws groups,
// and sees rewards, mean and advantages, and how often a group is dead. Each completion keeps the random number that it was
// drawn with and is right where this is below p, so moving p turns completions one by one.

const STYLE_OF_GROUP = `
  .group .settings { margin: 0; }
  .group .check { display: flex; align-items: center; gap: 7px; font-weight: 400; min-height: 34px; cursor: pointer; }
  .group input[type=checkbox] { width: 19px; height: 19px; margin: 0; flex: none; accent-color: var(--ink); }
  .group .title { margin-bottom: 4px; }
  .group .facts { grid-template-columns: repeat(auto-fit, minmax(140px, 1fr)); }
  .group .says { margin: 6px 0 0; }
  .group .goal { margin: 6px 0 0; }
  @container (max-width: 560px) { .group .row { gap: 6px 8px; } }
`;

const HARD = { p: 0.05, size: 8 };
const deadShare = (p, size) => p ** size + (1 - p) ** size;

// The rewards of a group and what GRPO makes of them. A dead group has no standard deviation to divide by.
function groupOf(rewards, divided) {
  const size = rewards.length, mean = rewards.reduce((sum, r) => sum + r, 0) / size;
  const std = Math.sqrt(rewards.reduce((sum, r) => sum + (r - mean) ** 2, 0) / (size - 1));
  const dead = rewards.every((r) => r === rewards[0]);
  return { rewards, mean, std, dead, advantages: rewards.map((r) => (dead ? 0 : (r - mean) / (divided ? std : 1))) };
}

function render({ model, el }) {
  const { root, say, close } = stage(el, "group", STYLE_OF_GROUP, "Interactive figure: draw groups of completions, and see their advantages");
  const sizes = model.get("sizes"), random = generator(model.get("seed"));
  const NAMES = ["p", "group_size", "divided"];
  const at = Object.fromEntries(NAMES.map((name) => [name, model.get(name)]));
  const groups = [];

  // Controls
  const pSlider = slider("p", "Probability p", [0, 1, 0.01], (p) => move({ p }));
  const choose = html("select", { id: "size", onchange: () => move({ group_size: Number(choose.value) }) },
    ...sizes.map((size) => html("option", { value: size }, size)));
  const box = html("input", { type: "checkbox", id: "divided", onchange: () => move({ divided: box.checked }) });
  const draws = (n, words, more) => html("button", { type: "button", ...more, onclick: () => { add(n); move({}); } }, words);
  const guess = prediction({
    asks: "A group is dead if all its rewards are equal. If a policy solves a prompt one time in twenty, how many of its groups of eight are dead?",
    options: ["1 in 20", "1 in 3", "2 in 3"], right: 2,
    answer: `All eight are wrong with probability 0.95⁸ = ${format(deadShare(HARD.p, HARD.size))}.`,
  }, () => { guess.moved(); move({ p: HARD.p, group_size: HARD.size }); });
  const GOAL = "Goal: at p\u00a0=\u00a00.05, bring the share of dead groups below one half.";
  const reached = (size, share) => `✓ Reached: ${format(share)}. But each group now costs ${size} completions instead of ${HARD.size}.`;
  const goal = html("p", { class: "goal", "data-room": longest([GOAL, reached(sizes.at(-1), 0)]) });
  guess.node.append(goal);

  const W = 340, H = 172, P = { left: 30, right: W - 52 };
  const title = html("div", { class: "title" });
  const bars = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img" });
  const curve = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img" });
  const { fact, put } = numberList();
  const says = html("p", { class: "says" });

  root.prepend(
    guess.node,
    html("div", { class: "settings" }, ...pSlider.parts),
    html("div", { class: "row" }, draws(1, "Draw 1", { class: "main" }), draws(20, "Draw 20"), html("label", { for: "size" }, "Size G"), choose),
    html("div", { class: "panels" },
      html("div", {}, title, bars),
      html("div", {}, html("div", { class: "title" }, "Share of dead groups, against p"), curve)),
    behind("Numbers, and divided advantages",
      html("label", { class: "check" }, box, "divide by the standard deviation"),
      says,
      html("dl", { class: "facts" },
        fact("mean", "mean reward"), fact("std", "standard deviation"), fact("share", "dead groups, exact"), fact("dead", "dead groups, drawn"))));

  const add = (n) => {
    for (let i = 0; i < n; i++) groups.push(Array.from({ length: sizes.at(-1) }, random));
  };
  const rewardsOf = (numbers) => numbers.slice(0, at.group_size).map((u) => Number(u < at.p));

  function now() {
    const found = groupOf(rewardsOf(groups.at(-1)), at.divided);
    const of = (reward) => found.rewards.includes(reward) ? found.advantages[found.rewards.indexOf(reward)] : null;
    const dead = groups.filter((numbers) => groupOf(rewardsOf(numbers)).dead).length;
    return { ...found, isDead: found.dead, right: of(1), wrong: of(0), dead, share: guess.made() ? deadShare(at.p, at.group_size) : null };
  }

  function move(changes) {
    Object.assign(at, changes);
    at.p = clamp(Number(at.p.toFixed(2)), 0, 1);
    if (!sizes.includes(at.group_size)) at.group_size = HARD.size;
    const found = draw();
    link.tell({ ...at, drawn: { mean: found.mean, std: found.std, dead: found.dead, groups: groups.length } });
    say(`p ${format(at.p)}, group ${groups.length}: ${says.textContent} ${goal.textContent}`);
  }

  function drawGroup({ rewards, mean, advantages, right, wrong, isDead }) {
    const slot = (P.right - P.left) / rewards.length, x = (i) => P.left + (i + 0.5) * slot, r = Math.min(7, Math.max(2.4, 0.4 * slot));
    const level = (reward) => 52 - 28 * reward;
    // One scale for most groups, divided or not, so that they compare; only a rare reward, divided, goes beyond it.
    const most = Math.max(...advantages.map(Math.abs)), limit = [1.7, 2.6, 4.2].find((one) => most < one) ?? 8.4;
    const zero = 124, y = (a) => zero - (a / limit) * 46, tick = Math.floor(limit);
    const parts = [text(0, 12, "reward", { class: "word muted" }), text(0, 78, "advantage", { class: "word muted" }), ...yAxis(P, level, [0, 1]), ...yAxis(P, y, [-tick, 0, tick])];
    parts.push(line(P.left, level(mean), P.right, level(mean), { stroke: "var(--ink)", "stroke-width": 1.5, "stroke-dasharray": "5 3" }));
    parts.push(text(P.right + 6, level(mean) + 5, "mean", { class: "word" }));
    const width = 0.72 * slot;
    rewards.forEach((reward, i) => {
      const hue = `var(--${reward ? "good" : "bad"})`, a = advantages[i], middle = level(reward);
      parts.push(svg("rect", { x: x(i) - width / 2, width, y: Math.min(y(a), zero), height: Math.abs(y(a) - zero), fill: hue }));
      parts.push(reward ? svg("circle", { class: "mark", cx: x(i), cy: middle, r, fill: hue })
        : svg("path", { class: "mark", d: `M${x(i) - r * 0.8} ${middle - r * 0.8}l${r * 1.6} ${r * 1.6}m0 ${-r * 1.6}l${-r * 1.6} ${r * 1.6}`, stroke: hue, "stroke-width": Math.max(1.2, 0.42 * r), fill: "none" }));
    });
    if (isDead) {
      parts.push(svg("rect", { x: P.left + 20, y: zero - 27, width: P.right - P.left - 40, height: 52, rx: 7, fill: "var(--paper)", stroke: "var(--ink)" }));
      parts.push(text((P.left + P.right) / 2, zero - 5, "dead group:", { "text-anchor": "middle", "font-weight": 600 }));
      parts.push(text((P.left + P.right) / 2, zero + 14, "no advantage, no gradient", { "text-anchor": "middle" }));
    } else {
      for (const [value, name] of [[right, "good"], [wrong, "bad"]]) {
        parts.push(text(P.right + 6, y(value) + 5, signed(value), { class: `word number ${name}`, "font-weight": 600 }));
      }
    }
    bars.replaceChildren(...parts);
    set(bars, { "data-number": "advantages", "data-value": JSON.stringify(advantages), "aria-label": `Rewards of the group: ${rewards.join(" ")}; mean ${format(mean)}. ${isDead ? "All advantages are 0." : `Advantage of a right completion ${signed(right)}, of a wrong one ${signed(wrong)}.`}` });
  }

  const Q = { left: 34, right: W - 8, top: 14, bottom: H - 40 };
  const px = (p) => Q.left + p * (Q.right - Q.left), py = (share) => Q.bottom - share * (Q.bottom - Q.top);
  draggable(curve, (x) => move({ p: (x - Q.left) / (Q.right - Q.left) }));

  function drawCurve({ share, dead }) {
    const parts = [...yAxis(Q, py, [0, 0.5, 1]), ...xAxis(Q, px, [0, 0.5, 1], "p")], drawn = dead / groups.length;
    parts.push(line(px(at.p), Q.top, px(at.p), Q.bottom, { stroke: "var(--ink)", "stroke-dasharray": "1 3" }));
    if (share === null) {
      parts.push(text(px(0.5), py(0.62), "Guess first: the curve", { "text-anchor": "middle", class: "word muted" }));
      parts.push(text(px(0.5), py(0.62) + 19, "appears with your answer.", { "text-anchor": "middle", class: "word muted" }));
    } else {
      const d = trace(Array.from({ length: 201 }, (_, i) => [px(i / 200), py(deadShare(i / 200, at.group_size))]));
      parts.push(svg("path", { d, fill: "none", stroke: "var(--grpo)", "stroke-width": 3 }));
      parts.push(dot(px(at.p), py(share), 6.5, "grpo"));
      parts.push(text(px(0.5), py(0.84), `● exact, G = ${at.group_size}`, { "text-anchor": "middle", class: "word grpo" }));
    }
    parts.push(line(px(at.p) - 11, py(drawn), px(at.p) + 11, py(drawn), { class: "tick", stroke: "var(--ink)", "stroke-width": 4 }));
    parts.push(text(px(0.5), py(0.84) + (share === null ? -4 : 20), `▬ drawn: ${dead} of ${groups.length}`, { "text-anchor": "middle", class: "word" }));
    curve.replaceChildren(...parts);
    set(curve, { "aria-label": `The share of dead groups against p${share === null ? "" : `: at p = ${format(at.p)} it is ${format(share)}; it is 1 at both ends`}. Of ${groups.length} groups drawn, ${dead} are dead.` });
  }

  function draw() {
    const found = now(), size = at.group_size, count = found.rewards.filter(Boolean).length;
    drawGroup(found);
    drawCurve(found);
    title.textContent = `Group ${groups.length}: ${count} of ${size} ${count === 1 ? "is" : "are"} right`;
    for (const name of ["mean", "std"]) put(name, found[name], format(found[name]));
    put("share", found.share, found.share === null ? "?" : format(found.share));
    put("dead", found.dead, `${found.dead} of ${groups.length}`);
    pSlider.put(at.p, format(at.p));
    choose.value = String(size);
    box.checked = at.divided;
    says.textContent = feedback(found, count);
    goal.textContent = !guess.made() ? "" : at.p === HARD.p && found.share < 0.5 ? reached(size, found.share) : GOAL;
    return found;
  }

  function feedback({ std, right, wrong, isDead }, count) {
    const size = at.group_size;
    if (isDead) return `All ${size} are ${count ? "right" : "wrong"}, so every reward equals the mean: no advantage, no gradient. These ${size} completions were sampled for nothing.`;
    const what = at.divided ? `Reward minus mean, divided by ${format(std)},` : "Reward minus mean";
    return `${what} is ${signed(right)} for right completions, which become more likely, and ${signed(wrong)} for wrong ones, which become less likely.`;
  }

  const link = shared(model, NAMES, move);
  add(1);
  draw();
  return () => { close(); link.close(); };
}

export default { render };
