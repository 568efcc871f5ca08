"""The checks of stages 6 and 7: an honest evaluation, then the ladder of probes, then CartPole over seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ppobook.envs import climb, make_env

from .. import Answer, Findings, Property, Stop, as_array, close, recognise, words
from ..beside.capstone import Coin, Keen, Tape, evaluate_on_tapes, learn_and_play, play_again
from . import PRACTICE as CHAPTER
from .training import networks_of

# On the ladder: short runs, with a discount that cannot be mistaken for none. On CartPole: what is asked for.
PROBE_STEPS, PROBE_GAMMA = 12_288, 0.5
CARTPOLE_STEPS, CARTPOLE_SEEDS, LEAST, EPISODES = 25_000, (11, 12, 13), 150.0, 20


class Evaluated:
    """One evaluation on tapes: the returns that came back, and the tapes."""

    def __init__(self, answer: Answer, episodes: int, seed: int, noise: int, policy: nn.Module) -> None:
        torch.manual_seed(noise)  # the state that a notebook's other cells have left
        came, played = answer.beside(evaluate_on_tapes, policy, episodes, seed)
        if isinstance(came, list | tuple | Tensor):
            raise Stop("returned", "no NumPy array", f"a NumPy array must come back, got {words(came)}.")
        self.returns = as_array(came, (episodes,), "the returns")
        self.tapes = play_again(played)
        self.true = np.array([total for tape in self.tapes for total in tape.returns])
        self.actions = [step[1] for tape in self.tapes for step in tape.steps]
        self.seeds = [seed for tape in self.tapes for seed in tape.seeds]


@CHAPTER.check("capstone-evaluate", section="sec-practice-reporting")
def capstone_evaluate(answer: Answer) -> Findings:
    coin = Coin(0.3, 0.7)
    one = Evaluated(answer, 400, seed=5, noise=1, policy=coin)
    again = Evaluated(answer, 400, seed=5, noise=2, policy=coin)
    other = Evaluated(answer, 60, seed=6, noise=1, policy=coin)
    looking = Evaluated(answer, 60, seed=5, noise=1, policy=Keen())
    seen = [(step[0][0] > 0, step[1]) for tape in looking.tapes for step in tape.steps]
    missed = sum(wanted != done for wanted, done in seen)
    begins = [tape.steps[k][1] for tape in one.tapes for k in tape.resets if k < len(tape.steps)]
    sums, without, gone, discounted = [], [], [], {0.9: [], 0.98: [], 0.99: []}  # type: ignore[var-annotated]
    for tape in one.tapes:
        rewards: list[float] = []
        for _, _, reward, terminated, truncated, _ in tape.steps:
            rewards.append(reward)
            if terminated or truncated:
                sums.append(sum(rewards))
                without.append(sum(rewards[:-1]))
                for gamma, found in discounted.items():
                    found.append(sum(gamma**k * r for k, r in enumerate(rewards)))
                if terminated:
                    gone.append(sum(rewards))
                rewards = []
    played = [tape.steps for tape in one.tapes if tape.steps]
    begun = len(sums) + sum(not (steps[-1][3] or steps[-1][4]) for steps in played)
    share = float(np.mean(one.actions)) if one.actions else 0.0
    given = [seed for seed in one.seeds if seed is not None]
    got = one.returns
    yield from recognise(
        got,
        {
            "no episode is played": not one.actions,
            "the likeliest action, not a drawn one": share == 1.0,
            "actions without the policy": abs(share - 0.5) < 0.05,
            "the last reward is left out": _same(got, without),
            "returns are discounted": any(_same(got, found) for found in discounted.values()),
            "truncated episodes are left out": _same(got, gone[:400]) and not _same(got, sums[:400]),
            "episodes side by side, the first to end": len(played) > 1 and begun > 400,
            "the returns add up": len(sums) >= 400 and close(got, np.cumsum(sums[:400])),
            "lengths, not returns": _same(got, _lengths(one.tapes)[:400]),
            "every episode has the same seed": len(given) > 1 and len(set(given)) == 1,
            "the environment has no seed": not given,
            "the seed does nothing": set(given) == {s for s in other.seeds if s is not None},
            "chance is not seeded": again.actions != one.actions,
            "the environment's seed is another each time": again.seeds != one.seeds,
            "every episode begins with the same action": len(begins) > 100 and len(set(begins)) == 1,
            "the policy is asked about something else": missed > 0.1 * len(seen),
        },
        share=share,
        episodes=len(sums),
        begun=begun,
        environments=len(played),
        missed=missed,
        steps=len(seen),
    )
    yield Property(
        "one return for each episode, the plain sum of its rewards",
        _same(got, sums[:400]),
        f"the first are {got[:4].round(3).tolist()}, and the tapes say {np.round(sums[:4], 3).tolist()}",
    )
    yield Property(
        "actions are drawn with the policy's probabilities",
        abs(share - 0.7) < 0.06,
        f"an action of probability 0.7 has a share of {share:.2f} in {len(one.actions)} steps",
    )


def _same(got: np.ndarray, sums: list[float]) -> bool:
    return len(got) == len(sums) and close(np.sort(got), np.sort(sums))


def _lengths(tapes: list[Tape]) -> list[float]:
    found, length = [], 0.0
    for tape in tapes:
        for step in tape.steps:
            length += 1
            if step[3] or step[4]:
                found.append(length)
                length = 0.0
    return found


@CHAPTER.check("capstone-learning", section="sec-practice-probes", seconds=300.0)
def capstone_learning(answer: Answer) -> Findings:
    def learn(env_id: str) -> tuple[nn.Module, Any]:
        policy, critic = networks_of(answer(env_id, 3, PROBE_STEPS, PROBE_GAMMA), 2)
        return critic, lambda observations: policy(observations).softmax(-1)

    try:
        table = climb(learn, gamma=PROBE_GAMMA)
    except ValueError as error:  # what the networks return has another shape
        raise Stop("returned", "wrong shape", f"{error}.") from None
    rung = next((int(n) for n in table.index if not table.loc[n, "passes"]), 0)
    learned: list[float] = list(table["learned"])[rung - 1] if rung else [0.0]
    yield from recognise(
        np.array(learned),
        {
            "rung 1: what follows an end is counted": rung == 1 and learned[0] > 1.5,
            "rung 1: the value of a constant": rung == 1,
            "rung 2: a value that depends on the observation": rung == 2,
            "rung 3: another γ is used": rung == 3 and learned[0] > 0.9,
            "rung 3: what comes later is not seen": rung == 3 and abs(learned[0]) < 0.1,
            "rung 3: a reward one step later": rung == 3,
            "rung 4: the worse action is learned": rung == 4 and learned[0] < 0.1,
            "rung 4: no action is learned": rung == 4,
            "rung 5: observation and action together": rung == 5,
        },
    )
    yield Property("it climbs the five probes", not rung)

    means, logits = [], []
    looks = torch.linspace(-0.2, 0.2, 12).view(3, 4)
    for seed in CARTPOLE_SEEDS:
        came, taken = answer.beside(learn_and_play, "CartPole-v1", seed, CARTPOLE_STEPS, 0.98, EPISODES)
        policy, _ = networks_of(came, 2)
        means.append(mean_return(taken, seed))
        with torch.no_grad():
            logits.append(policy(looks).double().numpy())
    yield from recognise(
        np.array(means),
        {
            "CartPole is not learned at all": max(means) < 40,
            "the seed changes nothing": all(close(logits[0], one, 1e-9) for one in logits),
            "one seed learns, and another does not": max(means) > 2 * LEAST and min(means) < 40,
        },
        means=[round(mean) for mean in means],
        steps=CARTPOLE_STEPS,
    )
    yield Property(
        f"CartPole: the median of {len(means)} seeds is at least {LEAST:g}, after {CARTPOLE_STEPS:,} steps",
        float(np.median(means)) >= LEAST,
        f"the mean returns are {[round(mean) for mean in means]}",
    )


def mean_return(taken: list[Any], seed: int) -> float:
    """Average the first episode of each of several environments, in which these actions are taken."""
    envs = make_env("CartPole-v1", EPISODES, seed=10_000 + seed)
    envs.reset(seed=10_000 + seed)
    alive, total = np.ones(EPISODES, dtype=bool), np.zeros(EPISODES)
    for actions in taken:
        _, rewards, terminated, truncated, _ = envs.step(np.asarray(actions))
        total += rewards * alive
        alive &= ~(terminated | truncated)
        if not alive.any():
            break
    return float(total.mean())
