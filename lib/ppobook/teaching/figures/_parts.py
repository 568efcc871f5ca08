"""E4: the three parts of PPO's loss under their coefficients, and what each of them does to a trunk."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from ppobook.diagnostics import normalize
from ppobook.envs import TabularMDP, gridworld
from ppobook.objectives import clipped_surrogate_loss, ppo_loss, value_loss
from ppobook.policies import actor_critic_for, together
from ppobook.returns import gae
from ppobook.teaching import style
from ppobook.teaching.figures._figure import Figure, annotate, arrow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

# Where the sliders stop.
_CLIPS = tuple(round(0.01 * k, 2) for k in range(5, 51))
_VALUE_COEFS = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
_ENTROPY_COEFS = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
_SCALES = (("rewards about 1", 1.0), ("rewards about 10", 10.0))

_GAMMA, _LAM = 0.95, 0.95
_SAMPLES = 48
# The updates before the one in which the batch is recorded, and the gradient steps of an update.
_UPDATES, _STEPS = 2, 6


class LossBatch(NamedTuple):
    """A minibatch in the middle of an update, and the two networks that it trains, which share a trunk."""

    policy: Any
    value: Any
    observations: Tensor
    actions: Tensor
    old_logp: Tensor
    advantages: Tensor
    returns: Tensor

    def loss(
        self, clip_eps: float, value_coef: float, entropy_coef: float
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """PPO's loss of this batch, by `ppo_loss`."""
        policy, values = together(self.policy, self.value, self.observations)
        return ppo_loss(
            policy.logp(self.actions),
            self.old_logp,
            self.advantages,
            values,
            self.returns,
            policy.entropy(),
            clip_eps=clip_eps,
            value_coef=value_coef,
            entropy_coef=entropy_coef,
        )

    def pull(self, loss: Tensor) -> Tensor:
        """The gradient of a loss by all weights of the trunk, as one vector. The graph is kept."""
        weights = list(self.value.network.trunk.parameters())
        return torch.cat([part.flatten() for part in torch.autograd.grad(loss, weights, retain_graph=True)])


def loss_batch(reward_scale: float = 1.0, *, seed: int = 0) -> LossBatch:
    """Train PPO with a shared trunk on the grid world for two updates, and stop in the middle of the third.

    Every reward is multiplied by `reward_scale`. The batch has 48 samples, six gradient steps after they were
    taken; its advantages are normalized.
    """
    mdp, rng = gridworld(), np.random.default_rng(seed)
    unit = torch.eye(mdp.n_states, dtype=torch.float64)
    box = spaces.Box(0.0, 1.0, (mdp.n_states,), np.float64)
    policy, value = actor_critic_for(box, spaces.Discrete(mdp.n_actions), (16, 16), shared=True, seed=seed)
    policy, value = policy.double(), value.double()
    parameters = dict.fromkeys([*policy.parameters(), *value.parameters()])
    optimizer = torch.optim.Adam(list(parameters), lr=0.01)
    for _ in range(_UPDATES + 1):
        batch = _rollout(mdp, policy, value, unit, reward_scale, rng)
        for _ in range(_STEPS):
            loss, _ = batch.loss(0.2, 0.5, 0.01)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return batch


def _rollout(
    mdp: TabularMDP, policy: Any, value: Any, unit: Tensor, reward_scale: float, rng: np.random.Generator
) -> LossBatch:
    with torch.no_grad():
        probs, critic = policy.probs(unit), value(unit)
    played = mdp.sample_episodes(probs, 24, rng)
    values = np.pad(critic.numpy()[played.states] * played.mask, ((0, 0), (0, 1)))
    terminated = np.arange(played.mask.shape[1]) == played.mask.sum(axis=1, keepdims=True) - 1
    advantages, returns = gae(reward_scale * played.rewards, values, terminated, gamma=_GAMMA, lam=_LAM)
    # Each episode has a step at least, and most have several.
    rows = rng.choice(int(played.mask.sum()), _SAMPLES, replace=False)
    states, actions = (torch.as_tensor(x[played.mask][rows]) for x in (played.states, played.actions))
    found, targets = (torch.as_tensor(x[played.mask][rows]) for x in (advantages, returns))
    old_logp = probs[states, actions].log()
    return LossBatch(policy, value, unit[states], actions, old_logp, normalize(found), targets)


