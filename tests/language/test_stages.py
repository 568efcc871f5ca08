"""Common behavior of stages: padding, the first ratio, reference, resumed runs, learning, settings."""

import pytest
import torch
from bands import seeds
from language_stages import (
    PPO_SETTINGS,
    PREFERENCES,
    WORDS,
    WORLD,
    base,
    check_first_ratio_is_one,
    check_reference_is_fixed,
    decoder,
    grpo,
    ppo,
    reward_model,
    stage,
)
from small_language import rough, same_run, widened

from ppobook.language.online import IterativePPO, OnlineDPO
from ppobook.language.rewards import LearnedReward
from ppobook.language.run import load
from ppobook.language.settings import VARIANTS
from ppobook.language.training import train


def online_dpo(**given):
    return stage(OnlineDPO, **given)


def iterative_ppo(**given):
    small = {"pairs": 7, "reward_model_batch_size": 3, "refresh_every": 2}
    return stage(IterativePPO, **{"reward": LearnedReward(reward_model())} | small | given)


# --- one update ----------------------------------------------------------------------------------------


PADDED = {f"ppo {k}": (ppo, settings | {"value_coef": 0.7}) for k, settings in enumerate(PPO_SETTINGS)}
PADDED |= {f"grpo {variant}": (grpo, {"variant": variant}) for variant in VARIANTS}


@pytest.mark.parametrize("case", PADDED)
def test_padding_changes_neither_loss_nor_gradient_nor_metrics(case):
    kind, settings = PADDED[case]
    made = kind(**settings)
    experience, _ = made.make_experience(0)
    assert not experience.completions.mask.all()
    weights = list(rough(made.model, 30, 0.05).parameters())
    if case.startswith("ppo"):
        weights += rough(made.critic, 31, 0.05).parameters()
    odd = widened(experience)
    results = []
    for batch in (experience, odd, odd.select(torch.arange(len(odd)))):
        loss, metrics = made.loss(batch)
        gradient = torch.autograd.grad(loss, weights, allow_unused=True)
        results.append([loss, *metrics.values(), *(g for g in gradient if g is not None)])
    for plain, *others in zip(*results, strict=True):
        for other in others:
            torch.testing.assert_close(other, plain, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", [ppo, grpo])
def test_a_step_is_epochs_of_adam_on_minibatches(kind):
    settings = {"epochs": 2, "num_minibatches": 2, "lr": 0.01, "kl_coef": 0.2}
    made, twin = kind(**settings), kind(**settings)
    made.step(0)
    experience, _ = twin.make_experience(0)
    weights = [*twin.model.parameters(), *(twin.critic.parameters() if kind is ppo else ())]
    optimizer = torch.optim.Adam(weights, 0.01)
    for _ in range(2):
        order = torch.randperm(12 if kind is ppo else 4, generator=twin.generator)
        for part in order.tensor_split(2):
            rows = part if kind is ppo else torch.cat([torch.arange(3 * k, 3 * k + 3) for k in part])
            optimizer.zero_grad()
            twin.loss(experience.select(rows))[0].backward()
            torch.nn.utils.clip_grad_norm_(weights, twin.settings.max_grad_norm)
            optimizer.step()
    for mine, its in zip(made.model.parameters(), twin.model.parameters(), strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(lambda: ppo(epochs=3, num_minibatches=2, lr=3e-3, batch_size=13), id="ppo"),
        pytest.param(lambda: grpo(epochs=2, num_minibatches=2, lr=3e-3), id="grpo"),
    ],
)
def test_the_first_ratio_is_one(made):
    check_first_ratio_is_one(made())


@pytest.mark.parametrize("kind", [ppo, grpo, online_dpo, iterative_ppo])
def test_the_reference_is_fixed(kind):
    check_reference_is_fixed(kind(lr=1e-2))


# --- runs ----------------------------------------------------------------------------------------------


def little(seed):
    """A reward model that knows little."""
    small = {"pairs": 200, "eval_pairs": 0, "updates": 20, "batch_size": 32}
    return train("reward", base(seed=seed), progress=False, seed=seed, **small)


@pytest.fixture(scope="module")
def taught():
    return little(1)


def evenness(completions):
    return [float(len(text.split()) % 2) for text in completions]


FEW = {"batch_size": 16, "checkpoint_every": 1}
PAIRS = {"batch_size": 6, "checkpoint_every": 2, "model": decoder().float(), "tokenizer": WORDS}
# Stage; settings; what is passed again on resume; updates; where the run is stopped.
RESUMED = {
    "ppo": ("ppo", {**FEW, "reward": "gold", "kl_target": 2.0, "lr": 2e-3}, (), 4, (2,)),
    "grpo": (
        "grpo",
        {"variant": "dapo", "group_size": 2, "batch_size": 8, "lr": 2e-3, "reward": evenness},
        ("reward",),
        6,
        (3,),
    ),
    "online_dpo": ("online_dpo", {**FEW, "noise": 0.3, "group_size": 4, "reward": "gold"}, (), 6, (1, 3)),
    "iterative_ppo": (
        "iterative_ppo",
        {**FEW, "reward": "taught", "pairs": 20, "refresh_every": 2},
        (),
        6,
        (1, 3),
    ),
    "lagged_grpo": ("lagged_grpo", {**FEW, "reward": "gold", "lag": 2, "lr": 1e-3}, (), 6, (1, 3)),
}
for loss in ("dpo", "kto"):
    given = PAIRS | {"loss": loss, "reference": decoder(seed=9).float()}
    given |= {} if loss == "kto" else {"eval_every": 2, "eval_pairs": 5}
    RESUMED |= {
        f"{loss}, a world": ("dpo", given | {"data": WORLD, "pairs": 15}, (), 5, (2,)),
        f"{loss}, own data": ("dpo", given | {"data": PREFERENCES * 3}, ("data",), 5, (2,)),
    }


