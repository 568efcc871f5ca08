"""The online algorithms against loops and against enumeration; what stages share: test_stages.py."""

import itertools
import math

import pytest
import torch
from language_stages import RECORDS, WORLD, completions_of, reward_model, rows_of, weights_of
from language_stages import decoder as any_decoder
from language_stages import stage as any_stage
from language_stages import token_log_probs as slow_log_probs
from small_language import EVERY, ScriptedReward, Table, rough, same
from three_tokens import ONE_WORD, POLICY, REFERENCE, WORTH, of_table
from torch import nn

from ppobook.language import online as module
from ppobook.language.data import Batches
from ppobook.language.generation import generate
from ppobook.language.rewards import LearnedReward
from ppobook.run.machine import stream


def curious(completions):
    """A reward that differs for every text."""
    numbers = completions.tokens.masked_fill(~completions.mask, 0).double() + 1
    return (numbers * torch.arange(1, 1 + numbers.shape[1]).sqrt()).sum(1).sin()


def decoder(seed=0):
    return any_decoder(seed=seed, ends=True)


def stage(kind, **given):
    fixed = {"model": decoder(), "reference": decoder(seed=5), "reward": ScriptedReward(curious)}
    return any_stage(kind, **fixed | given)


def online(**given):
    made = stage(module.OnlineDPO, **given)
    # What moves no weight by the size of its gradient would hide a factor.
    made.optimizer = torch.optim.SGD(made.model.parameters(), lr=0.1)
    return made


def iterative(kind=module.IterativePPO, **given):
    small = {"pairs": 7, "reward_model_batch_size": 3, "refresh_every": 2}
    return stage(kind, **{"reward": LearnedReward(reward_model())} | small | given)


def lagged(**given):
    return stage(module.LaggedGRPO, **{"group_size": 4, "lr": 1e-2} | given)


# --- online DPO ----------------------------------------------------------------------------------------

VARIANTS = [
    {},
    {"loss": "ipo", "beta": 0.4, "temperature": 0.7},
    {"group_size": 4, "beta": 0.3, "label_smoothing": 0.1},
    {
        "data": RECORDS,
        "max_new_tokens": 6,
        "truncation": "penalty",
        "missing_eos_penalty": 5.0,
        "group_size": 3,
    },
]


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_an_update_is_that_of_loops(settings):
    """The metrics of an update, and where it leaves the weights."""
    made, twin = online(**settings), online(**settings)
    s, k, n = made.settings, made.settings.group_size, 12 // made.settings.group_size
    said = twin.sample(twin.draw_prompts(2, n).repeat(k))
    given = curious(said)
    worth = given - (s.missing_eos_penalty * ~said.ended if s.truncation == "penalty" else 0.0)
    assert said.mask.sum(1).unique().numel() > 2
    rows = rows_of(said)
    reference = decoder(seed=5)

    losses, margins, tied = [], [], 0
    for group in range(n):
        mine = range(k * group, k * group + k)
        assert len({tuple(rows[i][0]) for i in mine}) == 1
        won, lost = max(mine, key=lambda i: worth[i]), min(mine, key=lambda i: worth[i])
        tied += bool(worth[won] == worth[lost])
        h = 0
        for i, sign in ((won, 1), (lost, -1)):
            ref = sum(slow_log_probs(reference, *rows[i], s.temperature)).item()
            h = h + sign * (sum(slow_log_probs(made.model, *rows[i], s.temperature)) - ref)
        if s.loss == "ipo":
            losses.append((h - 1 / (2 * s.beta)) ** 2)
        else:
            e, margin = s.label_smoothing, s.beta * h
            losses.append((1 - e) * torch.log1p((-margin).exp()) + e * torch.log1p(margin.exp()))
        margins.append(s.beta * h.item())
    loss = sum(losses) / n
    gradient = torch.autograd.grad(loss, list(made.model.parameters()))
    norm = sum(g.square().sum().item() for g in gradient) ** 0.5
    step = 0.1 * min(1.0, 1 / (norm + 1e-6))
    wanted = [w.detach() - step * g for w, g in zip(made.model.parameters(), gradient, strict=True)]

    row = made.step(2)
    close = {"rel": 1e-9, "abs": 1e-9}
    assert row["loss"] == pytest.approx(loss.item(), **close)
    assert row["margin"] == pytest.approx(sum(margins) / n, **close)
    assert row["reward"] == pytest.approx(given.mean().item(), **close)
    assert row["tokens"] == sum(len(y) for _, y in rows)
    assert row["tied"] == pytest.approx(tied / n)
    for w, x in zip(made.model.parameters(), wanted, strict=True):
        torch.testing.assert_close(w.detach(), x, rtol=1e-7, atol=1e-9)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_of_three_the_order_is_plackett_and_luces():
    rewards, noise = [0.4, 0.0, -0.9], 0.8
    best, worst = module.best_and_worst(
        torch.tensor(rewards).repeat(40_000), 3, noise=noise, generator=generator()
    )
    weight = [math.exp(r / noise) for r in rewards]
    for first, middle, last in itertools.permutations(range(3)):
        chance = weight[first] / sum(weight) * weight[middle] / (weight[middle] + weight[last])
        share = ((best % 3 == first) & (worst % 3 == last)).float().mean().item()
        assert abs(share - chance) < 0.0125


