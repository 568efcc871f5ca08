"""GRPO and its variants: the papers' formulas in loops, and expectations by enumeration."""

import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest
import torch
from language_stages import TINY, decoder, gold, grpo, rows_of, token_log_probs
from slow_statistics import close, mean, sample_std
from small_language import EVERY, ScriptedReward, rough
from three_tokens import ONE_WORD

from ppobook.language import grpo as module
from ppobook.language.grpo import group_advantages
from ppobook.language.on_policy import Sampling
from ppobook.language.settings import VARIANTS
from ppobook.language.tokens import Completions, right_pad

LONGEST = TINY["max_new_tokens"]


# --- each variant against its paper --------------------------------------------------------------------


class One(NamedTuple):
    """A completion, as numbers: log-probabilities of its tokens under the three policies, and its reward."""

    now: torch.Tensor
    old: list
    ref: list
    reward: float

    @property
    def length(self):
        return len(self.old)


def clipped(ratio, advantage, low, high):
    return torch.minimum(ratio * advantage, ratio.clamp(low, high) * advantage)


def by_group_mean_and_deviation(rewards):
    """With n − 1, and what keeps the division from 0; of both the papers say nothing."""
    return [(reward - mean(rewards)) / (sample_std(rewards) + 1e-4) for reward in rewards]


def deepseekmath(groups, beta=0.3):
    """Shao et al. 2024, equation 3 with 4."""
    whole = 0
    for group in groups:
        advantages = by_group_mean_and_deviation([one.reward for one in group])
        for one, a in zip(group, advantages, strict=True):
            inside = 0
            for t in range(one.length):
                r = one.ref[t] - one.now[t]
                inside += clipped((one.now[t] - one.old[t]).exp(), a, 0.8, 1.2) - beta * (r.exp() - r - 1)
            whole += inside / one.length / len(group)
    return -whole / len(groups)


def dr_grpo(groups):
    """Liu et al. 2025, section 3.2, with the constant of their code."""
    whole = 0
    for group in groups:
        middle = mean([one.reward for one in group])
        for one in group:
            for t in range(one.length):
                whole += clipped((one.now[t] - one.old[t]).exp(), one.reward - middle, 0.8, 1.2)
    return -whole / sum(len(group) for group in groups) / LONGEST


def less_overlong(one):
    """Yu et al. 2025, equation 13, with a cache of a fifth of the longest, as section 4.1 has it."""
    cache = LONGEST / 5
    if one.length <= LONGEST - cache:
        return one.reward
    return one.reward + (LONGEST - cache - one.length) / cache


def dapo(groups):
    """Yu et al. 2025, equations 8 and 9, of the groups that the constraint leaves."""
    whole, tokens = 0, 0
    for group in groups:
        advantages = by_group_mean_and_deviation([less_overlong(one) for one in group])
        for one, a in zip(group, advantages, strict=True):
            tokens += one.length
            whole += sum(clipped((one.now[t] - one.old[t]).exp(), a, 0.8, 1.28) for t in range(one.length))
    return -whole / tokens


def gspo(groups):
    """Zheng et al. 2025, equations 5 to 7, with the clip of section 5.1."""
    whole = 0
    for group in groups:
        advantages = by_group_mean_and_deviation([one.reward for one in group])
        for one, a in zip(group, advantages, strict=True):
            ratio = (one.now.sum().exp() / math.exp(sum(one.old))) ** (1 / one.length)
            whole += clipped(ratio, a, 1 - 3e-4, 1 + 4e-4) / len(group)
    return -whole / len(groups)


def cispo(groups):
    """MiniMax 2025, equations 4 and 5, without a lower bound."""
    whole, tokens = 0, 0
    for group in groups:
        advantages = by_group_mean_and_deviation([less_overlong(one) for one in group])
        for one, a in zip(group, advantages, strict=True):
            tokens += one.length
            for t in range(one.length):
                weight = min(math.exp(one.now[t].item() - one.old[t]), 5.0)
                whole += weight * a * one.now[t]
    return -whole / tokens


def rloo(groups, beta=0.3):
    """Ahmadian et al. 2024: whole completions, R less β log π/π_ref, against the mean of the others."""
    whole = 0
    for group in groups:
        rewards = [one.reward - beta * (sum(one.old) - sum(one.ref)) for one in group]
        for i, one in enumerate(group):
            others = rewards[:i] + rewards[i + 1 :]
            whole += (rewards[i] - mean(others)) * one.now.sum() / len(group)
    return -whole / len(groups)


