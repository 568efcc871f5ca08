// The page for marking. Answers arrive as HTML that the server made safe; all else is set as text.
"use strict";

const $ = (id) => document.getElementById(id);
const WAIT = 700; // milliseconds between the last change and the save

let questions = [];
let question = null; // with its entries, each { seen, html, points, comment, marked, … }
let shown = []; // the entries that the filter leaves
let at = 0;
let typed = { digits: "", time: 0 };

const current = () => shown[at];
const number = (x) => String(Math.round(x * 100) / 100);

async function ask(path, body) {
  const options = body && {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  };
  const answer = await fetch(path, options || {});
  const said = await answer.json();
  return { status: answer.status, said };
}

// --- loading -------------------------------------------------------------------------------------------------

async function begin() {
  const { status, said } = await ask("api/questions");
  if (status !== 200) return nothing(said.error);
  questions = said.questions;
  if (!questions.length) return nothing("There is no question for a person to mark.");
  listQuestions();
  const open = questions.findIndex((q) => q.marked < q.answers);
  $("questions").selectedIndex = Math.max(0, open);
  await openQuestion();
}

function listQuestions() {
  const chosen = $("questions").selectedIndex;
  $("questions").replaceChildren(
    ...questions.map((q) => {
      const option = document.createElement("option");
      option.textContent = `${q.assignment}, ${q.part}: ${q.marked} of ${q.answers} marked`;
      return option;
    }),
  );
  $("questions").selectedIndex = chosen;
}

async function openQuestion() {
  const { assignment, part } = questions[$("questions").selectedIndex];
  const query = new URLSearchParams({ assignment, part });
  const { status, said } = await ask(`api/question?${query}`);
  if (status !== 200) return nothing(said.error);
  question = said;
  $("help").hidden = false;
  $("heading").textContent = said.title;
  $("rubric").innerHTML = said.rubric;
  $("question").innerHTML = said.question;
  $("points").replaceChildren(...pointButtons(said.max));
  filter();
  const open = shown.findIndex((entry) => !entry.marked);
  show(Math.max(0, open));
}

function filter() {
  shown = question.entries.filter((entry) => !$("waiting").checked || !entry.marked);
}

function nothing(text) {
  $("work").hidden = true;
  $("nothing").hidden = false;
  $("nothing").textContent = text;
}

function pointButtons(most) {
  const step = most <= 6 ? 0.5 : 1;
  const values = [];
  for (let value = 0; value <= most; value += step) values.push(value);
  if (values[values.length - 1] !== most) values.push(most);
  return values.map((value) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = number(value);
    button.dataset.points = value;
    button.addEventListener("click", () => setPoints(value));
    return button;
  });
}

// --- one answer ----------------------------------------------------------------------------------------------

function show(index) {
  const entry = shown[index];
  if (!entry) return nothing(["Nothing to mark here.", ...unwritten()].join(" "));
  at = index;
  if (entry.latest) entry.seen = entry.latest; // what is saved from now on replaces all that is shown here
  entry.latest = null;
  $("work").hidden = false;
  $("nothing").hidden = true;
  $("place").textContent = `Answer ${index + 1} of ${shown.length}`;
  const facts = [];
  if (entry.count > 1) facts.push(`${entry.count} equal answers, marked together`);
  if (entry.displaced) facts.push("in the place of the answer is nothing; this text may be it");
  if (entry.corrected) facts.push(`corrected for good: ${entry.corrected}`);
  if (index === 0) facts.push(...unwritten());
  $("facts").textContent = facts.join(" · ");
  $("answer").innerHTML = entry.html;
  $("answer").scrollTop = 0;
  $("comment").value = entry.comment;
  $("previous").disabled = index === 0;
  drawPoints();
  drawState();
}

function unwritten() {
  const said = [];
  if (question.empty) said.push(`${question.empty} left it empty: 0 points.`);
  if (question.deleted) said.push(`${question.deleted} deleted its cell.`);
  return said;
}

function drawPoints() {
  for (const button of $("points").children)
    button.setAttribute("aria-pressed", String(Number(button.dataset.points) === current().points));
}

function drawState() {
  const entry = current();
  const state = $("state");
  state.className = "";
  const marks = entry.disagree.map((one) => `${one.who} ${one.points === null ? "none" : number(one.points)}`);
  const then = entry.latest ? "Open this answer again to decide." : "Your points will count.";
  $("conflict").textContent = marks.length ? `Marks disagree (${marks.join(", ")}). ${then}` : "";
  if (entry.failed) {
    state.textContent = `not saved: ${entry.failed}`;
    state.className = "failed";
  } else if (entry.saving || entry.dirty) {
    state.textContent = "saving …";
  } else if (entry.marked) {
    state.textContent = "✓ saved";
    state.className = "saved";
  } else {
    state.textContent = entry.comment ? "comment saved, no points yet" : "not marked yet";
  }
}

function setPoints(points) {
  const entry = current();
  entry.points = points;
  change(entry);
  drawPoints();
}

