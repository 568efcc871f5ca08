"""Trust region policy optimization: natural gradients, with a step size measured in KL and a line search.

    repeat
        run π_old for T steps in N environments, and record log π_old(a_t | s_t)
        advantages Â_t by GAE; targets for the critic, Â_t + V(s_t)
        g = ∇ mean of ρ_t Â_t at θ_old,   ρ_t = π_θ(a_t | s_t) / π_old(a_t | s_t)
        x: solve F x = g by conjugate gradient, which needs products F v only
        s = √(2 δ_KL / xᵀFx), since the KL of a step s x is about ½ s² xᵀFx
        try θ_old + s x, θ_old + α s x, θ_old + α² s x, …: go to the first with
            a better surrogate and a mean KL(π_old, π_θ) of at most δ_KL, or stay
        fit V(s_t) to its targets, in some epochs over the batch

F is the Fisher matrix, the curvature of the mean KL at θ_old, plus a damping on its diagonal. Chapter 2 of
the book derives it all.

Schulman, Levine, Moritz, Jordan and Abbeel 2015, "Trust region policy optimization", equation 14 and
appendix C; Kakade 2001, "A natural policy gradient".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import torch
from torch import Tensor

from ppobook.batches import Batch
from ppobook.diagnostics import explained_variance, normalize
from ppobook.learner import ActorCritic, gradient_step
from ppobook.objectives import surrogate_loss, value_loss
from ppobook.presets import PRESETS
from ppobook.rollouts import Rollout
from ppobook.run.metrics import means
from ppobook.settings import TRPOSettings


class TRPO(ActorCritic):
    """Trust region policy optimization, with the settings of `TRPOSettings`.

    **One step a batch.** The surrogate Â π_θ/π_old is right to first order only, and only where π_θ is near
    π_old. So the step is as long as a mean KL of `max_kl` allows, and a line search on the batch accepts or
    shortens it. That the true objective then improves is not proved: the theorem bounds the largest KL of any
    state, with a constant that makes steps tiny.

    **Metrics** beside those of every run. policy_loss: the surrogate's, after the step. value_loss: the mean
    over all gradient steps of the critic. grad_norm: the norm of g. step_kl: the exact mean KL of the step.
    improvement: what the surrogate gained; expected_improvement: the gain to first order, gᵀ Δθ, so that a
    ratio far below 1 means a step too long for the linear model. line_search_steps: step lengths tried.
    accepted: 1, or 0 if none was good enough and the policy is unchanged.

    With normalize_observations, the normalizer is updated after the step, which moves both networks' outputs
    a little outside of these bounds and numbers.

    **Two networks.** The critic is trained by Adam. Do not let it share a trunk with the policy: its steps
    would take the policy out of the trust region.
    """

    algorithm = "trpo"
    settings_class = TRPOSettings
    presets = PRESETS["trpo"]
    state_attributes = (*ActorCritic.state_attributes, "value_optimizer")

    settings: TRPOSettings

    def __init__(
        self, observation_space: gym.Space, action_space: gym.Space, settings: TRPOSettings, **kwargs: Any
    ) -> None:
        super().__init__(observation_space, action_space, settings, **kwargs)
        self.parameters = [p for p in self.policy.parameters() if p.requires_grad]
        self.value_optimizer: Any = torch.optim.Adam(self.value.parameters(), settings.value_lr, fused=True)

    def update(self, rollout: Rollout) -> dict[str, float]:
        advantages, returns, values = self.advantages(rollout)
        if self.settings.normalize_advantages:
            advantages = normalize(advantages)
        batch = Batch.of(rollout, advantages, returns, values)
        metrics = self.improve(batch) | self.fit(batch)
        metrics["explained_variance"] = float(explained_variance(values, returns))
        metrics |= self.after_update(batch)
        self.update_normalizer(rollout)
        return metrics

    def improve(self, batch: Batch) -> dict[str, float]:
        """Take one step of the policy; return its metrics."""
        s = self.settings
        policy = self.policy.distribution(batch.observations)
        loss = surrogate_loss(policy.logp(batch.actions), batch.old_logp, batch.advantages)
        gradient = -_row(torch.autograd.grad(loss, self.parameters, materialize_grads=True))

        states = batch.observations
        if s.fisher_share < 1:
            states = states[self.shuffle.order(len(batch))[: math.ceil(s.fisher_share * len(batch))]]
        fisher = fisher_matrix(self.policy, states, damping=s.cg_damping)
        direction = conjugate_gradient(fisher, gradient, iterations=s.cg_iterations)
        # Where the gradient is 0, so is the direction; the division must not make it NaN.
        length = (2 * s.max_kl / (direction @ fisher(direction)).clamp_min(1e-30)).sqrt()
        length = length.clamp_max(torch.finfo(length.dtype).max)

        old, start = policy.detach(), _row(self.parameters)

        @torch.no_grad()
        def gain(parameters: Tensor) -> tuple[float, float]:
            self._assign(parameters)
            policy = self.policy.distribution(batch.observations)
            kl = old.kl(policy).mean().item()
            if not kl <= s.max_kl:  # too far, or no number at all: what is gained does not matter
                return math.nan, kl
            after = surrogate_loss(policy.logp(batch.actions), batch.old_logp, batch.advantages)
            return (loss - after).item(), kl

        found = line_search(
            gain,
            start,
            length * direction,
            max_kl=s.max_kl,
            steps=s.line_search_steps,
            backtrack=s.backtrack,
        )
        self._assign(found.parameters)
        return {
            "policy_loss": loss.item() - found.gain,
            "grad_norm": gradient.norm().item(),
            "improvement": found.gain,
            "expected_improvement": (gradient @ (found.parameters - start)).item(),
            "step_kl": found.kl,
            "line_search_steps": found.steps,
            "accepted": found.accepted,
        }

    def fit(self, batch: Batch) -> dict[str, float]:
        """Train the critic for some epochs; return the mean of its loss."""
        steps = []
        for _ in range(self.settings.value_epochs):
            for minibatch in batch.minibatches(self.settings.value_minibatches, self.shuffle):
                steps.append(self.critic_step(minibatch))
        return means(steps)

    def critic_step(self, minibatch: Batch) -> dict[str, Any]:
        """Take one step of Adam on a minibatch; return the loss."""
        loss = value_loss(self.value(minibatch.observations), minibatch.returns)
        gradient_step(self.value_optimizer, loss)
        return {"value_loss": loss.detach()}

    @torch.no_grad()
    def _assign(self, row: Tensor) -> None:
        """Set the policy's parameters."""
        # Not in place: the old policy's distribution may hold the old parameters themselves.
        for p, part in zip(self.parameters, row.split([p.numel() for p in self.parameters]), strict=True):
            p.data = part.view_as(p)