def ppo_of_normalised(groups, advantages):
    """Hu et al. 2025, equation 1 with equation 5, over all tokens of the batch."""
    every = [a for row in advantages for a in row]
    middle, spread = mean(every), float(np.std(every))
    whole, ones = 0, [one for group in groups for one in group]
    for one, row in zip(ones, advantages, strict=True):
        for t in range(one.length):
            ratio = (one.now[t] - one.old[t]).exp()
            whole += clipped(ratio, (row[t] - middle) / spread, 0.8, 1.2) / one.length
    return -whole / len(ones)


def reinforce_pp(groups, beta=0.3):
    """Hu et al. 2025, equation 4: what the tokens from this one on cost in KL is taken off."""
    ones = [one for group in groups for one in group]
    assert len(ones) == len(groups)
    costs = [[beta * (o - r) for o, r in zip(one.old, one.ref, strict=True)] for one in ones]
    return ppo_of_normalised(
        groups,
        [
            [one.reward - math.fsum(cost[t:]) for t in range(one.length)]
            for one, cost in zip(ones, costs, strict=True)
        ],
    )


def reinforce_pp_baseline(groups, lam=0.3):
    """Hu et al. 2025, equations 6 to 8."""
    advantages = [
        [one.reward - mean([other.reward for other in group])] * one.length
        for group in groups
        for one in group
    ]
    ones = [one for group in groups for one in group]
    k2 = sum(((one.now - torch.tensor(one.ref, dtype=torch.float64)) ** 2 / 2).mean() for one in ones) / len(
        ones
    )
    return ppo_of_normalised(groups, advantages) + lam * k2


def coarse(completions):
    """A reward with two values, so that groups often agree."""
    return (completions.lengths % 2).double()


PAPER = {
    "grpo": (deepseekmath, 0.05, None),
    "dr_grpo": (dr_grpo, 0.05, None),
    "dapo": (dapo, 0.05, coarse),
    "gspo": (gspo, 1e-4, None),
    "cispo": (cispo, 0.3, coarse),
    # In its single step the policy is still the one that sampled.
    "rloo": (rloo, 0.0, None),
    "reinforce++": (reinforce_pp, 0.05, None),
    "reinforce++_baseline": (reinforce_pp_baseline, 0.05, None),
}


def watched(made):
    """Every round that a stage samples, in a list that fills up."""
    rounds, sample = [], made.sample

    def noted(prompts):
        rounds.append(sample(prompts))
        return rounds[-1]

    made.sample = noted
    return rounds


def in_groups(made, rounds, policy, worth):
    """Completions by round and *prompt*, whatever row they stand in, as numbers read without padding."""
    temperature, found = made.settings.temperature, {}
    for k, completions in enumerate(rounds):
        rewards = worth(completions).tolist()
        for b, (prompt, said) in enumerate(rows_of(completions)):
            with torch.no_grad():
                old, ref = (
                    token_log_probs(m, prompt, said, temperature) for m in (made.model, made.reference)
                )
            one = One(
                token_log_probs(policy, prompt, said, temperature), old.tolist(), ref.tolist(), rewards[b]
            )
            single = b if made.settings.group_size == 1 else None
            found.setdefault((k, tuple(prompt), single), []).append(one)
    assert {len(group) for group in found.values()} == {made.settings.group_size}
    return list(found.values())


