"""Each place that computes a formula agrees with its slow definition, at extremes too.

`PLACES` lists the places, formula by formula. Add a row where a class or a function computes one of them: a
function of logp, old_logp, advantages and mask, all [B, T], that returns the loss (a mean over the entries
that count) and its gradient with respect to logp. `by_autograd` makes one of a loss. `FUNCTIONS` does the
same for formulas of a single number.

Definitions are in float64, entry by entry, with the slope beside the value. A float32 that overflows may be
infinite, with the right sign; it is never NaN.
"""

import itertools
import math
from types import SimpleNamespace

import pytest
import torch

from ppobook.diagnostics import normalize, ratios
from ppobook.divergences import k1, k2, k3
from ppobook.language.dpo import DPO
from ppobook.language.grpo import GRPO
from ppobook.language.online import LaggedGRPO, OnlineDPO
from ppobook.language.ppo import PPO
from ppobook.objectives import (
    cispo_loss,
    clipped_surrogate_loss,
    kl_penalized_loss,
    masked_mean,
    policy_gradient_loss,
    ppo_loss,
    sequence_surrogate_loss,
    surrogate_loss,
    value_loss,
)
from ppobook.preferences import bradley_terry_loss, dpo_loss, ipo_loss, kto_loss, simpo_loss

LOW, HIGH = 0.8, 1.3
CLIP = {"clip_eps": 1 - LOW, "clip_eps_high": HIGH - 1}
KL, BETA = 0.25, 0.5

# --- slow definitions: value and slope by logp, of one entry --------------------------------------------


def slow_policy_gradient(logp, old_logp, advantage):
    return -logp * advantage, -advantage


def slow_surrogate(logp, old_logp, advantage):
    ratio = math.exp(logp - old_logp)
    return -ratio * advantage, -ratio * advantage


def slow_clip(logp, old_logp, advantage):
    ratio = math.exp(logp - old_logp)
    if advantage > 0 and ratio > HIGH:
        return -HIGH * advantage, 0.0
    if advantage < 0 and ratio < LOW:
        return -LOW * advantage, 0.0
    return -ratio * advantage, -ratio * advantage


def slow_kl_penalty(logp, old_logp, advantage):
    loss, slope = slow_surrogate(logp, old_logp, advantage)
    return loss + BETA * KL, slope


def slow_cispo(logp, old_logp, advantage):
    weight = min(max(math.exp(logp - old_logp), LOW), HIGH)
    return -weight * advantage * logp, -weight * advantage


# --- the places -----------------------------------------------------------------------------------------


def by_autograd(loss):
    """A place whose gradient is autograd's."""

    def place(logp, old_logp, advantages, mask):
        logp = logp.clone().requires_grad_()
        found = loss(logp, old_logp, advantages, mask)
        return found.detach(), torch.autograd.grad(found, logp)[0]

    return place


def whole_ppo(logp, old_logp, advantages, mask, **penalty):
    """`ppo_loss` without critic and entropy."""
    zero = torch.zeros_like(logp)
    loss, _ = ppo_loss(
        *(logp, old_logp, advantages, zero, zero, zero),
        **CLIP,
        value_coef=0,
        entropy_coef=0,
        mask=mask,
        **penalty,
    )
    return loss


def one_token_each(logp, old_logp, advantages, mask):
    """GSPO on sequences of one token is PPO."""
    columns = (x.reshape(-1, 1) for x in (logp, old_logp))
    return sequence_surrogate_loss(
        *columns, advantages.flatten(), **CLIP, mask=mask.reshape(-1, 1), reduction="token"
    )


def stage_loss(kind, settings):
    """The loss of a stage of language models, without its networks: they are never read."""
    stage = object.__new__(kind)
    stage.settings = kind.settings_class(**CLIP, reduction="token", kl_coef=0.0, **settings)
    stage.max_new_tokens = 8
    stage.kl_coef = SimpleNamespace(value=0.0)

    def loss(logp, old_logp, advantages, mask):
        zero = torch.zeros_like(logp)
        batch = SimpleNamespace(
            completions=SimpleNamespace(logp=old_logp, mask=mask),
            advantages=advantages,
            ref_logp=zero,
            values=zero,
            returns=zero,
        )
        found, metrics = stage.loss(batch, {"logp": logp, "entropy": zero, "values": zero})
        assert torch.equal(metrics["policy_loss"].detach(), found.detach())
        return found

    return by_autograd(loss)


