// What the theme leaves out for people who don't use a mouse or a screen, and a link to each exercise.
document.addEventListener("DOMContentLoaded", () => {
  // The way by keyboard goes through the page's contents before its text.
  const content = document.querySelector(".bd-content");
  content?.prepend(...content.querySelectorAll("#pst-secondary-sidebar-modal, #pst-secondary-sidebar"));
  for (const details of document.querySelectorAll(".bd-sidebar-primary li > details")) {
    const page = details.parentElement.querySelector(":scope > a")?.textContent.trim();
    details.querySelector("summary")?.setAttribute("aria-label", page ? `Pages under “${page}”` : "Pages");
  }
  // The list of references calls itself a list, but a screen reader finds no items in it.
  for (const part of document.querySelectorAll(".citation-list, .citation-list .citation")) part.removeAttribute("role");
  for (const exercise of document.querySelectorAll("div.exercise[id]")) {
    const title = exercise.querySelector(".admonition-title");
    if (!title || title.querySelector(".headerlink")) continue;
    const link = document.createElement("a");
    link.className = "headerlink";
    link.href = `#${exercise.id}`;
    link.title = "Link to this exercise";
    link.textContent = "#";
    title.append(" ", link);
  }
  // A full stop stays with the formula before it. (A long formula may break, and its full stop with it.)
  for (const formula of document.querySelectorAll(".bd-article span.math")) {
    const words = (node) => (node?.nodeType === Node.TEXT_NODE && formula.textContent.length < 60 ? node.data : "");
    const before = words(formula.previousSibling).match(/[(‘“]+$/), after = words(formula.nextSibling).match(/^[.,;:?!)’”%]+/);
    if (!before && !after) continue;
    const box = document.createElement("span");
    box.className = "together";
    if (after) formula.nextSibling.splitText(after[0].length);
    formula.before(box);
    box.append(...[before && box.previousSibling.splitText(before.index), formula, after && box.nextSibling].filter(Boolean));
  }
  // Short code stays in one piece.
  for (const code of document.querySelectorAll(".bd-article :not(pre) > code")) code.classList.toggle("together", code.textContent.length <= 20);
  // The ends of a chapter, for those who want them.
  for (const [id, what, parts] of [["cards", "cards", ".ppobook-cards details"], ["claims", "checks", ".cell"]]) {
    const section = document.querySelector(`.bd-article section#${id}`);
    if (!section?.querySelector(parts)) continue;
    const box = document.createElement("details");
    box.className = "folded-end";
    const summary = document.createElement("summary");
    const many = section.querySelectorAll(parts).length;
    summary.textContent = `Show the ${many > 1 ? `${many} ${what}` : what.slice(0, -1)}`;
    box.append(summary, ...[...section.children].slice(1));
    section.append(box);
  }
  // What is ticked on a page of checklists stays ticked in this browser.
  const key = `ticked ${location.pathname}`;
  const boxes = [...document.querySelectorAll("input.task-list-item-checkbox")];
  const ticked = () => { try { return JSON.parse(localStorage.getItem(key)) ?? []; } catch { return []; } };
  for (const [at, box] of boxes.entries()) {
    box.setAttribute("aria-label", box.closest("li").textContent.trim());
    box.checked = ticked().includes(at);
    box.addEventListener("change", () => {
      try { localStorage.setItem(key, JSON.stringify(boxes.flatMap((b, n) => b.checked ? [n] : []))); } catch { /* not kept */ }
    });
  }
});
// (Once the page is laid out: what words are shown would have it laid out before its formulas are set, and again.)
addEventListener("load", () => {
  // A name that says what is shown and what it does. (The theme's names leave out the words on the button.)
  for (const button of document.querySelectorAll("button.search-button-field, button.search-button__button")) {
    const words = button.innerText.trim().replace(/\s+/g, " ");
    button.setAttribute("aria-label", words || "Search");
  }
  for (const summary of document.querySelectorAll("summary[aria-label]")) {
    if (summary.innerText.trim()) summary.removeAttribute("aria-label");
  }
});

// Many small things of one kind are one stop of the keyboard: the one nearest to what is on the screen. From there,
// `keys` lead to the others: a step forwards or back for each.
function oneStop(parts, keys) {
  const select = (chosen) => parts.forEach((part) => { part.tabIndex = part === chosen ? 0 : -1; });
  for (const [at, part] of parts.entries()) {
    part.addEventListener("keydown", (event) => {
      const step = keys[event.key];
      const rest = step && parts.slice(step > 0 ? at + 1 : 0, step > 0 ? undefined : at).filter((p) => p.checkVisibility());
      const next = rest?.at(step > 0 ? 0 : -1);
      if (!next) return;
      event.preventDefault();
      select(next);
      next.focus();
    });
  }
  select(parts.find((part) => part.checkVisibility()));
  const near = new IntersectionObserver((seen) => {
    const first = seen.find((one) => one.isIntersecting)?.target;
    if (first && !parts.includes(document.activeElement)) select(first);
  });
  parts.forEach((part) => near.observe(part));
}

