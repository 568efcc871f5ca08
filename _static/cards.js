// The cards on their page: what is due is kept in this browser, and sent nowhere.
//
// Leitner's boxes. A card that was known goes up a box, and comes again after as many days as the desk's `data-days`
// says for that box; one that was not is asked again in the same sitting, and starts over.
document.addEventListener("DOMContentLoaded", () => {
  const desk = document.querySelector(".card-desk");
  if (!desk) return;
  const part = (name) => desk.querySelector(`.${name}`);
  const days = desk.dataset.days.split(" ").map(Number);
  const cards = [...document.querySelectorAll("details.card-fold")].map((fold) => ({
    name: fold.id.slice("card-".length), fold, keys: fold.dataset.keys.split("|"),
  }));
  const decks = [...new Set(cards.map(({ fold }) => fold.closest("section")))];

  // --- what is kept ---

  const KEY = "ppobook-cards";
  const today = () => Math.floor((Date.now() - new Date().getTimezoneOffset() * 60_000) / 86_400_000);
  const isCard = (kept) => Array.isArray(kept) && kept.length === 2 && kept.every(Number.isInteger) && kept[0] >= 0;
  let memory = null; // where the browser keeps nothing

  function read() {
    let kept = {};
    try { kept = JSON.parse(memory ?? localStorage.getItem(KEY)) ?? {}; } catch { /* not ours, or not allowed */ }
    const boxes = Object.entries(kept.boxes ?? {}).filter(([, card]) => isCard(card));
    const begun = kept.begun?.[0] === today() && Number.isInteger(kept.begun[1]) ? kept.begun[1] : 0;
    return { boxes: Object.fromEntries(boxes), begun: [today(), begun], perDay: Number(kept.perDay) || 10 };
  }

  // Another page may have written meanwhile: each change begins with what is there now.
  function change(how) {
    const kept = read();
    how(kept);
    const text = JSON.stringify(kept);
    try { if (memory === null) localStorage.setItem(KEY, text); } catch { memory = ""; }
    if (memory !== null) memory = text;
  }

  // --- what is due ---

  const which = part("which"), perDay = part("per-day");
  const chosen = () => cards.filter(({ keys }) => !which.value || keys.includes(which.value));

  function queue() {
    const { boxes, begun } = read();
    const due = chosen().filter(({ name }) => boxes[name]?.[1] <= today());
    const fresh = chosen().filter(({ name }) => !boxes[name]);
    const room = Math.max(0, Number(perDay.value) - begun[1]);
    return { due: due.sort((a, b) => boxes[a.name][1] - boxes[b.name][1]), fresh: fresh.slice(0, room), unseen: fresh.length };
  }

  const count = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;

  function refresh() {
    const { boxes } = read();
    for (const { name, fold } of cards) {
      let mark = fold.querySelector(".when");
      if (!mark) {
        mark = Object.assign(document.createElement("span"), { className: "when" });
        fold.querySelector("summary").append(mark);
      }
      const left = boxes[name]?.[1] - today();
      mark.textContent = boxes[name] ? (left > 0 ? ` in ${count(left, "day")}` : " due") : "";
    }
    const shown = new Set(chosen().map(({ fold }) => fold));
    for (const { fold } of cards) fold.parentElement.hidden = !shown.has(fold);
    for (const section of decks) section.hidden = ![...section.querySelectorAll("details.card-fold")].some((fold) => shown.has(fold));
    const { due, fresh, unseen } = queue();
    part("study").disabled = !(due.length + fresh.length);
    if (!part("one-card").hidden) return; // one is being asked: nothing else is to be said
    part("due").textContent = `${count(shown.size, "card")}: ${due.length} due, ${unseen} not seen yet, ${fresh.length} of them for today.`
      + (memory === null ? "" : " This browser keeps nothing, so it is forgotten with the page.");
  }

  // --- a sitting ---

  let waiting = [], done = 0;

  const copy = (from, to) => to.replaceChildren(...[...from.childNodes].map((node) => node.cloneNode(true)));

  function ask() {
    const card = waiting[0];
    if (!card) return stop(`Done with ${count(done, "card")}. `);
    const box = read().boxes[card.name]?.[0];
    const place = box === undefined ? "new" : box ? `box ${box} of ${days.length}` : "once more";
    const deck = card.fold.closest("section").querySelector("h1, h2, h3, h4").firstChild.textContent;
    part("which-one").textContent = `${waiting.length} to go · ${deck} · ${place}`;
    copy(card.fold.querySelector("summary .question"), part("question"));
    copy(card.fold.querySelector(".answer"), part("answer"));
    part("answer").hidden = part("again").hidden = part("knew").hidden = true;
    part("show").hidden = false;
    part("one-card").hidden = false;
    part("start").hidden = true;
    part("question").focus();
  }

  function show() {
    part("answer").hidden = part("again").hidden = part("knew").hidden = false;
    part("show").hidden = true;
    part("answer").focus();
  }

  function answer(knew) {
    const card = waiting.shift();
    change((kept) => {
      if (!kept.boxes[card.name]) kept.begun[1] += 1;
      const box = knew ? Math.min((kept.boxes[card.name]?.[0] ?? 0) + 1, days.length) : 0;
      kept.boxes[card.name] = [box, today() + (knew ? days[box - 1] : 0)];
    });
    if (knew) done += 1;
    else waiting.push(card);
    refresh();
    ask();
  }

  function stop(said = "", next = part("study")) {
    waiting = [];
    part("one-card").hidden = true;
    part("start").hidden = false;
    refresh();
    part("due").prepend(said);
    (next.disabled ? which : next).focus();
  }

  part("study").addEventListener("click", () => {
    const { due, fresh } = queue();
    waiting = [...due, ...fresh];
    done = 0;
    ask();
  });
  part("show").addEventListener("click", show);
  part("again").addEventListener("click", () => answer(false));
  part("knew").addEventListener("click", () => answer(true));
  part("stop").addEventListener("click", () => stop());
  part("one-card").addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const open = part("show").hidden;
    const own = event.target.closest("button, a");
    const act = {
      Escape: () => stop(),
      ...(open ? { 1: () => answer(false), 2: () => answer(true) } : own ? {} : { " ": show, Enter: show }),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });

  // --- settings ---

  perDay.value = String(read().perDay);
  if (!perDay.value) perDay.value = "10";
  perDay.addEventListener("change", () => {
    change((kept) => { kept.perDay = Number(perDay.value); });
    refresh();
  });
  which.addEventListener("change", () => stop("", which));
  part("forget").addEventListener("click", () => {
    if (!window.confirm("Forget which cards you knew, in this browser?")) return;
    memory &&= "{}";
    try { localStorage.removeItem(KEY); } catch { /* nothing is kept */ }
    stop("Forgotten. ");
  });
  window.addEventListener("storage", (event) => { if (event.key === KEY || event.key === null) refresh(); });
  window.addEventListener("pageshow", refresh);

  // Who follows a link to what is not among the chosen cards gets to see all.
  const arrive = () => {
    const place = document.getElementById(decodeURIComponent(window.location.hash.slice(1)));
    if (!place?.closest("section")?.querySelector("details.card-fold")) return;
    if (place.closest("[hidden]")) {
      which.value = "";
      refresh();
    }
    if (place.matches("details.card-fold")) place.open = true;
    place.scrollIntoView();
  };
  window.addEventListener("hashchange", arrive);

  desk.hidden = false;
  refresh();
  arrive();
});
