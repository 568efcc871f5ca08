"""PPO on tokens against loops, against enumeration, and against the mistakes that are usual with it."""

import itertools
import math

import numpy as np
import pytest
import torch
from small_language import EVERY, Told, rough, widened
from three_tokens import WORTH, far_from_optimum, of_table
from three_tokens import given as three_tokens_given
from torch import nn

from ppobook.language import ppo as room
from ppobook.language import tokens
from ppobook.language.model import Decoder, DecoderConfig, Scalar
from ppobook.language.rewards import LearnedReward, RewardModel
from ppobook.language.settings import PPOSettings
from ppobook.language.stage import Task
from ppobook.language.tokens import Completions, WordTokenizer
from ppobook.language.training import train
from ppobook.language.world import World

TINY = {"nouns": 2, "places": 2, "verbs": 2, "adjectives": 2, "clauses": [1.0], "max_new_tokens": 10}


def decoder(vocab_size, seed=0, **sizes):
    given = {"context": 20, "layers": 1, "width": 16, "heads": 2} | sizes
    config = DecoderConfig(vocab_size, **given, eos=WordTokenizer.eos, pad=WordTokenizer.pad)
    return rough(Decoder(config, seed=seed).double(), seed + 1)


def stage(*, model=None, reward=None, data=None, tokenizer=None, reference=None, **settings):
    """A stage of PPO on what is at hand: a rough decoder, another one as reference, gold of a tiny world."""
    world = World(**TINY)
    data, tokenizer = data or world, tokenizer or world.tokenizer
    model = model or decoder(tokenizer.vocab_size)
    reference = reference or decoder(tokenizer.vocab_size, seed=5)
    reward = reward or Told(world.gold)
    task = Task(model, tokenizer, data, reward, reference.requires_grad_(False))
    given = PPOSettings.make("ppo", {"batch_size": 12} | settings, {})
    made = room.PPO(task, given, seed=3)
    rough(made.critic, seed=9)
    return made


# --- one update against loops --------------------------------------------------------------------------


def read(model, prompt, said, temperature):
    """Log-probabilities of each word after the prompt and after each token, from one row without padding."""
    logits = model(torch.tensor([prompt + said]))[0] / temperature
    return logits.log_softmax(-1)[len(prompt) - 1 :]


