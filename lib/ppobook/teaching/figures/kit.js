// What the interactive figures share. This file is not imported: a module that was loaded from a local file may
// import nothing, so the text of this one stands in front of each figure's (see `source` in _figure.py), after
// a line that defines PALETTE from palette.json.

const SVG = "http://www.w3.org/2000/svg";

// An element with attributes, listeners ("onclick") and children. `html("b", {}, "text")`.
function make(namespace, tag, attributes, children) {
  const node = namespace ? document.createElementNS(namespace, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}
const html = (tag, attributes = {}, ...children) => make(null, tag, attributes, children);
const svg = (tag, attributes = {}, ...children) => make(SVG, tag, attributes, children);

function set(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
}

// A number for reading: so many decimals, and a true minus sign.
function format(value, decimals = 2) {
  const text = Math.abs(value).toFixed(decimals);
  return value < 0 && Number(text) !== 0 ? `−${text}` : text;
}

const signed = (value, decimals) => `${value > 0 ? "+" : ""}${format(value, decimals)}`;

const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
// The longest of some texts: "data-room" keeps as much room as it needs, so that what stands below never moves.
const longest = (texts) => texts.reduce((best, one) => (one.length > best.length ? one : best));
const meanOf = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
// The place of the entry that is closest to a value.
const nearest = (list, value) => list.reduce((best, entry, i) => (Math.abs(entry - value) < Math.abs(list[best] - value) ? i : best), 0);
// A round number that divides a span into so many parts or fewer, and its multiples.
function roundStep(span, most = 5) {
  const unit = 10 ** Math.floor(Math.log10(span / most));
  return [1, 2, 5, 10].map((factor) => factor * unit).find((step) => span / step <= most + 1e-9);
}
function multiples(low, high, most) {
  const step = roundStep(high - low, most), first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step);
}

// Numbers that Python has packed into a text, and columns of numbers (see `packed` in _figure.py).
const numbersOf = (text) => text.split(" ").map(Number);
const columnsOf = (text, names) => Object.fromEntries(text.split("/").map((part, i) => [names[i], numbersOf(part)]));

