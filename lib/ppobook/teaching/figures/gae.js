// E5. A short segment of a rollout. The reader edits rewards, values and episode ends; each TD error and each
// advantage follows, and the entry under the pointer, or with the focus, is written out in numbers.

const STYLE_OF_GAE = `
  .gae .settings { grid-template-columns: auto 1fr auto 1fr; margin: 6px 0 8px; }
  .gae table { width: 100%; border-collapse: separate; border-spacing: 0; table-layout: fixed; }
  .gae th { font-weight: 600; font-size: 14px; padding: 2px 3px; text-align: center; }
  .gae tbody th { color: var(--muted-text); font-weight: 400; }
  .gae td { padding: 3px; vertical-align: top; border-bottom: 1px solid var(--faint); }
  .gae tbody th { border-bottom: 1px solid var(--faint); }
  .gae tr.over td, .gae tr.over th { border-bottom: 3px solid var(--ink); }
  .gae th.step { width: 1.6em; }
  .gae th.end { width: 23%; }
  .gae input[type=number], .gae select { font: inherit; font-size: 14px; width: 100%; min-width: 0; height: 32px; min-height: 0;
    padding: 2px 4px; color: var(--ink); background: var(--raised); border: 1px solid var(--line); border-radius: 6px; }
  .gae input[type=number] { text-align: right; -moz-appearance: textfield; appearance: textfield; }
  .gae input::-webkit-inner-spin-button, .gae input::-webkit-outer-spin-button { -webkit-appearance: none; margin: 0; }
  .gae .final { display: grid; grid-template-columns: auto 1fr; align-items: center; gap: 4px; margin-top: 3px; font-size: 13px; }
  .gae .choose { max-width: 100%; width: auto; }
  .gae td button { display: block; width: 100%; height: 32px; min-height: 0; padding: 2px 3px 0; border-color: transparent; background: none; font-size: 14px; }
  .gae td button:hover { border-color: var(--line); }
  .gae td button[aria-pressed=true] { box-shadow: 0 0 0 2px var(--ink); background: var(--raised); font-weight: 600; }
  .gae td button.good { color: var(--good-text); }
  .gae td button.bad { color: var(--bad-text); }
  .gae .bar { display: block; position: relative; height: 5px; margin-top: 1px; }
  .gae .bar i { position: absolute; top: 0; height: 5px; border-radius: 2px; background: var(--muted); }
  .gae .bar::after { content: ""; position: absolute; left: 50%; top: -1px; height: 7px; border-left: 1px solid var(--line); }
  .gae .good .bar i { background: var(--good); }
  .gae .bad .bar i { background: var(--bad); }
  .gae .read { box-shadow: 0 0 0 2px var(--ppo); border-radius: 6px; }
  .gae td.after { vertical-align: middle; padding-left: 8px; font-size: 14px; }
  .gae .unread { opacity: 0.6; }
  .gae .sum { margin: 12px 0 0; padding: 8px 12px; border-left: 4px solid var(--ppo); min-height: 9.4em; }
  .gae .sum p { margin: 0 0 3px; }
  .gae .sum .result { font-weight: 600; font-size: 16px; }
  @container (max-width: 560px) {
    .gae .settings { margin: 0; gap: 0 8px; }
    .gae .shown { min-width: 0; }
    .gae .first { flex-wrap: nowrap; gap: 8px; white-space: nowrap; }
    .gae input[type=number], .gae select, .gae td button { font-size: 13px; padding: 2px; }
    .gae tbody input[type=number], .gae tbody select, .gae td button { height: 27px; }
    .gae td button { line-height: 1.2; }
    .gae th, .gae td { padding: 1px; }
    .gae th { font-size: 13px; }
    .gae td.after { font-size: 13px; white-space: nowrap; }
    .gae th.step { width: 1.1em; }
    .gae th.end { width: 29%; }
    .gae td select { font-size: 12.5px; padding: 0; }
    .gae .sum { margin: 8px 0 0; padding: 2px 0 2px 10px; min-height: 9.7em; line-height: 1.35; font-size: 14px; }
  }
`;

// δ_t and Â_t. The value after a termination is 0, after a truncation that of the final observation; the recursion
// starts anew at either.
function estimatesOf(segment, gamma, lam) {
  const steps = segment.rewards.length;
  const deltas = new Array(steps), advantages = new Array(steps);
  let following = 0;
  for (let t = steps - 1; t >= 0; t--) {
    const over = segment.terminated[t], cut = segment.truncated[t] && !over;
    const next = over ? 0 : cut ? segment.final_values[t] : segment.values[t + 1];
    deltas[t] = segment.rewards[t] + gamma * next - segment.values[t];
    advantages[t] = deltas[t] + (over || cut ? 0 : gamma * lam * following);
    following = advantages[t];
  }
  return { deltas, advantages };
}

