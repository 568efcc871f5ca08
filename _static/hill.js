// The hill of the front page: ten gradient steps in a world of two numbers, with a step size that the reader chooses
// and a limit that they switch on. tools/front_picture.py has the same world as tables, and draws how the map begins.
{
  const GAMMA = 0.85, LIMIT = 0.05, STEPS = 10, START = [-3.2, -1.8];
  const ASKED = 240; // the step size of the guess
  const WEST = -6.4, NORTH = 5.3, PIXELS = 35; // of the map
  const along = ([x, y], [u, v], share = 1) => [x + share * u, y + share * v];

  // A corridor of three places, where the logit x of "right" decides: the discount on leaving it, the discounted
  // visits to its places, and the slope of the former. A step to the left counts a, one to the right b; in the
  // middle place they are the wrong way round. Solving the three Bellman equations by hand leaves these fractions.
  function corridor(x) {
    const p = 1 / (1 + Math.exp(-x)), a = GAMMA * (1 - p), b = GAMMA * p;
    const under = (1 - a) * (1 - a * a) - b * b;
    const out = (a * b * b) / under;
    const slopeOver = 2 * a * b - b * b, slopeUnder = 1 - a * a + 2 * a * (1 - a) - 2 * b;
    const slope = ((GAMMA * (slopeOver - out * slopeUnder)) / under) * p * (1 - p);
    return { p, out, slope, visits: (1 - a * a + b + a * b) / under };
  }

  // The last step out of the second corridor pays 1, and that reward is not discounted once more.
  const height = ([x, y]) => (corridor(x).out * corridor(y).out) / GAMMA;
  function gradient([x, y]) {
    const first = corridor(x), second = corridor(y);
    return [(first.slope * second.out) / GAMMA, (first.out * second.slope) / GAMMA];
  }

  const plus = (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x))); // log(1 + e^x)
  const kl = (p, old, now) => p * (plus(-now) - plus(-old)) + (1 - p) * (plus(now) - plus(old));
  // The KL divergence from the old policy to a new one, averaged over the places that the old one visits.
  function changeFrom(old) {
    const first = corridor(old[0]), second = corridor(old[1]);
    const weights = [first.visits, first.out * second.visits];
    return (now) => (weights[0] * kl(first.p, old[0], now[0]) + weights[1] * kl(second.p, old[1], now[1]))
      / (weights[0] + weights[1]);
  }

  // The largest share of a step, up to 1, that keeps the change within the limit.
  function farthest(theta, step, change = changeFrom(theta)) {
    if (change(along(theta, step)) <= LIMIT) return 1;
    let low = 0, high = 1;
    for (let i = 0; i < 60; i++) {
      const middle = (low + high) / 2;
      if (change(along(theta, step, middle)) <= LIMIT) low = middle;
      else high = middle;
    }
    return low;
  }

  // The policies of ten steps, and those from which the limit cut the step.
  function walk(size, limited) {
    const path = [START], cut = [];
    for (let i = 0; i < STEPS; i++) {
      const theta = path[i], step = gradient(theta).map((slope) => size * slope);
      let share = limited ? farthest(theta, step) : 1;
      while (limited && height(along(theta, step, share)) < height(theta)) share /= 2;
      if (share < 1) cut.push(theta);
      path.push(along(theta, step, share));
    }
    return { path, cut };
  }

  function ring(theta) {
    const change = changeFrom(theta);
    return Array.from({ length: 72 }, (_, i) => {
      const ray = [20 * Math.cos((i * Math.PI) / 36), 20 * Math.sin((i * Math.PI) / 36)];
      return along(theta, ray, farthest(theta, ray, change));
    });
  }

  // How high the top is: both corridors are at their best.
  const TOP = Math.max(...Array.from({ length: 1401 }, (_, i) => corridor((i - 700) / 100).out)) ** 2 / GAMMA;

  // What happened, in words, and whether the policy is stuck.
  function story(size, limited, path, cut) {
    const shares = path.map((theta) => height(theta) / TOP), end = shares[STEPS];
    const there = shares.findIndex((share) => share >= 0.95);
    const down = shares.flatMap((share, i) => (i > 0 && share < shares[i - 1] - 0.005 ? [i] : []));
    // Stuck: one more step would hardly help.
    const next = height(along(path[STEPS], gradient(path[STEPS]), size)) / TOP;
    const low = down.length > 0 && end < 0.1, stuck = low && next < end + 0.01;
    const stands = `${Math.round(100 * end)}% of the top’s height`;
    const words = () => {
      if (limited && cut.length === 0) return `Steps of size ${size} never reach the limit. After ten, the policy is at ${stands}.`;
      if (limited) {
        const where = there > 0 ? `at the top after ${there} steps` : `at ${stands} after ten`;
        return `Each step ends inside its ring, and the policy is ${where}. The thin line is the path without the limit.`;
      }
      if (low) {
        const then = stuck ? ", where the gradient is almost zero. The policy is stuck." : `. The policy ends at ${stands}.`;
        return `Step ${down.at(-1)} jumps over the top and lands on flat ground${then}`;
      }
      if (down.length > 0) {
        const count = ["One", "Two", "Three", "Four", "Five", "Six"][down.length - 1];
        const lead = `of the ten steps ${down.length > 1 ? "lead" : "leads"} downhill`;
        return `${count} ${lead}, because the policy jumps over the top. It ends at ${stands}.`;
      }
      if (there > 0) return `Ten steps of size ${size} lead to the top of the hill.`;
      return `Steps of size ${size} are safe but short. After ten, the policy is at ${stands}.`;
    };
    return { words: words(), stuck };
  }

  function set(node, attributes) {
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  }
  const place = ([x, y]) => [PIXELS * (x - WEST), PIXELS * (NORTH - y)];
  const trace = (points) => `M${points.map((theta) => place(theta).map((at) => at.toFixed(1)).join(" ")).join("L")}`;

  const start = () => {
    const root = document.getElementById("hill");
    if (!root) return;
    const part = (selector) => root.querySelector(selector);
    const slider = part("#hill-size"), limit = part("#hill-limit"), says = part(".says"), label = part("text.stuck");
    const answers = [...root.querySelectorAll(".answers button")];
    let waiting = 0, jump = null, chosen = null, seen = false;

    // A ball goes along the path, once the reader has let go.
    const roll = (path) => {
      if (window.matchMedia("(prefers-reduced-motion: reduce)").matches) return;
      const at = path.map((theta) => place(theta).map((pixels) => `${pixels}px`).join(","));
      const frames = at.map((where) => ({ transform: `translate(${where})`, opacity: 1, easing: "ease-in-out" }));
      jump = part(".ball").animate(frames, { duration: 180 * STEPS });
    };

    const show = () => {
      const size = Number(slider.value), limited = limit.checked;
      const { path, cut } = walk(size, limited);
      root.dataset.limited = limited;
      root.dataset.path = JSON.stringify(path);
      part("output").textContent = size;
      for (const name of [".halo", ".way"]) set(part(name), { d: trace(path) });
      set(part(".ghost"), { d: limited ? trace(walk(size, false).path) : "" });
      // Far from the top, a ring is longer than the map.
      const rings = cut.slice(0, 6).map(ring).filter((points) => points.every(([, y]) => Math.abs(y) < 5));
      set(part(".rings"), { d: rings.map((points) => `${trace(points)}Z`).join("") });
      const { words, stuck } = story(size, limited, path, cut);
      // The guess is marked once its step size has been tried.
      const here = Math.abs(size - ASKED) <= 10 && !limited;
      seen ||= here;
      for (const one of answers) {
        const mark = "right" in one.dataset ? "right" : one === chosen ? "wrong" : "";
        set(one, { "aria-pressed": one === chosen, "data-mark": chosen && seen ? mark : "" });
      }
      const verdict = chosen && here ? ("right" in chosen.dataset ? "Right. " : "Not quite. ") : "";
      says.textContent = verdict + words + (chosen && !seen ? ` Now try ${ASKED}.` : "");
      const [x, y] = place(path[STEPS]);
      label.textContent = stuck ? "stuck" : "";
      set(label, { x: Math.min(Math.max(x, 30), 460), y: y < 280 ? y + 28 : y - 16 });
      return path;
    };
    // What is read aloud, and the ball, wait until the slider rests.
    const change = () => {
      jump?.cancel();
      clearTimeout(waiting);
      says.setAttribute("aria-busy", "true");
      const path = show();
      waiting = setTimeout(() => {
        says.removeAttribute("aria-busy");
        roll(path);
      }, 350);
    };
    for (const one of answers) one.addEventListener("click", () => { chosen = one; show(); });
    slider.addEventListener("input", change);
    limit.addEventListener("change", change);
    show();
    root.dataset.live = "true";
  };
  document.addEventListener("DOMContentLoaded", start);
}
