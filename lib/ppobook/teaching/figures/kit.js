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
    container-type: inline-size; color: var(--ink); font-family: inherit; font-size: 15px; line-height: 1.45;
    border: 1px solid var(--faint); border-radius: 10px; padding: 14px 16px; text-align: start;
  }
  .figure * { box-sizing: border-box; }
  .figure svg { display: block; width: 100%; height: auto; overflow: visible; }
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
  .question .answer { clear: both; margin: 6px 0 0; min-height: 2.9em; }
  .figure details { margin: 8px 0 0; }
  .figure summary { cursor: pointer; font-size: 14px; color: var(--muted-text); width: fit-content; }
  @container (max-width: 560px) {
    .sticky { position: sticky; top: 3.6rem; z-index: 1; background: var(--paper); }
    .question .row { gap: 6px 8px; }
  }
  .unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
`;

// Numbers with their terms: `fact` makes an item of a `dl`, and `facts` holds the elements of the numbers by name.
function numberList() {
  const facts = {};
  const fact = (name, term) => {
    facts[name] = html("dd", { class: "number", "data-number": name });
    return html("div", {}, html("dt", {}, term), facts[name]);
  };
  return { facts, fact };
}

// The root of a figure, shut off from the styles of the page around it, in the palette's colours for the ground
// it stands on. Returns {root, live, say, close}: where to put things, an announcer for screen readers, and what
// to call when the figure goes away.
function stage(el, name, style) {
  const shadow = el.shadowRoot ?? el.attachShadow({ mode: "open" });
  const live = html("div", { class: "unseen", role: "status", "aria-live": "polite" });
  const root = html("div", { class: `figure ${name}`, role: "group" });
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

// A question to answer before anything is moved. `answered(isRight)` is called with each answer; what follows from it may
// be appended to the node that this returns.
function question(words, options, right, answered) {
  const buttons = options.map((option, choice) => html("button", {
    type: "button", "aria-pressed": false, onclick: () => {
      buttons.forEach((button, other) => {
        set(button, { "aria-pressed": other === choice, "data-mark": other !== choice ? "" : choice === right ? "right" : "wrong" });
      });
      answered(choice === right);
    },
  }, option));
  return html("fieldset", { class: "question" },
    html("legend", {}, html("b", {}, "Guess first. "), words), html("div", { class: "row" }, ...buttons));
}

// A question that the figure answers: the reader chooses, and moves something. Only then is the choice marked and
// `because` said, in either order. `chosen` is called with each choice. Returns {node, made, moved}: `made()` says whether
// there is a choice; call `moved` where a move has shown the answer.
function prediction(words, options, right, because, chosen = () => {}) {
  let choice = null, seen = false;
  const answer = html("p", { class: "answer", "aria-live": "polite" });
  const buttons = options.map((option, k) => html("button", { type: "button", "aria-pressed": false, onclick: () => { choice = k; show(); chosen(k); } }, option));
  const show = () => {
    buttons.forEach((button, k) => set(button, {
      "aria-pressed": k === choice, "data-mark": choice === null || !seen ? "" : k === right ? "right" : k === choice ? "wrong" : "",
    }));
    if (choice !== null) answer.textContent = seen ? `${choice === right ? "Right." : "Not quite."} ${because}` : "Now try it.";
  };
  const node = html("fieldset", { class: "question" }, html("legend", {}, html("b", {}, "Guess first. "), words),
    html("div", { class: "row" }, ...buttons), answer);
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

// A picture that is drawn anew for a wide and for a narrow figure: `draw(picture, W)` with W of 340 or 720 units.
// Returns {picture, redraw, close}.
function twoWidths(root, draw, attributes = {}) {
  const picture = svg("svg", { role: "img", ...attributes });
  let width = 720;
  const redraw = () => draw(picture, width);
  const close = whenNarrow(root, (narrow) => { width = narrow ? 340 : 720; redraw(); });
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
  const button = html("button", { type: "button", onclick: () => turn(!frame) });
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
