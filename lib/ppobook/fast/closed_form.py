"""The gradients of PPO's clipped loss and of a critic's loss, written down: autograd's numbers in less time.

On a minibatch of the book's size autograd spends several times as long on its calls as on arithmetic. The
networks are a few layers and the loss a few lines, so their derivatives are computed here in NumPy, in the
very memory of the torch parameters and their gradients.

The plain forms are `PPO.gradient_step` with `ppobook.objectives.ppo_loss`, and `TRPO.critic_step` with
`value_loss`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import nn

from ppobook.batches import Batch
from ppobook.policies import MLP, CategoricalPolicy, GaussianPolicy, ValueFunction

LARGEST_LOG_RATIO = np.float32(math.log(np.finfo(np.float32).max) - 1)

# The diagnostics of `ppo_loss`.
DIAGNOSTICS = (
    "policy_loss",
    "value_loss",
    "entropy",
    "clip_fraction",
    "flat_fraction",
    "approx_kl",
    "ratio_mean",
    "ratio_std",
)


class ClosedForm:
    """The gradient of PPO's clipped loss by the weights of a policy and a value function that it `fits`.

    Their parameters have gradients already: these are written to.
    """

    def __init__(self, policy: Any, value: Any) -> None:
        self.actor = _Layers(policy.network)
        self.critic = ClosedFormValue(value)
        self.normalizer = policy.normalizer
        self.head: Any = _GaussianHead(policy) if type(policy) is GaussianPolicy else _CategoricalHead()

    @staticmethod
    def fits(policy: Any, value: Any) -> bool:
        """Return True for networks of the kinds differentiated here, on the CPU, with separate weights."""
        return (
            type(policy) in (CategoricalPolicy, GaussianPolicy)
            and policy.normalizer is getattr(value, "normalizer", None)
            and _Layers.fits(policy.network)
            and ClosedFormValue.fits(value)
            and not {id(p) for p in policy.parameters()} & {id(p) for p in value.parameters()}
            and _trained_in_float32(policy)
        )

    @np.errstate(over="ignore", invalid="ignore")  # as in torch, a ratio too large for a float is infinite
    def gradient(
        self,
        batch: Batch,
        *,
        clip_eps: float,
        clip_eps_high: float,
        value_coef: float,
        entropy_coef: float,
        value_clip_eps: float | None,
    ) -> dict[str, float]:
        """Write the gradient of `ppo_loss` on this batch into the parameters; return its diagnostics."""
        seen = batch.observations if self.normalizer is None else self.normalizer(batch.observations)
        observations, actions, old_logp = seen.numpy(), batch.actions.numpy(), batch.old_logp.numpy()
        advantages = batch.advantages.numpy()
        size = np.float32(len(advantages))

        # The policy: L = −mean of min(ρ Â, clip(ρ) Â) − c_e mean of H, with ρ = exp(log π − log π_old).
        self.head.forward(self.actor.forward(observations), actions)
        log_ratio = self.head.logp - old_logp
        # As in `objectives.without_overflow`: where Â ≥ 0 the clip silences a ratio that would overflow.
        kept = np.where(advantages >= 0, np.minimum(log_ratio, LARGEST_LOG_RATIO), log_ratio)
        ratio, moved = np.exp(kept), np.exp(log_ratio) - 1
        gain = ratio * advantages
        low, high = 1 - clip_eps, 1 + clip_eps_high
        flat = np.where(advantages > 0, ratio > high, ratio < low) & (advantages != 0)
        # ∂r/∂log π = r, so a sample's share is −r Â / B on the slope, and 0 on the flat side.
        by_logp = np.where(flat, 0, gain) / -size
        self.actor.backward(self.head.backward(by_logp, -entropy_coef / size))

        squares = self.critic.step(observations, batch, value_coef, value_clip_eps)
        entropy = self.head.entropy
        rows = np.array(
            [
                np.where(flat, np.where(advantages > 0, high, low) * advantages, gain),
                squares,
                np.broadcast_to(entropy, ratio.shape),
                (moved > clip_eps_high) | (moved < -clip_eps),
                flat,
                moved - log_ratio,
                moved,
                moved * moved,
            ]
        )
        objective, squared, entropy, clipped, flats, kl, shift, spread = (rows.sum(1) / size).tolist()
        std = math.sqrt(max(spread - shift**2, 0.0))
        values_of = (-objective, 0.5 * squared, entropy, clipped, flats, kl, 1 + shift, std)
        return dict(zip(DIAGNOSTICS, values_of, strict=True))


class ClosedFormValue:
    """The gradient of `ppobook.objectives.value_loss` by the weights of a value function alone."""

    def __init__(self, value: Any) -> None:
        self.critic = _Layers(value.network)
        self.normalizer = value.normalizer

    @staticmethod
    def fits(value: Any) -> bool:
        """Return True for a value function of the kind differentiated here, on the CPU."""
        return type(value) is ValueFunction and _Layers.fits(value.network) and _trained_in_float32(value)

    def gradient(self, batch: Batch) -> float:
        """Write the gradient of `value_loss` on this batch into the parameters; return the loss."""
        x = batch.observations if self.normalizer is None else self.normalizer(batch.observations)
        return float(0.5 * self.step(x.numpy(), batch).mean())

    def step(
        self, observations: np.ndarray, batch: Batch, coef: float = 1.0, clip_eps: float | None = None
    ) -> np.ndarray:
        """Write the gradient of coef · ½ mean of the squared errors (V − R)², which are returned.

        Where it is larger, the error is that of V kept within clip_eps of its old value, without a gradient.
        """
        values, returns = self.critic.forward(observations)[:, 0], batch.returns.numpy()
        error = values - returns
        by_value = error
        if clip_eps is not None:
            old_values = batch.old_values.numpy()
            change = values - old_values
            clipped = old_values + np.clip(change, -clip_eps, clip_eps) - returns
            larger = (np.abs(clipped) > np.abs(error)) & (np.abs(change) > clip_eps)
            by_value = np.where(larger, 0, error)
            error = np.where(larger, clipped, error)
        self.critic.backward((by_value * np.float32(coef / len(values)))[:, None])
        return error * error


class _Layers:
    """The layers of an MLP on its own memory: forwards, and backwards by the chain rule.

    h_0 = x,   z_i = h_{i−1} W_iᵀ + b_i,   h_i = φ(z_i),   no φ on the last
    ∂L/∂W_i = (∂L/∂z_i)ᵀ h_{i−1},   ∂L/∂b_i = Σ ∂L/∂z_i,   ∂L/∂z_{i−1} = (∂L/∂z_i W_i) φ'(z_{i−1})
    """

    def __init__(self, network: Any) -> None:
        linear = [layer for layer in network.layers if isinstance(layer, nn.Linear)]
        self.weights = [layer.weight.detach().numpy() for layer in linear]
        self.biases = [layer.bias.detach().numpy() for layer in linear]
        self.gradients = [(_gradient(layer.weight), _gradient(layer.bias)) for layer in linear]
        self.tanh = not any(isinstance(layer, nn.ReLU) for layer in network.layers)
        self.ones = np.ones(0, np.float32)
        self.hidden: list[np.ndarray] = []

    @staticmethod
    def fits(network: Any) -> bool:
        if type(network) is not MLP:
            return False
        layers = list(network.layers)
        linear, between = layers[::2], {type(layer) for layer in layers[1::2]}
        biased = all(type(layer) is nn.Linear and layer.bias is not None for layer in linear)
        return biased and (between <= {nn.Tanh} or between <= {nn.ReLU})

    def forward(self, x: np.ndarray) -> np.ndarray:
        if len(x) != len(self.ones):  # memory for this size of batch, used again for the next of that size
            self.ones = np.ones(len(x), np.float32)
            self.hidden = [np.empty((len(x), len(bias)), np.float32) for bias in self.biases]
            self.backwards = [np.empty_like(h) for h in self.hidden]
        self.x = x
        for weight, bias, h in zip(self.weights, self.biases, self.hidden, strict=True):
            np.matmul(x, weight.T, out=h)
            h += bias
            if h is not self.hidden[-1]:
                np.tanh(h, out=h) if self.tanh else np.maximum(h, 0, out=h)
            x = h
        return x

    def backward(self, by_output: np.ndarray) -> None:
        """Write the gradients, given the derivative of the loss by what `forward` returned last."""
        by_z = by_output
        for i in reversed(range(len(self.weights))):
            weight_gradient, bias_gradient = self.gradients[i]
            before = self.hidden[i - 1] if i else self.x
            np.matmul(by_z.T, before, out=weight_gradient)
            np.matmul(self.ones, by_z, out=bias_gradient)
            if i:
                by_h = np.matmul(by_z, self.weights[i], out=self.backwards[i - 1])
                if self.tanh:  # φ' = 1 − h²; h itself is not needed any more
                    before *= before
                    by_h -= by_h * before
                else:
                    by_h *= before > 0
                by_z = by_h


def _gradient(parameter: torch.Tensor) -> np.ndarray:
    assert parameter.grad is not None
    return parameter.grad.numpy()


def _trained_in_float32(module: nn.Module) -> bool:
    return all(
        p.device.type == "cpu" and p.dtype == torch.float32 and p.requires_grad for p in module.parameters()
    )


class _CategoricalHead:
    """log π(a) and H of a softmax over logits z, and their derivatives.

    ∂log π(a)/∂z = onehot(a) − π,   ∂H/∂z = −π (log π + H)
    """

    def forward(self, logits: np.ndarray, actions: np.ndarray) -> None:
        z = logits - logits.max(1, keepdims=True)
        probs = np.exp(z)
        total = probs.sum(1, keepdims=True)
        probs /= total
        z -= np.log(total)
        self.chosen = np.arange(len(actions)), actions
        self.probs, self.all_logp = probs, z
        self.logp = z[self.chosen]
        self.entropy = -(probs * z).sum(1)

    def backward(self, by_logp: np.ndarray, by_entropy: float) -> np.ndarray:
        by_logits = self.all_logp + self.entropy[:, None]
        by_logits *= -by_entropy
        by_logits -= by_logp[:, None]
        by_logits *= self.probs
        by_logits[self.chosen] += by_logp
        return by_logits


class _GaussianHead:
    """log π(a) and H of a Gaussian with mean μ = centre + scale · output and std σ = scale · exp(λ).

    With u = (a − μ) / σ:  ∂log π/∂output = u scale / σ,   ∂log π/∂λ = u² − 1,   ∂H/∂λ = 1
    """

    def __init__(self, policy: Any) -> None:
        self.log_std = policy.log_std.detach().numpy()
        self.log_std_gradient = _gradient(policy.log_std)
        self.centre, self.scale = policy.centre.numpy(), policy.scale.numpy()

    def forward(self, output: np.ndarray, actions: np.ndarray) -> None:
        self.inverse = np.exp(-self.log_std)  # scale / σ
        self.u = ((actions - self.centre) / self.scale - output) * self.inverse
        log_std = float((self.log_std + np.log(self.scale)).sum())
        constant = 0.5 * len(self.log_std) * math.log(2 * math.pi)
        self.logp = -0.5 * (self.u * self.u).sum(1) - (log_std + constant)
        self.entropy = np.float32(log_std + constant + 0.5 * len(self.log_std))

    def backward(self, by_logp: np.ndarray, by_entropy: float) -> np.ndarray:
        by_output = by_logp[:, None] * self.u
        self.log_std_gradient[:] = (by_output * self.u).sum(0) - by_logp.sum() + by_entropy * len(by_logp)
        by_output *= self.inverse
        return by_output