def slow_update(made, completions, policy, rewards):
    """The loss of a whole batch for a policy that has moved, one number at a time, as the paper has it.

    `policy` and the critic are as they are now; the stage's model is still the one that sampled.
    """
    s, beta = made.settings, made.settings.kl_coef
    rows = []
    for b in range(len(completions)):
        prompt = completions.prompts[b][completions.prompt_mask[b]].tolist()
        said = completions.tokens[b][completions.mask[b]].tolist()
        with torch.no_grad():
            old = [
                p[y].item() for p, y in zip(read(made.model, prompt, said, s.temperature), said, strict=False)
            ]
            ref = [
                p[y].item()
                for p, y in zip(read(made.reference, prompt, said, s.temperature), said, strict=False)
            ]
            old_v = made.critic(torch.tensor([prompt + said]))[0, len(prompt) - 1 :].tolist()
        n, ended = len(said), said[-1] == WordTokenizer.eos

        kl = {
            "k1": lambda d: d,
            "k2": lambda d: d * d / 2,
            "k3": lambda d: math.exp(-d) - 1 + d,
        }[s.kl_estimator]
        r = [-beta * kl(old[t] - ref[t]) if s.kl_in == "reward" else 0.0 for t in range(n)]
        whole = float(rewards[b])
        after = 0.0
        if not ended:
            whole -= s.missing_eos_penalty if s.truncation == "penalty" else 0.0
            if s.truncation == "bootstrap":
                whole, after = 0.0, old_v[n]
        r[-1] += whole
        rows.append(
            {"prompt": prompt, "said": said, "old": old, "ref": ref, "v": old_v[:n], "r": r, "after": after}
        )

    def over_all(name):
        return [x for row in rows for x in row[name]]

    if s.normalize_rewards:
        mean, std = np.mean(over_all("r")), np.std(over_all("r"))
        for row in rows:
            row["r"] = [(x - mean) / std + mean for x in row["r"]]
    for row in rows:
        n, v, r = len(row["said"]), [*row["v"], row["after"]], row["r"]
        delta = [r[t] + s.gamma * v[t + 1] - v[t] for t in range(n)]
        row["a"] = [sum((s.gamma * s.lam) ** (k - t) * delta[k] for k in range(t, n)) for t in range(n)]
        row["target"] = [a + value for a, value in zip(row["a"], row["v"], strict=True)]
    if s.normalize_advantages != "none":
        mean, std = np.mean(over_all("a")), np.std(over_all("a"))
        for row in rows:
            row["a"] = [(x - mean) / std for x in row["a"]]

    losses = []
    for row in rows:
        now = read(policy, row["prompt"], row["said"], s.temperature)
        values = made.moved_critic(torch.tensor([row["prompt"] + row["said"]]))[0, len(row["prompt"]) - 1 :]
        for t, y in enumerate(row["said"]):
            ratio = (now[t, y] - row["old"][t]).exp()
            low, high = 1 - s.clip_eps, 1 + (s.clip_eps_high or s.clip_eps)
            gain, clipped = ratio * row["a"][t], min(max(ratio.item(), low), high) * row["a"][t]
            loss = -gain if gain.item() <= clipped else torch.tensor(-clipped, dtype=torch.float64)
            error = (values[t] - row["target"][t]) ** 2
            if s.value_clip_eps is not None:
                step = min(max(values[t].item() - row["v"][t], -s.value_clip_eps), s.value_clip_eps)
                other = (row["v"][t] + step - row["target"][t]) ** 2
                error = error if error.item() >= other else torch.tensor(other, dtype=torch.float64)
            entropy = -(now[t].exp() * now[t]).sum()
            loss = loss + s.value_coef * 0.5 * error - s.entropy_coef * entropy
            if s.kl_in == "loss":
                log_r = row["ref"][t] - now[t, y]
                charge = {"k1": -log_r, "k2": log_r**2 / 2, "k3": log_r.exp() - 1 - log_r}[s.kl_estimator]
                loss = loss + beta * charge * (ratio if s.kl_weighted else 1)
            losses.append((loss, len(row["said"])))
    if s.reduction == "token":
        return sum(loss for loss, _ in losses) / len(losses)
    if s.reduction == "sequence":
        return sum(loss / n for loss, n in losses) / len(rows)
    return sum(loss for loss, _ in losses) / (len(rows) * made.max_new_tokens)


VARIANTS = [
    {},
    {"truncation": "bootstrap", "normalize_advantages": "minibatch", "lam": 0.7, "gamma": 0.9},
    {"truncation": "penalty", "missing_eos_penalty": 2.5, "value_clip_eps": 0.02, "kl_estimator": "k3"},
    {"kl_in": "loss", "kl_estimator": "k3", "entropy_coef": 0.3, "clip_eps_high": 0.05, "temperature": 0.7},
    {"kl_in": "loss", "kl_estimator": "k2", "kl_weighted": False, "reduction": "sequence"},
    {"reduction": "constant", "normalize_rewards": True, "normalize_advantages": "none", "clip_eps": 0.05},
]


