"""Every loss of the book, as a pure function of tensors.

Losses are minimised, so each is minus the objective that it stands for. All of them share the arguments that
say which entries count and how they are averaged: `mask`, `reduction`, `denominator`. Tensors of different
dtypes are promoted as torch promotes them: bfloat16 beside float32 is computed in float32.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ppobook import validation
from ppobook.diagnostics import clip_range, ratio_means
from ppobook.reductions import Reduction, aligned, checked, promoted, reduce


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
        sequence weighs no more than a short one. "constant": the sum divided by `denominator`.
    denominator : float above 0
        For reduction="constant" only.

    Returns
    -------
    tensor, scalar, in the promoted dtype of the tensors

    Raises
    ------
    ValueError, TypeError
        Shapes that differ, a value that is not finite, a mask that is not 0/1 or is 0 everywhere, a sequence
        without a token under "sequence", an unknown reduction, a denominator missing or out of place.

    References
    ----------
    Williams 1992, "Simple statistical gradient-following algorithms for connectionist reinforcement
    learning", theorem 1. Sutton et al. 2000, "Policy gradient methods for reinforcement learning with
    function approximation", theorem 1.
    """
    keep, (logp, advantages) = checked(mask, logp=logp, advantages=advantages)
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
    keep, (x,) = checked(mask, x=x)
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

        r_t(θ) = π_θ(a_t | s_t) / π_old(a_t | s_t) = exp(log π_θ − log π_old)
        L(θ) = − mean of r_t(θ) Â_t

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
    tensor, scalar, in the promoted dtype of the tensors

    Raises
    ------
    ValueError, TypeError
        As `policy_gradient_loss`.

    References
    ----------
    Schulman et al. 2017, "Proximal policy optimization algorithms", equation 6, which names it L^CPI after
    Kakade and Langford 2002, "Approximately optimal approximate reinforcement learning".
    """
    keep, (logp, old_logp, advantages) = checked(mask, logp=logp, old_logp=old_logp, advantages=advantages)
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

        L(θ) = − mean of min( r_t Â_t, clip(r_t, 1 − ε, 1 + ε) Â_t ),   r_t = exp(log π_θ − log π_old)

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
    tensor, scalar, in the promoted dtype of the tensors

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
    keep, (logp, old_logp, advantages) = checked(mask, logp=logp, old_logp=old_logp, advantages=advantages)
    ratio = _ratio_to_clip(logp - old_logp, advantages)
    clipped = ratio.clamp(low, high)
    return reduce(-torch.minimum(ratio * advantages, clipped * advantages), keep, reduction, denominator)


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

        L(θ) = − mean of ( r_t Â_t − β KL(π_old, π_θ)(s_t) ),   r_t = exp(log π_θ − log π_old)

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
    tensor, scalar, in the promoted dtype of the tensors

    Raises
    ------
    ValueError, TypeError
        As `policy_gradient_loss`; also a beta that is not a number of at least 0.

    References
    ----------
    Schulman et al. 2017, "Proximal policy optimization algorithms", equation 8; how beta adapts: section 4.
    """
    beta = validation.number("beta", beta, low=0)
    keep, (logp, old_logp, advantages, kl) = checked(
        mask, logp=logp, old_logp=old_logp, advantages=advantages, kl=_spread(kl, logp)
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

    TRL has this as importance_sampling_level "sequence" with loss_type "grpo". A sequence without a token
    adds 0 to its mean, and is refused here.

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
    tensor, scalar, in the promoted dtype of the tensors

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
    validation.last_axis("logp", validation.tensor("logp", logp), "the tokens of a sequence")
    keep, (logp, old_logp) = checked(mask, logp=logp, old_logp=old_logp)
    logp, old_logp, advantages = promoted(logp, old_logp, _one_a_sequence(advantages, logp, keep))
    # A sequence without a token has the ratio of an empty sum, 1, and counts nowhere.
    tokens = logp.shape[-1] if keep is None else keep.sum(dim=-1).clamp(min=1)
    ratio = _ratio_to_clip((logp - old_logp).sum(dim=-1) / tokens, advantages)
    gain = torch.minimum(ratio * advantages, ratio.clamp(low, high) * advantages)
    losses = -gain.unsqueeze(-1).expand(logp.shape)
    if keep is not None:
        losses = torch.where(keep, losses, 0.0)
    return reduce(losses, keep, reduction, denominator)


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

        L(θ) = − mean of sg[ clip(r_t, 1 − ε_low, 1 + ε_high) ] Â_t log π_θ(a_t | s_t),   sg: stop gradient

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
    tensor, scalar, in the promoted dtype of the tensors

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
    keep, (logp, old_logp, advantages) = checked(mask, logp=logp, old_logp=old_logp, advantages=advantages)
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

        L(φ) = ½ mean of (V_φ(s_t) − R_t)²
        L(φ) = ½ mean of max( (V − R)², (V_old + clip(V − V_old, −ε, ε) − R)² )      with clip_eps

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
    tensor, scalar, in the promoted dtype of the tensors

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
    tensors = {"values": values, "returns": returns} | _old_values("clip_eps", clip_eps, old_values)
    keep, (values, *frozen) = checked(mask, **tensors)
    return reduce(_value_errors(values, *frozen, clip_eps=clip_eps), keep, reduction, denominator)


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
    loss : tensor, scalar, in the promoted dtype of the tensors
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
    low, high = clip_range(clip_eps, clip_eps_high)
    value_coef = validation.number("value_coef", value_coef, low=0)
    entropy_coef = validation.number("entropy_coef", entropy_coef, low=0)
    tensors = {"logp": logp, "old_logp": old_logp, "advantages": advantages}
    tensors |= {"values": values, "returns": returns, "entropy": entropy}
    tensors |= _old_values("value_clip_eps", value_clip_eps, old_values)
    if (kl is None) != (beta is None):
        only = "beta" if kl is None else "kl"
        raise ValueError(f"kl and beta must both be given, or neither, got {only} only")
    if kl is not None:
        beta = validation.number("beta", beta, low=0)
        tensors["kl"] = _spread(kl, logp)
    keep, entries = aligned(mask, tensors)
    logp, old_logp, advantages, values, returns, entropy, *optional = entries

    log_ratio = logp - old_logp
    ratio = log_ratio.exp() if beta is not None else _ratio_to_clip(log_ratio, advantages)
    objective = ratio * advantages
    if beta is None:
        objective = torch.minimum(objective, ratio.clamp(low, high) * advantages)
    errors = _value_errors(values, returns, *optional[: value_clip_eps is not None], clip_eps=value_clip_eps)

    def mean(x: Tensor) -> Tensor:
        return reduce(x, keep, reduction, denominator)

    parts = {"policy_loss": mean(-objective), "value_loss": mean(errors), "entropy": mean(entropy)}
    if beta is not None:
        parts["kl"] = mean(optional[-1])
        parts["policy_loss"] = parts["policy_loss"] + beta * parts["kl"]
    loss = parts["policy_loss"] + value_coef * parts["value_loss"] - entropy_coef * parts["entropy"]

    diagnostics = {name: x.detach() for name, x in parts.items()}
    with torch.no_grad():
        diagnostics |= ratio_means(log_ratio, advantages, low, high, keep)
        if beta is not None:
            diagnostics["flat_fraction"] = torch.zeros_like(diagnostics["flat_fraction"])
        # An entry that is not finite makes one of these so, and one look at both costs less than a look at
        # each tensor. (The loss alone could hide a log-probability of −∞, whose ratio is 0.)
        if not math.isfinite((loss + diagnostics["approx_kl"]).item()):
            for name, x in zip(tensors, entries, strict=True):
                validation.finite(name, x)
    return loss, diagnostics


def _ratio_to_clip(log_ratio: Tensor, advantages: Tensor) -> Tensor:
    """exp(log_ratio), fit for a clip: where it overflows and there is nothing to gain, without a gradient.

    The clip silences an entry with Â ≥ 0 there, whose gradient would nevertheless be 0 · ∞. One with Â < 0 is
    worth −∞, and stays so.
    """
    ratio = log_ratio.exp()
    if math.isfinite(ratio.detach().max().item()):
        return ratio
    silenced = torch.isinf(ratio) & (advantages >= 0)
    ratio = log_ratio.masked_fill(silenced, 0.0).exp()
    return ratio.masked_fill(silenced, torch.finfo(ratio.dtype).max)


def _value_errors(
    values: Tensor, returns: Tensor, old_values: Tensor | None = None, *, clip_eps: float | None
) -> Tensor:
    """Half the squared error of each entry, or of the worse of value and clipped value."""
    errors = (values - returns) ** 2
    if old_values is not None and clip_eps is not None:
        clipped = old_values + (values - old_values).clamp(-clip_eps, clip_eps)
        errors = torch.maximum(errors, (clipped - returns) ** 2)
    return 0.5 * errors


def _old_values(name: str, clip_eps: float | None, old_values: Tensor | None) -> dict[str, Tensor]:
    """{"old_values": old_values} if there is a clip that reads it, else an empty dict."""
    if clip_eps is None:
        return {}
    validation.number(name, clip_eps, above=0)
    if old_values is None:
        raise ValueError(f"old_values must be given with {name}={clip_eps}, got None")
    return {"old_values": old_values}


def _spread(kl: Tensor, logp: Tensor) -> Tensor:
    """A kl that is a single number, expanded to the shape of logp; as such it promotes no tensor."""
    kl = validation.tensor("kl", kl)
    if kl.ndim or not validation.is_tensor(logp):
        return kl
    return kl.to(torch.result_type(kl, logp)).expand(logp.shape)


def _one_a_sequence(advantages: Tensor, logp: Tensor, keep: Tensor | None) -> Tensor:
    """The advantages of whole sequences, finite, 0 for those without a token."""
    advantages = validation.tensor("advantages", advantages).detach()
    validation.one_library(logp=logp, advantages=advantages)
    validation.shape("advantages", advantages, logp.shape[:-1], "one number a sequence of logp")
    if keep is not None:
        advantages = torch.where(keep.any(dim=-1), advantages, 0.0)
    validation.finite("advantages", advantages)
    return advantages