// A generator of numbers in [0, 1) that gives the same ones for the same seed (mulberry32).
function generator(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

function calm() {
  return window.matchMedia("(prefers-reduced-motion: reduce)").matches;
}

// Is the ground dark? Paper is not. The site says so on <html>, JupyterLab on <body>; elsewhere the system decides.
function dark() {
  if (window.matchMedia("print").matches) return false;
  const site = document.documentElement.dataset.theme;
  if (site === "dark" || site === "light") return site === "dark";
  const lab = document.body.dataset.jpThemeLight;
  if (lab) return lab === "false";
  return window.matchMedia("(prefers-color-scheme: dark)").matches;
}

const STYLE = `
  :host { display: block; }
  .figure {
    container-type: inline-size; color: var(--ink); background: var(--paper); font-family: inherit; font-size: 15px; line-height: 1.45;
    border: 1px solid var(--faint); border-radius: 10px; padding: 14px 16px; text-align: start;
  }
  .figure * { box-sizing: border-box; }
  .figure svg { display: block; width: 100%; height: auto; overflow: visible; font-size: 14px; }
  .figure svg text { font-family: inherit; fill: var(--ink); }
  .figure svg, .figure label, .figure button, .figure summary { user-select: none; -webkit-user-select: none; }
  label, .title { font-weight: 600; }
  .quiet { color: var(--muted-text); }
  .row { display: flex; flex-wrap: wrap; align-items: center; gap: 8px 14px; }
  .number { font-variant-numeric: tabular-nums; }
  button, select {
    font: inherit; font-size: 14px; color: var(--ink); background: var(--raised); min-height: 34px;
    border: 1px solid var(--line); border-radius: 7px; padding: 4px 11px; cursor: pointer; max-width: 100%;
  }
  button:hover, select:hover { border-color: var(--ink); }
  button.main { color: var(--paper); background: var(--ink); border-color: var(--ink); font-weight: 600; }
  :focus-visible { outline: 3px solid var(--ppo); outline-offset: 2px; }
  input[type=range] {
    appearance: none; -webkit-appearance: none; display: block; width: 100%; height: 34px; margin: 0;
    background: none; cursor: pointer; border-radius: 8px;
  }
  input[type=range]::-webkit-slider-runnable-track { height: 6px; border-radius: 3px; background: var(--faint); }
  input[type=range]::-moz-range-track { height: 6px; border-radius: 3px; background: var(--faint); }
  input[type=range]::-webkit-slider-thumb {
    -webkit-appearance: none; width: 24px; height: 24px; margin-top: -9px; border-radius: 50%;
    background: var(--ink); border: 3px solid var(--paper); box-shadow: 0 0 0 1px var(--line);
  }
  input[type=range]::-moz-range-thumb {
    width: 20px; height: 20px; border-radius: 50%;
    background: var(--ink); border: 3px solid var(--paper); box-shadow: 0 0 0 1px var(--line);
  }
  .question { border: 0; border-inline-start: 4px solid var(--ink); margin: 0 0 10px; padding: 2px 0 2px 12px; min-width: 0; }
  .question legend { padding: 0; float: left; width: 100%; margin-bottom: 6px; }
  .question .row { clear: both; }
  .question button[aria-pressed=true] { box-shadow: inset 0 0 0 2px var(--ink); }
  .question button[data-mark=right] { border-color: var(--good); box-shadow: inset 5px 0 var(--good); padding-inline-start: 16px; }
  .question button[data-mark=wrong] { border-color: var(--bad); box-shadow: inset 5px 0 var(--bad); padding-inline-start: 16px; }
  .question .answer { clear: both; margin: 6px 0 0; }
  [data-room] { display: flow-root; }
  [data-room]::before { content: attr(data-room); float: left; width: 100%; margin-right: -100%; visibility: hidden; }
  .settings { display: grid; grid-template-columns: auto 1fr; align-items: center; gap: 0 14px; margin: 6px 0; }
  .setting { white-space: nowrap; }
  .shown { font-weight: 600; display: inline-block; min-width: 2.6em; }
  .panels { display: grid; grid-template-columns: 1fr 1fr; gap: 6px 24px; margin: 8px 0 0; }
  .says { margin: 8px 0 0; }
  .word { paint-order: stroke; stroke: var(--paper); stroke-width: 4px; stroke-linejoin: round; }
  ${Object.keys(PALETTE).map((name) => `.figure svg text.${name} { fill: var(--${name}-text); }`).join("\n  ")}
  .slides { cursor: ew-resize; touch-action: pan-y; }
  .facts { display: grid; grid-template-columns: repeat(3, 1fr); gap: 8px 16px; margin: 10px 0 0; }
  .facts div { display: flex; flex-direction: column-reverse; justify-content: flex-end; }
  .facts dt { color: var(--muted-text); font-size: 13.5px; }
  .facts dd { margin: 0; font-size: 19px; font-weight: 600; }
  details table { border-collapse: collapse; width: 100%; margin: 8px 0 0; font-size: 14px; }
  details th, details td { text-align: right; padding: 3px 6px; border-bottom: 1px solid var(--faint); }
  details th:first-child { text-align: left; font-weight: 400; padding-left: 0; }
  @media print { .player { display: none; } }
  .figure details { margin: 8px 0 0; }
  .figure summary { cursor: pointer; font-size: 14px; color: var(--muted-text); width: fit-content; }
  @container (max-width: 560px) {
    .panels { grid-template-columns: 1fr; }
    .sticky { position: sticky; top: 3.6rem; z-index: 1; background: var(--paper); }
    .question { font-size: 14px; margin-bottom: 4px; }
    .question .row { gap: 6px 8px; }
  }
  .unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
`;

// Numbers by name: `cell` makes the element of one, `fact` an item of a `dl` with its term, and `put` writes it.
function numberList() {
  const facts = {};
  const cell = (name, tag = "td") => (facts[name] = html(tag, { class: "number", "data-number": name }));
  const fact = (name, term) => html("div", {}, html("dt", {}, term), cell(name, "dd"));
  const put = (name, value, words) => {
    facts[name].dataset.value = JSON.stringify(value);
    facts[name].textContent = words;
  };
  return { facts, cell, fact, put };
}

// Parts of a picture. A curve is a path: `svg("path", { d: trace(points) })`.
const line = (x1, y1, x2, y2, more) => svg("line", { x1, y1, x2, y2, ...more });
const text = (x, y, words, more) => svg("text", { x, y, class: "word", ...more }, words);
const dot = (cx, cy, r, hue) => svg("circle", { cx, cy, r, fill: `var(--${hue})`, stroke: "var(--paper)", "stroke-width": 2 });
const trace = (points) => `M${points.map(([x, y]) => `${x.toFixed(2)} ${y.toFixed(2)}`).join("L")}`;
function arrow(x1, y1, x2, y2, { colour, width, head }) {
  const length = Math.hypot(x2 - x1, y2 - y1), dx = ((x2 - x1) / length) * head, dy = ((y2 - y1) / length) * head;
  const bx = x2 - dx, by = y2 - dy;
  return [
    line(x1, y1, bx, by, { stroke: colour, "stroke-width": width }),
    svg("path", { d: `${trace([[x2, y2], [bx - 0.55 * dy, by + 0.55 * dx], [bx + 0.55 * dy, by - 0.55 * dx]])}Z`, fill: colour }),
  ];
}

// The axes of a graph in the frame {left, right, top, bottom}: lines across, each with its value, the one at 0 darker;
// and values below, with what they are of. At the right edge, a value ends there.
const short = (value) => String(Number(value.toFixed(3))).replace("-", "−");
const yAxis = (frame, y, values, words = short) => values.flatMap((value) => [
  line(frame.left, y(value), frame.right, y(value), { stroke: Math.abs(value) < 1e-9 ? "var(--line)" : "var(--faint)" }),
  text(frame.left - 7, y(value) + 5, words(value), { "text-anchor": "end" })]);
const xAxis = (frame, x, values, name, words = short) => [
  ...values.map((value) => text(x(value), frame.bottom + 18, words(value), { "text-anchor": "middle" })),
  text((frame.left + frame.right) / 2, frame.bottom + 36, name, { "text-anchor": "middle" })];

// Heights of names beside curves, moved until they stand so far apart.
function apart(heights, gap = 17) {
  const moved = [...heights], order = heights.map((_, i) => i).sort((a, b) => heights[a] - heights[b]);
  for (let round = 0; round < 20; round++) order.slice(1).forEach((lower, i) => {
    const upper = order[i], push = Math.max(0, gap - (moved[lower] - moved[upper])) / 2;
    moved[upper] -= push;
    moved[lower] += push;
  });
  return moved;
}

// `moved(x, y)`, in the units of the picture, while a pointer is held down on it.
function draggable(picture, moved) {
  const drag = (event) => {
    const place = picture.getBoundingClientRect(), unit = picture.viewBox.baseVal.width / place.width;
    moved((event.clientX - place.left) * unit, (event.clientY - place.top) * unit);
  };
  picture.classList.add("slides");
  picture.addEventListener("pointerdown", (event) => { picture.setPointerCapture(event.pointerId); drag(event); });
  picture.addEventListener("pointermove", (event) => { if (picture.hasPointerCapture(event.pointerId)) drag(event); });
}

// A slider over [min, max, step] with its name and its value: {input, parts, put}. `put(value, words)` moves it.
function slider(id, name, [min, max, step = 1], moved) {
  const shown = html("span", { class: "number shown" });
  const input = html("input", { type: "range", id, min, max, step, oninput: () => moved(Number(input.value)) });
  const put = (value, words, spoken = words) => {
    input.value = value;
    shown.textContent = words;
    set(input, { "aria-valuetext": spoken });
  };
  return { input, put, parts: [html("span", { class: "setting" }, html("label", { for: id }, name), " ", shown), input] };
}

// A list to choose from, by number.
function choice(id, options, chosen) {
  const node = html("select", { id, onchange: () => chosen(Number(node.value)) }, ...options.map((words, value) => html("option", { value }, words)));
  return node;
}

// What Python may change too, in JupyterLab: {tell, close}. `tell` hands it new values, `changed` gets those from there.
function shared(model, names, changed) {
  const held = () => Object.fromEntries(names.map((name) => [name, model.get(name)]));
  let telling = false, told = held();
  const follow = () => {
    const now = held();
    if (telling || names.every((name) => now[name] === told[name])) return;
    told = now;
    changed(now);
  };
  for (const name of names) model.on(`change:${name}`, follow);
  const tell = (values) => {
    telling = true;
    for (const [name, value] of Object.entries(values)) model.set(name, value);
    model.save_changes();
    telling = false;
    told = held();
  };
  return { tell, close: () => { for (const name of names) model.off(`change:${name}`, follow); } };
}

// The root of a figure, shut off from the styles of the page around it, in the palette's colours for the ground
// it stands on. Returns {root, live, say, close}: where to put things, an announcer for screen readers, and what
// to call when the figure goes away.
function stage(el, name, style, label) {
  const shadow = el.shadowRoot ?? el.attachShadow({ mode: "open" });
  const live = html("div", { class: "unseen", role: "status", "aria-live": "polite" });
  const root = html("div", { class: `figure ${name}`, role: "group", "aria-label": label });
  shadow.replaceChildren(html("style", {}, STYLE + style), root);
  root.append(live);

  const paint = () => {
    const night = dark();
    root.dataset.ground = night ? "dark" : "light";
    for (const [key, entry] of Object.entries(PALETTE)) {
      root.style.setProperty(`--${key}`, night ? entry.dark : entry.light);
      root.style.setProperty(`--${key}-text`, night ? entry.dark : entry.text);
    }
    root.style.setProperty("--raised", night ? "#222930" : "#F6F8FA");
    root.style.setProperty("--line", night ? "#7D8893" : "#868F99");
  };
  paint();
  const watcher = new MutationObserver(paint);
  watcher.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  watcher.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light"] });
  const media = ["(prefers-color-scheme: dark)", "print"].map((query) => window.matchMedia(query));
  for (const one of media) one.addEventListener("change", paint);

  // JupyterLab would take the arrow keys, and "d d" would delete the cell.
  el.dataset.lmSuppressShortcuts = "true";
  for (const kind of ["keydown", "keyup", "keypress"]) root.addEventListener(kind, (event) => event.stopPropagation());

  // Screen readers hear a number once it has come to rest, and not forty times on its way.
  let waiting = 0;
  const say = (text) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => { live.textContent = text; }, 350);
  };
  const close = () => {
    clearTimeout(waiting);
    watcher.disconnect();
    for (const one of media) one.removeEventListener("change", paint);
  };
  return { root, live, say, close };
}