# --- a world of three tokens, where everything can be enumerated ---------------------------------------


def three_tokens(kind, **settings):
    given = {"max_new_tokens": 2, "data": [{"prompt": "a"}], "tokenizer": ONE_WORD} | settings
    return stage(kind, **{"model": Table(POLICY), "reference": Table(REFERENCE)} | given)


def test_the_regularised_optimum_is_at_rest():
    """π ∝ π_ref exp(R / (noise β)): there no pair that the policy samples pulls it anywhere, on average."""
    beta, noise = 0.4, 1.5
    made = three_tokens(module.OnlineDPO, beta=beta, noise=noise, batch_size=2)
    reference = of_table(made.reference).detach()
    pairs = [(i, j) for i in range(7) for j in range(7) if i != j]

    def pull(model):
        """The expected gradient, over two samples of the policy, and who is preferred."""
        made.model = model
        p = of_table(model).exp().detach()
        total = 0
        for i, j in pairs:
            loss, _ = made.loss(module.PairBatch(completions_of([EVERY[i], EVERY[j]]), reference[[i, j]]))
            total = total + p[i] * p[j] * torch.sigmoid((WORTH[i] - WORTH[j]) / noise) * loss
        return torch.autograd.grad(total, [model.logits])[0]

    weight = of_table(made.reference).exp().detach() * (WORTH / (noise * beta)).exp()
    optimum = weight / weight.sum()
    # Its table: the first token, then the second one after each that does not end.
    first = [optimum[1:4].sum(), optimum[0], optimum[4:].sum()]
    rows = [first, (optimum[1:4] / first[0]).tolist(), [1 / 3] * 3, (optimum[4:] / first[2]).tolist()]
    best = Table([[float(x) for x in row] for row in rows])
    torch.testing.assert_close(of_table(best).exp(), optimum, rtol=1e-12, atol=1e-12)
    assert pull(best).abs().max() < 1e-12
    assert pull(Table(POLICY)).abs().max() > 1e-3


# --- iterative PPO -------------------------------------------------------------------------------------


def slow_reward(model, prompt, said):
    """A reward before it is centred: the sum, or the last, of the numbers of the completion's tokens."""
    numbers = model(torch.tensor([prompt + said]))[0, len(prompt) :]
    return numbers.sum() if model.pooling == "sum" else numbers[-1]


@pytest.mark.parametrize(
    ("pooling", "settings"),
    [
        ("last", {"temperatures": (0.7, 1.6)}),
        ("sum", {"noise": 0.0, "reward_model_lr": 1e-3}),
    ],
    ids=str,
)
def test_a_lesson_is_that_of_loops(pooling, settings):
    """The reward model after its first two lessons, and its metrics."""
    given = {"reward": LearnedReward(reward_model(pooling=pooling)), "reward_model_epochs": 2} | settings
    made, twin = iterative(**given), iterative(**given)
    mine = reward_model(pooling=pooling)
    before = [weights_of(x) for x in (made.model, made.critic, made.reference)]
    old = []
    for number in (0, 4):
        # What the policy says now, by the same numbers.
        twin.generator.set_state(made.generator.get_state())
        rows = torch.randint(4, (7,), generator=twin.generator)
        prompts = WORLD.prompt_tokens()[0][rows]
        sides = [
            generate(made.model, prompts, None, 10, temperature=t, generator=twin.generator)
            for t in made.settings.temperatures
        ]
        seed = stream(3, f"preferences {number}")
        pairs = WORLD.prefer(*sides, noise=made.settings.noise, seed=seed)
        new = list(zip(rows_of(pairs.chosen), rows_of(pairs.rejected), strict=True))

        def guessed(new=new):
            gaps = [(slow_reward(mine, *won) - slow_reward(mine, *lost)).item() for won, lost in new]
            return sum(0.5 if gap == 0 else gap > 0 for gap in gaps) / len(gaps)

        accuracy = guessed()
        learned = old + new
        optimizer = torch.optim.AdamW(mine.parameters(), lr=made.settings.reward_model_lr, weight_decay=0.0)
        batches = Batches(len(learned), 3, stream(3, f"lesson {number}"))
        for k in range(2 * math.ceil(len(learned) / 3)):
            losses = []
            for i in batches.rows(k).tolist():
                won, lost = learned[i]
                losses.append(torch.log1p((slow_reward(mine, *lost) - slow_reward(mine, *won)).exp()))
            optimizer.zero_grad()
            (sum(losses) / len(losses)).backward()
            nn.utils.clip_grad_norm_(mine.parameters(), 1.0)
            optimizer.step()
        with torch.no_grad():
            rewards = [float(slow_reward(mine, *one)) for pair in learned for one in pair]
            mine.zero.fill_(sum(rewards) / len(rewards))

        row = made.refresh(number)
        assert row["fresh_accuracy"] == pytest.approx(accuracy)
        assert row["fresh_accuracy_after"] == pytest.approx(guessed())
        assert row["preferences"] == len(learned)
        assert row["tokens"] == sum(len(said) for pair in new for _, said in pair)
        for name, x in made.reward_model.state_dict().items():
            torch.testing.assert_close(x, mine.state_dict()[name], rtol=1e-6, atol=1e-8)
        assert not any(p.requires_grad for p in made.reward_model.parameters())
        old += new
    for part, was in zip((made.model, made.critic, made.reference), before, strict=True):
        assert same(was, part.state_dict())