def check_loss_is_that_of_loops(settings=None):
    """Everything between the samples and the loss, and its gradient."""
    made = stage(**({"kl_coef": 0.4} | (settings or {})))
    experience, row = made.make_experience(0)
    completions = experience.completions
    assert len(set(completions.lengths.tolist())) > 3
    assert 0 < completions.ended.sum() < len(completions)
    rewards = made.task.data.gold(completions)

    # Both networks move, as they do from the second gradient step on.
    moved = rough(decoder(made.model.vocab_size), seed=20, scale=0.05)
    moved_critic = rough(Scalar(made.critic.body).double(), seed=21, scale=0.05)
    made.moved_critic = moved_critic
    expected = slow_update(made, completions, moved, rewards)
    weights = [*moved.parameters(), *moved_critic.parameters()]
    wanted = torch.autograd.grad(expected, weights, allow_unused=True)
    made.model, made.critic = moved, moved_critic
    loss, diagnostics = made.loss(made.minibatch(experience, torch.arange(len(experience))))
    torch.testing.assert_close(loss, expected, rtol=1e-9, atol=1e-9)
    found = torch.autograd.grad(loss, weights, allow_unused=True)
    for a, b in zip(found, wanted, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-9)
    assert 0.01 < diagnostics["clip_fraction"] < 0.99
    return row


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_the_loss_of_an_update_is_that_of_loops(settings):
    check_loss_is_that_of_loops(settings)


# --- a world of three tokens, where everything can be enumerated ---------------------------------------


def three_tokens(**settings):
    given = {"max_new_tokens": 2, "normalize_advantages": "none", "lam": 1.0} | settings
    return stage(**three_tokens_given(), **given)


def in_proportion(model, length):
    """Completions in just the shares that the table gives them: the mean of 16 rows is the expectation."""
    rows = [
        row[:length]
        for row, p in zip(EVERY, of_table(model, 2).exp(), strict=True)
        for _ in range(round(16 * p.item()))
    ]
    said, mask = tokens.right_pad(rows, 0)
    prompts = torch.full((16, 1), 2)
    log_p = model.logits.detach().log_softmax(-1)
    logp = torch.zeros(16, length, dtype=torch.float64)
    for b, row in enumerate(rows):
        for t, y in enumerate(row):
            logp[b, t] = log_p[0 if t == 0 else 1 + row[0], y]
    ended = torch.tensor([row[-1] == 1 for row in rows])
    return Completions(prompts, torch.ones_like(prompts, dtype=torch.bool), said, mask, logp, ended)


def objective(model, reference, beta):
    """E[R] − β KL(π, π_ref), exactly."""
    log_p, log_ref = of_table(model, 2), of_table(reference, 2)
    return (log_p.exp() * (WORTH - beta * (log_p - log_ref))).sum()


def test_the_first_gradient_is_the_policy_gradient():
    """Of the KL-regularised objective, on average: here over just the right shares of all completions.

    With λ = 1 the critic is a baseline, and may say anything.
    """
    made = three_tokens(batch_size=16, kl_coef=0.7, reduction="constant", value_coef=0.0)
    made.sample = lambda prompts: in_proportion(made.model, 2)
    experience, _ = made.make_experience(0)
    assert experience.values.std() > 0.01
    loss, _ = made.loss(experience)
    (found,) = torch.autograd.grad(loss, [made.model.logits])
    (wanted,) = torch.autograd.grad(objective(made.model, made.reference, 0.7), [made.model.logits])
    assert wanted.abs().max() > 0.05
    # The loss is a mean over 16 rows of 2 columns.
    torch.testing.assert_close(found, -wanted / 2, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("settings", "right"),
    [
        ({"kl_estimator": "k1"}, True),
        ({"kl_estimator": "k3"}, True),
        ({"kl_estimator": "k2"}, False),
        ({"kl_estimator": "k2", "kl_weighted": False}, True),
        ({"kl_estimator": "k1", "kl_weighted": False}, False),
        ({"kl_estimator": "k3", "kl_weighted": False}, False),
    ],
    ids=str,
)
def test_in_the_loss_three_of_the_penalties_have_the_gradient_of_the_kl(settings, right):
    """Of completions of one token; of longer ones each token answers for its own state only."""
    made = three_tokens(
        batch_size=16, max_new_tokens=1, kl_in="loss", kl_coef=0.7, value_coef=0.0, **settings
    )
    made.sample = lambda prompts: in_proportion(made.model, 1)
    made.reward = Told(lambda completions: torch.zeros(len(completions), dtype=torch.float64))
    nn.init.zeros_(made.critic.output.weight), nn.init.zeros_(made.critic.output.bias)
    (found,) = torch.autograd.grad(made.loss(made.make_experience(0)[0])[0], [made.model.logits])
    log_p, log_ref = (m.logits[0].log_softmax(-1) for m in (made.model, made.reference))
    (wanted,) = torch.autograd.grad(0.7 * (log_p.exp() * (log_p - log_ref)).sum(), [made.model.logits])
    assert torch.allclose(found, wanted, rtol=1e-9, atol=1e-9) is right