// A question that the figure answers: the reader chooses, and moves something. Only then is the choice marked and the
// answer said, in either order. `chosen` is called with each choice. Returns {node, made, moved}: `made()` says whether
// there is a choice; call `moved` where a move has shown the answer.
function prediction({ asks, todo = "", options, right, answer }, chosen = () => {}) {
  let choice = null, seen = false;
  const told = html("p", { class: "answer", "aria-live": "polite", "data-room": `Not quite. ${answer}` });
  const buttons = options.map((option, k) => html("button", { type: "button", "aria-pressed": false, onclick: () => { choice = k; show(); chosen(k); } }, option));
  const show = () => {
    buttons.forEach((button, k) => set(button, {
      "aria-pressed": k === choice, "data-mark": choice === null || !seen ? "" : k === right ? "right" : k === choice ? "wrong" : "",
    }));
    if (choice !== null) told.textContent = seen ? `${choice === right ? "Right." : "Not quite."} ${answer}` : "Now try it.";
  };
  const node = html("fieldset", { class: "question" }, html("legend", {}, html("b", {}, "Guess first. "), `${asks} ${todo}`),
    html("div", { class: "row" }, ...buttons), told);
  return { node, made: () => choice !== null, moved: () => { if (!seen) { seen = true; show(); } } };
}