KL_OF_ALL = torch.tensor(KL)
PLACES = {
    slow_policy_gradient: {
        "policy_gradient_loss": by_autograd(lambda x, old, a, mask: policy_gradient_loss(x, a, mask=mask)),
    },
    slow_surrogate: {
        "surrogate_loss": by_autograd(lambda x, old, a, mask: surrogate_loss(x, old, a, mask=mask)),
    },
    slow_clip: {
        "clipped_surrogate_loss": by_autograd(
            lambda x, old, a, mask: clipped_surrogate_loss(x, old, a, **CLIP, mask=mask)
        ),
        "ppo_loss": by_autograd(whole_ppo),
        "sequence_surrogate_loss": by_autograd(one_token_each),
        "GRPO.loss": stage_loss(GRPO, {}),
        "PPO.loss on tokens": stage_loss(PPO, {}),
        "LaggedGRPO.loss": stage_loss(LaggedGRPO, {}),
    },
    slow_kl_penalty: {
        "kl_penalized_loss": by_autograd(
            lambda x, old, a, mask: kl_penalized_loss(x, old, a, KL_OF_ALL, BETA, mask=mask)
        ),
        "ppo_loss": by_autograd(lambda *x: whole_ppo(*x, kl=KL_OF_ALL, beta=BETA)),
    },
    slow_cispo: {
        "cispo_loss": by_autograd(
            lambda x, old, a, mask: cispo_loss(x, old, a, CLIP["clip_eps_high"], CLIP["clip_eps"], mask=mask)
        ),
        "GRPO.loss": stage_loss(GRPO, {"surrogate": "cispo"}),
    },
}

# --- the cases ------------------------------------------------------------------------------------------

RATIOS = {"ratios near 1": 0.125, "ratios past the clip": 0.5, "ratio e^100": 100.0, "ratio e^-100": -100.0}
ADVANTAGES = [1.0, -1.0, 1e-8, -1e-8, 1e6, -1e6, 0.0]
SHAPES = {"one token": (1, 1), "one sample": (1, 5), "one token each": (4, 1), "a batch": (3, 5)}
MASKS = ["all", "some", "a single entry"]
DTYPES = [torch.float64, torch.float32, torch.bfloat16]


def entries(log_ratio, advantage, shape, mask, dtype):
    """logp, old_logp, advantages and mask; NaN where the mask is False."""
    generator = torch.Generator().manual_seed(0)
    old_logp = -torch.rand(shape, generator=generator, dtype=torch.float64) - 0.25
    logp = old_logp + log_ratio * (1 - 0.25 * torch.rand(shape, generator=generator, dtype=torch.float64))
    advantages = advantage * (1 + torch.rand(shape, generator=generator, dtype=torch.float64))
    keep = torch.ones(shape, dtype=torch.bool)
    if mask == "some":
        keep.flatten()[1::2] = False
    elif mask == "a single entry":
        keep[...] = False
        keep[-1, -1] = True
    return [torch.where(keep, x, torch.nan).to(dtype) for x in (logp, old_logp, advantages)], keep


def agree(found, wanted, dtype):
    """Equal but for rounding; beyond the range of float32, infinite and of the same sign."""
    found, wanted = found.double(), torch.as_tensor(wanted, dtype=torch.float64)
    rtol = {torch.float64: 1e-9, torch.float32: 2e-5, torch.bfloat16: 1e-2}[dtype]
    close = torch.isclose(found, wanted, rtol=rtol, atol=1e-30)
    overflown = torch.isinf(found) & (wanted.abs() > 1e20) & (found.sign() == wanted.sign())
    assert (close | overflown).all(), (found, wanted)


