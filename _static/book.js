// Formulas, before anything measures the page.
document.addEventListener("DOMContentLoaded", () => {
  if (typeof katex === "undefined") return;
  for (const place of document.querySelectorAll(".math")) {
    for (const node of [...place.childNodes].filter((n) => n.nodeType === Node.TEXT_NODE)) {
      const tex = /^\s*\\([([])([\s\S]*)\\[)\]]\s*$/.exec(node.data);
      if (!tex) continue;
      const set = document.createElement("span");
      katex.render(tex[2], set, { displayMode: tex[1] === "[", throwOnError: false });
      node.replaceWith(set);
    }
  }
});

// What the theme leaves out for people who don't use a mouse or a screen, and a link to each exercise.
document.addEventListener("DOMContentLoaded", () => {
  // The way by keyboard goes through the page's contents before its text.
  const content = document.querySelector(".bd-content");
  content?.prepend(...content.querySelectorAll("#pst-secondary-sidebar-modal, #pst-secondary-sidebar"));
  // A name that says what is shown and what it does. (The theme's names leave out the words on the button.)
  for (const button of document.querySelectorAll("button.search-button-field, button.search-button__button")) {
    const words = button.innerText.trim().replace(/\s+/g, " ");
    button.setAttribute("aria-label", words || "Search");
  }
  for (const summary of document.querySelectorAll("summary[aria-label]")) {
    if (summary.innerText.trim()) summary.removeAttribute("aria-label");
  }
  for (const details of document.querySelectorAll(".bd-sidebar-primary li > details")) {
    const page = details.parentElement.querySelector(":scope > a")?.textContent.trim();
    details.querySelector("summary")?.setAttribute("aria-label", page ? `Pages under “${page}”` : "Pages");
  }
  // What scrolls sideways can be scrolled by keyboard. (What is folded has no width yet.)
  const letScroll = (part) => {
    for (const box of part.querySelectorAll("div.highlight pre, .cell_output pre, div.math > span, table.dataframe")) {
      if (box.scrollWidth > box.clientWidth + 1) box.tabIndex = 0;
    }
  };
  letScroll(document);
  document.addEventListener("toggle", (event) => letScroll(event.target), true);
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
});

// A table that does not fit is set tighter; on a phone, one of words is then shown row by row, each cell below the
// name of its column. One of numbers scrolls, and its first column stays.
document.addEventListener("DOMContentLoaded", () => {
  const phone = window.matchMedia("(max-width: 600px)");
  const boxOf = (table) => table.closest(".pst-scrollable-table-container") ?? table;
  const cut = (table) => boxOf(table).scrollWidth > boxOf(table).clientWidth + 1;
  const name = (table) => {
    const heads = [...table.querySelectorAll("thead th")];
    table.setAttribute("role", "table");
    for (const row of table.rows) {
      row.setAttribute("role", "row");
      [...row.cells].forEach((cell, at) => {
        cell.setAttribute("role", cell.tagName === "TH" ? "columnheader" : "cell");
        if (!at || heads.length < 3 || cell.tagName === "TH" || !heads[at]?.textContent.trim()) return;
        const label = document.createElement("span");
        label.className = "column-name";
        label.setAttribute("aria-hidden", "true");
        label.append(...[...heads[at].childNodes].map((node) => node.cloneNode(true)));
        cell.prepend(label);
      });
    }
  };
  // (All at once: to measure after each change would lay out the page as often.)
  const fit = () => {
    const tables = [...document.querySelectorAll(".bd-article table")];
    tables.forEach((table) => table.classList.remove("tight", "by-row"));
    const wide = tables.filter((table) => table.checkVisibility() && cut(table));
    wide.forEach((table) => table.classList.add("tight"));
    if (!phone.matches) return;
    const words = wide.filter((table) => !table.matches(".dataframe") && table.tHead?.rows.length === 1 && cut(table));
    for (const table of words) {
      if (!table.querySelector(".column-name")) name(table);
      table.classList.add("by-row");
    }
  };
  window.addEventListener("load", fit);
  window.addEventListener("resize", fit);
  document.addEventListener("toggle", fit, true);
});

// All buttons that copy code are one stop of the keyboard: the one nearest to what is on the screen. From there,
// the arrow keys lead to the others.
window.addEventListener("load", () => {
  const buttons = [...document.querySelectorAll("button.copybtn")];
  const select = (chosen) => buttons.forEach((button) => { button.tabIndex = button === chosen ? 0 : -1; });
  for (const [at, button] of buttons.entries()) {
    button.setAttribute("aria-label", "Copy this code");
    button.setAttribute("aria-description", "Arrow keys lead to the other listings");
    button.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      const shown = step && buttons.slice(step > 0 ? at + 1 : 0, step > 0 ? undefined : at).filter((b) => b.checkVisibility());
      const next = shown?.at(step > 0 ? 0 : -1);
      if (!next) return;
      event.preventDefault();
      select(next);
      next.focus();
    });
  }
  select(buttons.find((button) => button.checkVisibility()));
  const near = new IntersectionObserver((seen) => {
    const first = seen.find((one) => one.isIntersecting)?.target;
    if (first && !document.activeElement.matches("button.copybtn")) select(first);
  });
  buttons.forEach((button) => near.observe(button));
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
  const arrive = () => {
    const place = document.getElementById(decodeURIComponent(window.location.hash.slice(1)));
    if (place && openAround(place)) place.scrollIntoView();
  };
  arrive();
  window.addEventListener("hashchange", arrive);
  // The address stays the same where somebody has closed a box and follows the same link again.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href*='#']");
    if (link && link.href === window.location.href) setTimeout(arrive);
  });
  // The words of a search are marked, by Sphinx, after a moment.
  setTimeout(() => document.querySelectorAll(".bd-article details .highlighted").forEach(openAround), 50);
  // On paper nothing can be opened; a solution stays closed there.
  const closed = [];
  const page = document.documentElement;
  let night = false;
  window.addEventListener("beforeprint", () => {
    // Paper is white: what was made for a dark ground would be pale on it.
    night ||= page.dataset.theme === "dark";
    if (night) page.dataset.theme = "light";
    closed.push(...document.querySelectorAll(".bd-article details:not([open], .solution)"));
    for (const box of closed) box.open = true;
  });
  window.addEventListener("afterprint", () => {
    if (night) page.dataset.theme = "dark";
    night = false;
    for (const box of closed.splice(0)) box.open = false;
  });
});