def loss_parts() -> Figure:
    """Slide ε and both coefficients: the three parts of PPO's loss, their sum, and the pull on a trunk.

    The batch is one of the library's (`loss_batch`). Bars show what each part adds to the loss. Arrows show
    where value loss, and policy loss with entropy, pull the weights that both networks share, and where the
    two go together; with separate trunks each goes its own way. In JupyterLab,
    `widget().parts` holds the numbers on display.
    """
    clip_eps, value_coef, entropy_coef = 0.2, 0.5, 0.01  # where the sliders start
    start = {"clip_eps": clip_eps, "value_coef": value_coef, "entropy_coef": entropy_coef}
    stops = {"clip_eps": _CLIPS, "value_coef": _VALUE_COEFS, "entropy_coef": _ENTROPY_COEFS}
    batches = [_recorded(name, loss_batch(scale)) for name, scale in _SCALES]
    parts, large = (_parts(batch, **start) for batch in batches)
    alt = f"""
        Bars: what each part adds to PPO's loss of a batch of {_SAMPLES} samples. The policy loss is
        {parts["policy_loss"]:.3f}, the value loss times {value_coef:g} is
        {value_coef * parts["value_loss"]:.3f}, the entropy times −{entropy_coef:g} is
        {-entropy_coef * parts["entropy"]:.3f}; the sum is {parts["loss"]:.3f}. Arrows: on a shared trunk the
        value loss pulls with {parts["value_pull"]:.3f}, policy loss and entropy with
        {parts["policy_pull"]:.3f}, and together they go {_degrees(parts["turn"])} away from where the policy
        alone would go. With rewards ten times as large the value loss pulls with
        {large["value_pull"]:.3g}, and they go {_degrees(large["turn"])} away.
    """.replace("-", "−")
    state = {
        **start,
        "stops": stops,
        "batch": 0,
        "batches": batches,
        "parts": {name: number if number is None else round(number, 9) for name, number in parts.items()},
    }
    return Figure("parts", state, alt=alt, height=5.2, still=lambda picture: _still(picture, parts, start))


def _degrees(turn: float | None) -> str:
    return "no measurable way" if turn is None else f"{turn:.0f}°"


def _recorded(name: str, batch: LossBatch) -> dict[str, Any]:
    """All that the script needs about a batch, rounded so that machines agree on the stored digits."""
    policy, values = together(batch.policy, batch.value, batch.observations)
    logp, entropy = policy.logp(batch.actions), policy.entropy()
    surrogates = [
        clipped_surrogate_loss(logp, batch.old_logp, batch.advantages, clip_eps) for clip_eps in _CLIPS
    ]
    # What the trunk feels: the scalar products of the three parts' gradients, that of the policy for each ε.
    losses = [*surrogates, value_loss(values, batch.returns), entropy.mean()]
    *of_policy, of_value, of_entropy = map(batch.pull, losses)
    products: dict[str, Any] = {
        "policy_policy": [pull @ pull for pull in of_policy],
        "policy_value": [pull @ of_value for pull in of_policy],
        "policy_entropy": [pull @ of_entropy for pull in of_policy],
        "value_value": of_value @ of_value,
        "value_entropy": of_value @ of_entropy,
        "entropy_entropy": of_entropy @ of_entropy,
    }
    samples = {
        "ratios": (logp - batch.old_logp).exp(),
        "advantages": batch.advantages,
        "values": values,
        "returns": batch.returns,
        "entropy": entropy,
    }
    return {
        "name": name,
        **{column: [round(x, 5) for x in numbers.tolist()] for column, numbers in samples.items()},
        "products": {
            pair: [_short(x) for x in found] if isinstance(found, list) else _short(found)
            for pair, found in products.items()
        },
    }


def _short(x: Tensor) -> float:
    return float(f"{x.item():.7g}")