def fisher_vector_product(policy: Any, observations: Tensor, v: Tensor, *, damping: float = 0.0) -> Tensor:
    """The Fisher matrix of a policy times a vector, without the matrix.

        F = mean over s of  E_a[ ∇ log π(a | s) ∇ log π(a | s)ᵀ ]
          = ∇² mean over s of  KL(π_old(· | s), π_θ(· | s))    at θ = θ_old

    The second line is what is computed: ∇(∇KL · v) is a gradient of a number, and so costs about as much as
    two gradients however many parameters there are. The matrix would have the square of their number.

    Parameters
    ----------
    policy : torch module with `distribution(observations)`
    observations : tensor, [..., obs]
        The states of the mean.
    v : tensor, [P]
        One entry a parameter that is trained, in the order of ``policy.parameters()``.
    damping : float of at least 0
        What is added to the diagonal: the result is F v + damping v.

    Returns
    -------
    tensor, [P]

    References
    ----------
    Schulman et al. 2015, "Trust region policy optimization", appendix C.1; Pearlmutter 1994, "Fast exact
    multiplication by the Hessian".
    """
    return fisher_matrix(policy, observations, damping=damping)(v)


def fisher_matrix(policy: Any, observations: Tensor, *, damping: float = 0.0) -> Callable[[Tensor], Tensor]:
    """v ↦ `fisher_vector_product`: the same for many v, for which ∇KL is then found only once."""
    parameters = [p for p in policy.parameters() if p.requires_grad]
    distribution = policy.distribution(observations)
    kl = distribution.detach().kl(distribution).mean()
    slope = _row(torch.autograd.grad(kl, parameters, create_graph=True, materialize_grads=True))

    def product(v: Tensor) -> Tensor:
        curved = torch.autograd.grad(slope @ v, parameters, retain_graph=True, materialize_grads=True)
        return _row(curved) + damping * v

    return product