def trained_on_three_tokens(beta, steps=100):
    """At the optimum all advantages are 0, so that in the end not even samples make it stray from there."""
    made = three_tokens(batch_size=64, kl_coef=beta, epochs=2, num_minibatches=1, max_grad_norm=None)
    for k in range(steps):
        for group in made.optimizer.param_groups:
            group["lr"] = 0.1 * (1 - k / steps) + 1e-3
        made.step(k)
    return made


def check_optimum(beta):
    made = trained_on_three_tokens(beta)
    before = three_tokens()
    from_best, from_reference = far_from_optimum(made, beta)
    print(beta, from_best, from_reference, far_from_optimum(before, beta))
    assert from_best < 2e-3 < 0.05 < far_from_optimum(before, beta)[0]
    return from_reference


def test_it_comes_to_the_exact_optimum_and_with_a_high_price_to_the_reference():
    distances = [check_optimum(beta) for beta in (0.4, 1.0, 4.0)]
    assert distances[0] > 3 * distances[1] > 9 * distances[2]
    assert distances[2] < 0.02


# --- what is left alone --------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_what_stands_at_padding_changes_nothing(settings):
    made = stage(value_coef=0.7, **{key: x for key, x in settings.items() if key != "value_coef"})
    experience, _ = made.make_experience(0)
    rough(made.model, 30, 0.05), rough(made.critic, 31, 0.05)
    weights = [*made.model.parameters(), *made.critic.parameters()]
    results = []
    for given in (experience, widened(experience)):
        loss, diagnostics = made.loss(given)
        gradient = torch.autograd.grad(loss, weights, allow_unused=True)
        results.append([loss, *diagnostics.values(), *(g for g in gradient if g is not None)])
    for plain, odd in zip(*results, strict=True):
        torch.testing.assert_close(odd, plain, rtol=1e-9, atol=1e-12)


def test_rubbish_at_padding_does_not_come_into_a_batch_either():
    made = stage()
    completions = made.sample(made.draw_prompts(0, 12))
    junk = completions.tokens.masked_fill(~completions.mask, 10**9)
    assert (junk != completions.tokens).any()
    odd = Completions(
        completions.prompts,
        completions.prompt_mask,
        junk,
        completions.mask,
        completions.logp,
        completions.ended,
    )
    made.score = lambda completions, columns: torch.arange(12.0)
    found = []
    for given in (completions, odd):
        made.sample = lambda prompts, given=given: given
        found.append(made.make_experience(0)[0])
    for name in ("ref_logp", "values", "advantages", "returns"):
        plain, other = (getattr(one, name)[completions.mask] for one in found)
        torch.testing.assert_close(other, plain, rtol=1e-9, atol=1e-12)


def test_the_ratio_begins_at_one():
    """In the first gradient step of an update: exactly, but for the rounding of a cache."""
    made = stage(epochs=3, num_minibatches=2, lr=3e-3, batch_size=13)
    loss, told, parts = made.loss, [], []

    def noted(experience, said):
        parts.append(len(experience))
        told.append(loss(experience, said))
        return told[-1]

    made.loss = noted
    row = made.step(0)
    assert parts == [7, 6] * 3
    first, *later = [diagnostics for _, diagnostics in told]
    assert abs(first["ratio_mean"] - 1) < 1e-12
    assert first["ratio_std"] < 1e-12
    assert first["approx_kl"] < 1e-15
    assert first["clip_fraction"] == 0
    assert all(diagnostics["ratio_std"] > 1e-4 for diagnostics in later)
    assert row["ratio_std"] > 1e-4


