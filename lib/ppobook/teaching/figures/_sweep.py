"""E6: what λ trades: the bias that a wrong critic brings against the variance of the rewards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ppobook.envs import TabularMDP, chain
from ppobook.teaching import style
from ppobook.teaching.figures._figure import Figure, annotate

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure as Picture
    from numpy.typing import ArrayLike, NDArray

# Where the sliders stop.
_GAMMAS = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 1.0)
# Closer together where the curves bend.
_LAMBDAS = (
    *(round(0.05 * k, 2) for k in range(16)),
    *(round(0.8 + 0.025 * k, 3) for k in range(7)),
    *(0.97, 0.98, 0.99, 1.0),
)
# Weights that get a bar of their own; all later ones share one.
_BARS = 12
# Each critic makes its values of the true ones and the states' signs, which alternate.
_CRITICS: dict[str, Callable[[Any, Any], Any]] = {
    "that is right": lambda true, sign: true,
    "0.2 too high everywhere": lambda true, sign: true + 0.2,
    "0.2 off, up and down in turn": lambda true, sign: true + 0.2 * sign,
    "that says 0 everywhere": lambda true, sign: 0 * true,
}


class GaeError(NamedTuple):
    """The result of `gae_error`: two means over the steps of an episode."""

    squared_bias: float
    variance: float


def gae_error(mdp: TabularMDP, probs: ArrayLike, critic: ArrayLike, *, lam: float) -> GaeError:
    """Squared bias and variance of a GAE advantage in a world that is known, computed without sampling.

    With the critic's value V̂(s) for a baseline, the advantage of an action should be Q(s, a) − V̂(s): an error
    of the baseline moves no gradient. What lies between that and the mean of Â(s, a) is the bias. Both
    numbers are means over the steps that an episode takes.

        E[Â | s, a] = E[ δ + γ λ u(s') ]                   with u(s) = E[Â | s]
        E[Â² | s, a] = E[ δ² + 2 γ λ δ u(s') + (γ λ)² m(s') ]   with m(s) = E[Â² | s]

    Parameters
    ----------
    mdp : TabularMDP
        Its gamma is the γ of the estimate. Every episode ends, under this policy.
    probs : shape (S, A)
        The policy.
    critic : shape (S,)
        V̂. That of a terminal state is not read: it counts as 0.
    lam : float in [0, 1]
    """
    policy, inside = np.asarray(probs, dtype=np.float64), ~mdp.terminal
    critic = np.where(inside, critic, 0.0)
    aim = mdp.q_values(policy) - critic[:, None]
    undiscounted = TabularMDP(mdp.P, mdp.rewards, 1.0, mdp.start, mdp.terminal)
    steps = undiscounted.state_occupancy(policy)[:, None] * policy
    steps = steps / steps.sum()

    decay = mdp.gamma * lam
    # δ of a step from s by a to s'. Nothing happens in a terminal state.
    delta = mdp.rewards + mdp.gamma * critic - critic[:, None, None]
    going = mdp.P * inside[:, None, None]
    under = policy[:, :, None] * going
    between = under.sum(axis=1) * inside
    unit = np.eye(mdp.n_states)
    first = np.linalg.solve(unit - decay * between, (under * delta).sum(axis=(1, 2)))
    square = delta**2 + 2 * decay * delta * first
    second = np.linalg.solve(unit - decay**2 * between, (under * square).sum(axis=(1, 2)))

    mean = (going * (delta + decay * first)).sum(axis=2)
    mean_square = (going * (square + decay**2 * second)).sum(axis=2)
    squared_bias = (steps * (mean - aim) ** 2).sum()
    return GaeError(float(squared_bias), float((steps * (mean_square - mean**2)).sum()))


def lambda_sweep() -> Figure:
    """Slide λ and γ: the weights on the n-step returns, and squared bias, variance and their sum.

    The numbers are exact (`gae_error`), in a chain of nine states whose policy goes right seven times in ten.
    The reader chooses among four critics. In JupyterLab, `widget().errors` holds the numbers on display.
    """
    gamma, lam = 0.95, 0.5  # where the sliders start
    critics = [_critic(name, make) for name, make in _CRITICS.items()]
    first = 1
    at = _GAMMAS.index(gamma), _LAMBDAS.index(lam)
    bias, variance = (critics[first][part][at[0]] for part in GaeError._fields)
    total = np.add(bias, variance)
    best = int(np.argmin(total))
    alt = f"""
        Above, the weights (1 − λ) λ^(n−1) that GAE puts on the n-step returns, as bars that shrink by the
        factor λ = {lam:g}. Below, the errors of the advantage against λ in a chain of nine states with an
        exit at either end, where the true values are known, with γ = {gamma:g} and a critic
        {critics[first]["name"]}. The squared bias falls from {bias[0]:.3f} at λ = 0 to {bias[-1]:.3g} at
        λ = 1, the variance grows from {variance[0]:.3f} to {variance[-1]:.3f}. Their sum is least,
        {total[best]:.3f}, at λ = {_LAMBDAS[best]:g}; at λ = {lam:g} it is {total[at[1]]:.3f}.
    """
    state = {
        "gamma": gamma,
        "lam": lam,
        "critic": first,
        "gammas": _GAMMAS,
        "lambdas": _LAMBDAS,
        "bars": _BARS,
        # As texts: a notebook would give each number of a list a line of its own.
        "critics": [
            {
                "name": critic["name"],
                **{part: [" ".join(map(str, row)) for row in critic[part]] for part in GaeError._fields},
            }
            for critic in critics
        ],
        "errors": {"squared_bias": bias[at[1]], "variance": variance[at[1]]},
    }
    return Figure(
        "sweep", state, alt=alt, height=4.5, still=lambda picture: _still(picture, critics[first], at, total)
    )


def _critic(name: str, make: Callable[[Any, Any], Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "squared_bias": [], "variance": []}
    for gamma in _GAMMAS:
        world = chain(9, gamma=gamma)
        probs = np.tile([0.3, 0.7], (world.n_states, 1))
        sign = np.where(np.arange(world.n_states) % 2 == 0, -1.0, 1.0)
        critic = make(world.policy_value(probs), sign)
        errors = [gae_error(world, probs, critic, lam=lam) for lam in _LAMBDAS]
        for part in GaeError._fields:
            # Rounded so that machines agree on the stored digits.
            found[part].append([abs(round(getattr(each, part), 6)) for each in errors])
    return found


def _still(picture: Picture, critic: dict[str, Any], at: tuple[int, int], total: NDArray[np.float64]) -> None:
    top, ax = picture.subplots(2, 1, height_ratios=[1, 1.5])
    lam = _LAMBDAS[at[1]]
    steps = np.arange(1, _BARS + 1)
    weights = [*((1 - lam) * lam ** (steps - 1)), lam**_BARS]
    top.bar(range(1, _BARS + 2), weights, 0.7, color=style.colour("muted"))
    top.set_xticks([*steps, _BARS + 1], [*map(str, steps), f"{_BARS + 1}+"])
    top.set(xlabel="n", ylim=(0, 1))
    top.set_title(f"GAE: weights of the n-step returns, λ = {lam:g}", fontsize=13)
    top.grid(visible=False, axis="x")

    grid = np.array(_LAMBDAS)
    bias, variance = (np.array(critic[part][at[0]]) for part in ("squared_bias", "variance"))
    ax.plot(grid, total, color=style.colour("truth"), lw=3)
    ax.plot(grid, bias, color=style.colour("muted"), lw=2, ls="--")
    ax.plot(grid, variance, color=style.colour("muted"), lw=2, ls=":")
    ax.plot([lam], [total[at[1]]], "o", ms=9, color=style.colour("truth"))
    annotate(ax, "bias²", (grid[2], bias[2]), (2, -14))
    annotate(ax, "variance", (grid[5], variance[5]), (0, 7))
    annotate(ax, "sum", (grid[4], total[4]), (2, 6), weight="bold")
    ax.set(xlabel="λ", xlim=(0, 1), ylim=(0, 1.15 * total.max()))
    ax.set_title(f"its error, γ = {_GAMMAS[at[0]]:g}, a critic {critic['name']}", fontsize=13)
