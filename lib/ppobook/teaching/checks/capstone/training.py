"""The check of stage 5: the loop, watched from the environments and from the optimizer."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from .. import Answer, Findings, Mistake, Property, Stop, as_array, close, numbers, recognise, words
from ..beside.capstone import Steps, play_again, train_on_tapes
from . import WHOLE as CHAPTER

ENVS, STEPS, UPDATES, EPOCHS, MINIBATCHES, RATE = 3, 8, 4, 2, 2, 0.004
TOTAL = ENVS * STEPS * UPDATES


def networks_of(given: Any, least: int) -> tuple[nn.Module, nn.Module]:
    """The policy and the critic, the first of what came back."""
    if not isinstance(given, tuple | list) or len(given) < least:
        what = "a policy and a critic" if least == 2 else "a policy, a critic and a history"
        raise Stop("returned", "not enough", f"{what} must come back, got {words(given)}.")
    for name, net in zip(("policy", "critic"), given[:2], strict=True):
        if not isinstance(net, nn.Module):
            raise Stop("returned", "no network", f"the {name} must be a torch module, got {words(net)}.")
    return given[0], given[1]


def vector(*nets: nn.Module) -> np.ndarray:
    return torch.cat([p.detach().flatten() for net in nets for p in net.parameters()]).double().numpy()


class Trained:
    """One training run on tapes: what came back, and what happened meanwhile."""

    def __init__(self, answer: Answer, seed: int, noise: int, total: int = TOTAL, **more: float) -> None:
        torch.manual_seed(noise)  # the state that a notebook's other cells have left
        np.random.seed(noise)  # noqa: NPY002
        settings = {"num_envs": ENVS, "num_steps": STEPS, "epochs": EPOCHS, "minibatches": MINIBATCHES}
        given = settings | {"lr": RATE} | more
        came, steps, played = answer.beside(train_on_tapes, STEPS, seed, total, given)
        self.steps = Steps()
        vars(self.steps).update(steps)
        self.policy, self.critic = networks_of(came, 3)
        self.history = came[2]
        self.tapes = play_again(played)

    @property
    def played(self) -> int:
        return sum(len(tape.steps) for tape in self.tapes)

    @property
    def ends(self) -> int:
        return sum(len(tape.returns) for tape in self.tapes)

    def learns_from(self) -> tuple[str, str]:
        """Return the first step of policy and critic in a run with γ = 0 and one minibatch.

        Each is "advantages" or "returns", or "" where the gradient has the direction of neither.
        """
        steps = [step for tape in self.tapes for step in tape.steps[:STEPS]]
        seen = torch.tensor(np.array([step[0] for step in steps]))
        actions, returns = (
            torch.tensor([step[1] for step in steps]),
            torch.tensor([step[2] for step in steps]),
        )
        found, values = [], torch.zeros(0)
        for net in (self.critic, self.policy):
            weights = {name: self.steps.at_first(p)[0].requires_grad_() for name, p in net.named_parameters()}
            slope = torch.cat([self.steps.at_first(p)[1].flatten() for p in net.parameters()])
            out = torch.func.functional_call(net, weights, (seen,))
            if net is self.critic:
                values = out[:, 0].detach()
            for name, worth in (("returns", returns), ("advantages", returns - values)):
                if net is self.critic:
                    loss = (out[:, 0] - worth).square().mean()
                else:
                    taken = out.log_softmax(-1).gather(1, actions[:, None])[:, 0]
                    loss = -(taken * (worth - worth.mean())).mean()
                wanted = torch.autograd.grad(loss, [*weights.values()], retain_graph=True)
                direction = torch.cat([x.flatten() for x in wanted])
                if torch.cosine_similarity(slope, direction, 0) > 0.9999:
                    found.append(name)
                    break
            else:
                found.append("")
        return found[1], found[0]


@CHAPTER.check("capstone-loop", section="sec-ppo-loop", seconds=120.0)
def capstone_loop(answer: Answer) -> Findings:
    try:
        run = Trained(answer, seed=1, noise=10)
    except Stop as stop:
        if "final_obs" in "".join(stop.paragraphs) and stop.name == "KeyError":
            raise Mistake("final_obs is not there") from None
        raise
    again, other = Trained(answer, seed=1, noise=11), Trained(answer, seed=2, noise=10)
    extra = sum(len(tape.resets) for tape in run.tapes) - run.ends
    first = [tape.seeds[0] for tape in run.tapes]
    later = [seed for tape in run.tapes for seed in tape.seeds[1:]]
    trained = run.steps.parameters()
    count = run.steps.count
    due = UPDATES * EPOCHS * MINIBATCHES
    kind, eps = "", 0.0
    for optimizer in run.steps.optimizers[:1]:
        kind, eps, _ = optimizer
    yield from recognise(
        float(run.played),
        {
            "no environment is played": run.played == 0,
            "another number of environments": len(run.tapes) != ENVS,
            "resets are taken for steps": run.played < TOTAL
            and len({len(tape.steps) for tape in run.tapes}) > 1
            and extra <= ENVS,
            "one rollout more or less": abs(run.played - TOTAL) == ENVS * STEPS,
            "total_steps counts something else": run.played != TOTAL,
            "the environments are reset for every rollout": extra >= ENVS * UPDATES,
            "the environments are reset again": extra > ENVS,
            "the environments have no seed": any(seed is None for seed in first),
            "all environments have the same seed": len(set(first)) < ENVS,
            "the seed does not reach the environments": first == [t.seeds[0] for t in other.tapes],
            "a seed at every reset": any(seed is not None for seed in later),
            "nothing is trained": count == 0,
            "a new optimizer for every update": len(run.steps.optimizers) >= UPDATES,
            "more than one optimizer": len(run.steps.optimizers) > 1,
            "the policy is in no optimizer": any(id(p) not in trained for p in run.policy.parameters()),
            "the critic is in no optimizer": any(id(p) not in trained for p in run.critic.parameters()),
            "settings do not reach the update": count != due,
            "lr is not used": run.steps.rates[:1] != [RATE],
            "another optimizer than Adam": kind != "Adam",
            "Adam's eps is another": eps != 1e-5,
            "torch is seeded anew in every update": len(set(run.steps.chance[:: EPOCHS * MINIBATCHES]))
            < UPDATES,
            "the next rollout begins with old observations": run.steps.stale,
        },
        rate=run.steps.rates[0] if run.steps.rates else 0.0,
        kind=kind,
        eps=f"{eps:g}",
        played=run.played,
        total=TOTAL,
        made=len(run.tapes),
        envs=ENVS,
        count=count,
        due=due,
        optimizers=len(run.steps.optimizers),
    )
    odd = Trained(answer, seed=1, noise=10, num_envs=2, num_steps=16)  # three updates of 32 steps
    yield from recognise(
        float(odd.played),
        {"num_steps is not used": odd.played != TOTAL or odd.steps.count != 3 * EPOCHS * MINIBATCHES},
        total=TOTAL,
        count=odd.steps.count,
    )
    mine, twin, stranger = (vector(one.policy, one.critic) for one in (run, again, other))
    yield from recognise(
        0.0,
        {
            "the same seed gives another run": not np.array_equal(mine, twin),
            "another seed gives the same run": len(mine) == len(stranger) and close(mine, stranger, 1e-6),
        },
    )
    whole = {"epochs": 1, "minibatches": 1, "value_coef": 1.0, "entropy_coef": 0.0, "max_grad_norm": 1e9}
    one = Trained(answer, seed=1, noise=10, total=ENVS * STEPS, gamma=0.0, **whole)
    for_policy, for_critic = one.learns_from()
    yield from recognise(
        0.0,
        {
            "the critic learns the advantages": for_critic == "advantages",
            "the policy learns from the returns": for_policy == "returns",
        },
    )
    far, near, deep, none, neither = (
        Trained(answer, seed=1, noise=10, total=2 * ENVS * STEPS, gamma=gamma, lam=lam)
        for gamma, lam in ((0.9, 0.9), (0.1, 0.9), (0.9, 0.1), (0.0, 0.1), (0.0, 0.9))
    )
    weights = vector(far.policy, far.critic)
    yield from recognise(
        0.0,
        {
            "gamma does not reach stage 2": close(weights, vector(near.policy, near.critic), 1e-6),
            "lam does not reach stage 2": close(weights, vector(deep.policy, deep.critic), 1e-6),
            "gamma and lam are exchanged": not close(
                vector(none.policy, none.critic), vector(neither.policy, neither.critic), 1e-6
            ),
        },
    )
    changed = {"clip_eps": 1e-3, "value_coef": 5.0, "entropy_coef": 1.0, "max_grad_norm": 1e-3}
    short = Trained(answer, seed=1, noise=10, total=ENVS * STEPS)
    plain = vector(short.policy, short.critic)
    for setting, value in changed.items():
        more = Trained(answer, seed=1, noise=10, total=ENVS * STEPS, **{setting: value})
        yield from recognise(
            0.0,
            {"a setting does not reach the update": np.array_equal(plain, vector(more.policy, more.critic))},
            setting=setting,
        )
    history = run.history
    if not isinstance(history, list) or any(not isinstance(row, dict) for row in history):
        raise Stop("returned", "no history", f"the history must be a list of dicts, got {words(history)}.")
    for name in ("steps", "episodes", "approx_kl"):
        if any(name not in row for row in history):
            raise Stop("returned", "an entry is missing", f"a row of the history has no {name!r}.")
    rows = [[float(as_array(row[name], (), name)) for name in ("steps", "episodes")] for row in history]
    if len(rows) != UPDATES:
        raise Mistake("not one row an update", rows=len(rows), updates=UPDATES)
    steps, episodes = np.array(rows).T
    kls = [float(as_array(row["approx_kl"], (), "approx_kl")) for row in history]
    flags = np.array([[step[3] or step[4] for step in tape.steps] for tape in run.tapes])
    ended = flags.reshape(ENVS, UPDATES, STEPS).sum((0, 2))  # in each rollout
    yield from recognise(
        steps,
        {
            "steps are those of one environment": steps[-1] == STEPS * UPDATES,
            "steps before the rollout, not after": steps[-1] == TOTAL - ENVS * STEPS,
            "episodes are counted over and over": bool(episodes.sum() > run.ends)
            and episodes[-1] == run.ends,
            "only terminated episodes are counted": episodes.sum()
            == sum(step[3] for tape in run.tapes for step in tape.steps),
            "only truncated episodes are counted": episodes.sum()
            == sum(step[4] for tape in run.tapes for step in tape.steps),
            "episodes stand in another row": episodes.sum() == run.ends and not close(episodes, ended),
            "approx_kl is always the same": len(set(kls)) == 1,
        },
        kls=np.array(kls),
        each=episodes,
        last=steps[-1],
        total=TOTAL,
        episodes=episodes.sum(),
        ended=run.ends,
    )
    yield Property("approx_kl is never negative", min(kls) > -1e-6, f"it is {numbers(kls)}")
    yield Property("it plays as many steps as it was given, in environments of different seeds", True)
    yield Property("one optimizer trains policy and critic, and a seed repeats a run to the last digit", True)
    yield Property("each setting reaches its stage", True)
    yield Property(
        "the history has a row an update, with the steps so far and the episodes that ended",
        bool(close(steps, ENVS * STEPS * np.arange(1, UPDATES + 1)) and close(episodes, ended)),
        f"steps are {steps.tolist()}; of {run.ends} episodes {episodes.sum():g} are counted",
    )