@pytest.mark.parametrize("case", RESUMED)
def test_a_resumed_run_is_the_uninterrupted_one(case, taught, tmp_path):
    name, given, again, updates, stops = RESUMED[case]
    given = {"model": base(), "progress": False, "seed": 7, **given}
    if isinstance(given.get("reward"), str) and given["reward"] == "taught":
        given["reward"] = taught
    whole = train(name, updates=updates, **given)
    for stop in stops:
        folder = tmp_path / str(stop)
        train(name, updates=stop, out=folder, **given)
        passed = {part: given[part] for part in again}
        same_run(train(resume=folder, updates=updates, progress=False, **passed), whole)
        same_run(load(folder), whole)
    if case == "grpo":  # several rounds of sampling in an update
        assert whole.history["rounds"].iloc[:3].sum() > 3
    if name == "dpo" and given["loss"] != "kto":
        assert whole.history["eval_loss"].notna().tolist() == [False, True, False, True, False]


# --- learning ------------------------------------------------------------------------------------------


def rise(history):
    return history["gold"][-5:].mean() - history["gold"][:5].mean()


QUICK = {"reward": "gold", "batch_size": 32, "lr": 2e-3, "updates": 30}
ONLINE = {"reward": "gold", "batch_size": 64, "lr": 1e-3, "updates": 60}
ONLINE_IPO = ONLINE | {"updates": 50, "loss": "ipo", "beta": 0.1, "group_size": 4}
LAGGED = {"reward": "gold", "batch_size": 32, "lr": 1e-3, "updates": 45, "lag": 2}
WEIGHTED = LAGGED | {"updates": 30, "corrected": False, "max_weight": 2.0}
VARIED = QUICK | {"updates": 25, "overlong": 0.0}
# Settings; the least that gold must rise by: with nothing learned it rises by 0, give or take 0.1. In
# comments median and spread as settled, on eight seeds and more from 1000 on.
LEARNING = {
    "ppo": (QUICK | {"kl_coef": 0.05}, 0.3),  # 2.7, 0.2
    "grpo": (QUICK, 0.6),  # 1.6, 0.2
    "online_dpo": (ONLINE, 0.3),  # 1.7, 0.1
    "online_dpo, ipo": (ONLINE_IPO, 0.3),  # 1.3, 0.14
    "lagged_grpo": (LAGGED, 0.3),  # 1.1, 0.2
    "lagged_grpo, weighted": (WEIGHTED, 0.4),  # 1.4, 0.1
}
# rloo 1.6, 0.35; cispo 2.5, 0.2; the others 1.6 to 2.5, 0.1 to 0.3.
LEARNING |= {
    f"grpo, {variant}": (VARIED | {"variant": variant}, 0.2) for variant in ("rloo", "cispo", "dr_grpo")
}
LEARNING["grpo, rloo"][0].update(updates=40)
# With twice this learning rate one run in five stays near 0.
LEARNING["grpo, cispo"][0].update(lr=1e-3, updates=40)


@pytest.mark.learning
@pytest.mark.parametrize("case", LEARNING)
def test_gold_rises(case, band):
    settings, least = LEARNING[case]
    name = case.partition(",")[0]
    runs = []
    for seed in seeds(4 if case in ("ppo", "grpo, cispo", "grpo, rloo") else 3):
        runs.append(train(name, base(seed=seed), seed=seed, progress=False, **settings).history)
        assert (runs[-1]["reward"] == runs[-1]["gold"]).all()
    band(map(rise, runs), at_least=least)
    if case in ("ppo", "grpo"):
        band((history["kl_reference"].iloc[-1] for history in runs), at_least=0.3, at_most=15, of="KL")
    if case == "ppo":
        band((history["ended"].iloc[-5:].mean() for history in runs), at_least=0.8, of="ended")


@pytest.mark.learning
def test_gold_rises_with_a_reward_model_that_is_trained_further(band):
    given = {"batch_size": 64, "lr": 1e-3, "updates": 16, "progress": False, "pairs": 600, "noise": 0.1}
    given |= {"refresh_every": 8, "reward_model_lr": 1e-3, "reward_model_epochs": 6}
    rises, gains = [], []
    for seed in seeds(3):
        history = train("iterative_ppo", base(seed=seed), reward=little(seed), seed=seed, **given).history
        rises.append(rise(history))
        refreshed = history.dropna()
        assert len(refreshed) == 2
        gains.append((refreshed["fresh_accuracy_after"] - refreshed["fresh_accuracy"]).mean())
    band(rises, at_least=0.2)  # settled: 1.1, 0.26
    band(gains, at_least=0, of="accuracy")  # 0.12, 0.03


# --- bad settings --------------------------------------------------------------------------------------


REFUSED = [
    (ppo, {"kl_in": "reword"}, "kl_in"),
    (ppo, {"gama": 1.0}, "gama"),
    (grpo, {"batch_size": 13}, "batch_size"),
    (grpo, {"variant": "drgrpo"}, "variant"),
]


@pytest.mark.parametrize(("kind", "settings", "message"), REFUSED)
def test_bad_settings(kind, settings, message):
    with pytest.raises((ValueError, TypeError), match=message):
        kind(**settings)
