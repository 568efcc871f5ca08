"use strict";
(() => {
  const slides = [...document.querySelectorAll(".slide")];
  const main = document.querySelector("main");
  const body = document.body;
  let at = Math.max(0, slides.findIndex((slide) => "#" + slide.id === location.hash));

  // Make what is too large for its slide smaller, in small steps. How far is noted on the slide.
  function fit(slide) {
    const inside = slide.querySelector(".body");
    let zoom = 1;
    const over = () => inside.scrollHeight > inside.clientHeight + 1 || inside.scrollWidth > inside.clientWidth + 1;
    while (zoom > 0.4 && over()) {
      zoom -= 0.04;
      inside.style.zoom = zoom;
    }
    slide.dataset.zoom = zoom.toFixed(2);
  }

  function scale() {
    const noted = body.classList.contains("noted") ? 1044 : 720;
    const k = Math.min(innerWidth / 1280, innerHeight / noted);
    main.style.transform = `scale(${k}) translate(-50%, ${-noted / 2}px)`;
  }

  function go(to) {
    at = Math.min(slides.length - 1, Math.max(0, to));
    slides.forEach((slide, i) => slide.classList.toggle("here", i === at));
    document.querySelectorAll(".notes").forEach((notes) =>
      notes.classList.toggle("here", notes.previousElementSibling === slides[at]));
    history.replaceState(null, "", "#" + slides[at].id);
    if (body.classList.contains("overview")) slides[at].scrollIntoView({ block: "nearest" });
  }

  function toggle(name) {
    body.classList.toggle(name);
    scale();
    go(at);
  }

  const keys = {
    ArrowRight: () => go(at + 1), ArrowDown: () => go(at + 1), PageDown: () => go(at + 1), " ": () => go(at + 1),
    ArrowLeft: () => go(at - 1), ArrowUp: () => go(at - 1), PageUp: () => go(at - 1),
    Home: () => go(0), End: () => go(slides.length - 1),
    n: () => toggle("noted"), o: () => toggle("overview"), p: () => print(),
    Enter: () => body.classList.remove("overview"), Escape: () => body.classList.remove("overview"),
    f: () => document.fullscreenElement ? document.exitFullscreen() : document.documentElement.requestFullscreen(),
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
    scale();
  });
  slides.forEach((slide, i) => slide.addEventListener("click", () => {
    if (!body.classList.contains("overview")) return;
    toggle("overview");
    go(i);
  }));
  let from = 0;
  addEventListener("touchstart", (event) => { from = event.touches[0].clientX; }, { passive: true });
  addEventListener("touchend", (event) => {
    const moved = event.changedTouches[0].clientX - from;
    if (innerWidth > 700 && Math.abs(moved) > 60) go(at + (moved < 0 ? 1 : -1));
  });
  addEventListener("resize", scale);
  addEventListener("hashchange", () => go(slides.findIndex((slide) => "#" + slide.id === location.hash)));
  const ready = () => {
    if (innerWidth > 700) slides.forEach(fit);
    scale();
    go(at);
    body.dataset.ready = "yes";
  };
  if (document.readyState === "complete") ready(); else addEventListener("load", ready);
})();
