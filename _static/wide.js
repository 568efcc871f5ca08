// What is wider than its place: tables that are set tighter or row by row, and boxes that scroll sideways.

// What scrolls sideways fades where more of it is, and can be scrolled by keyboard; only as long as it does not fit.
const SCROLLERS = [
  ["div.math > span:not(.eqno)", "Formula", (box) => box.parentElement.querySelector(".eqno")?.firstChild.textContent],
  [".pst-scrollable-table-container, div:has(> table.dataframe)", "Table", (box) => box.querySelector("caption")?.innerText],
  ["div.highlight pre, .cell_output pre", "Listing", () => ""],
];

function look(boxes) {
  const measured = (boxes ?? [...look.kinds.keys()]).map((box) => [box, box.scrollWidth - box.clientWidth, box.scrollLeft]);
  for (const [box, room, left] of measured) {
    const more = [left > 1 && "before", left < room - 1 && "after"].filter(Boolean).join(" ");
    box.style.overflowX = room === 1 ? "hidden" : ""; // it fits, but for what rounding makes of it
    const button = box.parentElement.querySelector(":scope > .wrap");
    if (button) button.hidden = !more && !box.matches(".wrapped");
    if (more === (box.dataset.more ?? "")) continue;
    if (more && !box.dataset.more) {
      box.tabIndex = 0;
      box.setAttribute("role", box.matches("pre") ? "group" : "region");
      box.setAttribute("aria-label", look.kinds.get(box));
    } else if (!more) {
      for (const name of ["tabindex", "role", "aria-label"]) box.removeAttribute(name);
    }
    if (more) box.dataset.more = more;
    else delete box.dataset.more;
  }
}
look.kinds = new Map();

document.addEventListener("DOMContentLoaded", () => {
  for (const [selector, kind, own] of SCROLLERS) {
    [...document.querySelector(".bd-article")?.querySelectorAll(selector) ?? []].forEach((box, at) => {
      look.kinds.set(box, `${kind} ${own(box)?.trim() || `${at + 1} of this page`}, scrolls sideways`);
    });
  }
  // (What is folded has no width yet: it is looked at when it has one.)
  const resized = new ResizeObserver((seen) => look(seen.map((one) => one.target)));
  for (const box of look.kinds.keys()) resized.observe(box);
  // Code and output that are too wide can be opened: their lines then go on in the next.
  for (const box of [...look.kinds.keys()].filter((one) => one.matches("pre"))) {
    const button = Object.assign(document.createElement("button"), { type: "button", className: "wrap btn btn-sm btn-link", textContent: "Break lines", hidden: true });
    button.addEventListener("click", () => {
      button.textContent = box.classList.toggle("wrapped") ? "Keep lines whole" : "Break lines";
      look([box]);
    });
    box.after(button);
  }
  document.addEventListener("scroll", ({ target }) => { if (look.kinds.has(target)) look([target]); }, true);
  document.fonts.addEventListener("loadingdone", () => look());
});

// A table that does not fit is set tighter; on a phone, one of words that still does not fit, or only in tall narrow
// columns, is then shown row by row, each cell below the name of its column. One of numbers, or of more than eight
// columns, scrolls, and its first column stays.
document.addEventListener("DOMContentLoaded", () => {
  const phone = window.matchMedia("(max-width: 600px)");
  const boxOf = (table) => table.closest(".pst-scrollable-table-container") ?? table.parentElement;
  const cut = (table) => boxOf(table).scrollWidth > boxOf(table).clientWidth + 1;
  const tall = (table) => [...table.querySelectorAll("td")].some((cell) => cell.offsetHeight > 200);
  const name = (table) => {
    const heads = [...table.querySelectorAll("thead th")];
    table.setAttribute("role", "table");
    for (const row of table.rows) {
      row.setAttribute("role", "row");
      [...row.cells].forEach((cell, at) => {
        cell.setAttribute("role", cell.tagName === "TH" ? "columnheader" : "cell");
        const title = !at && !/^[\d.,–]*$/.test(cell.textContent.trim()); // a bare number says too little
        if (title || heads.length < 3 || cell.tagName === "TH" || !heads[at]?.textContent.trim()) return;
        if (!cell.textContent.trim() && !cell.querySelector("img, svg, input")) return cell.classList.add("nothing");
        const label = document.createElement("span");
        label.className = "column-name";
        label.setAttribute("aria-hidden", "true");
        label.append(...[...heads[at].childNodes].map((node) => node.cloneNode(true)));
        cell.prepend(label);
      });
    }
  };
  // An interval stays on a line, and a long name such as clip_fraction may break where its parts meet.
  const interval = /\([-−+]?[\d.,]+[^\s()]* to [-−+]?[\d.,]+[^\s()]*\)/g;
  for (const cell of document.querySelectorAll(".bd-article :is(td, .dataframe th)")) {
    for (const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT); texts.nextNode();) {
      const text = texts.currentNode;
      const parts = cell.tagName === "TH" || text.parentElement.closest("code")?.textContent.length > 20 ? text.data.split(/(?<=[_./=,])(?=\w)/) : [];
      if (parts.length > 1) {
        for (const part of parts.slice(0, -1)) text.before(part, document.createElement("wbr"));
        text.data = parts.at(-1);
      }
      else if (text.data.includes(" to ")) text.data = text.data.replace(interval, (one) => one.replaceAll(" ", "\u00a0"));
    }
  }
  // A column of words begins at the left, one of numbers ends at the right.
  for (const cell of document.querySelectorAll(".bd-article .dataframe td")) {
    if (!/([a-z]{3,}.* ){3}/s.test(cell.textContent)) continue;
    for (const row of cell.closest("table").rows) row.cells[cell.cellIndex]?.classList.add("words");
  }
  // (All at once: to measure after each change would lay out the page as often.)
  const fit = () => {
    const tables = [...document.querySelectorAll(".bd-article table")];
    tables.forEach((table) => table.classList.remove("tight", "by-row"));
    const wide = tables.filter((table) => table.checkVisibility() && cut(table));
    wide.forEach((table) => table.classList.add("tight"));
    const words = !phone.matches ? [] : tables.filter((table) => !table.matches(".dataframe") && table.checkVisibility()
      && table.tHead?.rows.length === 1 && table.tHead.rows[0].cells.length <= 8 && (cut(table) || tall(table)));
    for (const table of words) {
      if (!table.querySelector(".column-name")) name(table);
      table.classList.add("by-row");
    }
    look();
  };
  // (Boxes may open many at a time.)
  let asked = 0;
  const fitSoon = () => {
    asked ||= requestAnimationFrame(() => {
      asked = 0;
      fit();
    });
  };
  window.addEventListener("load", fit);
  window.addEventListener("resize", fitSoon);
  document.addEventListener("toggle", fitSoon, true);
});
