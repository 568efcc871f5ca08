"""Interactive figures without a browser: what the library computes for them, what a notebook stores."""

from __future__ import annotations

import base64
import io
import json

import numpy as np
import pytest
from PIL import Image
from recorded_curves import runs_figure
from small_figures import a_group_of_answers, a_hidden_curve
from token_texts import token_figure

from ppobook.teaching import figures
from ppobook.teaching.figures import best_baseline, clip_sample, simplex_step, single_pull

PROBS, REWARDS = np.array([0.2, 0.3, 0.5]), np.array([11.0, 10.0, 9.0])


# The mathematics of E3


@pytest.mark.parametrize("baseline", [0.0, 9.7])
def test_single_pull_against_brute_force(baseline):
    pulls = 400_000
    arms = np.random.default_rng(0).choice(3, size=pulls, p=PROBS)
    sampled = np.empty((pulls, 3))
    for k in range(3):
        sampled[:, k] = (REWARDS[arms] - baseline) * ((arms == k) - PROBS[k])
    estimates, mean, spread = single_pull(PROBS, REWARDS, baseline)
    error = 5 * sampled.std(axis=0) / np.sqrt(pulls)
    assert (np.abs(sampled.mean(axis=0) - mean) < error).all()
    assert spread == pytest.approx(np.sqrt(sampled.var(axis=0).sum()), rel=0.01)
    np.testing.assert_allclose(sampled[np.argmax(arms == 2)], estimates[2])


@pytest.mark.parametrize("seed", range(2))
def test_best_baseline_has_the_least_spread(seed):
    generator = np.random.default_rng(seed)
    probs, rewards = generator.dirichlet(np.ones(4)), generator.normal(5.0, 3.0, size=4)
    grid = np.linspace(rewards.min() - 1, rewards.max() + 1, 20_001)
    spread = [single_pull(probs, rewards, b)[2] for b in grid]
    assert best_baseline(probs, rewards) == pytest.approx(grid[int(np.argmin(spread))], abs=1e-3)


def test_state_of_e3_is_what_the_library_computed():
    for bandit in figures.baseline().state["bandits"]:
        probs, rewards = bandit["probs"], bandit["rewards"]
        assert bandit["expected"] == pytest.approx(np.dot(probs, rewards))
        assert bandit["best"] == pytest.approx(best_baseline(probs, rewards), abs=1e-8)
        np.testing.assert_allclose(bandit["mean"], single_pull(probs, rewards, 1.0)[1], atol=1e-8)
        spread = [single_pull(probs, rewards, b)[2] for b in bandit["grid"]]
        np.testing.assert_allclose(bandit["spread"], spread, atol=1e-7)


# The mathematics of E1


def test_clip_sample_is_its_definition():
    generator, step = np.random.default_rng(0), 1e-6
    for _ in range(200):
        r, a, eps = generator.uniform(0.1, 2.4), generator.uniform(-2, 2), generator.uniform(0.05, 0.5)
        if abs(abs(r - 1) - eps) < 1e-3:
            continue
        sample, clipped = clip_sample(r, a, eps), np.clip(r, 1 - eps, 1 + eps) * a
        assert sample[:3] == pytest.approx((r * a, clipped, min(r * a, clipped)), abs=1e-12)
        up, down = (clip_sample(r + s, a, eps).objective for s in (step, -step))
        assert sample.slope == pytest.approx((up - down) / (2 * step), abs=1e-7)
        assert sample.flat_fraction == (sample.slope == 0)
        assert sample.clip_fraction == (abs(r - 1) > eps)


@pytest.mark.parametrize(("ratio", "a"), [(1.2, 1.0), (0.8, -2.0)])
def test_the_knee_has_no_single_slope_and_belongs_to_the_box(ratio, a):
    sample = clip_sample(ratio, a, 0.2)
    assert sample.slope is None
    assert sample[4:] == (0, 0)
    around = [clip_sample(ratio + shift, a, 0.2).slope for shift in (-1e-6, 1e-6)]
    assert around == pytest.approx([a, 0.0] if a > 0 else [0.0, a], abs=1e-9)


# The mathematics of E8