def conjugate_gradient(
    matvec: Callable[[Tensor], Tensor], b: Tensor, *, iterations: int = 10, tolerance: float = 1e-10
) -> Tensor:
    """Solve A x = b for a symmetric positive definite A, known by its products A v alone.

        x ← x + α p          α = rᵀr / pᵀAp          p: the direction, r = b − A x: what is missing
        r ← r − α A p        p ← r + (r'ᵀr' / rᵀr) p

    Each direction is conjugate to the ones before (pᵀAp' = 0), so that no step has to be corrected later. But
    for rounding, as many steps are enough as A has different eigenvalues other than 0. Fewer go far where
    most of these lie close together; that few of them are large is not enough. A matrix with null directions
    will do where b has no part in them; x then has none either.

    Parameters
    ----------
    matvec : callable, [n] to [n]
    b : tensor, [n]
    iterations : int
        At most so many products.
    tolerance : float of at least 0
        Stop where |r| <= tolerance |b|.

    Returns
    -------
    tensor, [n], detached

    Raises
    ------
    ValueError
        A b that is no vector.

    References
    ----------
    Hestenes and Stiefel 1952, "Methods of conjugate gradients for solving linear systems", section 3.
    """
    if b.ndim != 1:
        raise ValueError(f"b must be a vector, got shape {tuple(b.shape)}")
    b = b.detach()
    enough = (tolerance * b.norm()) ** 2
    x, r, p = torch.zeros_like(b), b, b
    missing = r @ r
    for _ in range(iterations):
        if missing <= enough:
            break
        product = matvec(p).detach()
        curvature = p @ product
        if curvature <= 0:  # what is left lies where A has nothing to say
            break
        step = missing / curvature
        x = x + step * p
        r = r - step * product
        before, missing = missing, r @ r
        p = r + (missing / before) * p
    return x


class Found(NamedTuple):
    """The result of a line search.

    Attributes
    ----------
    accepted : bool
    parameters : tensor, [P]
        The first that were good enough; where none were, the very ones it began from.
    steps : int
        How many were tried.
    gain, kl : float
        At `parameters`; both 0 where nothing was accepted.
    report : str
        What happened, in a sentence.
    """

    accepted: bool
    parameters: Tensor
    steps: int
    gain: float
    kl: float
    report: str


def line_search(
    gain: Callable[[Tensor], tuple[float, float]],
    start: Tensor,
    step: Tensor,
    *,
    max_kl: float,
    steps: int = 10,
    backtrack: float = 0.8,
) -> Found:
    """The longest of start + step, start + α step, start + α² step, … that gains something and stays near.

    A step that was computed from a slope and a curvature at one point is a forecast. Here it is held against
    the surrogate and the KL themselves.

    Parameters
    ----------
    gain : callable
        Parameters [P] to what the surrogate gains over `start`, and the KL from it. It may leave a trace (a
        network that was given the parameters): assign what is found when the search is over.
    start, step : tensor, [P]
    max_kl : float above 0
    steps : int
        Lengths to try.
    backtrack : float, 0 < α < 1

    Returns
    -------
    Found
        Look at `accepted`: a search that fails returns `start`, and says so.

    References
    ----------
    Schulman et al. 2015, appendix C; for backtracking, Armijo 1966, "Minimization of functions having
    Lipschitz continuous first partial derivatives".
    """
    for tried in range(1, steps + 1):
        share = backtrack ** (tried - 1)
        parameters = start + share * step
        gained, kl = gain(parameters)
        if 0 < gained < math.inf and kl <= max_kl:  # NaN is none of it
            report = f"a share of {share:.3g} of the step gains {gained:.3g} with a KL of {kl:.3g}"
            return Found(True, parameters, tried, gained, kl, report)
    report = (
        f"none of {steps} lengths was good enough; the shortest, {share:.3g} of the step, gains {gained:.3g} "
        f"with a KL of {kl:.3g}: the gain must be above 0 and the KL at most {max_kl:g}"
    )
    return Found(False, start, steps, 0.0, 0.0, report)


def _row(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors as one vector, a copy."""
    return torch.cat([x.detach().reshape(-1) if x.is_leaf else x.reshape(-1) for x in tensors])
