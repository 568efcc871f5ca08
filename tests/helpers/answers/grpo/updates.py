"""Right and wrong answers to a whole update."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from checks import Right, Unnamed, Wrong

from .groups import across, by_loop, standard
from .losses import KL as PRICES
from .losses import POLICY, loss, with_kl

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}


STANDARD, WHOLE = standard(), with_kl()


def update(
    *,
    advantages: Callable[[Any, int], Any] = STANDARD,
    whole: Callable[..., Any] = WHOLE,
    steps: Callable[[int], int] = lambda epochs: epochs,
    zero: bool = True,
    refresh: bool = False,
    old_is_ref: bool = False,
    graph: bool = False,
    step: bool = True,
    last: bool = True,
    clip: Callable[[Any], None] = lambda weights: None,
    report: Callable[[list[float], int], Any] = lambda losses, epochs: losses,
) -> Callable[..., Any]:
    """The update with one part changed."""

    def function(logp_of, optimizer, ref_logp, rewards, mask, group_size, clip_eps, kl_coef, epochs):
        old = ref_logp if old_is_ref else logp_of().detach()
        worth, losses = torch.as_tensor(advantages(rewards, group_size)), []
        for number in range(steps(epochs)):
            new = logp_of()
            if refresh:
                old = new.detach()
            value = whole(new, new if graph else old, ref_logp, worth, mask, clip_eps, kl_coef)
            if zero:
                optimizer.zero_grad()
            value.backward()
            clip(optimizer.param_groups[0]["params"])
            if step and (last or number < epochs - 1):
                optimizer.step()
            losses.append(value.item())
        return report(losses, epochs)

    return function


def with_the_library(logp_of, optimizer, ref_logp, rewards, mask, group_size, clip_eps, kl_coef, epochs):
    from ppobook.language import group_advantages
    from ppobook.language.on_policy import kl_estimate
    from ppobook.objectives import clipped_surrogate_loss, masked_mean

    with torch.no_grad():
        old = logp_of()
    worth = group_advantages(rewards, group_size)[:, None].expand(mask.shape)
    losses = torch.zeros(epochs)
    for k in range(epochs):
        logp = logp_of()
        policy = clipped_surrogate_loss(logp, old, worth, clip_eps, mask=mask, reduction="sequence")
        kl = masked_mean(kl_estimate("k3", logp, ref_logp, mask=mask), mask=mask, reduction="sequence")
        whole = policy + kl_coef * kl
        optimizer.zero_grad(set_to_none=True)
        whole.backward()
        optimizer.step()
        losses[k] = whole.detach()
    return losses


def first_call_kept(logp_of, optimizer, ref_logp, rewards, mask, group_size, clip_eps, kl_coef, epochs):
    """Old log-probabilities from the first step's own forward pass."""
    worth, losses, old = torch.tensor(by_loop(rewards, group_size)), [], None
    while len(losses) < epochs:
        new = logp_of()
        if old is None:
            old = new.detach().clone()
        optimizer.zero_grad()
        value = with_kl()(new, old, ref_logp, worth, mask, clip_eps, kl_coef)
        value.backward()
        losses.append(value.detach())
        optimizer.step()
    return losses


def graph_on_both(new, old, ref, worth, mask, eps, beta):
    """A loss that does not detach, for an `old` that moves along."""
    return with_kl(policy=loss(detach_old=False))(new, old, ref, worth, mask, eps, beta)


def of_a_token(x, mask):
    return x.sum(1) / mask.sum(1)


def kl_as_reward(total: Callable[..., Any]) -> Callable[..., Any]:
    def function(logp_of, optimizer, ref_logp, rewards, mask, group_size, clip_eps, kl_coef, epochs):
        away = torch.where(mask, logp_of().detach() - ref_logp, 0.0)
        given = rewards - kl_coef * total(away, mask), mask, group_size, clip_eps, 0.0, epochs
        return update()(logp_of, optimizer, ref_logp, *given)

    return function


def stops_when_it_rises(logp_of, optimizer, ref_logp, rewards, mask, group_size, clip_eps, kl_coef, epochs):
    old, losses = logp_of().detach(), []
    for _ in range(epochs):
        value = WHOLE(logp_of(), old, ref_logp, STANDARD(rewards, group_size), mask, clip_eps, kl_coef)
        losses.append(value.item())
        if losses[-1] > min(losses):
            continue
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    return losses


def whole_batch(rewards, group_size):
    return (rewards - rewards.mean()) / (rewards.std() + 1e-4)


def centred(rewards, group_size):
    return standard(std=lambda g: torch.ones(()), eps=0.0)(rewards, group_size)


RIGHT["grpo-update"] = [update(), with_the_library, first_call_kept]
WRONG["grpo-update"] = {
    "the weights are left as they were": update(step=False),
    "old_logp is not detached": update(graph=True, whole=graph_on_both),
    "not one loss per step": [
        update(report=lambda losses, epochs: losses[-1:] if epochs > 1 else losses),
        update(report=lambda losses, epochs: [0.0, *losses]),
    ],
    "one step, whatever epochs says": update(
        steps=lambda epochs: 1, report=lambda losses, epochs: losses * epochs
    ),
    "epochs is not the number of steps": [
        update(steps=lambda epochs: epochs + 1, report=lambda losses, epochs: losses[:epochs]),
        update(last=False),
    ],
    "it goes uphill": update(whole=lambda *given: -with_kl()(*given)),
    "the rewards themselves are the advantages": update(advantages=lambda r, n: r),
    "all prompts are one group": [
        update(advantages=whole_batch),
        update(advantages=lambda r, n: r - r.mean()),
    ],
    "every second completion, not the neighbors": update(advantages=across),
    "not divided by the standard deviation": update(advantages=centred),
    "the gradients are not zeroed between the steps": update(zero=False),
    "each step takes every ratio for 1": update(refresh=True),
    "nothing is clipped": [
        update(whole=with_kl(policy=POLICY["nothing is clipped"])),
        update(whole=with_kl(policy=POLICY["min and max swapped"][0])),
    ],
    "eps is not used": update(whole=with_kl(policy=POLICY["eps is not used"])),
    "the reference stands in for the old policy": update(old_is_ref=True),
    "there is no KL in the loss": update(whole=PRICES["there is no KL in the loss"]),
    "the KL is subtracted": update(whole=PRICES["the KL is subtracted"]),
    "the ratio in the KL is reversed": update(whole=PRICES["the ratio in the KL is reversed"]),
    "k1, which has no gradient on average": update(whole=PRICES["k1, which has no gradient on average"]),
    "k2, half the square": update(whole=PRICES["k2, half the square"][0]),
    "the KL is in the reward": [kl_as_reward(lambda x, mask: x.sum(1)), kl_as_reward(of_a_token)],
    "kl_coef is not used": update(whole=PRICES["kl_coef is not used"]),
    "a step is left out where the loss rises": stops_when_it_rises,
    "the gradient is clipped": [
        update(clip=lambda weights: torch.nn.utils.clip_grad_norm_(weights, 1.0)),
        update(clip=lambda weights: torch.nn.utils.clip_grad_norm_(weights, 10.0)),
        update(clip=lambda weights: torch.nn.utils.clip_grad_value_(weights, 1.0)),
    ],
}
UNNAMED["grpo-update"] = [
    update(report=lambda losses, epochs: [0.0] * epochs),
    update(advantages=standard(ddof=0)),
    update(whole=with_kl(policy=loss(reduce=lambda x, mask: x[mask].mean()))),
]
