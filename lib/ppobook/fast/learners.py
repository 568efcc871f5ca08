"""PPO, and TRPO's critic, with gradients in closed form: subclasses that `ppobook.fast.FASTER` lists."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import torch

from ppobook.batches import Batch
from ppobook.fast.adam import FlatAdam
from ppobook.fast.closed_form import ClosedForm, ClosedFormValue
from ppobook.ppo import PPO
from ppobook.settings import PPOSettings, TRPOSettings
from ppobook.trpo import TRPO


class FastPPO(PPO):
    """PPO with the gradient of the clipped loss in closed form, where `ClosedForm` fits its networks.

    Elsewhere, as with a KL penalty or a shared trunk, it is PPO.
    """

    closed_form: ClosedForm | None = None

    def __init__(
        self, observation_space: gym.Space, action_space: gym.Space, settings: PPOSettings, **kwargs: Any
    ) -> None:
        super().__init__(observation_space, action_space, settings, **kwargs)
        if settings.objective == "clip" and ClosedForm.fits(self.policy, self.value):
            parameters = [*self.policy.parameters(), *self.value.parameters()]
            self.optimizer = FlatAdam(parameters, settings.lr, eps=settings.adam_eps)
            self.closed_form = ClosedForm(self.policy, self.value)

    def gradient_step(self, minibatch: Batch) -> dict[str, Any]:
        if self.closed_form is None:
            return super().gradient_step(minibatch)
        diagnostics = self.closed_form.gradient(minibatch, **self.coefficients())
        gradient = self.optimizer.vector.grad
        grad_norm = torch.linalg.vector_norm(gradient).item()
        if self.settings.max_grad_norm is not None and grad_norm > self.settings.max_grad_norm:
            gradient.mul_(self.settings.max_grad_norm / grad_norm)
        self.optimizer.step()
        return {**diagnostics, "grad_norm": grad_norm}


class FastTRPO(TRPO):
    """TRPO with the gradient of the critic's loss in closed form, where `ClosedFormValue` fits the critic."""

    closed_form: ClosedFormValue | None = None

    def __init__(
        self, observation_space: gym.Space, action_space: gym.Space, settings: TRPOSettings, **kwargs: Any
    ) -> None:
        super().__init__(observation_space, action_space, settings, **kwargs)
        if ClosedFormValue.fits(self.value):
            self.value_optimizer = FlatAdam(self.value.parameters(), settings.value_lr)
            self.closed_form = ClosedFormValue(self.value)

    def critic_step(self, minibatch: Batch) -> dict[str, Any]:
        if self.closed_form is None:
            return super().critic_step(minibatch)
        loss = self.closed_form.gradient(minibatch)
        self.value_optimizer.step()
        return {"value_loss": loss}