function render({ model, el }) {
  const { root, say, close } = stage(el, "gae", STYLE_OF_GAE, "Interactive figure: the TD errors and advantages of a segment");
  const segments = model.get("segments"), ranges = model.get("ranges");
  const at = { gamma: model.get("gamma"), lam: model.get("lam") };
  const WORDS = ["goes on", "terminated", "truncated"];
  let segment, cells, tail, chosen = { kind: "advantage", t: 0 };

  // Controls
  const control = (name, words) => slider(name, words, ranges[name], (value) => { at[name] = value; draw(); tell(); });
  const sliders = { gamma: control("gamma", "γ"), lam: control("lam", "λ") };
  const choose = choice("segment", segments.map(({ name }) => name), (index) => { pick(index); if (segment.truncated[3]) guess.moved(); tell(); });
  choose.className = "choose";
  const body = html("tbody");
  const sum = html("div", { class: "sum number" });
  const sub = (letter, t) => html("span", {}, letter, html("sub", {}, String(t)));

  const guess = prediction({
    asks: "Step 3 ends by a time limit instead of a terminal state. Which advantages change?",
    options: ["Only step 3", "Steps 0 to 3", "All"], right: 1,
    answer: "The next value is no longer 0, so δ of step 3 changes, and the sweep carries this back to step 0.",
  });
  root.prepend(
    guess.node,
    html("div", { class: "row first" }, html("label", { for: "segment" }, "Start from"), choose),
    html("div", { class: "settings" }, ...sliders.gamma.parts, ...sliders.lam.parts),
    html("table", {},
      html("thead", {}, html("tr", {},
        html("th", { scope: "col", class: "step" }, "t"), html("th", { scope: "col" }, "reward"),
        html("th", { scope: "col" }, "V(s)"), html("th", { scope: "col", class: "end" }, "then it"),
        html("th", { scope: "col" }, "δ"), html("th", { scope: "col" }, "Â"))),
      body),
    sum);

  function field(list, t, label) {
    const input = html("input", { type: "number", step: 0.1, value: list[t], "aria-label": label, oninput: () => {
      // Half a number ("-") is no number yet: the last one stays.
      if (input.value === "" || !Number.isFinite(input.valueAsNumber)) return;
      list[t] = input.valueAsNumber;
      draw();
      tell();
    } });
    return input;
  }

  function entry(kind, t) {
    const text = html("span", {}), bar = html("i"), button = html("button", {
      type: "button", class: "number", "data-number": `${kind}-${t}`,
      onfocus: () => show(kind, t), onclick: () => show(kind, t), onpointermove: (event) => { if (event.pointerType === "mouse") show(kind, t); },
    }, text, html("span", { class: "bar" }, bar));
    return { button, text, bar };
  }

  function pick(index) {
    segment = JSON.parse(JSON.stringify(segments[index]));
    choose.value = index;
    cells = segment.rewards.map((_, t) => {
      const reward = field(segment.rewards, t, `Reward of step ${t}`);
      const value = field(segment.values, t, `Value of the state at step ${t}`);
      const final = field(segment.final_values, t, `Value of the final observation of step ${t}`);
      const finalRow = html("div", { class: "final" }, html("span", {}, "V ="), final);
      const end = html("select", { "aria-label": `After step ${t} the episode`, onchange: () => {
        segment.terminated[t] = end.value === "1";
        segment.truncated[t] = end.value === "2";
        if (t === 3 && segment.truncated[t]) guess.moved();
        draw();
        tell();
      } }, ...WORDS.map((word, i) => html("option", { value: i }, word)));
      end.value = segment.terminated[t] ? "1" : segment.truncated[t] ? "2" : "0";
      const delta = entry("delta", t), advantage = entry("advantage", t);
      const row = html("tr", {}, html("th", { scope: "row" }, String(t)), html("td", {}, reward), html("td", {}, value),
        html("td", {}, end, finalRow), html("td", {}, delta.button), html("td", {}, advantage.button));
      return { row, reward, value, end, final, finalRow, delta, advantage };
    });
    const steps = cells.length;
    tail = field(segment.values, steps, "Value of the state after the last step");
    body.replaceChildren(...cells.map((cell) => cell.row), html("tr", {}, html("th", { scope: "row" }, String(steps)),
      html("td", {}), html("td", {}, tail), html("td", { colspan: 3, class: "quiet after" }, "the state after the last step")));
    chosen = { kind: "advantage", t: Math.min(chosen.t, steps - 1) };
    draw();
  }

  function show(kind, t) {
    if (chosen.kind === kind && chosen.t === t) return;
    chosen = { kind, t };
    draw();
    tell();
  }

  // The entry that is chosen, in letters and in numbers; and what it reads.
  function arithmetic(found) {
    const { kind, t } = chosen;
    const over = segment.terminated[t], cut = segment.truncated[t] && !over;
    const number = (value) => (value < 0 ? `(${format(value, 3)})` : format(value, 3));
    const { gamma, lam } = at;
    const lines = [];
    const line = (className, ...parts) => lines.push(html("p", { class: className }, ...parts));
    if (kind === "delta") {
      const next = over ? "0" : cut ? "V(final)" : html("span", {}, "V(s", html("sub", {}, String(t + 1)), ")");
      line("", sub("δ", t), " = ", sub("r", t), " + γ ", next, " − V(s", html("sub", {}, String(t)), ")");
      const value = over ? 0 : cut ? segment.final_values[t] : segment.values[t + 1];
      line("", `= ${format(segment.rewards[t], 3)} + ${format(gamma)} × ${over ? "0" : number(value)} − ${number(segment.values[t])}`);
      line("result", `= ${format(found.deltas[t], 3)}`);
      line("quiet", over ? "The episode has terminated: nothing is earned after it, so the next value is 0, whatever the critic says of the next row."
        : cut ? "The episode was cut short, and would have gone on. The next value is that of its final observation; the next row belongs to another episode."
          : t === cells.length - 1 ? "The rollout stops here in mid-episode. The value after its last step stands for all that would follow."
            : "One reward and the critic's value of the next state, against the critic's value of this one.");
    } else {
      const ended = over || cut;
      const last = t === cells.length - 1;
      const end = ended || last ? "" : html("span", {}, " + γ λ ", sub("Â", t + 1));
      line("", sub("Â", t), " = ", sub("δ", t), end);
      if (!ended && !last) line("", `= ${format(found.deltas[t], 3)} + ${format(gamma)} × ${format(lam)} × ${number(found.advantages[t + 1])}`);
      line("result", `= ${format(found.advantages[t], 3)}`);
      if (ended || last) line("quiet", ended ? "The episode ends with this step: the steps below belong to another one, and nothing is carried over." : "The last step of the rollout: there is no later δ to add.");
      else {
        const terms = [];
        for (let k = t; k < cells.length; k++) {
          const weight = (gamma * lam) ** (k - t);
          terms.push(html("span", {}, k > t ? ` + ${format(weight, 3)} ` : "", sub("δ", k)));
          if (segment.terminated[k] || segment.truncated[k]) break;
        }
        line("quiet", "Written out: ", ...terms);
      }
    }
    return lines;
  }

  function draw() {
    const found = estimatesOf(segment, at.gamma, at.lam);
    const largest = Math.max(...found.deltas.map(Math.abs), ...found.advantages.map(Math.abs));
    const full = [0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 7.5, 10, 20, 50, 100].find((size) => largest <= size) ?? largest;
    const steps = cells.length;
    cells.forEach((cell, t) => {
      const over = segment.terminated[t], cut = segment.truncated[t] && !over;
      cell.row.classList.toggle("over", over || cut);
      cell.finalRow.style.display = cut ? "" : "none";
      for (const [kind, part, value] of [["delta", cell.delta, found.deltas[t]], ["advantage", cell.advantage, found.advantages[t]]]) {
        const mine = chosen.kind === kind && chosen.t === t;
        part.text.textContent = format(value);
        const width = Math.min(50, (50 * Math.abs(value)) / full);
        part.bar.style.width = `${width}%`;
        part.bar.style.left = value < 0 ? `${50 - width}%` : "50%";
        part.button.className = `number ${kind === "delta" ? "" : value > 0 ? "good" : value < 0 ? "bad" : ""}`;
        part.button.dataset.value = JSON.stringify(value);
        set(part.button, { "aria-pressed": mine, "aria-label": `${kind === "delta" ? "δ" : "Advantage"} of step ${t}: ${format(value)}` });
      }
    });
    // What the chosen entry reads gets a ring.
    const { kind, t } = chosen;
    const ends = segment.terminated[t] ? 1 : segment.truncated[t] ? 2 : 0;
    const below = t + 1 < steps ? cells[t + 1] : null;
    const reads = kind === "delta"
      ? [cells[t].reward, cells[t].value, ...(ends === 0 ? [below ? below.value : tail] : ends === 2 ? [cells[t].final] : [])]
      : [cells[t].delta.button, ...(ends === 0 && below ? [below.advantage.button] : [])];
    for (const node of body.querySelectorAll("input, button")) node.classList.toggle("read", reads.includes(node));
    tail.classList.toggle("unread", segment.terminated[steps - 1] || segment.truncated[steps - 1]);
    sum.replaceChildren(...arithmetic(found));
    for (const name of ["gamma", "lam"]) sliders[name].put(at[name], format(at[name]), `${format(at[name])}, γλ ${format(at.gamma * at.lam, 3)}`);
    link.tell({ ...at, ...found });
  }

  function tell() {
    const name = chosen.kind === "delta" ? "δ" : "Advantage";
    say(`${name} of step ${chosen.t}: ${[...sum.querySelectorAll("p")].map((p) => p.textContent).join(" ")}`);
  }

  const link = shared(model, ["gamma", "lam"], (now) => { Object.assign(at, now); draw(); });
  pick(0);
  return () => { close(); link.close(); };
}

export default { render };
