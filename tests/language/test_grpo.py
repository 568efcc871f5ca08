"""GRPO and its variants: the papers' formulas in loops, expectations by enumeration, planted mistakes."""

import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from small_language import EVERY, Told, rough, widened

from ppobook.language import grpo as room
from ppobook.language.grpo import group_advantages, variants
from ppobook.language.model import Decoder, DecoderConfig
from ppobook.language.settings import VARIANTS, GRPOSettings
from ppobook.language.stage import Task
from ppobook.language.tokens import Completions, WordTokenizer, right_pad
from ppobook.language.training import train
from ppobook.language.world import World

TINY = {"nouns": 2, "places": 2, "verbs": 2, "adjectives": 2, "clauses": [1.0], "max_new_tokens": 10}
LONGEST = TINY["max_new_tokens"]


def decoder(vocab_size, seed=0, **sizes):
    given = {"context": 20, "layers": 1, "width": 16, "heads": 2} | sizes
    config = DecoderConfig(vocab_size, **given, eos=WordTokenizer.eos, pad=WordTokenizer.pad)
    return rough(Decoder(config, seed=seed).double(), seed + 1)


def stage(*, model=None, reward=None, data=None, tokenizer=None, reference=None, **settings):
    """A stage of GRPO: a rough decoder, another as reference, gold of a tiny world, four groups of three."""
    world = World(**TINY)
    data, tokenizer = data or world, tokenizer or world.tokenizer
    model = model or decoder(tokenizer.vocab_size)
    reference = reference or decoder(tokenizer.vocab_size, seed=5)
    reward = reward or Told(lambda completions: world.gold(completions).double())
    task = Task(model, tokenizer, data, reward, reference.requires_grad_(False))
    size = 1 if settings.get("variant") == "reinforce++" else 3
    given = {"batch_size": 12, "group_size": size} | settings
    return room.GRPO(task, GRPOSettings.make("grpo", given, {}), seed=3)


def read(model, prompt, said, temperature=1.0):
    """Log-probability of each token that was said, from one row without padding."""
    logits = model(torch.tensor([prompt + said]))[0] / temperature
    log_p = logits.log_softmax(-1)[len(prompt) - 1 :]
    return torch.stack([log_p[t, y] for t, y in enumerate(said)])


def close(found, wanted):
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-11)


# --- advantages ----------------------------------------------------------------------------------------


def mean(x):
    return math.fsum(x) / len(x)


def deviation(x):
    middle = mean(x)
    return math.sqrt(math.fsum((one - middle) ** 2 for one in x) / (len(x) - 1))


def slow_advantages(rewards, size, baseline, scale, eps):
    """One completion at a time, each with a list of the others."""
    found = []
    for i, reward in enumerate(rewards):
        begin = i // size * size
        group = rewards[begin : begin + size]
        others = group[: i - begin] + group[i - begin + 1 :]
        if min(group) == max(group) and not (baseline == "batch" and scale != "group"):
            found.append(0.0)
            continue
        taken = {"group": group, "leave_one_out": others, "batch": rewards}[baseline]
        advantage = reward - mean(taken)
        if scale != "none":
            advantage /= deviation({"group": group, "batch": rewards}[scale]) + eps
        found.append(advantage)
    return found


EVERY_WAY = list(itertools.product(room.BASELINES, room.SCALES))
numbers = st.floats(-50, 50).map(lambda x: round(x, 3))


@hypothesis_settings(deadline=None, max_examples=150)
@given(st.data(), st.sampled_from(EVERY_WAY), st.integers(2, 5), st.integers(1, 4))
def test_advantages_are_those_of_loops(data, how, size, groups):
    rewards = data.draw(st.lists(numbers, min_size=size * groups, max_size=size * groups))
    if data.draw(st.booleans()):
        rewards[:size] = rewards[:1] * size
    eps = data.draw(st.sampled_from([1e-4, 0.5]))
    found = group_advantages(torch.tensor(rewards, dtype=torch.float64), size, **named(how), eps=eps)
    np.testing.assert_allclose(found, slow_advantages(rewards, size, *how, eps), rtol=1e-9, atol=1e-9)


def named(how):
    return dict(zip(("baseline", "scale"), how, strict=True))


@pytest.mark.parametrize("how", EVERY_WAY, ids=str)
def test_advantages_in_single_precision(how):
    rewards = np.random.default_rng(0).normal(3, 2, 24).astype(np.float32)
    found = group_advantages(torch.tensor(rewards), 6, **named(how))
    assert found.dtype == torch.float32
    wanted = slow_advantages([float(x) for x in rewards], 6, *how, 1e-4)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("how", EVERY_WAY, ids=str)