THIRD = (1 / 3, 1 / 3, 1 / 3)
STARTS = [
    (THIRD, (1.0, 0.0, -1.0)),
    ((0.2, 0.5, 0.3), (1.0, -1.0, 2.0)),
]


def softmax(logits):
    weights = np.exp(logits - np.max(logits))
    return weights / weights.sum()


def surrogate_slope(old, a, logits, eps=np.inf, step=1e-6):
    """The gradient by difference quotients, of the definition."""
    old, a = np.array(old), np.array(a) - np.dot(old, a)

    def value(logits):
        ratios = softmax(logits) / old
        return old @ np.minimum(ratios * a, np.clip(ratios, 1 - eps, 1 + eps) * a)

    return np.array([(value(logits + step * e) - value(logits - step * e)) / (2 * step) for e in np.eye(3)])


@pytest.mark.parametrize(("old", "a"), STARTS)
def test_vanilla_goes_along_the_gradient_and_so_does_the_first_large_step(old, a):
    slope = surrogate_slope(old, a, np.log(old))
    path = simplex_step("vanilla", old, a, length=2.0).path
    np.testing.assert_allclose(path[1] - path[0], 2 * slope, atol=1e-8)
    np.testing.assert_allclose(simplex_step("ppo_large", old, a, length=2.0).path[1], path[1], atol=1e-12)


@pytest.mark.parametrize(("old", "a"), STARTS)
def test_natural_gradient_is_the_pseudo_inverse_of_the_fisher_matrix_times_the_gradient(old, a):
    fisher = np.diag(old) - np.outer(old, old)
    direction = np.linalg.pinv(fisher) @ surrogate_slope(old, a, np.log(old))
    path = simplex_step("natural", old, a, length=0.5).path
    np.testing.assert_allclose(path[1] - path[0], 0.5 * direction, atol=1e-7)


@pytest.mark.parametrize(("old", "a"), STARTS)
@pytest.mark.parametrize("max_kl", [0.005, 0.2])
def test_trpo_takes_the_first_length_that_stays_in_the_ball(old, a, max_kl):
    centred = np.array(a) - np.dot(old, a)
    full = np.sqrt(2 * max_kl / np.dot(old, centred**2)) * centred
    kls = []
    for tried in range(10):
        probs = softmax(np.log(old) + 0.8**tried * full)
        kls.append(float(np.dot(old, np.log(old) - np.log(probs))))
        if kls[-1] <= max_kl:
            break
    step = simplex_step("trpo", old, a, max_kl=max_kl)
    assert step.steps == len(kls)
    assert step.kl == pytest.approx(kls[-1], abs=1e-10)
    np.testing.assert_allclose(step.probs, probs, atol=1e-9)


@pytest.mark.parametrize(("old", "a"), STARTS)
def test_ppo_stops_where_no_gradient_is_left(old, a):
    step = simplex_step("ppo_small", old, a)
    assert step.stopped
    np.testing.assert_allclose(surrogate_slope(old, a, step.path[-1], eps=0.2, step=1e-8), 0, atol=1e-7)
    np.testing.assert_allclose(
        (step.path[1] - step.path[0]) / 0.001, surrogate_slope(old, a, np.log(old)), atol=1e-6
    )


def test_state_of_e8_is_what_the_library_computed():
    state = figures.trust_region_step(max_kl=0.01, length=3.0).state
    assert list(state["steps"]) == list(figures.METHODS)
    for method, shown in state["steps"].items():
        step = simplex_step(method, max_kl=0.01, length=3.0)
        np.testing.assert_allclose(shown["ratios"], step.ratios, atol=1e-8)
        assert shown["kl"] == pytest.approx(step.kl, abs=1e-8)
    own = figures.trust_region_step((0.2, 0.3, 0.5), (4.0, 2.0, 2.0)).state
    np.testing.assert_allclose(own["advantages"], [1.6, -0.4, -0.4])
    assert len(own["presets"]) == len(state["presets"]) + 1


# The film


def a_game(pushes, x=0.0, angle=0.0):
    """Observations of a game in which cart and pole go evenly from the middle to where it ends."""
    return np.linspace([0.0, 0.0, 0.0, 0.0], [x, 0.0, angle, 0.0], pushes + 1)


# The film of line drawings

LINE = [[0.0, 0.0, 1.0, 2.0]]


