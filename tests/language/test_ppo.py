"""PPO on tokens against loops and against enumeration; what it shares with other stages: test_stages.py."""

import math

import numpy as np
import pytest
import torch
from language_stages import PPO_SETTINGS, completions_of, decoder, log_probs, ppo, rows_of
from small_language import EVERY, rough
from three_tokens import WORTH, far_from_optimum, given, of_table

from ppobook.language import ppo as module
from ppobook.language.model import Scalar
from ppobook.language.ppo import PPO
from ppobook.language.rewards import LearnedReward, RewardModel
from ppobook.language.tokens import WordTokenizer

# --- one update against loops --------------------------------------------------------------------------


def slow_update(made, completions, policy, critic, rewards):
    """The loss of a whole batch for a policy that has moved, one number at a time, as the paper has it.

    `policy` and `critic` are the current ones; the stage still has those that sampled.
    """
    s, beta = made.settings, made.settings.kl_coef
    rows = []
    for b, (prompt, said) in enumerate(rows_of(completions)):
        with torch.no_grad():
            old, ref = (
                [p[y].item() for p, y in zip(log_probs(m, prompt, said, s.temperature), said, strict=False)]
                for m in (made.model, made.reference)
            )
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
        now = log_probs(policy, row["prompt"], row["said"], s.temperature)
        values = critic(torch.tensor([row["prompt"] + row["said"]]))[0, len(row["prompt"]) - 1 :]
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


def check_loss(**settings):
    """Everything between the samples and the loss, and its gradient, is that of loops."""
    made = ppo(**{"kl_coef": 0.4} | settings)
    experience, _ = made.make_experience(0)
    completions = experience.completions
    assert len(set(completions.lengths.tolist())) > 3
    assert 0 < completions.ended.sum() < len(completions)
    rewards = made.task.data.gold(completions)

    # Both networks change, as they do from the second gradient step on.
    moved = rough(decoder(), seed=20, scale=0.05)
    moved_critic = rough(Scalar(made.critic.body).double(), seed=21, scale=0.05)
    expected = slow_update(made, completions, moved, moved_critic, rewards)
    weights = [*moved.parameters(), *moved_critic.parameters()]
    wanted = torch.autograd.grad(expected, weights, allow_unused=True)
    made.model, made.critic = moved, moved_critic
    loss, metrics = made.loss(made.minibatch(experience, torch.arange(len(experience))))
    torch.testing.assert_close(loss, expected, rtol=1e-9, atol=1e-9)
    found = torch.autograd.grad(loss, weights, allow_unused=True)
    for a, b in zip(found, wanted, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-9)
    assert 0.01 < metrics["clip_fraction"] < 0.99


@pytest.mark.parametrize("settings", PPO_SETTINGS, ids=str)
def test_the_loss_of_an_update_is_that_of_loops(settings):
    check_loss(**settings)


GAE, LOSS, KL = module.gae, module.ppo_loss, module.kl_estimate
REWARDS, VALUES = PPO.token_rewards, module.completion_values
# What implementations get wrong: each changes one thing that an update calls.
PITFALLS = {
    "KL exchanged": (module, "kl_estimate", lambda e, p, q, *w, **how: KL(e, q, p, *w, **how)),
    "reward at the wrong token": (
        PPO,
        "token_rewards",
        lambda self, c, r, ref: REWARDS(self, c, r, ref).roll(-1, dims=1),
    ),
    "the end not terminal": (
        module,
        "gae",
        lambda r, v, done, cut, *x, **how: GAE(r, v, done & False, cut & False, *x, **how),
    ),
    "padding counted": (module, "ppo_loss", lambda *x, mask, **how: LOSS(*x, **how)),
    "entropy sign": (
        module,
        "ppo_loss",
        lambda logp, old, a, v, r, h, **how: LOSS(logp, old, a, v, r, -h, **how),
    ),
    "values shifted by one token": (
        module,
        "completion_values",
        lambda critic, c: VALUES(critic, c).roll(1, dims=1),
    ),
}


@pytest.mark.parametrize("pitfall", PITFALLS)
def test_a_pitfall_is_found(pitfall, monkeypatch):
    monkeypatch.setattr(*PITFALLS[pitfall])
    with pytest.raises(AssertionError):
        check_loss(entropy_coef=0.05, lam=0.9, temperature=0.8)


# --- a world of three tokens, where everything can be enumerated ---------------------------------------


def three_tokens(**settings):
    fixed = {"max_new_tokens": 2, "normalize_advantages": "none", "lam": 1.0}
    return ppo(**given(), **fixed | settings)


def in_proportion(model, length):
    """Completions in just the shares that the table gives them: the mean of 16 rows is the expectation."""
    rows = [
        row[:length]
        for row, p in zip(EVERY, of_table(model, 2).exp(), strict=True)
        for _ in range(round(16 * p.item()))
    ]
    return completions_of(rows, model)


def objective(model, reference, beta):
    """E[R] − β KL(π, π_ref), exactly."""
    log_p, log_ref = of_table(model, 2), of_table(reference, 2)
    return (log_p.exp() * (WORTH - beta * (log_p - log_ref))).sum()


def test_the_first_gradient_is_the_policy_gradient():
    """The gradient is that of the KL-regularised objective, over just the right shares of all completions.

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


def trained_on_three_tokens(beta, steps=100):
    """At the optimum all advantages are 0, so that in the end not even samples make it stray from there."""
    made = three_tokens(batch_size=64, kl_coef=beta, epochs=2, num_minibatches=1, max_grad_norm=None)
    for k in range(steps):
        for group in made.optimizer.param_groups:
            group["lr"] = 0.1 * (1 - k / steps) + 1e-3
        made.step(k)
    return made


def test_it_comes_to_the_exact_optimum_and_with_a_high_price_to_the_reference():
    to_reference = []
    for beta in (0.4, 4.0):
        to_best, far = far_from_optimum(trained_on_three_tokens(beta), beta)
        assert to_best < 2e-3 < 0.05 < far_from_optimum(three_tokens(), beta)[0]
        to_reference.append(far)
    assert to_reference[1] < 0.02
    assert to_reference[0] > 9 * to_reference[1]


# --- the KL coefficient --------------------------------------------------------------------------------


def test_the_coefficient_of_a_stage_follows_the_kl_that_it_saw():
    made = ppo(kl_coef=0.3, kl_target=0.5, kl_horizon=24)
    rows = [made.step(k) for k in range(2)]
    assert rows[0]["kl_coef"] == 0.3
    error = min(max(rows[0]["kl_reference"] / 0.5 - 1, -0.2), 0.2)
    assert error != 0
    assert rows[1]["kl_coef"] == pytest.approx(0.3 * (1 + error / 2), rel=1e-12)


# --- what a stage is made of ---------------------------------------------------------------------------


def test_the_critic_starts_from_the_body_of_the_reward_model_or_of_the_policy():
    reward_model = RewardModel(decoder(seed=40))
    cases = ({"reward": LearnedReward(reward_model)}, reward_model.body), ({}, None)
    for settings, body in cases:
        made = ppo(**settings)
        fresh = PPO(made.task, made.settings, seed=0).critic
        wanted = (body or made.model).state_dict()
        assert all(torch.equal(x, wanted[name]) for name, x in fresh.body.state_dict().items())
        assert not any(x.any() for x in fresh.output.parameters())
        assert all(p.requires_grad for p in fresh.parameters())
        assert not {p.data_ptr() for p in fresh.parameters()} & {
            p.data_ptr() for p in [*made.model.parameters(), *reward_model.parameters()]
        }
