"""Losses on preferences: of two completions the one that was liked better, or one that was liked or not.

Pure functions of tensors, like `ppobook.objectives`. They know nothing of tokens: each completion comes as
one number, each pair as one entry of every tensor, and the loss is the mean over the entries. Half precision
is computed in float32. Shapes that differ and coefficients out of range raise ValueError or TypeError.

**The log-probability of a completion** is the *sum* over its tokens, given the prompt:

    log π(y | x) = Σ_t log π(y_t | x, y_<t)

The end-of-sequence token is one of them, where the completion has it; prompt and padding are not. A sum grows
with the length. Where a loss wants means, its docstring says so.

**The implicit reward** of a policy is what it would have been trained on, had it come from its reference by
reinforcement learning with a KL penalty β (up to a number that depends on the prompt only):

    r(x, y) = β [ log π_θ(y | x) − log π_ref(y | x) ]

**Diagnostics.** All but `bradley_terry_loss` also return a dict of detached scalars, means over the batch:

    chosen_reward, rejected_reward     implicit rewards of the two sides
    margin                             the one less the other
    accuracy                           share of pairs whose chosen side has the larger reward; a tie counts ½
    chosen_logp, rejected_logp         as they came in

So a policy that is still its reference has margin 0 and accuracy ½. (TRL counts a tie as wrong.)
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from ppobook import validation
from ppobook.reductions import masked

Diagnostics = dict[str, Tensor]


def bradley_terry_loss(
    chosen_rewards: Tensor, rejected_rewards: Tensor, margin: Tensor | float = 0.0
) -> Tensor:
    """The loss of a reward model: minus the log-probability of the choices that were made.

        P(y_w is chosen over y_l | x) = σ( r(x, y_w) − r(x, y_l) )
        L = − mean of log σ( r(x, y_w) − r(x, y_l) − m )

    Only differences count: a number added to all rewards of a prompt changes nothing. Each pair weighs the
    same. TRL has this loss and, as an option, a pull of the rewards towards 0, which is not here.

    Parameters
    ----------
    chosen_rewards, rejected_rewards : tensor, shape (pairs,)
        r(x, y_w) and r(x, y_l): the scores of the completion that was chosen and of the other.
    margin : tensor, shape (pairs,), or a number, optional
        m, larger for pairs with a clearer preference. Detached inside.

    Returns
    -------
    tensor, scalar, in at least float32

    References
    ----------
    Bradley and Terry 1952, "Rank analysis of incomplete block designs: I. The method of paired comparisons".
    Ouyang et al. 2022, "Training language models to follow instructions with human feedback", equation 1. The
    margin: Touvron et al. 2023, "Llama 2: open foundation and fine-tuned chat models".
    """
    chosen, rejected = _pairs(chosen_rewards=chosen_rewards, rejected_rewards=rejected_rewards)
    if isinstance(margin, Tensor):
        validation.shape("margin", margin, chosen.shape, "the shape of chosen_rewards")
        margin = margin.detach()
    return -logsigmoid(chosen - rejected - margin).mean()


def dpo_loss(
    chosen_logp: Tensor,
    rejected_logp: Tensor,
    ref_chosen_logp: Tensor,
    ref_rejected_logp: Tensor,
    beta: float = 0.1,
    *,
    label_smoothing: float = 0.0,
) -> tuple[Tensor, Diagnostics]:
    """DPO: `bradley_terry_loss` of the policy's own implicit rewards, so that no reward model is needed.

        h = [ log π_θ(y_w) − log π_ref(y_w) ] − [ log π_θ(y_l) − log π_ref(y_l) ]
        L = − mean of log σ(β h)
        L = − mean of (1 − α) log σ(β h) + α log σ(−β h)                with label_smoothing α

    With all preferences known, the minimum is at π ∝ π_ref exp(r / β). Where a pair has only ever gone one
    way, h has no finite best value; with α > 0 it comes to rest where σ(β h) = 1 − α. The gradient pulls
    log π(y_w) up and log π(y_l) down with the same weight, β σ(−β h): often both fall, y_l faster.

    TRL's loss_type "sigmoid" is this loss on the same sums; in 1.16 its label_smoothing belongs to other loss
    types only ("robust" divides by 1 − 2 α and subtracts the second term, which makes it unbiased for labels
    that were flipped with probability α, and unbounded below).

    Parameters
    ----------
    chosen_logp, rejected_logp : tensor, shape (pairs,)
        log π_θ(y_w | x) and log π_θ(y_l | x): sums over the tokens of the completion.
    ref_chosen_logp, ref_rejected_logp : tensor, shape (pairs,)
        The same under the reference. Detached inside.
    beta : float above 0
        β, the log-odds of a preference for each nat of h: the larger, the nearer to the reference.
    label_smoothing : float in [0, 0.5]
        α, the probability with which a label is taken to be wrong.

    Returns
    -------
    loss : tensor, scalar, in at least float32; log 2 where the policy is its reference
    diagnostics : dict of detached scalar tensors
        See the top of this module.

    References
    ----------
    Rafailov et al. 2023, "Direct preference optimization: your language model is secretly a reward model",
    equation 7. The smoothing: Mitchell 2023, "A note on DPO with noisy preferences & relationship to IPO".
    """
    beta = validation.number("beta", beta, above=0)
    label_smoothing = validation.number("label_smoothing", label_smoothing, low=0, high=0.5)
    chosen, rejected, ref_chosen, ref_rejected = _pairs(
        chosen_logp=chosen_logp,
        rejected_logp=rejected_logp,
        ref_chosen_logp=ref_chosen_logp,
        ref_rejected_logp=ref_rejected_logp,
    )
    chosen_reward, rejected_reward = beta * (chosen - ref_chosen), beta * (rejected - ref_rejected)
    margin = chosen_reward - rejected_reward
    # log σ as one function: in float32 a sigmoid is 0 from −89 down, and its logarithm −∞.
    losses = -(1 - label_smoothing) * logsigmoid(margin)
    if label_smoothing:
        losses = losses - label_smoothing * logsigmoid(-margin)
    return losses.mean(), _diagnostics(chosen_reward, rejected_reward, chosen, rejected)


def ipo_loss(
    chosen_logp: Tensor,
    rejected_logp: Tensor,
    ref_chosen_logp: Tensor,
    ref_rejected_logp: Tensor,
    beta: float = 0.1,
) -> tuple[Tensor, Diagnostics]:
    """IPO: the log-ratio's margin is drawn to a finite value, where DPO sends it to infinity.

        h = [ log π_θ(y_w) − log π_ref(y_w) ] − [ log π_θ(y_l) − log π_ref(y_l) ]
        L = mean of ( h − 1 / (2 β) )²

    The minimum is at h = 1 / (2 β), a margin of ½ in units of the implicit reward. A pair beyond it is pulled
    back. Where a pair goes either way, with probability p the first, the best h is (p − ½) / β.

    **Sums or means.** The paper has log-probabilities of whole completions, which are sums. TRL divides each
    log-ratio by its completion's number of tokens first. Pass means over the tokens in place of sums, for all
    four arguments, and this is TRL's loss; the rewards in the diagnostics are then a token's too, where TRL
    logs those of sums, and β is another one.

    Parameters
    ----------
    chosen_logp, rejected_logp, ref_chosen_logp, ref_rejected_logp
        As for `dpo_loss`.
    beta : float above 0
        The paper's τ.

    Returns
    -------
    loss : tensor, scalar, in at least float32; 1 / (4 β²) where the policy is its reference
    diagnostics : dict of detached scalar tensors
        See the top of this module.

    References
    ----------
    Azar et al. 2023, "A general theoretical paradigm to understand learning from human preferences", equation
    17.
    """
    beta = validation.number("beta", beta, above=0)
    chosen, rejected, ref_chosen, ref_rejected = _pairs(
        chosen_logp=chosen_logp,
        rejected_logp=rejected_logp,
        ref_chosen_logp=ref_chosen_logp,
        ref_rejected_logp=ref_rejected_logp,
    )
    chosen_ratio, rejected_ratio = chosen - ref_chosen, rejected - ref_rejected
    losses = (chosen_ratio - rejected_ratio - 1 / (2 * beta)) ** 2
    return losses.mean(), _diagnostics(beta * chosen_ratio, beta * rejected_ratio, chosen, rejected)


def simpo_loss(
    chosen_logp: Tensor,
    rejected_logp: Tensor,
    chosen_lengths: Tensor,
    rejected_lengths: Tensor,
    beta: float = 2.0,
    gamma: float = 0.5,
) -> tuple[Tensor, Diagnostics]:
    """SimPO: a token's mean log-probability is the reward; no reference, and a margin to be kept.

        r(x, y) = β / |y| log π_θ(y | x)
        L = − mean of log σ( r(x, y_w) − r(x, y_l) − κ )

    TRL has this loss in its CPO trainer (loss_type "simpo" with cpo_alpha 0). There simpo_gamma is this κ;
    the authors' own code takes κ / β instead.

    Parameters
    ----------
    chosen_logp, rejected_logp : tensor, shape (pairs,)
        log π_θ(y_w | x) and log π_θ(y_l | x): sums over the tokens of the completion. Divided by the lengths
        here.
    chosen_lengths, rejected_lengths : tensor, shape (pairs,), integers of at least 1
        |y_w| and |y_l|: the number of tokens that were summed over.
    beta : float above 0
        Of another size than DPO's, as means are smaller than sums.
    gamma : float of at least 0
        κ, in units of the reward.

    Returns
    -------
    loss : tensor, scalar, in at least float32
    diagnostics : dict of detached scalar tensors
        See the top of this module. The rewards are those above; margin is their difference, κ not taken off;
        chosen_logp and rejected_logp are sums, as they came in.

    References
    ----------
    Meng et al. 2024, "SimPO: simple preference optimization with a reference-free reward", equation 6.
    """
    beta = validation.number("beta", beta, above=0)
    gamma = validation.number("gamma", gamma, low=0)
    chosen, rejected, chosen_lengths, rejected_lengths = _pairs(
        chosen_logp=chosen_logp,
        rejected_logp=rejected_logp,
        chosen_lengths=chosen_lengths,
        rejected_lengths=rejected_lengths,
    )
    chosen_reward = beta * chosen / chosen_lengths
    rejected_reward = beta * rejected / rejected_lengths
    loss = -logsigmoid(chosen_reward - rejected_reward - gamma).mean()
    return loss, _diagnostics(chosen_reward, rejected_reward, chosen, rejected)


def kto_loss(
    logp: Tensor,
    ref_logp: Tensor,
    desirable: Tensor,
    kl: Tensor | float,
    beta: float = 0.1,
    *,
    desirable_weight: float = 1.0,
    undesirable_weight: float = 1.0,
) -> tuple[Tensor, Diagnostics]:
    """KTO: single completions that were liked or not, against a point of reference, in place of pairs.

        h_y = log π_θ(y | x) − log π_ref(y | x)
        z_0 = max( 0, mean of log π_θ(y' | x) − log π_ref(y' | x) over mismatched pairs )
        L = mean of c_D ( 1 − σ(β (h_y − z_0)) )      for a desirable y
                    c_U ( 1 − σ(β (z_0 − h_y)) )      for an undesirable y

    z_0 stands for KL(π_θ, π_ref): raising all completions alike earns nothing. It is estimated by giving each
    prompt of a batch the completion of another one and averaging the log-ratios of these. Such a mean may be
    below 0, where no KL is, hence the maximum. No gradient goes into z_0.

    TRL's KTO trainer computes the same on the same sums, z_0 over the batches of all processes; a loss that
    is not a number is left out of its mean there, and refused here.

    Parameters
    ----------
    logp, ref_logp : tensor, shape (completions,)
        log π_θ(y | x) and log π_ref(y | x): sums over the tokens of the completion. ref_logp is detached
        inside.
    desirable : tensor, shape (completions,), bool or 0/1
        Whether the completion was liked. All may be of one kind.
    kl : tensor of any shape, or a number
        The log-ratios of mismatched pairs, one or more: they are averaged here, over all axes, then held at 0
        or above. An estimate that is averaged already goes in as it is. Detached inside.
    beta : float above 0
        β: the larger, the smaller the change after which a completion is done with.
    desirable_weight, undesirable_weight : float of at least 0
        c_D and c_U, to balance the two kinds where one is rarer.

    Returns
    -------
    loss : tensor, scalar, in at least float32; half the mean weight where the policy is its
        reference
    diagnostics : dict of detached scalar tensors
        As at the top of this module, the desirable completions in the place of the chosen. What is said of a
        kind that the batch does not have is NaN, and so is then margin, the difference of the two mean
        rewards. accuracy is the share of completions on their own side of z_0 (h_y = z_0 counts ½). Also kl,
        which is z_0.

    References
    ----------
    Ethayarajh et al. 2024, "KTO: model alignment as prospect theoretic optimization", equation 8 (7 in the
    first version).
    """
    beta = validation.number("beta", beta, above=0)
    desirable_weight = validation.number("desirable_weight", desirable_weight, low=0)
    undesirable_weight = validation.number("undesirable_weight", undesirable_weight, low=0)
    logp, ref_logp, desirable = _pairs(logp=logp, ref_logp=ref_logp, desirable=desirable)
    liked = desirable != 0
    z = torch.as_tensor(kl, dtype=logp.dtype, device=logp.device).detach().mean().clamp(min=0)

    ratio = logp - ref_logp
    gain = beta * (ratio - z)
    # 1 − σ(x) as σ(−x), which keeps its digits where σ(x) is almost 1.
    losses = torch.where(
        liked, desirable_weight * torch.sigmoid(-gain), undesirable_weight * torch.sigmoid(gain)
    )
    with torch.no_grad():
        reward = beta * ratio
        diagnostics = _means(reward[liked], reward[~liked], logp[liked], logp[~liked])
        diagnostics["margin"] = diagnostics["chosen_reward"] - diagnostics["rejected_reward"]
        diagnostics["accuracy"] = _share_above_0(torch.where(liked, gain, -gain))
        diagnostics["kl"] = z
    return losses.mean(), diagnostics


def _pairs(**tensors: Tensor) -> list[Tensor]:
    """The tensors in at least float32, all of one shape; those of a reference detached."""
    _, entries = masked(None, **tensors)
    return [x.detach() if name.startswith("ref_") else x for name, x in zip(tensors, entries, strict=True)]


@torch.no_grad()
def _diagnostics(
    chosen_reward: Tensor, rejected_reward: Tensor, chosen_logp: Tensor, rejected_logp: Tensor
) -> Diagnostics:
    """The diagnostics of a batch of pairs, as at the top of this module."""
    margin = chosen_reward - rejected_reward
    means = _means(chosen_reward, rejected_reward, chosen_logp, rejected_logp)
    return means | {"margin": margin.mean(), "accuracy": _share_above_0(margin)}


def _means(
    chosen_reward: Tensor, rejected_reward: Tensor, chosen_logp: Tensor, rejected_logp: Tensor
) -> Diagnostics:
    return {
        "chosen_reward": chosen_reward.mean(),
        "rejected_reward": rejected_reward.mean(),
        "chosen_logp": chosen_logp.mean(),
        "rejected_logp": rejected_logp.mean(),
    }


def _share_above_0(x: Tensor) -> Tensor:
    """The share of entries above 0; one that is 0 counts half."""
    return (0.5 + 0.5 * x.sign()).mean()