def test_what_adds_to_all_rewards_changes_nothing(how):
    rewards = torch.tensor([0.5, -1.0, 2.0, 0.25, 0.25, 3.0], dtype=torch.float64)
    close(group_advantages(rewards + 8, 3, **named(how)), group_advantages(rewards, 3, **named(how)))


def test_groups_know_nothing_of_each_other_unless_the_batch_is_asked():
    rewards = torch.tensor([0.5, -1.0, 2.0, 0.25, 0.0, 3.0], dtype=torch.float64)
    other = rewards.clone()
    other[4] = 50.0
    for how in EVERY_WAY:
        same = torch.equal(*(group_advantages(x, 3, **named(how))[:3] for x in (rewards, other)))
        assert same is ("batch" not in how)


def test_equal_rewards_have_advantage_zero_and_not_a_rounding():
    """Neither 0.1 nor its threefold sum is a float; the difference must not be blown up by eps."""
    for value in (0.1, 0.7, 1e8 / 3):
        rewards = torch.tensor([value] * 3 + [1.0, 2.0, 4.0])
        for how in EVERY_WAY:
            advantages = group_advantages(rewards, 3, **named(how), eps=0.0)
            assert torch.isfinite(advantages).all()
            alone = how[0] != "batch" or how[1] == "group"
            assert bool((advantages[:3] == 0).all()) is alone
            assert advantages[3:].abs().min() > 0
    assert not group_advantages(torch.full((6,), 0.1), 3, baseline="batch", scale="batch", eps=0.0).any()


def test_the_mean_with_itself_is_a_part_of_the_leave_one_out_advantage():
    rewards = torch.tensor([0.5, -1.0, 2.0, 0.25, 0.0, 3.0], dtype=torch.float64)
    with_itself = group_advantages(rewards, 3, scale="none")
    without = group_advantages(rewards, 3, baseline="leave_one_out", scale="none")
    close(with_itself, without * 2 / 3)


def test_no_gradient_goes_into_advantages():
    assert not group_advantages(torch.rand(6, requires_grad=True), 3).requires_grad