def check_variant(variant, **settings):
    """Everything between the samples and the loss, and its gradient, is the paper's."""
    formula, scale, reward = PAPER[variant]
    made = grpo(variant=variant, reward=reward and ScriptedReward(reward), **settings)
    rounds = watched(made)
    experience, row = made.make_experience(0)
    completions = Completions.join(rounds)
    assert len(set(completions.lengths.tolist())) > 3
    assert 0 < completions.ended.sum() < len(completions)

    moved = decoder()
    moved.load_state_dict(made.model.state_dict())
    rough(moved, seed=20, scale=scale)
    groups = in_groups(made, rounds, moved, reward or gold)
    if made.settings.filter_groups:
        assert row["rounds"] == len(rounds) > 1
        live = [group for group in groups if len({one.reward for one in group}) > 1]
        assert 4 <= len(live) < len(groups)
        assert row["dead_groups"] == pytest.approx(1 - len(live) / len(groups), rel=1e-6)
        groups = live[:4]
    assert len(groups) == (12 if variant == "reinforce++" else 4)
    wanted = formula(groups)
    wanted_gradient = torch.autograd.grad(wanted, list(moved.parameters()), allow_unused=True)

    made.model = moved
    loss, diagnostics = made.loss(experience)
    if variant != "rloo":  # Its formula has the right gradient only: at π_old the ratio is 1.
        close(loss, wanted)
    found = torch.autograd.grad(loss, list(moved.parameters()), allow_unused=True)
    for x, y in zip(found, wanted_gradient, strict=True):
        assert (x is None) == (y is None)
        if x is not None:
            torch.testing.assert_close(x, y, rtol=1e-7, atol=1e-10)
    assert max(x.abs().max() for x in found if x is not None) > 1e-3
    if variant != "rloo":
        assert 0.01 < diagnostics["clip_fraction"] < 0.99


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_is_its_papers_formula(variant):
    check_variant(variant)


GROUP, CLIP, KL, SCORE = group_advantages, module.clipped_surrogate_loss, module.kl_estimate, Sampling.score
LOGITS, LOGP = module.completion_logits, module.token_logp_and_entropy
# What implementations get wrong: each changes one thing that an update calls.
PITFALLS = {
    "rewards of others": (Sampling, "score", lambda *x: SCORE(*x).roll(1)),
    "groups mixed up": (
        module,
        "group_advantages",
        lambda rewards, size, **how: GROUP(rewards.view(-1, size).T.reshape(-1), size, **how),
    ),
    "advantage sign": (module, "group_advantages", lambda *x, **how: -GROUP(*x, **how)),
    "KL exchanged": (module, "kl_estimate", lambda e, p, q, *w, **how: KL(e, q, p, *w, **how)),
    "the policy as reference": (
        Sampling,
        "reference_logp",
        lambda self, c: self.compute_logp(self.model, c),
    ),
    "padding counted": (module, "clipped_surrogate_loss", lambda *x, mask, **how: CLIP(*x, **how)),
    "old log-probs recomputed": (
        module,
        "clipped_surrogate_loss",
        lambda logp, old, *rest, **how: CLIP(logp, logp.detach(), *rest, **how),
    ),
    "clip missing": (
        module,
        "clipped_surrogate_loss",
        lambda logp, old, a, eps, clip_eps_high, **how: CLIP(logp, old, a, 0.999, **how),
    ),
    "shift by one token": (
        module,
        "completion_logits",
        lambda model, c: LOGITS(model, c).roll(1, dims=1),
    ),
    "temperature forgotten": (
        module,
        "token_logp_and_entropy",
        lambda logits, tokens, temperature, mask, **how: LOGP(logits, tokens, 1.0, mask, **how),
    ),
}


@pytest.mark.parametrize("pitfall", PITFALLS)
def test_a_pitfall_is_found(pitfall, monkeypatch):
    monkeypatch.setattr(*PITFALLS[pitfall])
    with pytest.raises(AssertionError):
        check_variant("grpo", temperature=0.8)


# --- what the gradient is on average, by enumeration ---------------------------------------------------

WORTH = [0.3, -0.5, 1.1, 0.0, -1.0, 0.8, 0.4]


def three_tokens(size=3, **settings):
    """A world of three tokens (one ends), and completions of at most two: seven of them, of known worth."""
    given = {"batch_size": size, "group_size": size, "num_minibatches": 1, "max_new_tokens": 2} | settings
    sizes = {"context": 3, "width": 8, "heads": 1}
    models = {
        "model": rough(decoder(3, **sizes), 11, 0.5),
        "reference": rough(decoder(3, 5, **sizes), 12, 0.5),
    }
    return grpo(data=[{"prompt": "a"}], tokenizer=ONE_WORD, **models, **given)


def of_every(model):
    """Log-probabilities of the tokens of each completion that there is."""
    return [token_log_probs(model, [2], said) for said in EVERY]