// What stands behind a toggle, such as numbers.
const behind = (words, ...nodes) => html("details", {}, html("summary", {}, words), ...nodes);

// Calls `changed(isNarrow)` when a figure, wide at first, becomes narrow or wide. Returns what to call when it goes away.
function whenNarrow(root, changed) {
  let narrow = false;
  const watcher = new ResizeObserver(() => {
    if (root.clientWidth < 560 !== narrow) changed(narrow = !narrow);
  });
  watcher.observe(root);
  return () => watcher.disconnect();
}

// A picture that is drawn anew for a wide and for a narrow figure: `draw(picture, W)` with W of 340 units, or more where
// there is room. Returns {picture, redraw, close}.
function twoWidths(root, draw, wide = 720) {
  const picture = svg("svg", { role: "img" });
  let width = wide;
  const redraw = () => draw(picture, width);
  const close = whenNarrow(root, (narrow) => { width = narrow ? 340 : wide; redraw(); });
  return { picture, redraw, close };
}

// A film in a stage: pictures 0 to `last`, over and over, and a button. It stands still on the last picture for a
// reader who has asked for less motion, until they press Play. `show(at)` draws a picture, `stands(at)` is what a
// screen reader hears after a pause; `rest` are the seconds between the last picture and the first. Returns the
// button, and what to call when the figure goes away.
function play({ root, say }, { last, rate, rest, show, stands }) {
  let at = 0, since = null, frame = 0;
  const tick = (now) => {
    since ??= now - (at / rate) * 1000;
    const seconds = ((now - since) / 1000) % (last / rate + rest);
    at = Math.min(Math.floor(seconds * rate), last);
    show(at);
    frame = requestAnimationFrame(tick);
  };
  const pause = () => { cancelAnimationFrame(frame); frame = 0; since = null; };
  const button = html("button", { type: "button", class: "player", onclick: () => turn(!frame) });
  const turn = (on, spoken = true) => {
    pause();
    if (on && at >= last) at = 0;
    if (on) frame = requestAnimationFrame(tick);
    root.dataset.playing = on;
    button.textContent = on ? "Pause" : "Play";
    if (spoken) say(on ? "The film plays." : stands(at));
  };
  at = calm() ? last : 0;
  show(at);
  turn(!calm(), false);
  return { button, pause };
}

// A button that moves something on, `rate` units a second in steps of `step`, from where it stands to `last`, and from
// `first` again. Nothing moves before the reader asks for it. `at()` is where it stands; `move(to, spoken)` moves it.
function playOn(root, { words, first, last, step = 1, rate, at, move }) {
  let frame = 0;
  const show = () => {
    root.dataset.playing = Boolean(frame);
    button.textContent = frame ? "Pause" : words;
  };
  const pause = () => {
    cancelAnimationFrame(frame);
    frame = 0;
    show();
  };
  const start = () => {
    const from = at() >= last ? first : at(), since = performance.now();
    const tick = (now) => {
      const to = Math.min(last, from + Math.floor((Math.max(0, now - since) / 1000) * (rate / step)) * step);
      frame = to < last ? requestAnimationFrame(tick) : 0;
      if (to !== at() || !frame) move(to, !frame);
      if (!frame) show();
    };
    frame = requestAnimationFrame(tick);
    show();
  };
  const button = html("button", { type: "button", class: "main player", onclick: () => {
    if (!frame) { start(); return; }
    pause();
    move(at(), true);
  } });
  show();
  return { button, pause };
}
