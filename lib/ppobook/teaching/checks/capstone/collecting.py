"""The check of stage 1: a rollout must hold what the environments did, entry by entry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import Tensor, nn

from .. import Answer, Findings, Mistake, Property, Stop, close, recognise, words
from ..beside.capstone import Tape
from ..findings import DRAWN_FROM, as_array
from . import WHOLE as CHAPTER

KINDS = {
    "actions": "int64",
    **dict.fromkeys(("terminated", "truncated"), "bool"),
    **dict.fromkeys(("obs", "logp", "rewards", "values", "final_values"), "float32"),
}


def entries(
    given: Any, shapes: Mapping[str, tuple[int, ...]], *, finite: bool = True
) -> dict[str, np.ndarray]:
    """The entries of a dict that came back, as arrays; times and environments exchanged are a mistake."""
    if not isinstance(given, Mapping):
        raise Stop("returned", "no dict", f"a dict must come back, got {words(given)}.")
    missing = [name for name in shapes if name not in given]
    if missing:
        has = ", ".join(map(str, given)) or "nothing"
        raise Stop("returned", "an entry is missing", f"there is no {missing[0]!r}; the dict has {has}.")
    found = {}
    for name, shape in shapes.items():
        value = given[name]
        came = tuple(getattr(value, "shape", ()))
        if came == (*shape, 1):
            raise Mistake("an axis too many", entry=name, shape=str(list(came)))
        turned = (shape[1], shape[0], *shape[2:]) if len(shape) > 1 else shape
        if came == turned != shape:
            raise Mistake("time comes first", entry=name, shape=str(list(came)), wanted=str(list(shape)))
        found[name] = as_array(value, shape, repr(name), finite=finite and name != "final_values")
        kind = str(getattr(value, "dtype", "")).removeprefix("torch.")
        if not isinstance(value, Tensor) or kind != KINDS[name]:
            has = f"of type {kind}" if isinstance(value, Tensor) else "not a tensor"
            due = f"a tensor of type {KINDS[name]}"
            raise Mistake("an entry of another type", entry=name, came=has, wanted=due)
    return found


class Made:
    """A rollout of the reader's function, and what the tapes say of it."""

    def __init__(self, num_envs: int, size: int, actions: int, longest: int, seed: int) -> None:
        self.tapes = [Tape(100 * seed + i, size, actions, longest) for i in range(num_envs)]
        makers = [lambda tape=tape: tape for tape in self.tapes]
        self.envs = SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
        self.obs, _ = self.envs.reset(seed=seed)
        self.policy, self.critic = nn.Linear(size, actions), nn.Linear(size, 1)
        self.size, self.before = size, 0

    def run(self, answer: Answer, steps: int) -> None:
        """Call the answer, and read what came back."""
        self.before, self.resets = len(self.tapes[0].steps), [len(tape.resets) for tape in self.tapes]
        self.given = self.obs.copy()
        came = answer(self.envs, self.obs, self.policy, self.critic, steps)
        if not isinstance(came, tuple | list) or len(came) != 2:
            raise Stop(
                "returned", "not two", f"a dict and the observations must come back, got {words(came)}."
            )
        batch, after = came
        taken = {len(tape.steps) - self.before for tape in self.tapes}
        if taken != {steps}:
            raise Mistake("another number of steps", taken=max(taken), steps=steps)
        for i, tape in enumerate(self.tapes):
            new = tape.steps[self.before :]
            ends = sum(step[3] or step[4] for step in new)
            if len(tape.resets) - self.resets[i] > ends:
                raise Mistake("the environments are reset")
        n = len(self.tapes)
        shapes: dict[str, tuple[int, ...]] = {
            "obs": (n, steps, self.size),
            **dict.fromkeys(("actions", "logp", "rewards", "terminated", "truncated"), (n, steps)),
            "values": (n, steps + 1),
            "final_values": (n, steps),
        }
        if isinstance(batch, dict) and tuple(getattr(batch.get("values"), "shape", ())) == (n, steps):
            raise Mistake("no value to bootstrap from", columns=steps)
        self.batch = entries(batch, shapes)
        held = [name for name in shapes if getattr(batch[name], "requires_grad", False)]
        if held:
            raise Mistake("the graph is kept", entry=held[0])
        self.after = as_array(after, (n, self.size), "the observations after the last step")
        if not isinstance(after, np.ndarray):
            raise Stop(
                "returned", "no NumPy array", f"what comes second must be an array, got {words(after)}."
            )
        self.obs = after
        self.log = {
            name: np.array([[step[k] for step in tape.steps[self.before :]] for tape in self.tapes])
            for k, name in enumerate(("obs", "actions", "rewards", "terminated", "truncated", "next"))
        }
        self.now = np.array([tape.now for tape in self.tapes])  # after a reset, the first observation
        self.shown = np.concatenate([self.log["obs"][:, 1:], self.now[:, None]], axis=1)  # by the envs

    def value(self, observations: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return np.asarray(self.critic(torch.tensor(observations, dtype=torch.float32))[..., 0])

    def all_logp(self, observations: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return np.asarray(self.policy(torch.tensor(observations, dtype=torch.float32)).log_softmax(-1))

    def logp(self, observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
        return np.take_along_axis(self.all_logp(observations), actions[..., None], -1)[..., 0]

    def wrong(self) -> dict[str, bool]:
        """For each entry, whether it is not what the tapes say."""
        log, batch = self.log, self.batch
        played = log["actions"].astype(int)
        cut = log["truncated"] & ~log["terminated"]
        return {
            **{name: not close(batch[name], log[name]) for name in ("obs", "actions", "rewards")},
            **{name: not close(batch[name], log[name]) for name in ("terminated", "truncated")},
            "logp": not close(batch["logp"], self.logp(log["obs"], played)),
            "values": not close(batch["values"][:, :-1], self.value(log["obs"])),
            "values after the last step": not close(batch["values"][:, -1], self.value(self.now)),
            "final_values": not close(batch["final_values"][cut], self.value(log["next"])[cut]),
            "the observations that come back": not close(self.after, self.now),
        }


@CHAPTER.check("capstone-rollout", section="sec-ppo-loop")
def capstone_rollout(answer: Answer) -> Findings:
    made = Made(num_envs=3, size=2, actions=3, longest=4, seed=1)
    made.run(answer, steps=20)
    wrong, log, batch = made.wrong(), made.log, made.batch
    ended = log["terminated"] | log["truncated"]
    cut = log["truncated"] & ~log["terminated"]
    played = log["actions"].astype(int)
    likeliest = made.all_logp(log["obs"]).argmax(-1)
    finals, last = batch["final_values"][cut], batch["values"][:, -1]
    stored = batch["actions"].astype(int) % 3
    moved = np.argwhere((np.abs(batch["obs"] - log["obs"]) > 1e-4).any(-1))
    i, t = moved[0] if len(moved) else (0, 0)  # the first entry that is another
    yield from recognise(
        batch["obs"][0, 0],
        {
            "the observation after the step": close(batch["obs"], made.shown)
            or close(batch["obs"], log["next"]),
            "the same observation at every step": close(
                batch["obs"], np.repeat(made.given[:, None], 20, axis=1)
            ),
            "environments and steps are mixed": wrong["obs"]
            and close(np.sort(batch["obs"].ravel()), np.sort(log["obs"].ravel())),
            "another action than was played": wrong["actions"],
            "the two kinds of end are exchanged": close(batch["terminated"], log["truncated"])
            and close(batch["truncated"], log["terminated"]),
            "the two kinds of end are one": close(batch["terminated"], ended)
            or (wrong["truncated"] and not batch["truncated"].any())
            or close(batch["truncated"], ended),
            "the rewards are of the step before": close(batch["rewards"][:, 1:], log["rewards"][:, :-1]),
            "always the likeliest action": bool((played == likeliest).all()),
            "a probability, not its logarithm": close(batch["logp"], np.exp(made.logp(log["obs"], played))),
            "logp is that of the likeliest action": wrong["logp"]
            and close(batch["logp"], made.logp(log["obs"], likeliest)),
            "logp is of another observation": wrong["logp"]
            and close(batch["logp"], made.logp(made.shown, stored)),
            "values are of the observation after the step": wrong["values"]
            and close(batch["values"][:, :-1], made.value(made.shown)),
            "the last value is zero": wrong["values after the last step"] and close(last, 0 * last),
            "the last value is of the step before": wrong["values after the last step"]
            and close(last, made.value(log["obs"][:, -1])),
            "the reset observation is taken for the final one": wrong["final_values"]
            and close(finals, made.value(made.shown)[cut]),
            "final_values are of the observation before the step": wrong["final_values"]
            and close(finals, made.value(log["obs"])[cut]),
            "final_values stay empty": wrong["final_values"]
            and (close(finals, 0 * finals) or not np.isfinite(finals).any()),
            "old observations come back": wrong["the observations that come back"]
            and (close(made.after, made.given) or close(made.after, log["obs"][:, -1])),
        },
        where=f"environment {i}, step {t}",
        there=batch["obs"][i, t],
        wanted=log["obs"][i, t],
        first=made.given[0],
        shown=log["obs"][0, 0],
        then=made.shown[0, 0],
        cuts=int(cut.sum()),
        last=last,
        finals=finals[:4],
    )
    yield from _entry_by_entry(wrong, "in 20 steps of 3 environments")

    def drawn(seed: int) -> np.ndarray:
        torch.manual_seed(4)
        one = Made(num_envs=3, size=2, actions=3, longest=4, seed=2)
        torch.manual_seed(seed)
        one.run(answer, steps=20)
        return one.log["actions"]

    same, again, other = drawn(5), drawn(5), drawn(6)
    yield from recognise(
        0.0,
        {
            "torch's seed does not repeat the actions": bool((same != again).any()),
            "the actions are the same whatever torch's seed": bool((same == other).all()),
        },
        differ=int((same != again).sum()),
        size=same.size,
    )

    # Actions come with the policy's probabilities: one state, many steps.
    many = Made(num_envs=10, size=2, actions=3, longest=5, seed=3)
    with torch.no_grad():
        many.policy.weight.zero_()
        many.policy.bias.copy_(torch.tensor([0.7, 0.2, 0.1]).log())
    many.run(answer, steps=100)
    share = np.bincount(many.log["actions"].astype(int).ravel(), minlength=3) / 1000
    yield Property(
        "actions are drawn with the policy's probabilities",
        bool(np.abs(share - [0.7, 0.2, 0.1]).max() < 0.07),
        f"of 1,000 actions with probabilities 0.7, 0.2 and 0.1 the shares are {share.round(2).tolist()}",
    )
    alike = float((many.log["actions"] == many.log["actions"][:1]).all(0).mean())
    yield Property(
        "each environment has an action of its own",
        alike < 0.2,
        f"in {alike:.0%} of the steps all 10 environments got the same action",
    )
    keen = Made(num_envs=10, size=2, actions=3, longest=5, seed=4)
    with torch.no_grad():
        keen.policy.weight.mul_(3)
    keen.run(answer, steps=100)
    logs = keen.all_logp(keen.log["obs"])
    taken = keen.logp(keen.log["obs"], keen.log["actions"].astype(int))
    mean = (np.exp(logs) * logs).sum(-1)
    spread = np.sqrt(((np.exp(logs) * logs**2).sum(-1) - mean**2).sum())
    off = float((taken - mean).sum() / spread)
    which = "likelier" if off > 0 else "less likely"
    yield Property(
        "and it is drawn at what that environment shows",
        abs(off) < 5,
        f"the drawn actions are {which} than they should be, by {abs(off):.0f} standard deviations",
    )
    many.run(answer, steps=3)
    yield from _entry_by_entry(many.wrong(), "in a second rollout that goes on from the first")

    rng = np.random.default_rng(DRAWN_FROM.get())
    for trial in range(8):
        n, steps, size, actions, longest = (int(x) for x in rng.integers(1, 6, size=5))
        world = Made(n, size, actions, longest, seed=10 + trial)
        world.run(answer, steps)
        where = f"with {n} environments, {steps} steps, {size} numbers seen and {actions} actions"
        yield from _entry_by_entry(world.wrong(), where)


def _entry_by_entry(wrong: dict[str, bool], where: str) -> Any:
    bad = [name for name, is_wrong in wrong.items() if is_wrong]
    yield Property(
        "every entry says what the environments did",
        not bad,
        f"{where} not so: {', '.join(bad)}" if bad else "",
    )
