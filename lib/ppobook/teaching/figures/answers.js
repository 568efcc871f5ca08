// A group of answers to one prompt: each answer's reward against the mean of the group. The reader chooses the prompt and
// draws groups; they come from a policy's recorded answers.

const STYLE_OF_ANSWERS = `
  .answers .choices { display: flex; gap: 6px; margin-inline-end: auto; }
  .answers .choices button[aria-pressed=true] { box-shadow: inset 0 0 0 2px var(--ink); }
  .answers table { width: 100%; border-collapse: collapse; table-layout: fixed; margin: 8px 0 0; font-size: 14px; }
  .answers th { font-weight: 400; font-size: 13px; color: var(--muted-text); text-align: left; padding: 0; vertical-align: bottom; }
  .answers th.lane-head { width: 48%; }
  .answers th.gain, .answers td.gain { width: 5.2em; text-align: right; }
  .answers td { padding: 0; height: 23px; }
  .answers td.text { white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
  .answers td.gain { font-weight: 600; }
  .answers .good { color: var(--good-text); }
  .answers .bad { color: var(--bad-text); }
  .answers .lane { position: relative; height: 23px; margin: 0 12px; }
  .answers .lane * { position: absolute; }
  .answers .mean { top: 0; bottom: 0; width: 0; border-left: 3px solid var(--grpo); margin-left: -1.5px; }
  .answers .bar { top: 8px; height: 7px; }
  .answers .dot { top: 3px; width: 17px; height: 17px; margin-left: -8.5px; border-radius: 50%; color: var(--paper); font: 700 12px/17px sans-serif; text-align: center; }
  .answers .head { height: 38px; }
  .answers .head .name { top: 0; transform: translateX(-50%); color: var(--grpo-text); font-weight: 600; white-space: nowrap; }
  .answers .head .end { bottom: 0; transform: translateX(-50%); }
  @container (max-width: 560px) {
    .answers .choices { width: 100%; }
    .answers .choices button { flex: 1; padding: 3px 4px; line-height: 1.3; }
    .answers .choices b { display: block; }
    .answers th.lane-head { width: 42%; }
    .answers th.gain, .answers td.gain { width: 4.9em; }
  }
`;

function render({ model, el }) {
  const { root, say, close } = stage(el, "answers", STYLE_OF_ANSWERS, "Interactive figure: draw groups of answers to a prompt, and compare each with the mean");
  const prompts = model.get("prompts"), size = model.get("size");
  const NAMES = ["prompt", "group"];
  const at = Object.fromEntries(NAMES.map((name) => [name, model.get(name)]));
  const seen = new Set();

  const guess = prediction({
    asks: "An answer is compared with the mean of its group. On which prompt does a right answer gain most?",
    options: ["On an easy one", "On a hard one", "All the same"], right: 1,
    answer: "Where few answers are right, the mean is low, so a right answer stands far above it.",
  }, () => draw());
  const choose = prompts.map(({ prompt, level }, i) => html("button", { type: "button", onclick: () => move({ prompt: i, group: 0 }) }, html("b", {}, prompt), ` ${level}`));
  const another = html("button", { type: "button", class: "main", onclick: () => move({ group: at.group + 1 }) }, `Draw ${size} answers`);
  const head = html("div", { class: "lane head number" }), body = html("tbody"), says = html("p", { class: "says number", "data-room": longest(prompts.flatMap((_, i) => [0, 1, 2].map((count) => sentence(i, 0, count)))) });
  root.prepend(
    guess.node,
    html("div", { class: "row" }, html("div", { class: "choices" }, ...choose), another),
    html("table", {},
      html("thead", {}, html("tr", {}, html("th", { scope: "col" }, "answer"), html("th", { scope: "col", class: "lane-head" }, html("span", { class: "unseen" }, "reward"), head),
        html("th", { scope: "col", class: "gain" }, "advantage"))),
      body),
    says);

  function sentence(i, start, count) {
    const { prompt, texts } = prompts[i], mean = count / size;
    if (count === 0 || count === size) return `All ${size} answers to ${prompt} are ${count ? "right" : "wrong"}, so none is better than usual. Every advantage is 0.`;
    return `Group ${start / size + 1} of ${texts.length / size}: ${count} of ${size} answers to ${prompt} ${count === 1 ? "is" : "are"} right. A right one gets ${signed(1 - mean)} and becomes more likely. A wrong one gets ${signed(-mean)} and becomes less likely.`;
  }

  function draw() {
    const { texts, right } = prompts[at.prompt];
    const start = (at.group * size) % texts.length;
    const group = texts.slice(start, start + size).map((text, i) => ({ text, reward: Number(right[start + i]) }));
    const count = group.filter(({ reward }) => reward).length, mean = count / size;
    choose.forEach((button, i) => set(button, { "aria-pressed": i === at.prompt }));
    head.replaceChildren(html("span", { class: "name", style: `left: ${clamp(100 * mean, 12, 88)}%` }, `mean ${format(mean)}`),
      ...[0, 1].map((value) => html("span", { class: "end", style: `left: ${100 * value}%` }, value)));
    body.replaceChildren(...group.map(({ text, reward }) => {
      const gain = reward - mean, kind = reward ? "good" : "bad", hue = `background: var(--${kind})`;
      const cell = html("td", { class: `gain number ${gain ? kind : "quiet"}` }, signed(gain));
      return html("tr", {}, html("td", { class: "text", title: text }, text),
        html("td", {}, html("div", { class: "lane" },
          html("i", { class: "bar", style: `left: ${100 * Math.min(mean, reward)}%; width: ${100 * Math.abs(gain)}%; ${hue}` }),
          html("i", { class: "mean", style: `left: ${100 * mean}%` }),
          html("i", { class: "dot", style: `left: ${100 * reward}%; ${hue}` }, reward ? "✓" : "✗"))), cell);
    }));
    says.dataset.number = "mean";
    says.dataset.value = JSON.stringify(mean);
    says.textContent = sentence(at.prompt, start, count);
    if (count && count < size) seen.add(at.prompt);
    // The easiest prompt comes first, the hardest last.
    if (guess.made() && seen.has(prompts.length - 1) && seen.size > 1) guess.moved();
  }

  function move(changes) {
    Object.assign(at, changes);
    at.prompt = clamp(Math.round(at.prompt), 0, prompts.length - 1);
    draw();
    link.tell(at);
    say(says.textContent);
  }

  const link = shared(model, NAMES, move);
  draw();
  return () => { close(); link.close(); };
}

export default { render };