def test_the_reference_stays():
    made = stage(lr=1e-2)
    before = {name: x.clone() for name, x in made.reference.state_dict().items()}
    model = {name: x.clone() for name, x in made.model.state_dict().items()}
    for k in range(2):
        made.step(k)
    assert all(torch.equal(x, before[name]) for name, x in made.reference.state_dict().items())
    assert not any(torch.equal(x, model[name]) for name, x in made.model.state_dict().items())
    fixed = stage()
    completions = fixed.make_experience(0)[0].completions
    slow = [
        read(decoder(fixed.model.vocab_size, seed=5), prompt.tolist(), said[mask].tolist(), 1.0).gather(
            1, torch.cat([said[mask], said[:1]])[:, None]
        )[:-1, 0]
        for prompt, said, mask in zip(completions.prompts, completions.tokens, completions.mask, strict=True)
    ]
    torch.testing.assert_close(
        fixed.reference_logp(completions)[completions.mask], torch.cat(slow), rtol=1e-9, atol=1e-9
    )


def test_every_completion_is_in_one_minibatch_of_an_epoch():
    made = stage(epochs=2, num_minibatches=3, batch_size=11)
    experience, row = made.make_experience(0)
    experience.returns = torch.arange(11.0)[:, None].expand(experience.returns.shape).double()
    seen = []
    made.make_experience = lambda number: (experience, row)
    made.loss = lambda part, _: (
        seen.append(part.returns[:, 0].tolist()),
        (torch.ones((), requires_grad=True), {}),
    )[1]
    made.optimizer_step = lambda: 0.0
    made.step(0)
    for epoch in (seen[:3], seen[3:]):
        assert sorted(itertools.chain(*epoch)) == list(range(11))
        assert [len(part) for part in epoch] == [4, 4, 3]
    assert seen[:3] != seen[3:]


# --- the price of a nat --------------------------------------------------------------------------------


def test_the_coefficient_is_led_to_the_target():
    """Equation and numbers of Ziegler et al. 2019, section 2.2, whose gain is 0.1."""
    coefficient = room.ProportionalCoefficient(0.2, target=6.0, horizon=640)
    for kl, factor in ((6.0, 1.0), (6.6, 1.01), (5.4, 0.99), (60.0, 1.02), (-3.0, 0.98)):
        before = coefficient.value
        coefficient.update(kl, 64)
        assert coefficient.value == pytest.approx(before * factor, rel=1e-12)
    other = room.ProportionalCoefficient(0.1, None, 640)
    other.update(100.0, 64)
    assert other.value == 0.1
    other.load_state_dict(coefficient.state_dict())
    assert other.value == coefficient.value


def test_the_coefficient_of_a_stage_follows_the_kl_that_it_saw():
    made = stage(kl_coef=0.3, kl_target=0.5, kl_horizon=24)
    rows = [made.step(k) for k in range(2)]
    assert rows[0]["kl_coef"] == 0.3
    error = min(max(rows[0]["kl_reference"] / 0.5 - 1, -0.2), 0.2)
    assert error != 0
    assert rows[1]["kl_coef"] == pytest.approx(0.3 * (1 + error / 2), rel=1e-12)


# --- what a stage is made of ---------------------------------------------------------------------------