places = [(slow, place) for slow, rows in PLACES.items() for place in rows]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda x: str(x).removeprefix("torch."))
@pytest.mark.parametrize("log_ratio", RATIOS.values(), ids=RATIOS)
@pytest.mark.parametrize(("slow", "place"), places, ids=lambda x: getattr(x, "__name__", x))
def test_each_place_agrees_with_the_definition(slow, place, log_ratio, dtype):
    for advantage, shape, mask in itertools.product(ADVANTAGES, SHAPES.values(), MASKS):
        if advantage == 0 and log_ratio == 100 and slow is not slow_clip:
            continue  # 0 · ∞: only the clip has a value there in float32
        given, keep = entries(log_ratio, advantage, shape, mask, dtype)
        if slow is slow_cispo and dtype == torch.bfloat16:
            given[0] = given[0].clamp(-64, 64)
        loss, gradient = PLACES[slow][place](*given, keep)
        wanted = [slow(*row) for row in zip(*(x[keep].double().tolist() for x in given), strict=True)]
        losses, slopes = (
            torch.tensor(x, dtype=torch.float64) / len(wanted) for x in zip(*wanted, strict=True)
        )
        agree(loss, losses.sum(), dtype)
        agree(gradient[keep], slopes, dtype)
        assert (gradient[~keep] == 0).all()


# --- formulas of one number -----------------------------------------------------------------------------


def sigmoid(x):
    return 1 / (1 + math.exp(-x)) if x > 0 else math.exp(x) / (1 + math.exp(x))


def softplus(x):
    return max(x, 0) + math.log1p(math.exp(-abs(x)))


def ones(x):
    return torch.ones_like(x)


def zeros(x):
    return torch.zeros_like(x)


def pair_loss(kind, **settings):
    """The loss of a stage that learns from pairs, of the log-probabilities of the chosen ones."""
    stage = object.__new__(kind)
    stage.settings = kind.settings_class(**settings)
    stage.beta = stage.settings.beta

    def loss(x):
        outputs = {"chosen": x, "rejected": zeros(x), "entropy": zeros(x)}
        ref_logp = torch.zeros(len(x), 2) if kind is DPO else torch.zeros(2 * len(x))
        batch = SimpleNamespace(ref_logp=ref_logp, completions=SimpleNamespace(mask=torch.ones(1)))
        return stage.loss(batch, outputs)[0]

    return loss


# name: the library's function, and the definition with its slope
FUNCTIONS = {
    "masked_mean": (masked_mean, lambda x: (x, 1.0)),
    "value_loss": (lambda x: value_loss(x, zeros(x)), lambda x: (x * x / 2, x)),
    "value_loss, clipped": (
        lambda x: value_loss(x, zeros(x), ones(x), 0.5),
        lambda x: max((x * x / 2, x), (min(max(x, 0.5), 1.5) ** 2 / 2, 0.0)),
    ),
    "entropy of ppo_loss": (
        lambda x: ppo_loss(*[zeros(x)] * 5, x, clip_eps=0.2, value_coef=1, entropy_coef=2)[0],
        lambda x: (-2 * x, -2.0),
    ),
    "k1": (lambda x: k1(x, zeros(x)).mean(), lambda x: (x, 1.0)),
    "k2": (lambda x: k2(x, zeros(x)).mean(), lambda x: (x * x / 2, x)),
    "k3": (lambda x: k3(x, zeros(x)).mean(), lambda x: (math.expm1(-x) + x, -math.expm1(-x))),
    "bradley_terry_loss": (
        lambda x: bradley_terry_loss(x, zeros(x)),
        lambda x: (softplus(-x), -sigmoid(-x)),
    ),
    "dpo_loss": (
        lambda x: dpo_loss(x, *[zeros(x)] * 3, 2.0)[0],
        lambda x: (softplus(-2 * x), -2 * sigmoid(-2 * x)),
    ),
    "DPO.loss": (
        pair_loss(DPO, loss="dpo", beta=2.0),
        lambda x: (softplus(-2 * x), -2 * sigmoid(-2 * x)),
    ),
    "DPO.loss of IPO": (pair_loss(DPO, loss="ipo", beta=0.5), lambda x: ((x - 1) ** 2, 2 * (x - 1))),
    "OnlineDPO.loss": (
        pair_loss(OnlineDPO, loss="dpo", beta=2.0),
        lambda x: (softplus(-2 * x), -2 * sigmoid(-2 * x)),
    ),
    "OnlineDPO.loss of IPO": (
        pair_loss(OnlineDPO, loss="ipo", beta=0.5),
        lambda x: ((x - 1) ** 2, 2 * (x - 1)),
    ),
    "ipo_loss": (lambda x: ipo_loss(x, *[zeros(x)] * 3, 0.5)[0], lambda x: ((x - 1) ** 2, 2 * (x - 1))),
    "simpo_loss": (
        lambda x: simpo_loss(x, zeros(x), 4 * ones(x), ones(x), 2.0, 0.5)[0],
        lambda x: (softplus(0.5 - x / 2), -sigmoid(0.5 - x / 2) / 2),
    ),
    "kto_loss": (
        lambda x: kto_loss(x, zeros(x), ones(x), 0.0, 1.0)[0],
        lambda x: (sigmoid(-x), -sigmoid(x) * sigmoid(-x)),
    ),
}


