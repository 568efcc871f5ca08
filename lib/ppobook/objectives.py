"""Every loss of the book, as a pure function of tensors.

Losses are minimised, so each is minus the objective that it stands for. All of them share the arguments that
say which entries count and how they are averaged: `mask`, `reduction`, `denominator`. Half precision is
computed in float32. Losses don't look at values: a NaN that counts comes out as a loss that is NaN.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ppobook import validation
from ppobook.diagnostics import ratios
from ppobook.reductions import Reduction, masked, reduce


def policy_gradient_loss(
    logp: Tensor,
    advantages: Tensor,
    *,
    mask: Tensor | None = None,
    reduction: Reduction = "token",
    denominator: float | None = None,
) -> Tensor:
    """The loss whose gradient is minus the policy gradient, estimated from samples.

        L(θ) = − mean of log π_θ(a_t | s_t) Â_t

    Only its gradient, at the policy that took the actions, means anything: the value of L does not measure
    how well the policy does, and may rise while the policy improves. `advantages` may be returns,
    rewards-to-go or advantages; they are numbers here and no gradient goes into them.

    Parameters
    ----------
    logp : tensor, shape (...)
        Log-probability, under the policy being trained, of the action taken.
    advantages : tensor, shape (...)
        The same shape as logp. Detached inside.
    mask : tensor, shape (...), bool or 0/1, optional
        Entries that count. What stands at the others is not read and may be anything.
    reduction : "token", "sequence" or "constant"
        "token": the sum over the entries that count, divided by their number. "sequence": the mean over
        sequences (all axes but the last) of each one's mean over its tokens (the last axis), so that a long
        sequence weighs no more than a short one; each must have a token, or the loss is NaN. "constant": the
        sum divided by `denominator`.
    denominator : float above 0
        For reduction="constant" only.

    Returns
    -------
    tensor, scalar, in at least float32

    Raises
    ------
    ValueError, TypeError
        Shapes that differ, an unknown reduction, a denominator missing or out of place.

    References
    ----------
    Williams 1992, "Simple statistical gradient-following algorithms for connectionist reinforcement
    learning", theorem 1. Sutton et al. 2000, "Policy gradient methods for reinforcement learning with
    function approximation", theorem 1.
    """
    keep, (logp, advantages) = masked(mask, logp=logp, advantages=advantages)
    return reduce(-logp * advantages, keep, reduction, denominator)


def masked_mean(
    x: Tensor,
    *,
    mask: Tensor | None = None,
    reduction: Reduction = "token",
    denominator: float | None = None,
) -> Tensor:
    """The mean of any numbers under the mask and reduction that all losses here share.

    Parameters
    ----------
    x : tensor, shape (...)
        One number an entry; with its gradient.
    mask, reduction, denominator
        As for `policy_gradient_loss`.

    Returns
    -------
    tensor, scalar, in the dtype of x

    Raises
    ------
    ValueError, TypeError
        As `policy_gradient_loss`.
    """
    keep, (x,) = masked(mask, x=x)
    return reduce(x, keep, reduction, denominator)


def surrogate_loss(
    logp: Tensor,
    old_logp: Tensor,
    advantages: Tensor,
    *,
    mask: Tensor | None = None,
    reduction: Reduction = "token",
    denominator: float | None = None,
) -> Tensor:
    """Minus what the new policy would have gained on the old one's samples, to first order.

        ρ_t(θ) = π_θ(a_t | s_t) / π_old(a_t | s_t) = exp(log π_θ − log π_old)
        L(θ) = − mean of ρ_t(θ) Â_t

    The ratio puts right that the *actions* were the old policy's; states and advantages stay the old one's.
    At θ = θ_old the gradient is that of `policy_gradient_loss`; far from there L promises what no policy can
    keep.

    Parameters
    ----------
    logp : tensor, shape (...)
        Log-probability, under the policy being trained, of the action taken.
    old_logp, advantages : tensors, the shape of logp
        Log-probability of the same action when it was taken, and its advantage then. Detached inside.
    mask, reduction, denominator
        As for `policy_gradient_loss`.

    Returns
    -------
    tensor, scalar, in at least float32

    Raises
    ------
    ValueError, TypeError
        As `policy_gradient_loss`.

    References
    ----------
    Schulman et al. 2017, "Proximal policy optimization algorithms", equation 6, which names it L^CPI after
    Kakade and Langford 2002, "Approximately optimal approximate reinforcement learning".
    """
    keep, (logp, old_logp, advantages) = masked(mask, logp=logp, old_logp=old_logp, advantages=advantages)
    ratio = (logp - old_logp).exp()
    return reduce(-ratio * advantages, keep, reduction, denominator)


def clipped_surrogate_loss(
    logp: Tensor,
    old_logp: Tensor,
    advantages: Tensor,
    clip_eps: float = 0.2,
    *,
    clip_eps_high: float | None = None,
    mask: Tensor | None = None,
    reduction: Reduction = "token",
    denominator: float | None = None,
) -> Tensor:
    """PPO's loss: the surrogate, with nothing to gain from a ratio further than ε from 1.

        L(θ) = − mean of min( ρ_t Â_t, clip(ρ_t, 1 − ε, 1 + ε) Â_t ),   ρ_t = exp(log π_θ − log π_old)

    A good action (Â > 0) has no gradient once r > 1 + ε, a bad one none once r < 1 − ε. On the other side of
    1 a sample is not clipped: what has moved the wrong way is pulled back with its full weight. The minimum
    makes the objective a lower bound of the unclipped one, for either sign. The clip takes the incentive
    away; it does not hold the ratio inside, since the other samples go on moving the same weights.

    Parameters
    ----------
    logp, old_logp, advantages
        As for `surrogate_loss`.
    clip_eps : float above 0
        ε. From 1 upwards no bad action is ever clipped, as a ratio can't be negative.
    clip_eps_high : float above 0, optional
        An ε of its own for 1 + ε; left out, the same.
    mask, reduction, denominator
        As for `policy_gradient_loss`.

    Returns
    -------
    tensor, scalar, in at least float32

    Raises
    ------
    ValueError, TypeError
        As `policy_gradient_loss`; also a clip_eps or clip_eps_high that is not a number above 0.

    References
    ----------
    Schulman et al. 2017, "Proximal policy optimization algorithms", equation 7. The wider upper bound: Yu et
    al. 2025, "DAPO: an open-source LLM reinforcement learning system at scale", section 3.1.
    """
    low, high = clip_range(clip_eps, clip_eps_high)
    keep, (logp, old_logp, advantages) = masked(mask, logp=logp, old_logp=old_logp, advantages=advantages)
    ratio = without_overflow(logp - old_logp, advantages).exp()
    clipped = ratio.clamp(low, high)
    return reduce(-torch.minimum(ratio * advantages, clipped * advantages), keep, reduction, denominator)


def clip_range(clip_eps: float, clip_eps_high: float | None) -> tuple[float, float]:
    """The clip range of the ratio: 1 − clip_eps, and 1 + clip_eps_high (left out, 1 + clip_eps)."""
    clip_eps = validation.number("clip_eps", clip_eps, above=0)
    if clip_eps_high is None:
        return 1 - clip_eps, 1 + clip_eps
    return 1 - clip_eps, 1 + validation.number("clip_eps_high", clip_eps_high, above=0)


def kl_penalized_loss(
    logp: Tensor,
    old_logp: Tensor,
    advantages: Tensor,
    kl: Tensor,
    beta: float,
    *,
    mask: Tensor | None = None,
    reduction: Reduction = "token",
    denominator: float | None = None,
) -> Tensor:
    """The surrogate with a price on distance in place of a clip.

        L(θ) = − mean of ( ρ_t Â_t − β KL(π_old, π_θ)(s_t) ),   ρ_t = exp(log π_θ − log π_old)

    Parameters
    ----------
    logp, old_logp, advantages
        As for `surrogate_loss`.
    kl : tensor, the shape of logp or a single number
        KL(π_old, π_θ) in each state, exact and with its gradient (`ppobook.divergences`). A single number
        stands for every entry.
    beta : float of at least 0
        Fixed, or halved and doubled from update to update around a target KL.
    mask, reduction, denominator
        As for `policy_gradient_loss`.

    Returns
    -------
    tensor, scalar, in at least float32

    Raises
    ------
    ValueError, TypeError
        As `policy_gradient_loss`; also a beta that is not a number of at least 0.

    References
    ----------
    Schulman et al. 2017, "Proximal policy optimization algorithms", equation 8; how beta adapts: section 4.
    """
    beta = validation.number("beta", beta, low=0)
    keep, (logp, old_logp, advantages, kl) = masked(
        mask, logp=logp, old_logp=old_logp, advantages=advantages, kl=kl.expand(logp.shape)
    )
    ratio = (logp - old_logp).exp()
    return reduce(-(ratio * advantages - beta * kl), keep, reduction, denominator)


def sequence_surrogate_loss(
    logp: Tensor,
    old_logp: Tensor,
    advantages: Tensor,
    clip_eps: float,
    clip_eps_high: float | None = None,
    *,
    mask: Tensor | None = None,
    reduction: Reduction = "sequence",
    denominator: float | None = None,
) -> Tensor:
    """GSPO's loss: the clipped surrogate with one ratio a sequence, since there is one reward a sequence.

        s(θ) = (π_θ(y | x) / π_old(y | x))^(1/|y|) = exp( mean over the tokens of log π_θ − log π_old )
        L(θ) = − mean over sequences of min( s Â, clip(s, 1 − ε, 1 + ε) Â )

    s is the geometric mean of the tokens' ratios. All tokens of a sequence share its gradient, s Â / |y|
    each, and are clipped together or not at all. A mean moves far less than a single token, so ε is small:
    the paper has 3e-4 below and 4e-4 above. bfloat16 can't tell such a box from 1.

    TRL has this as importance_sampling_level "sequence" with loss_type "grpo".

    Parameters
    ----------
    logp : tensor, shape (..., T)
        Log-probability, under the policy being trained, of each token.
    old_logp : tensor, the shape of logp
        Log-probability of the same token when it was sampled. Detached inside.
    advantages : tensor, shape (...)
        One number a sequence. Detached inside. Not read for a sequence without a token.
    clip_eps, clip_eps_high
        As for `clipped_surrogate_loss`, for s.
    mask, reduction, denominator
        As for `policy_gradient_loss`, where each token that counts stands for its sequence's number:
        "sequence", the paper's, weighs all sequences alike; "token" and "constant" weigh each by its length.

    Returns
    -------
    tensor, scalar, in at least float32

    Raises
    ------
    ValueError, TypeError
        As `policy_gradient_loss`; also a clip_eps or clip_eps_high that is not a number above 0, advantages
        that are not one number a sequence.

    References
    ----------
    Zheng et al. 2025, "Group sequence policy optimization", equation 5, with the ratio of equation 7.
    """
    low, high = clip_range(clip_eps, clip_eps_high)
    validation.shape("advantages", advantages, logp.shape[:-1], "one number a sequence of logp")
    advantages = advantages.unsqueeze(-1).expand(logp.shape)
    keep, (logp, old_logp, advantages) = masked(mask, logp=logp, old_logp=old_logp, advantages=advantages)
    # A sequence without a token has the ratio of an empty sum, 1, and counts nowhere.
    tokens = logp.shape[-1] if keep is None else keep.sum(dim=-1, keepdim=True).clamp(min=1)
    log_ratio = (logp - old_logp).sum(dim=-1, keepdim=True) / tokens
    ratio = without_overflow(log_ratio.expand(logp.shape), advantages).exp()
    clipped = ratio.clamp(low, high)
    return reduce(-torch.minimum(ratio * advantages, clipped * advantages), keep, reduction, denominator)


def cispo_loss(
    logp: Tensor,
    old_logp: Tensor,
    advantages: Tensor,
    clip_eps_high: float,
    clip_eps_low: float | None = None,
    *,
    mask: Tensor | None = None,
    reduction: Reduction = "token",
    denominator: float | None = None,
) -> Tensor:
    """CISPO's loss: the policy gradient, weighted by a ratio that is clipped and takes no gradient itself.

        L(θ) = − mean of sg[ clip(ρ_t, 1 − ε_low, 1 + ε_high) ] Â_t log π_θ(a_t | s_t),   sg: stop gradient

    PPO's clip silences a sample; this one bounds its weight, and every sample goes on pulling. Between the
    bounds the gradient is that of `surrogate_loss`, at θ = θ_old that of `policy_gradient_loss`. As there,
    only the gradient of L means anything, not its value.

    TRL's epsilon_high is the bound itself, and this clip_eps_high is its distance from 1: 5.0 there is 4.0
    here. TRL has no lower bound.

    Parameters
    ----------
    logp, old_logp, advantages
        As for `surrogate_loss`.
    clip_eps_high : float above 0
        ε_high.
    clip_eps_low : float above 0, optional
        ε_low. Left out, there is no lower bound, as in the paper's experiments.
    mask, reduction, denominator
        As for `policy_gradient_loss`. The paper's mean is "token".

    Returns
    -------
    tensor, scalar, in at least float32

    Raises
    ------
    ValueError, TypeError
        As `policy_gradient_loss`; also a clip_eps_high or clip_eps_low that is not a number above 0.

    References
    ----------
    MiniMax 2025, "MiniMax-M1: scaling test-time compute efficiently with lightning attention", equations 4
    and 5.
    """
    high = 1 + validation.number("clip_eps_high", clip_eps_high, above=0)
    low = None if clip_eps_low is None else 1 - validation.number("clip_eps_low", clip_eps_low, above=0)
    keep, (logp, old_logp, advantages) = masked(mask, logp=logp, old_logp=old_logp, advantages=advantages)
    weight = (logp.detach() - old_logp).exp().clamp(low, high)
    return reduce(-weight * advantages * logp, keep, reduction, denominator)


def value_loss(
    values: Tensor,
    returns: Tensor,
    old_values: Tensor | None = None,
    clip_eps: float | None = None,
    *,
    mask: Tensor | None = None,
    reduction: Reduction = "token",
    denominator: float | None = None,
) -> Tensor:
    """Half the squared error of the critic.

        L(φ) = ½ mean of (V_φ(s_t) − V^targ_t)²
        L(φ) = ½ mean of max( (V − V^targ)², (clip(V, V_old − ε_v, V_old + ε_v) − V^targ)² )    with clip_eps

    With a clip, a value that has moved by more than ε from what it was has nothing to gain from moving on.
    The larger of the two errors counts, so that, as with the policy, moving the wrong way is never excused.

    Stable-Baselines3 leaves the half out: its vf_coef of 0.5 is a weight of 1 here.

    Parameters
    ----------
    values : tensor, shape (...)
        V of the critic being trained.
    returns : tensor, the shape of values
        Targets of the critic. Detached inside.
    old_values : tensor, the shape of values, optional
        V when the rollout was made. Detached inside. Read only where clip_eps is given.
    clip_eps : float above 0, optional
        In units of the return, which has a scale of its own: the policy's ε is no guide to it.
    mask, reduction, denominator
        As for `policy_gradient_loss`.

    Returns
    -------
    tensor, scalar, in at least float32

    Raises
    ------
    ValueError, TypeError
        As `policy_gradient_loss`; also a clip_eps that is not a number above 0, or one without old_values.

    References
    ----------
    Schulman et al. 2017, "Proximal policy optimization algorithms", L^VF of equation 9, there without the
    half. The clip is of the code published with it: Engstrom et al. 2020, "Implementation matters in deep
    RL: a case study on PPO and TRPO", section 3.
    """
    if clip_eps is None:
        keep, (values, returns) = masked(mask, values=values, returns=returns)
        return reduce(0.5 * (values - returns) ** 2, keep, reduction, denominator)
    clip_eps = validation.number("clip_eps", clip_eps, above=0)
    if old_values is None:
        raise ValueError("old_values must be given with clip_eps, got None")
    keep, (values, returns, old_values) = masked(mask, values=values, returns=returns, old_values=old_values)
    clipped = old_values + (values - old_values).clamp(-clip_eps, clip_eps)
    errors = torch.maximum((values - returns) ** 2, (clipped - returns) ** 2)
    return reduce(0.5 * errors, keep, reduction, denominator)


def ppo_loss(
    logp: Tensor,
    old_logp: Tensor,
    advantages: Tensor,
    values: Tensor,
    returns: Tensor,
    entropy: Tensor,
    *,
    clip_eps: float,
    value_coef: float,
    entropy_coef: float,
    clip_eps_high: float | None = None,
    old_values: Tensor | None = None,
    value_clip_eps: float | None = None,
    kl: Tensor | None = None,
    beta: float | None = None,
    mask: Tensor | None = None,
    reduction: Reduction = "token",
    denominator: float | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """PPO's whole loss: policy, critic, and minus the entropy.

        L = L_policy + c_v L_value − c_e H

    L_policy is `clipped_surrogate_loss`, or with `beta` `kl_penalized_loss`; L_value is `value_loss`; H is
    the mean entropy, so a larger c_e keeps the policy more random.

    Parameters
    ----------
    logp, old_logp, advantages, clip_eps, clip_eps_high
        As for `clipped_surrogate_loss`.
    values, returns, old_values, value_clip_eps
        As for `value_loss`, in the shape of logp.
    entropy : tensor, the shape of logp
        Of the policy in each state. That of a Gaussian may be negative.
    value_coef, entropy_coef : float of at least 0
        c_v and c_e.
    kl, beta : optional, both or none
        As for `kl_penalized_loss`, which then replaces the clip. clip_eps still says what clip_fraction
        counts.
    mask, reduction, denominator
        As for `policy_gradient_loss`, for all three parts.

    Returns
    -------
    loss : tensor, scalar, in at least float32
    diagnostics : dict of detached scalar tensors
        policy_loss, value_loss, entropy: the parts of the loss, without their weights; with beta also kl,
        under the same reduction. Then, as plain means over the entries that count
        (`ppobook.diagnostics.ratios`): clip_fraction, flat_fraction (0 with beta: without a clip no sample is
        flat), approx_kl, ratio_mean, ratio_std.

    Raises
    ------
    ValueError, TypeError
        As the losses it is made of; also kl without beta or beta without kl.

    References
    ----------
    Schulman et al. 2017, "Proximal policy optimization algorithms", equation 9.
    """
    how: dict[str, Any] = {"mask": mask, "reduction": reduction, "denominator": denominator}
    if (kl is None) != (beta is None):
        raise ValueError("kl and beta must both be given, or neither")
    if kl is None or beta is None:
        policy = clipped_surrogate_loss(
            logp, old_logp, advantages, clip_eps, clip_eps_high=clip_eps_high, **how
        )
    else:
        policy = kl_penalized_loss(logp, old_logp, advantages, kl, beta, **how)
    value = value_loss(values, returns, old_values, value_clip_eps, **how)
    mean_entropy = masked_mean(entropy, **how)
    loss = policy + value_coef * value
    if entropy_coef != 0:  # without a bonus there is nothing to differentiate
        loss = loss - entropy_coef * mean_entropy

    with torch.no_grad():
        diagnostics = {"policy_loss": policy.detach(), "value_loss": value.detach()}
        diagnostics["entropy"] = mean_entropy.detach()
        diagnostics |= ratios(logp - old_logp, advantages, clip_eps, clip_eps_high=clip_eps_high, mask=mask)
        if kl is not None:
            diagnostics["kl"] = masked_mean(kl.expand(logp.shape), **how)
            diagnostics["flat_fraction"] = torch.zeros_like(diagnostics["flat_fraction"])
    return loss, diagnostics


def without_overflow(log_ratio: Tensor, advantages: Tensor) -> Tensor:
    """The log-ratio, stopped where Â ≥ 0 just before its exponential would overflow.

    That is far above any clip range, where a sample with Â ≥ 0 is silent: but its gradient of 0 times a ratio
    of ∞ would be NaN. A ratio of ∞ with Â < 0 has a loss of ∞, and keeps it.
    """
    most = math.log(torch.finfo(log_ratio.dtype).max) - 1
    return log_ratio.masked_fill((log_ratio > most) & (advantages >= 0), most)