// The buttons that copy code.
window.addEventListener("load", () => {
  const buttons = [...document.querySelectorAll("button.copybtn")];
  for (const button of buttons) {
    button.setAttribute("aria-label", "Copy this code");
    button.setAttribute("aria-description", "Arrow keys lead to the other listings");
  }
  oneStop(buttons, { ArrowDown: 1, ArrowUp: -1 });
});

// A switch for all code.
document.addEventListener("DOMContentLoaded", () => {
  const place = document.querySelector(".article-header-buttons");
  if (!place || !document.querySelector(".bd-article div.cell_input")) return;
  const page = document.documentElement;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "btn btn-sm pst-navbar-icon code-switch";
  button.title = "Show or hide all code";
  button.setAttribute("aria-label", "Code");
  button.innerHTML = '<i class="fa-solid fa-code"></i>';
  const say = () => button.setAttribute("aria-pressed", page.dataset.code !== "hidden");
  button.addEventListener("click", () => {
    // What the reader looks at stays where it is.
    const seen = [...document.querySelectorAll(".bd-article :is(p, h2, h3, figure, table)")]
      .find((part) => part.getBoundingClientRect().top > 60 && part.checkVisibility());
    const before = seen?.getBoundingClientRect().top;
    if (page.dataset.code === "hidden") delete page.dataset.code;
    else page.dataset.code = "hidden";
    localStorage.setItem("code", page.dataset.code ?? "shown");
    say();
    if (seen?.checkVisibility()) window.scrollBy(0, seen.getBoundingClientRect().top - before);
  });
  say();
  place.prepend(button);
});

// What is folded, Deeper boxes above all, opens for whoever is sent into it.
document.addEventListener("DOMContentLoaded", () => {
  const openAround = (place) => {
    // The anchors of a box are in the section around it.
    const section = place.closest("section");
    const own = section?.querySelector(":scope > details.deeper");
    let box = own && (place === section || place.parentElement === section) ? own : place.closest("details");
    let opened = false;
    for (; box; box = box.parentElement.closest("details")) {
      opened ||= !box.open;
      box.open = true;
    }
    return opened;
  };
  // Figures that come alive move what is below them, so the place is held until the reader goes on.
  const article = document.querySelector(".bd-article");
  let held = null, height = 0, own = 0;
  const arrive = () => {
    held = document.getElementById(decodeURIComponent(window.location.hash.slice(1)));
    if (held && openAround(held)) held.scrollIntoView();
  };
  new ResizeObserver(() => {
    held?.scrollIntoView();
    [height, own] = [article.offsetHeight, window.scrollY];
  }).observe(article);
  window.addEventListener("scroll", () => {
    if (held && Math.abs(window.scrollY - own) > 100 && article.offsetHeight === height) held = null;
  }, { passive: true });
  for (const event of ["wheel", "touchmove", "pointerdown", "keydown"]) {
    window.addEventListener(event, () => { held = null; }, { passive: true, capture: true });
  }
  arrive();
  window.addEventListener("hashchange", arrive);
  // The address stays the same where somebody has closed a box and follows the same link again.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href*='#']");
    if (link && link.href === window.location.href) setTimeout(arrive);
  });
  // On paper nothing can be opened: a box is there as the reader has it. Pages that are nothing but boxes are open.
  const closed = [];
  const page = document.documentElement;
  let night = false;
  window.addEventListener("beforeprint", () => {
    // Paper is white: what was made for a dark ground would be pale on it.
    night ||= page.dataset.theme === "dark";
    if (night) page.dataset.theme = "light";
    closed.push(...document.querySelectorAll(".bd-article details:is(.card-fold, .claims-of):not([open])"));
    for (const box of closed) box.open = true;
    for (const box of document.querySelectorAll(".bd-article :is(div.cell_input, div.output, div.highlight)")) {
      box.classList.toggle("long", box.textContent.split("\n").length > 45); // of some 65 on a page
    }
  });
  window.addEventListener("afterprint", () => {
    if (night) page.dataset.theme = "dark";
    night = false;
    for (const box of closed.splice(0)) box.open = false;
  });
});