@pytest.mark.parametrize("dtype", DTYPES[:2], ids=lambda x: str(x).removeprefix("torch."))
@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_function_agrees_with_the_definition(name, dtype):
    function, slow = FUNCTIONS[name]
    near = {"rel": 1e-9 if dtype == torch.float64 else 2e-5, "abs": torch.finfo(dtype).eps}
    for numbers in ([100.0], [-100.0], [0.3, -0.6], [1e-8], [1e6], [3.0, -2.0, 0.0, 1e-4]):
        x = torch.tensor(numbers, dtype=dtype, requires_grad=True)
        values, slopes = zip(*map(slow, x.tolist()), strict=True)
        loss = function(x)
        (gradient,) = torch.autograd.grad(loss, x)
        if name == "k3" and numbers == [-100.0] and dtype == torch.float32:
            assert (loss, gradient) == (math.inf, -math.inf)  # r = e^100
            continue
        assert loss.item() == pytest.approx(math.fsum(values) / len(values), **near)
        assert gradient.tolist() == pytest.approx([y / len(slopes) for y in slopes], **near)


@pytest.mark.parametrize("dtype", DTYPES[:2], ids=lambda x: str(x).removeprefix("torch."))
@pytest.mark.parametrize("log_ratio", [100.0, -100.0, 0.125, 1e-4])
def test_statistics_of_the_ratio(log_ratio, dtype):
    for advantage, mask in itertools.product([1e-8, -1e6], MASKS):
        given, keep = entries(log_ratio, advantage, (3, 5), mask, dtype)
        found = ratios(given[0] - given[1], given[2], **CLIP, mask=keep)
        log_r = [float(x) for x in (given[0] - given[1])[keep]]
        r = [math.exp(x) for x in log_r]
        mean = math.fsum(r) / len(r)
        clipped = [x for x in r if not LOW <= x <= HIGH]
        wanted = {
            "clip_fraction": len(clipped) / len(r),
            "flat_fraction": sum(x > HIGH if advantage > 0 else x < LOW for x in clipped) / len(r),
            "approx_kl": math.fsum(math.expm1(x) - x for x in log_r) / len(r),
            "ratio_mean": mean,
            "ratio_std": math.sqrt(math.fsum((x - mean) ** 2 for x in r) / len(r)),
        }
        if max(r) > torch.finfo(dtype).max:
            for name in ("approx_kl", "ratio_mean", "ratio_std"):
                assert not math.isfinite(found[name])
                wanted.pop(name)
        for name, x in wanted.items():
            assert float(found[name]) == pytest.approx(
                x, rel=1e-9 if dtype == torch.float64 else 1e-3, abs=1e-7
            )


@pytest.mark.parametrize("dtype", DTYPES[:2], ids=lambda x: str(x).removeprefix("torch."))
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e6])
def test_normalized_advantages(scale, dtype):
    for shape, mask in itertools.product(SHAPES.values(), MASKS):
        (_, _, x), keep = entries(0.0, scale, shape, mask, dtype)
        found, kept = normalize(x, keep), x[keep].double()
        wanted = (kept - kept.mean()) / kept.std(correction=0) if len(kept) > 1 else torch.zeros(1)
        torch.testing.assert_close(found[keep].double(), wanted.double(), rtol=1e-4, atol=1e-4)
        assert (found[~keep] == 0).all()