@pytest.mark.parametrize(
    ("rewards", "size", "how", "error", "sentence"),
    [
        (torch.rand(6), 4, {}, ValueError, r"rewards has shape \(6,\) and group_size is 4; .* whole groups"),
        (torch.rand(2, 3), 3, {}, ValueError, r"rewards has shape \(2, 3\)"),
        (torch.rand(0), 3, {}, ValueError, r"rewards has shape \(0,\)"),
        (torch.tensor([1.0, math.nan]), 2, {}, ValueError, r"rewards is nan at index 1"),
        ([1.0, 2.0], 2, {}, TypeError, r"rewards is of type list; a torch tensor is wanted"),
        (torch.tensor([1, 2]), 2, {}, TypeError, r"rewards has dtype torch.int64"),
        (torch.rand(6), 0, {}, ValueError, r"group_size is 0"),
        (torch.rand(6), 3, {"baseline": "groop"}, ValueError, r"baseline is 'groop'; did you mean 'group'"),
        (torch.rand(6), 3, {"scale": "std"}, ValueError, r"scale is 'std'"),
        (torch.rand(6), 3, {"eps": -1.0}, ValueError, r"eps is -1"),
        (torch.rand(6), 1, {}, ValueError, r"group_size is 1, and baseline is 'group'; at least 2"),
        (torch.rand(6), 1, {"baseline": "batch"}, ValueError, r"group_size is 1, and scale is 'group'"),
        (torch.rand(1), 1, {"baseline": "batch", "scale": "none"}, ValueError, r"rewards has a single entry"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_advantages_of_nothing_sensible_get_a_sentence(rewards, size, how, error, sentence):
    with pytest.raises(error, match=sentence):
        group_advantages(rewards, size, **how)


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
    return [(reward - mean(rewards)) / (deviation(rewards) + 1e-4) for reward in rewards]


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
        for b in range(len(completions)):
            prompt = completions.prompts[b][completions.prompt_mask[b]].tolist()
            said = completions.tokens[b][completions.mask[b]].tolist()
            with torch.no_grad():
                old, ref = (read(m, prompt, said, temperature) for m in (made.model, made.reference))
            one = One(read(policy, prompt, said, temperature), old.tolist(), ref.tolist(), rewards[b])
            single = b if made.settings.group_size == 1 else None
            found.setdefault((k, tuple(prompt), single), []).append(one)
    assert {len(group) for group in found.values()} == {made.settings.group_size}
    return list(found.values())


def check_variant(variant, **settings):
    """Everything between the samples and the loss, and its gradient, is the paper's."""
    formula, scale, reward = PAPER[variant]
    made = stage(variant=variant, reward=reward and Told(reward), **settings)
    rounds = watched(made)
    experience, row = made.make_experience(0)
    completions = Completions.join(rounds)
    assert len(set(completions.lengths.tolist())) > 3
    assert 0 < completions.ended.sum() < len(completions)

    moved = decoder(made.model.vocab_size)
    moved.load_state_dict(made.model.state_dict())
    rough(moved, seed=20, scale=scale)
    groups = in_groups(made, rounds, moved, reward or (lambda c: made.task.data.gold(c).double()))
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
    return groups, diagnostics


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_is_its_papers_formula(variant):
    check_variant(variant)


def test_it_is_so_at_another_temperature():
    check_variant("grpo", temperature=0.7)
    check_variant("reinforce++", temperature=1.4)


def test_the_table_of_variants_is_what_they_set():
    table = variants()
    assert list(table.index) == list(VARIANTS) == list(PAPER)
    assert table["paper"].str.contains("arXiv").all()
    defaults = GRPOSettings()
    for variant, row in table.iterrows():
        settings = GRPOSettings.make("grpo", {"variant": variant}, {})
        shown = row.drop("paper").to_dict()
        assert {name: getattr(settings, name) for name in shown} == shown
        changed = {name for name in vars(settings) if getattr(settings, name) != getattr(defaults, name)}
        assert changed - {"variant"} == set(VARIANTS[variant]) - {
            name for name, value in VARIANTS[variant].items() if value == getattr(defaults, name)
        }
        assert changed - {"variant"} <= set(shown)


def test_a_setting_can_be_changed_on_its_own():
    settings = GRPOSettings.make(
        "grpo", {"variant": "dapo", "clip_eps_high": 0.4, "filter_groups": False}, {}
    )
    assert (settings.clip_eps_high, settings.filter_groups, settings.reduction) == (0.4, False, "token")
    assert GRPOSettings.make("grpo", {"scale": "batch"}, {}).baseline == "group"
    assert GRPOSettings.make("grpo", {}, {}) == GRPOSettings()


def test_a_penalty_for_being_cut_is_part_of_the_reward():
    made = stage(truncation="penalty", missing_eos_penalty=2.5)
    rounds = watched(made)
    experience, row = made.make_experience(0)
    ended = rounds[0].ended
    assert 0 < ended.sum() < 12
    rewards = made.task.data.gold(rounds[0]).double()
    wanted = group_advantages(rewards - 2.5 * (~ended).double(), 3)
    close(experience.advantages[:, 0], wanted)
    assert row["reward"] == pytest.approx(rewards.mean().item(), rel=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_the_kl_in_the_loss_is_that_of_loops(estimator, weighted):
    made = stage(kl_coef=0.7, kl_estimator=estimator, kl_weighted=weighted, reduction="token")
    rounds = watched(made)
    experience = made.make_experience(0)[0]
    moved = rough(decoder(made.model.vocab_size), seed=20, scale=0.05)
    groups = in_groups(made, rounds, moved, coarse)
    made.model = moved
    loss, diagnostics = made.loss(experience)
    whole, tokens = 0, 0
    for one in itertools.chain(*groups):
        for now, old, ref in zip(one.now, one.old, one.ref, strict=True):
            d = now - ref
            kl = {"k1": d, "k2": d**2 / 2, "k3": (-d).exp() - 1 + d}[estimator]
            whole, tokens = whole + kl * ((now - old).exp() if weighted else 1), tokens + 1
    close(loss - diagnostics["policy_loss"], 0.7 * whole / tokens)


# --- what the gradient is on average, by enumeration ---------------------------------------------------

ONE_WORD = WordTokenizer(["a"])
WORTH = [0.3, -0.5, 1.1, 0.0, -1.0, 0.8, 0.4]


def three_tokens(size=3, **settings):
    """A world of three tokens (one ends), and completions of at most two: seven of them, of known worth."""
    given = {"batch_size": size, "group_size": size, "num_minibatches": 1, "max_new_tokens": 2} | settings
    sizes = {"context": 3, "width": 8, "heads": 1}
    models = {
        "model": rough(decoder(3, **sizes), 11, 0.5),
        "reference": rough(decoder(3, 5, **sizes), 12, 0.5),
    }
    return stage(data=[{"prompt": "a"}], tokenizer=ONE_WORD, **models, **given)


def of_every(model):
    """Log-probabilities of the tokens of each completion that there is."""
    return [read(model, [2], said) for said in EVERY]


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


@pytest.mark.parametrize("size", [2, 3])
def test_with_the_mean_of_a_group_it_is_a_part_of_the_policy_gradient(size):
    """R_i − mean has R_i / G in what it takes off: (G − 1)/G of the gradient is left."""
    made = three_tokens(size=size, variant="dr_grpo")
    # The loss is down, and divides by two tokens a row.
    same_direction(on_average(made), ascent(made, expected_reward), -(size - 1) / size / 2)


def check_leaving_one_out_is_unbiased(size=3, beta=0.0):
    def regularised(log_p, log_ref):
        return expected_reward(log_p, log_ref) - beta * (log_p.exp() * (log_p - log_ref)).sum()

    made = three_tokens(size=size, variant="rloo", kl_coef=beta)
    same_direction(on_average(made), ascent(made, regularised), -1.0)


@pytest.mark.parametrize("size", [2, 3])
def test_leaving_one_out_it_is_the_policy_gradient(size):
    check_leaving_one_out_is_unbiased(size)


def test_with_the_kl_in_the_reward_it_is_that_of_the_regularised_objective():
    check_leaving_one_out_is_unbiased(3, beta=0.7)


@pytest.mark.parametrize("size", [2, 3])
def test_grpos_own_is_the_policy_gradient_of_its_advantage_and_length(size):
    """Each completion pushes with what its advantage is on average over the others', divided by its length.

    That is no reward's: what the deviation and the length do to it, they do in expectation.
    """
    made = three_tokens(size=size, kl_coef=0.0)
    p = [math.exp(x.sum().item()) for x in of_every(made.model)]
    push = []
    for i, said in enumerate(EVERY):
        average = 0.0
        for others in itertools.product(range(len(EVERY)), repeat=size - 1):
            chance = math.prod(p[j] for j in others)
            rewards = [WORTH[i], *(WORTH[j] for j in others)]
            spread = deviation(rewards)
            average += chance * (WORTH[i] - mean(rewards)) / (spread + 1e-4)
        push.append(average / len(said))
    push = torch.tensor(push, dtype=torch.float64)
    found = on_average(made)
    same_direction(found, ascent(made, lambda log_p, _: (log_p.exp() * push).sum()), -1.0)

    def whole(gradients):
        return torch.cat([x.flatten() for x in gradients if x is not None])

    cosine = torch.cosine_similarity(-whole(found), whole(ascent(made, expected_reward)), dim=0)
    assert cosine < 0.999


def test_k3_in_the_loss_leads_down_the_kl_the_other_way_round():
    """The stated bias, of completions of one token; with the ratio, or as k2, it is the KL itself."""
    for how, wanted in (
        ({}, lambda log_p, log_ref: (log_ref.exp() * (log_ref - log_p)).sum()),
        ({"kl_weighted": True}, lambda log_p, log_ref: (log_p.exp() * (log_p - log_ref)).sum()),
        ({"kl_estimator": "k2"}, lambda log_p, log_ref: (log_p.exp() * (log_p - log_ref)).sum()),
    ):
        made = three_tokens(kl_coef=0.7, max_new_tokens=1, **how)
        logits = made.model(torch.tensor([[2]]))[0, 0], made.reference(torch.tensor([[2]]))[0, 0]
        log_p, log_ref = (x.log_softmax(-1) for x in logits)
        p = log_p.exp()
        total = torch.zeros((), dtype=torch.float64)
        for token in range(3):
            prompts, said = torch.tensor([[2]] * 3), torch.tensor([[token]] * 3)
            mask = torch.ones_like(said, dtype=torch.bool)
            old = log_p[token].detach().expand(3, 1).clone()
            completions = Completions(prompts, mask, said, mask, old, said[:, 0] == 1)
            ref_logp = log_ref[token].detach().expand(3, 1)
            advantages = made.advantages(completions, torch.zeros(3, dtype=torch.float64), ref_logp)
            loss, _ = made.loss(room.Experience(completions, ref_logp, advantages))
            total = total + p[token].detach() * loss
        parameters = list(made.model.parameters())
        found = torch.autograd.grad(total, parameters, allow_unused=True, retain_graph=True)
        expected = torch.autograd.grad(wanted(log_p, log_ref.detach()), parameters, allow_unused=True)
        same_direction(found, expected, 0.7)


# --- what is left alone --------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_stands_at_padding_changes_nothing(variant):
    made = stage(variant=variant)
    experience = made.make_experience(0)[0]
    assert not experience.completions.mask.all()
    rough(made.model, 30, 0.05)
    results = []
    for given_ in (
        experience,
        widened(experience),
        widened(experience).select(torch.arange(len(experience))),
    ):
        loss, diagnostics = made.loss(given_)
        gradient = torch.autograd.grad(loss, list(made.model.parameters()), allow_unused=True)
        results.append([loss, *diagnostics.values(), *(g for g in gradient if g is not None)])
    for plain, *odd in zip(*results, strict=True):
        for other in odd:
            torch.testing.assert_close(other, plain, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("variant", ["grpo", "rloo", "reinforce++"])
def test_rubbish_at_padding_does_not_come_into_the_advantages(variant):
    made = stage(variant=variant)
    experience = made.make_experience(0)[0]
    rewards = torch.arange(12, dtype=torch.float64) ** 2 % 7
    odd = widened(experience)
    plain = made.advantages(experience.completions, rewards, experience.ref_logp)
    found = made.advantages(odd.completions, rewards, odd.ref_logp)
    mask = experience.completions.mask
    close(found[:, : mask.shape[1]], plain)
    assert not plain[~mask].any()
    assert not found[:, mask.shape[1] :].any()
    assert plain[mask].abs().min() > 0 or variant == "grpo"


def test_the_ratio_begins_at_one():
    """In the first gradient step of an update: exactly, but for the rounding of a cache."""
    made = stage(epochs=2, num_minibatches=2, lr=3e-3)
    told, loss = [], made.loss

    def noted(experience, said):
        told.append(loss(experience, said))
        return told[-1]

    made.loss = noted
    row = made.step(0)
    first, *later = [diagnostics for _, diagnostics in told]
    assert len(later) == 3
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


def test_minibatches_are_of_whole_groups():
    made = stage(epochs=2, num_minibatches=3, batch_size=21)
    steps = [rows.tolist() for _ in range(2) for rows in made.minibatches(21)]
    assert [len(rows) for rows in steps] == [9, 6, 6] * 2
    for epoch in (steps[:3], steps[3:]):
        assert sorted(itertools.chain(*epoch)) == list(range(21))
    for rows in steps:
        for begin in range(0, len(rows), 3):
            assert rows[begin] % 3 == 0
            assert rows[begin : begin + 3] == [rows[begin] + i for i in range(3)]
    assert steps[:3] != steps[3:]
    # Fewer groups than parts, after some were left out: each is a part.
    assert [len(rows) for rows in made.minibatches(6)] == [3, 3]


# --- groups that teach nothing -------------------------------------------------------------------------


def test_without_an_informative_group_there_is_no_update():
    made = stage(variant="dapo", reward=Told(lambda c: torch.full((len(c),), 0.3)), max_rounds=3, lr=1e-2)
    before = {name: x.clone() for name, x in made.model.state_dict().items()}
    row = made.step(0)
    assert (row["rounds"], row["dead_groups"], made.rounds) == (3, 1.0, 3)
    assert row["tokens"] > 0
    assert "loss" not in row
    assert all(torch.equal(x, before[name]) for name, x in made.model.state_dict().items())


def test_groups_that_agree_are_reported_and_push_nowhere():
    made = stage(reward=Told(coarse), kl_coef=0.0, overlong=0.0)
    experience, row = made.make_experience(0)
    rewards = coarse(experience.completions).view(4, 3)
    dead = (rewards.min(dim=1).values == rewards.max(dim=1).values).repeat_interleave(3)
    assert row["dead_groups"] == dead.double().mean() > 0
    assert len(experience) == 12
    assert "rounds" not in row
    assert not experience.advantages[dead].any()
    assert (experience.advantages[~dead][:, 0] != 0).all()


def test_each_round_has_prompts_of_its_own():
    """Two rounds of two groups: all four prompts, before one comes again."""
    made = stage(variant="dapo", batch_size=6, reward=Told(lambda c: torch.zeros(len(c))), max_rounds=4)
    rounds = watched(made)
    made.step(0)
    asked = [[tuple(p) for p in c.prompts[::3].tolist()] for c in rounds]
    for first, second in (asked[:2], asked[2:]):
        assert len({*first, *second}) == 4
    for completions in rounds:
        assert (completions.prompts.view(2, 3, -1) == completions.prompts.view(2, 3, -1)[:, :1]).all()


def test_columns_go_with_their_prompts():
    seen = []

    def score(completions, columns):
        seen.append((completions.prompts[:, -1].tolist(), columns["answer"]))
        return torch.arange(len(completions), dtype=torch.float64)

    tokenizer = WordTokenizer(["a", "b", "c"])
    data = [{"prompt": word, "answer": tokenizer.encode(word)[0]} for word in "abc"]
    made = stage(data=data, tokenizer=tokenizer, batch_size=6, max_new_tokens=4)
    made.score = score
    made.step(0)
    assert seen[0][0] == seen[0][1]
    assert seen[0][0] == [seen[0][0][0]] * 3 + [seen[0][0][3]] * 3


# --- settings ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"batch_size": 13}, r"batch_size is 13 and group_size is 3; a multiple of it is wanted"),
        (
            {"num_minibatches": 5},
            r"num_minibatches is 5, and batch_size 12 with group_size 3 makes 4; at most one part",
        ),
        ({"group_size": 1}, r"group_size is 1, and baseline is 'group'; at least 2 are wanted"),
        ({"group_size": 1, "baseline": "batch"}, r"group_size is 1, and scale is 'group'"),
        ({"surrogate": "sequence", "kl_in": "to_go"}, r"kl_in is 'to_go', .*; kl_in='reward' is wanted"),
        ({"variant": "drgrpo"}, r"variant is 'drgrpo'; did you mean 'dr_grpo'"),
        ({"variant": "reinforce+"}, r"variant is 'reinforce\+'; did you mean 'reinforce\+\+'"),
        ({"scale": "std"}, r"scale is 'std'"),
        ({"overlong": 1.5}, r"overlong is 1.5"),
        ({"groupsize": 3}, r"groupsize=3: grpo has no such setting; did you mean 'group_size'"),
    ],
    ids=str,
)
def test_bad_settings_get_a_sentence(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        stage(**settings)


# --- learning ------------------------------------------------------------------------------------------

QUICK = {"reward": "gold", "batch_size": 32, "lr": 2e-3, "progress": False}


@pytest.fixture(scope="module")
def base():
    """A model that has read a tiny world's texts for a second or two."""
    sizes = {"layers": 1, "width": 32, "heads": 2, "updates": 120, "examples": 600, "eval_examples": 0}
    return train("sft", data=World(**TINY), progress=False, seed=1, **sizes)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_gold_rises(base, seed):
    history = train("grpo", base, seed=seed, updates=30, **QUICK).history
    start, end = history["gold"][:5].mean(), history["gold"][-5:].mean()
    print(history[["gold", "kl_reference", "ended", "dead_groups"]][::5].round(2).to_string())
    assert end > start + 0.8
    assert 0.3 < history["kl_reference"].iloc[-1] < 15
    assert (history["reward"] == history["gold"]).all()


@pytest.mark.parametrize("variant", list(VARIANTS)[1:])
def test_gold_rises_with_each_variant(base, variant):
    """DAPO's punishment of length aside: this world's texts are hardly shorter than its limit."""
    history = train("grpo", base, variant=variant, overlong=0.0, seed=4, updates=20, **QUICK).history
    print(variant, history["gold"].round(2).tolist())
    assert history["gold"][-5:].mean() > history["gold"][:5].mean() + 0.3


def evenness(completions):
    return [float(len(text.split()) % 2) for text in completions]


def test_a_run_that_goes_on_is_the_run_that_did_not_stop(base, tmp_path):
    settings = {"variant": "dapo", "group_size": 2, "batch_size": 8, "lr": 2e-3, "seed": 7}
    settings |= {"reward": evenness, "checkpoint_every": 3, "progress": False}
    whole = train("grpo", base, updates=6, **settings)
    assert whole.history["rounds"].iloc[:3].sum() > 3
    train("grpo", base, updates=3, out=tmp_path / "run", **settings)
    resumed = train(resume=tmp_path / "run", updates=6, reward=evenness, progress=False)
    columns = [name for name in whole.history if not name.startswith("seconds")]
    assert whole.history[columns].equals(resumed.history[columns])
    for name, x in whole.model.state_dict().items():
        assert torch.equal(x, resumed.model.state_dict()[name])
