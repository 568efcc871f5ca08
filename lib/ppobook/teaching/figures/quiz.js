// An entry quiz: one question at a time, what each answer mixes up, and at the end what to read.
// State: sections [{label, title}], questions [{ask, section, options: [{text, because, right, section}]}].

const STYLE_OF_QUIZ = `
  .quiz p { margin: 0 0 12px; }
  .quiz .ask { font-weight: 600; font-size: 16px; outline: none; }
  .quiz .options { display: grid; gap: 8px; }
  .quiz .options button { text-align: start; min-height: 42px; font-size: 15px; }
  .quiz button:disabled { color: var(--muted-text); background: none; border: 1px dashed var(--line); cursor: default; }
  .quiz [data-mark=right] { border-color: var(--good); box-shadow: inset 5px 0 var(--good); }
  .quiz [data-mark=wrong] { border-color: var(--bad); box-shadow: inset 5px 0 var(--bad); }
  .quiz [data-mark=unsure] { border-color: var(--ink); box-shadow: inset 5px 0 var(--muted); }
  .quiz .options button[data-mark] { padding-inline-start: 16px; }
  .quiz .because { padding: 12px 0; }
  .quiz .right { color: var(--good-text); font-weight: 600; }
  .quiz .wrong { color: var(--bad-text); font-weight: 600; }
  .quiz a { color: var(--ppo-text); }
  .quiz code { font-size: 14px; }
  .quiz sub, .quiz sup { line-height: 0; }
  .quiz ul { margin: 0 0 12px; padding-inline-start: 22px; }
`;

const NOT_SURE = {
  text: "Not sure",
  because: "An honest answer. Try the others if you like, they say what is behind them; or go on.",
};

// The labels of the sections to read, in the order of the chapter: one for each first answer that was not right.
export function toRead(questions, sections, answers) {
  const wanted = new Set();
  questions.forEach((question, number) => {
    const option = question.options[answers[number]];
    if (!option?.right) wanted.add(option?.section ?? question.section);
  });
  return sections.map((section) => section.label).filter((label) => wanted.has(label));
}

// A text as nodes: backticks mark code, asterisks emphasis; p_θ has an index and e^(x) an exponent.
function prose(text) {
  return text.split(/(`[^`]+`|\*[^*]+\*|(?<=\p{L})_\p{L}+|(?<=\p{L})\^(?:\p{L}|\d|\([^)]*\)))/u).map((part, at) => {
    const tag = at % 2 && { "`": "code", "*": "em", "_": "sub", "^": "sup" }[part[0]];
    return tag ? html(tag, {}, part.slice(1, /[`*]/.test(part[0]) ? -1 : undefined)) : part;
  });
}

function render({ model, el }) {
  const questions = model.get("questions");
  const sections = model.get("sections");
  // The number of the option that was chosen first; one past the last means "not sure".
  let answers = [];

  const { root, close } = stage(el, "quiz", STYLE_OF_QUIZ);
  root.setAttribute("aria-label", "Entry quiz");

  // Whoever works by keyboard or by ear goes on from the new question, and not from the top of the page.
  function go(number) {
    root.replaceChildren(...(number < questions.length ? question(number) : result()));
    root.querySelector(".ask").focus();
  }

  function question(number) {
    const { ask, options: offered } = questions[number];
    const options = [...offered, NOT_SURE];
    const because = html("div", { class: "because", role: "status", "data-room": `✗ Not quite. ${longest(options.map((option) => option.because))}` });
    const last = number + 1 === questions.length;
    const next = html("button", { class: "main", onclick: () => go(number + 1) }, last ? "What should I read?" : "Next");
    const buttons = options.map((option, choice) => html("button", { onclick: () => choose(choice) }, ...prose(option.text)));

    function choose(choice) {
      // The first answer counts. The others may be tried, for what is said of them.
      answers[number] ??= choice;
      const option = options[choice];
      const mark = option === NOT_SURE ? "unsure" : option.right ? "right" : "wrong";
      const verdict = { right: "✓ Right.", wrong: "✗ Not quite." }[mark];
      buttons.forEach((button, other) => set(button, { "aria-pressed": other === choice }));
      set(buttons[choice], { "data-mark": mark });
      because.replaceChildren(...(verdict ? [html("span", { class: mark }, verdict), " "] : []), ...prose(option.because));
      next.disabled = false;
    }

    next.disabled = true;
    if (answers[number] !== undefined) choose(answers[number]);
    return [
      html("p", { class: "quiet number" }, `Question ${number + 1} of ${questions.length}`),
      html("p", { class: "ask", tabindex: "-1" }, ...prose(ask)),
      html("div", { class: "options" }, ...buttons),
      because,
      html("div", { class: "row" }, next, ...(number ? [html("button", { onclick: () => go(number - 1) }, "Back")] : [])),
    ];
  }

  function result() {
    const right = questions.filter(({ options }, number) => options[answers[number]]?.right).length;
    const read = toRead(questions, sections, answers);
    const skip = sections.map((section) => section.label).filter((label) => !read.includes(label));
    const restart = () => {
      answers = [];
      go(0);
    };
    return [
      html("p", { class: "ask", tabindex: "-1" }, `${right} of ${questions.length} right at the first answer.`),
      html("p", {}, read.length ? "To read:" : "Nothing to read up. Have a look at the notation, and go on."),
      ...(read.length ? [links(read)] : []),
      ...(read.length && skip.length ? [html("p", {}, "To skip, if you like:"), links(skip)] : []),
      html(
        "div", { class: "row" },
        html("button", { onclick: restart }, "Start again"),
        html("button", { onclick: () => go(questions.length - 1) }, "Back"),
      ),
    ];
  }

  function links(labels) {
    const items = labels.map((label) => {
      const { title } = sections.find((section) => section.label === label);
      return html("li", {}, html("a", { href: `#${label}`, onclick: (event) => goTo(event, title) }, title));
    });
    return html("ul", {}, ...items);
  }

  // On the page a link finds its section by itself. In a notebook a section bears no name, but it has its heading.
  function goTo(event, title) {
    const notebook = el.closest(".jp-Notebook");
    if (!notebook) return;
    event.preventDefault();
    const headings = [...notebook.querySelectorAll("h2, h3")];
    headings.find((heading) => heading.textContent.startsWith(title))?.scrollIntoView();
  }

  root.replaceChildren(...question(0));
  return close;
}

export default { render };
