"""The check of stage 2: advantages and returns, with every kind of end."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import Answer, Findings, Property, Stop, close, either, numbers, recognise, words
from ..findings import as_array
from ..probes import Problem, agrees, random_problems, tensor
from . import GAE as CHAPTER


@CHAPTER.check("capstone-gae", section="sec-gae-lambda")
def capstone_gae(answer: Answer) -> Findings:
    def both(*args: Any) -> tuple[np.ndarray, np.ndarray]:
        came = answer(*args)
        if not isinstance(came, tuple | list) or len(came) != 2:
            raise Stop("returned", "not two", f"advantages and returns must come back, got {words(came)}.")
        shape = tuple(args[0].shape)
        return as_array(came[0], shape, "the advantages"), as_array(came[1], shape, "the returns")

    def slow(p: Problem, reads: str = "", trace: str = "", gamma: float = -1.0, lam: float = -1.0) -> Any:
        """Each advantage as a sum over what follows it: (γλ)^k δ, up to the first end."""
        gamma = p.gamma if gamma < 0 else gamma
        lam = p.lam if lam < 0 else lam
        steps = p.rewards.shape[1]
        found = np.zeros(p.rewards.shape)
        for i, t in np.ndindex(found.shape):
            for k in range(t, steps):
                over, cut = p.terminated[i, k], p.truncated[i, k]
                after = p.values[i, k + 1]
                if cut and reads != "the reset value at a truncation":
                    after = 0.0 if reads == "truncation as termination" else p.final_values[i, k]
                if reads == "wherever it is a number" and not np.isnan(p.final_values[i, k]):
                    after = p.final_values[i, k]
                if over and reads != "no ends" and not (cut and reads == "truncation wins"):
                    after = 0.0
                if k == steps - 1 and reads == "nothing after the last step" and not cut:
                    after = 0.0
                delta = p.rewards[i, k] + gamma * after - p.values[i, k]
                found[i, t] += (gamma * lam if trace != "no gamma" else lam) ** (k - t) * delta
                if trace != "never cut" and (over or (cut and trace != "only at terminated")):
                    break
        return found

    ends = np.zeros((2, 5), dtype=bool)
    ends[0, 1] = ends[0, 3] = True
    cuts = np.zeros((2, 5), dtype=bool)
    cuts[1, 2] = cuts[0, 1] = True  # where both are set, terminated wins
    final = np.full((2, 5), np.nan)
    final[1, 2], final[0, 1] = 5.0, 7.0
    final[0, 0], final[0, 3], final[1, 4] = 6.0, -9.0, 0.0  # these say nothing, as nan does elsewhere
    probe = Problem(
        rewards=np.array([[1.0, 0, 2, 0, 1], [0, 1, 0, 3, 0]]),
        values=np.array([[1.0, 2, 0, 4, 1, 8], [2, 0, 1, 3, 4, 2]]),
        terminated=ends,
        truncated=cuts,
        final_values=final,
        gamma=0.5,
        lam=0.8,
    )
    arguments = [tensor(value) for value in vars(probe).values()]
    try:
        advantages, returns = both(*arguments)
    except Stop as stop:
        if stop.name != "not finite":
            raise
        blank = [tensor(np.nan_to_num(v) if isinstance(v, np.ndarray) else v) for v in vars(probe).values()]
        both(*blank)  # what is not finite there too is another mistake
        yield from recognise(0.0, {"entries that say nothing are read": True})
        return
    right, values = slow(probe), probe.values[:, :-1]
    zeros = Problem(**vars(probe) | {"final_values": np.where(final == 0, np.nan, final)})
    yield from recognise(
        advantages,
        {
            "episodes are not ended at all": slow(probe, "no ends", "never cut"),
            "the value after a terminated step is counted": slow(probe, "no ends"),
            "the sum runs on into the next episode": slow(probe, trace="never cut"),
            "the sum runs on past a truncation": slow(probe, trace="only at terminated"),
            "a truncation is taken for an end": slow(probe, "truncation as termination"),
            "after a truncation the value of the next episode is read": slow(
                probe, "the reset value at a truncation"
            ),
            "where both are set, truncated wins": slow(probe, "truncation wins"),
            "final_values are read where nothing was truncated": either(
                *(slow(p, "wherever it is a number") for p in (probe, zeros))
            ),
            "the last value is not read": slow(probe, "nothing after the last step"),
            "lam is not used": slow(probe, lam=1.0),
            "only one step": slow(probe, lam=0.0),
            "gamma is missing in the sum": slow(probe, trace="no gamma"),
            "gamma is not used": slow(probe, gamma=1.0),
            "the order is turned round": right[:, ::-1],
            "the sign is turned round": -right,
            "returns in place of advantages": right + values,
            "normalised already": (right - right.mean()) / right.std(),
        },
        right=returns,
    )
    yield from recognise(
        returns,
        {
            "the advantages come twice": close(returns, advantages) and not close(right, right + values),
            "returns less the values": right - values,
            "returns from the values after the step": right + probe.values[:, 1:],
        },
    )
    yield Property(
        "a worked example, with an end of each kind",
        close(advantages, right) and close(returns, right + values),
        f"with\n{probe}\nthe advantages are\n    {numbers(advantages)}\nand should be\n    {numbers(right)}\n"
        f"the returns are\n    {numbers(returns)}\nand should be\n    {numbers(right + values)}",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        shape = (int(rng.integers(1, 7)), int(rng.integers(1, 7)))
        if rng.random() < 0.1:  # as long as a rollout
            shape = (2, 100)
        often = rng.choice([0.0, 0.2, 0.6])
        over, cut = rng.random(shape) < often, rng.random(shape) < often
        scale = rng.choice([0.01, 1, 100])
        final = scale * rng.normal(size=shape)
        final[rng.random(shape) < 0.2] = 0.0  # a value like any other, where a step was truncated
        final[~cut & (rng.random(shape) < rng.choice([0.0, 0.5, 1.0]))] = np.nan
        return {
            "rewards": scale * rng.normal(size=shape),
            "values": scale * rng.normal(size=(shape[0], shape[1] + 1)),
            "terminated": over,
            "truncated": cut,
            "final_values": final,
            "gamma": float(rng.choice([0, 0.5, 0.99, 1])),
            "lam": float(rng.choice([0, 0.5, 0.95, 1])),
        }

    def pair(p: Problem) -> np.ndarray:
        found = slow(p)
        return np.array([found, found + p.values[:, :-1]])

    yield agrees(
        lambda *args: np.array(both(*args)), pair, random_problems(draw), what="[advantages, returns]"
    )