def _parts(batch: dict[str, Any], clip_eps: float, value_coef: float, entropy_coef: float) -> dict[str, Any]:
    """The numbers on display: each part without its weight, their weighted sum, and what the trunk feels."""
    columns = ("ratios", "advantages", "values", "returns", "entropy")
    ratios, advantages, values, returns, entropy = (
        torch.tensor(batch[column], dtype=torch.float64) for column in columns
    )
    loss, diagnostics = ppo_loss(
        ratios.log(),
        torch.zeros_like(ratios),
        advantages,
        values,
        returns,
        entropy,
        clip_eps=clip_eps,
        value_coef=value_coef,
        entropy_coef=entropy_coef,
    )
    names = ("policy_loss", "value_loss", "entropy", "clip_fraction", "flat_fraction")
    found: dict[str, Any] = {name: diagnostics[name].item() for name in names}

    at, products = _CLIPS.index(clip_eps), batch["products"]
    # Policy loss and entropy, then all three.
    own = (
        products["policy_policy"][at]
        - 2 * entropy_coef * products["policy_entropy"][at]
        + entropy_coef**2 * products["entropy_entropy"]
    )
    across = value_coef * (products["policy_value"][at] - entropy_coef * products["value_entropy"])
    both = own + 2 * across + value_coef**2 * products["value_value"]
    turn = None
    if own > 0 and both > 0:
        turn = math.degrees(math.acos(max(-1.0, min(1.0, (own + across) / math.sqrt(own * both)))))
    return found | {
        "loss": loss.item(),
        "policy_pull": math.sqrt(max(own, 0.0)),
        "value_pull": value_coef * math.sqrt(products["value_value"]),
        "across": across,
        "both_pull": math.sqrt(max(both, 0.0)),
        "turn": turn,
    }


def _still(picture: Picture, parts: dict[str, Any], start: dict[str, float]) -> None:
    bars, plane = picture.subplots(2, 1, height_ratios=[1, 1.1])
    rows = {
        "policy loss": parts["policy_loss"],
        f"{start['value_coef']:g} × value loss": start["value_coef"] * parts["value_loss"],
        f"−{start['entropy_coef']:g} × entropy": -start["entropy_coef"] * parts["entropy"],
        "loss": parts["loss"],
    }
    colours = [style.colour("muted")] * 3 + [style.colour("truth")]
    bars.barh(range(4), list(rows.values()), 0.6, color=colours)
    bars.axvline(0, color=style.colour("ink"), lw=1)
    reach = max(map(abs, rows.values()))
    for k, number in enumerate(rows.values()):
        annotate(bars, f"{number:.3f}".replace("-", "−"), (max(number, 0), k), (5, 0), va="center")
    bars.set_yticks(range(4), list(rows))
    bars.set(ylim=(3.5, -0.5), xlim=(min(0, *rows.values()) - 0.03 * reach, 1.25 * reach))
    bars.grid(visible=False, axis="y")
    bars.set_title("what each part adds to the loss", fontsize=13)
    _draw_arrows(plane, parts)


def _draw_arrows(ax: Axes, parts: dict[str, Any]) -> None:
    """The two pulls on a shared trunk and their sum, in the plane in which they lie."""
    own, value = parts["policy_pull"], parts["value_pull"]
    cosine = parts["across"] / (own * value) if own * value > 0 else 1.0
    tip = np.array([cosine, math.sqrt(max(0.0, 1 - cosine**2))]) * value
    ends = {"policy and entropy": (own, 0.0), "value": tuple(tip), "all": (own + tip[0], tip[1])}
    for name, end in ends.items():
        arrow(ax, end, style.colour("truth" if name == "all" else "muted"))
        annotate(ax, name, end, (6, 4))
    spread = np.array([(0.0, 0.0), *ends.values()])
    low, high = spread.min(axis=0), spread.max(axis=0)
    room = 0.15 * max(high - low)
    ax.set(
        xlim=(low[0] - room, high[0] + 4 * room), ylim=(low[1] - room, high[1] + 1.5 * room), aspect="equal"
    )
    ax.set_title("where they pull a trunk that is shared", fontsize=13)
    ax.axis("off")