def on_average(made):
    """The gradient of the stage's loss, averaged over all groups that might be sampled."""
    size = made.settings.group_size
    with torch.no_grad():
        old, ref = (of_every(m) for m in (made.model, made.reference))
    total = torch.zeros((), dtype=torch.float64)
    # In whatever order the members of a group come, its loss is the same: one order stands for all.
    for drawn in itertools.combinations_with_replacement(range(len(EVERY)), size):
        orders = len(set(itertools.permutations(drawn)))
        said, mask = right_pad([EVERY[i] for i in drawn], 0)
        logp, ref_logp = torch.zeros(2, *mask.shape, dtype=torch.float64)
        for b, i in enumerate(drawn):
            logp[b, : len(EVERY[i])], ref_logp[b, : len(EVERY[i])] = old[i], ref[i]
        prompts = torch.full((size, 1), 2)
        ended = torch.tensor([EVERY[i][-1] == 1 for i in drawn])
        completions = Completions(
            prompts, torch.ones_like(prompts, dtype=torch.bool), said, mask, logp, ended
        )
        rewards = torch.tensor([WORTH[i] for i in drawn], dtype=torch.float64)
        advantages = made.advantages(completions, rewards, ref_logp)
        loss, _ = made.loss(type(made).__init__.__globals__["Experience"](completions, ref_logp, advantages))
        total = total + orders * math.exp(sum(old[i].sum().item() for i in drawn)) * loss
    return torch.autograd.grad(total, list(made.model.parameters()), allow_unused=True)


def ascent(made, objective):
    """The gradient of an objective, from the log-probabilities of every completion, [7]."""
    log_p = torch.stack([x.sum() for x in of_every(made.model)])
    with torch.no_grad():
        log_ref = torch.stack([x.sum() for x in of_every(made.reference)])
    value = objective(log_p, log_ref)
    return torch.autograd.grad(value, list(made.model.parameters()), allow_unused=True)


def same_direction(found, wanted, factor):
    biggest = 0.0
    for x, y in zip(found, wanted, strict=True):
        assert (x is None) == (y is None)
        if x is not None:
            torch.testing.assert_close(x, factor * y, rtol=1e-8, atol=1e-11)
            biggest = max(biggest, y.abs().max().item())
    assert biggest > 0.05


def expected_reward(log_p, log_ref):
    return (log_p.exp() * torch.tensor(WORTH, dtype=torch.float64)).sum()


def test_with_the_mean_of_a_group_it_is_a_part_of_the_policy_gradient():
    """R_i − mean has R_i / G in what it takes off: (G − 1)/G of the gradient is left."""
    made = three_tokens(variant="dr_grpo")
    # The loss is down, and divides by two tokens a row.
    same_direction(on_average(made), ascent(made, expected_reward), -2 / 3 / 2)


@pytest.mark.parametrize(("size", "beta"), [(2, 0.0), (3, 0.7)])
def test_leaving_one_out_it_is_the_policy_gradient(size, beta):
    """With the KL in the reward, it is that of the regularized objective."""

    def regularised(log_p, log_ref):
        return expected_reward(log_p, log_ref) - beta * (log_p.exp() * (log_p - log_ref)).sum()

    made = three_tokens(size=size, variant="rloo", kl_coef=beta)
    same_direction(on_average(made), ascent(made, regularised), -1.0)


# --- groups whose rewards agree -------------------------------------------------------------------------


def test_without_an_informative_group_there_is_no_update():
    made = grpo(
        variant="dapo", reward=ScriptedReward(lambda c: torch.full((len(c),), 0.3)), max_rounds=3, lr=1e-2
    )
    before = {name: x.clone() for name, x in made.model.state_dict().items()}
    row = made.step(0)
    assert (row["rounds"], row["dead_groups"], made.rounds) == (3, 1.0, 3)
    assert row["tokens"] > 0
    assert "loss" not in row
    assert all(torch.equal(x, before[name]) for name, x in made.model.state_dict().items())


def test_each_round_has_prompts_of_its_own():
    """Two rounds of two groups: all four prompts, before one comes again."""
    made = grpo(
        variant="dapo", batch_size=6, reward=ScriptedReward(lambda c: torch.zeros(len(c))), max_rounds=4
    )
    rounds = watched(made)
    made.step(0)
    asked = [[tuple(p) for p in c.prompts[::3].tolist()] for c in rounds]
    for first, second in (asked[:2], asked[2:]):
        assert len({*first, *second}) == 4
    for completions in rounds:
        assert (completions.prompts.view(2, 3, -1) == completions.prompts.view(2, 3, -1)[:, :1]).all()