def test_lessons_come_before_the_updates_that_they_are_for():
    made = iterative(refresh_every=3)
    seen, score = [weights_of(made.reward_model)], made.score

    def noted(completions, columns):
        seen.append(weights_of(made.reward_model))
        return score(completions, columns)

    made.score = noted
    rows = [made.step(k) for k in range(5)]
    assert ["fresh_accuracy" in row for row in rows] == [True, False, False, True, False]
    assert [same(a, b) for a, b in itertools.pairwise(seen)] == [False, True, True, False, True]


# --- a sampler that lags -------------------------------------------------------------------------------


def test_the_sampler_is_the_policy_of_some_updates_ago():
    for lag in (0, 1, 3):
        made = lagged(lag=lag)
        begun, sampled = [], []
        sample = made.sample

        def noted(prompts, made=made, sample=sample, sampled=sampled):
            before = made.generator.get_state()
            found = sample(prompts)
            again = generate(
                made.sampler, prompts.tokens, prompts.mask, 10, generator=made.generator.set_state(before)
            )
            assert torch.equal(found.tokens, again.tokens)
            assert torch.equal(found.logp, again.logp)
            sampled.append(weights_of(made.sampler))
            return found

        made.sample = noted
        for k in range(6):
            begun.append(weights_of(made.model))
            made.step(k)
        assert not same(begun[0], begun[1])
        for k in range(6):
            assert same(sampled[k], begun[max(0, k - lag)])
        assert not any(p.requires_grad for p in made.sampler.parameters())


def test_what_ratios_are_to():
    """Old log-probabilities, advantages and the KL of the lag, one row and one token at a time."""
    found, temperature = {}, 0.8
    modes = {
        "ratio": {},
        "none": {"corrected": False},
        "weight": {"corrected": False, "max_weight": 1.02},
    }
    for mode, settings in modes.items():
        made = lagged(lag=2, temperature=temperature, **settings)
        rough(made.model, seed=20, scale=0.05)
        found[mode] = made, *made.make_experience(0)
    made, experience, row = found["ratio"]
    c = experience.completions
    late, now = (
        [slow_log_probs(model, *one, temperature) for one in rows_of(c)]
        for model in (made.sampler, made.model)
    )

    def flat(rows):
        return torch.stack([x for row in rows for x in row]).detach()

    late, now = flat(late), flat(now)
    assert (late - now).abs().max() > 0.05
    log_ratio = now - late
    kl = (log_ratio.exp() - 1 - log_ratio).mean().item()
    weight = log_ratio.exp().clamp(max=1.02)
    assert 0.1 < (weight < 1.02).float().mean().item() < 0.9
    close = {"rtol": 1e-9, "atol": 1e-9}
    for mode, (_, other, row) in found.items():
        assert torch.equal(other.completions.tokens, c.tokens)
        old = other.completions.logp[c.mask]
        torch.testing.assert_close(old, late if mode == "ratio" else now, **close)
        plain = experience.advantages[c.mask]
        torch.testing.assert_close(
            other.advantages[c.mask], plain * weight if mode == "weight" else plain, **close
        )
        assert not other.completions.logp[~c.mask].any()
        assert row["lag_kl"] == pytest.approx(kl, rel=1e-9)
        # The metrics of the samples are those of the policy that drew them.
        with torch.no_grad():
            ref = flat([slow_log_probs(made.reference, *one, temperature) for one in rows_of(c)])
        assert row["kl_reference"] == pytest.approx((late - ref).sum().item() / len(c), rel=1e-9)