def test_the_critic_begins_with_the_reward_models_body_or_the_policys():
    world = World(**TINY)
    reward_model = RewardModel(decoder(world.tokenizer.vocab_size, seed=40))
    reward = LearnedReward(reward_model)
    for critic_from, body in (
        (None, reward_model.body),
        ("reward_model", reward_model.body),
        ("policy", None),
    ):
        made = stage(reward=reward, critic_from=critic_from)
        fresh = room.PPO(made.task, made.settings, seed=0).critic
        wanted = (body or made.model).state_dict()
        assert all(torch.equal(x, wanted[name]) for name, x in fresh.body.state_dict().items())
        assert not any(x.any() for x in fresh.output.parameters())
        assert all(p.requires_grad for p in fresh.parameters())
        assert not {p.data_ptr() for p in fresh.parameters()} & {
            p.data_ptr() for p in [*made.model.parameters(), *reward_model.parameters()]
        }
    plain = stage()
    fresh = room.PPO(plain.task, plain.settings, seed=0).critic
    assert all(torch.equal(x, plain.model.state_dict()[name]) for name, x in fresh.body.state_dict().items())


def test_a_reward_model_is_left_as_it_is():
    world = World(**TINY)
    reward_model = RewardModel(decoder(world.tokenizer.vocab_size, seed=40))
    made = stage(reward=LearnedReward(reward_model), lr=1e-2)
    before = {name: x.clone() for name, x in made.reward_model.state_dict().items()}
    made.step(0)
    assert all(torch.equal(x, before[name]) for name, x in made.reward_model.state_dict().items())
    assert "reward_model" in made.state_dict()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"num_minibatches": 13}, r"num_minibatches is 13 and batch_size is 12; at most one part"),
        ({"kl_target": 1.0, "kl_coef": 0.0}, r"kl_coef is 0, .* above 0 is wanted with kl_target"),
        ({"critic_from": "reward_model"}, r"critic_from is 'reward_model', and the reward is no model"),
        (
            {"max_new_tokens": 17},
            r"max_new_tokens is 17 and the longest prompt has 4 tokens; together at most",
        ),
        ({"truncation": "bootstraps"}, r"truncation is 'bootstraps'; did you mean 'bootstrap'"),
        ({"kl_in": "reword"}, r"kl_in is 'reword'; did you mean 'reward'"),
        ({"kl_estimator": "k4"}, r"kl_estimator is 'k4'"),
        ({"lr": 0.0}, r"lr is 0"),
        ({"gama": 1.0}, r"gama=1.0: ppo has no such setting; did you mean 'gamma'"),
    ],
    ids=str,
)
def test_bad_settings_get_a_sentence(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        stage(**settings)


# --- learning ------------------------------------------------------------------------------------------

QUICK = {"reward": "gold", "batch_size": 32, "lr": 2e-3, "kl_coef": 0.05, "progress": False}


@pytest.fixture(scope="module")
def base():
    """A model that has read a tiny world's texts for a second or two."""
    sizes = {"layers": 1, "width": 32, "heads": 2, "updates": 120, "examples": 600, "eval_examples": 0}
    return train("sft", data=World(**TINY | {"max_new_tokens": 14}), progress=False, seed=1, **sizes)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_gold_rises(base, seed):
    history = train("ppo", base, seed=seed, updates=30, **QUICK).history
    start, end = history["gold"][:5].mean(), history["gold"][-5:].mean()
    print(
        history[["gold", "kl_reference", "ended", "length", "explained_variance"]][::5].round(2).to_string()
    )
    assert end > start + 1.2
    assert history["ended"].iloc[-5:].mean() > 0.85
    assert 0.3 < history["kl_reference"].iloc[-1] < 15
    assert (history["reward"] == history["gold"]).all()


def test_a_run_that_goes_on_is_the_run_that_did_not_stop(base, tmp_path):
    settings = QUICK | {"kl_target": 2.0, "seed": 7, "checkpoint_every": 2}
    whole = train("ppo", base, updates=4, **settings)
    train("ppo", base, updates=2, out=tmp_path / "run", **settings)
    resumed = train(resume=tmp_path / "run", updates=4, progress=False)
    columns = [name for name in whole.history if not name.startswith("seconds")]
    assert whole.history[columns].equals(resumed.history[columns])
    for name, x in whole.model.state_dict().items():
        assert torch.equal(x, resumed.model.state_dict()[name])