function change(entry) {
  entry.dirty = true;
  entry.failed = "";
  clearTimeout(entry.timer);
  entry.timer = setTimeout(() => save(entry), WAIT);
  drawState();
}

async function save(entry) {
  clearTimeout(entry.timer);
  if (!entry.dirty || entry.saving) return;
  entry.saving = true;
  entry.dirty = false;
  const { assignment, part } = question;
  const { seen, points, comment } = entry;
  try {
    const { status, said } = await ask("api/mark", { assignment, part, seen, points, comment });
    if (status === 200) {
      const before = entry.marked;
      // Marks that came from elsewhere meanwhile are replaced only when they have been shown.
      entry.latest = said.disagree.length ? said.seen : null;
      entry.seen = entry.latest ? entry.seen : said.seen;
      entry.marked = said.marked;
      entry.disagree = said.disagree;
      count(assignment, part, (entry.marked - before) * entry.count);
    } else {
      entry.failed = said.error;
    }
  } catch (error) {
    entry.failed = "the server does not answer; trying again";
    entry.dirty = true;
    entry.timer = setTimeout(() => save(entry), 3000);
  }
  entry.saving = false;
  if (entry.dirty && !entry.failed) save(entry);
  if (entry === current()) drawState();
}

function count(assignment, part, change) {
  const found = questions.find((q) => q.assignment === assignment && q.part === part);
  found.marked += change;
  listQuestions();
}

function go(step) {
  if (!question) return;
  if ($("work").hidden) {
    if (step > 0) openNext();
    else if (shown.length) show(shown.length - 1);
    return;
  }
  save(current());
  const next = at + step;
  if (next >= shown.length) return end();
  if (next < 0) return;
  show(next);
  $("place").focus({ preventScroll: true });
  window.scrollTo({ top: 0 });
}

// Behind the last answer no key gives points, so that whoever types on marks nothing twice.
function end() {
  const open = question.entries.filter((entry) => entry.points === null).length;
  const here = open ? `${open} before it have no points yet. ` : "";
  const more = nextOpen() >= 0 ? "Enter opens the next question with answers to mark" : "No other question waits";
  nothing(`That was the last answer. ${here}${more}; p goes back.`);
  $("nothing").focus();
}

function nextOpen() {
  const here = $("questions").selectedIndex;
  return questions.findIndex((q, index) => index !== here && q.marked < q.answers);
}

async function openNext() {
  const next = nextOpen();
  if (next < 0) return;
  $("questions").selectedIndex = next;
  await openQuestion();
}

// --- what a person does --------------------------------------------------------------------------------------

$("comment").addEventListener("input", () => {
  current().comment = $("comment").value;
  change(current());
});
$("previous").addEventListener("click", () => go(-1));
$("next").addEventListener("click", () => go(1));
$("questions").addEventListener("change", () => {
  if (!$("work").hidden) save(current());
  openQuestion();
  $("questions").blur();
});
$("waiting").addEventListener("change", () => {
  filter();
  show(0);
  $("waiting").blur();
});

document.addEventListener("keydown", (event) => {
  if (event.altKey || event.metaKey || !question) return;
  if ($("work").hidden) {
    if (event.target.tagName === "SELECT" || event.ctrlKey) return;
    if (event.key === "Enter" || event.key === "n") go(1);
    if (event.key === "p" || event.key === "ArrowLeft") go(-1);
    return;
  }
  const writing = event.target === $("comment");
  if (event.key === "Escape" && writing) return $("place").focus();
  if (event.key === "Enter" && (event.ctrlKey || !writing) && event.target.tagName !== "SUMMARY") {
    // A button for points that is pressed already gives them no second time.
    const pressed = event.target.getAttribute("aria-pressed") === "true";
    if (event.target.tagName === "BUTTON" && !pressed && !event.ctrlKey) return;
    event.preventDefault();
    return go(1);
  }
  if (writing || event.ctrlKey || event.target.tagName === "SELECT") return;
  if (event.key === "n" || event.key === "ArrowRight") go(1);
  else if (event.key === "p" || event.key === "ArrowLeft") go(-1);
  else if (event.key === "c") {
    event.preventDefault();
    $("comment").focus();
  } else if (/^[0-9]$/.test(event.key)) digit(event.key);
  else if (event.key === "." || event.key === ",") half();
  else if (event.key === "Backspace") setPoints(null);
});

function digit(key) {
  const now = Date.now();
  const longer = now - typed.time < 900 ? typed.digits + key : key;
  const digits = Number(longer) <= question.max ? longer : key;
  typed = { digits, time: now };
  if (Number(digits) <= question.max) setPoints(Number(digits));
}

function half() {
  const points = (current().points ?? 0) + 0.5;
  if (points <= question.max) setPoints(points);
  typed = { digits: "", time: 0 };
}

addEventListener("beforeunload", (event) => {
  const open = question && question.entries.some((entry) => entry.dirty || entry.saving);
  if (open) event.preventDefault();
});

begin();