def a_drawn_film():
    pictures = {"before": [LINE, LINE], "after": [LINE] * 20}
    ground = [[0.0, 0.0, 4.0, 0.0]]
    return figures.drawn_film(
        pictures, ground=ground, alt="A film of a line.", ends={"after": (True, "9 points")}
    )


# The mould


def a_film():
    return figures.film({"untrained": a_game(20, angle=0.25), "trained": a_game(500, x=1.0)})


MAKERS = {
    "answers": a_group_of_answers,
    "baseline": figures.baseline,
    "beta": figures.beta_explorer,
    "clip": figures.clip_explorer,
    "entropy": figures.entropy_collapse,
    "drawn": a_drawn_film,
    "film": a_film,
    "gae": figures.gae_explorer,
    "group": figures.group_explorer,
    "lag": figures.lag_explorer,
    "left": figures.left_behind,
    "maps": figures.measured_maps,
    "pair": figures.dpo_pair,
    "parts": figures.loss_parts,
    "rates": figures.two_rates,
    "reach": figures.lambda_reach,
    "reveal": a_hidden_curve,
    "runs": runs_figure,
    "simplex": figures.trust_region_step,
    "sweep": figures.lambda_sweep,
    "tokens": token_figure,
}


@pytest.mark.parametrize("name", MAKERS)
def test_what_a_notebook_stores(monkeypatch, name):
    monkeypatch.setenv("PPOBOOK_BUILD", "1")
    figure = MAKERS[name]()
    data, metadata = figure._repr_mimebundle_()
    assert set(data) == {figures.MIME, "image/png", "text/plain"}
    assert data[figures.MIME] == {"module": figure.module, "state": figure.state, "alt": figure.alt}
    assert figure.alt in data["text/plain"]
    picture = Image.open(io.BytesIO(base64.b64decode(data["image/png"])))
    assert picture.size == (2 * metadata["image/png"]["width"], 2 * metadata["image/png"]["height"])
    assert len(json.dumps(data)) < 250_000
    assert MAKERS[name]().still() == data["image/png"], "the same bytes each time"


def test_with_a_kernel_there_is_a_live_view(monkeypatch):
    monkeypatch.delenv("PPOBOOK_BUILD", raising=False)
    pytest.importorskip("anywidget")
    figure = figures.baseline(baseline=3.0)
    data, _ = figure._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert data["text/plain"] == repr(figure)
    assert figure.widget() is figure.widget()
    assert figure.widget().baseline == 3.0


def test_without_anywidget_the_picture_stands(monkeypatch):
    monkeypatch.delenv("PPOBOOK_BUILD", raising=False)
    monkeypatch.setattr("ppobook.teaching.figures._figure.find_spec", lambda name: None)
    data, _ = figures.baseline()._repr_mimebundle_()
    assert set(data) == {figures.MIME, "image/png", "text/plain"}


@pytest.mark.parametrize("module", figures.modules())
def test_a_script_imports_nothing_and_has_the_palette(module):
    text = figures.source(module)
    assert text.startswith("const PALETTE = {")
    code = [line for line in text.splitlines() if not line.lstrip().startswith("//")]
    assert not [line for line in code if line.startswith("import ") or "import(" in line]
    assert sum(line.startswith("export default") for line in code) == 1
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in text


def test_the_site_gets_a_loader_and_a_script_for_each_figure():
    pytest.importorskip("sphinx")
    from ppobook.teaching import site

    files = site.assets()
    assert set(files) == {"loader.js", "site.css", *(f"{module}.js" for module in figures.modules())}
    for module in figures.modules():
        text = files[f"{module}.js"].split(" = ", 1)[1].rstrip(";\n")
        assert json.loads(text) == figures.source(module)
        assert f'"{module}.js": "' in files["loader.js"]


def test_no_text_can_end_the_pages_script_early():
    site = pytest.importorskip("ppobook.teaching.site")
    block = site._block({"module": "baseline", "state": {"text": "</script><b>"}, "alt": "a figure"})
    text = block.children[-1].astext()
    assert text.count("</script>") == 1
    held = json.loads(text.removeprefix('<script type="application/json">').removesuffix("</script>"))
    assert held["state"]["text"] == "</script><b>"
