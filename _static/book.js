// What the theme leaves out for people who don't use a mouse or a screen, and a link to each exercise.
document.addEventListener("DOMContentLoaded", () => {
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
    for (const box of part.querySelectorAll("div.highlight pre, .cell_output pre, div.math, table.dataframe")) {
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
  // The words of a search are marked. (Sphinx does so, after a moment; but not where it finds the theme's search.)
  if (typeof Search !== "undefined" && !document.getElementById("search-results")) SphinxHighlight.highlightSearchWords();
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
