"""Answers to stage 1, the rollout."""

from __future__ import annotations

import numpy as np
import torch
from torch.distributions import Categorical

from .variants import changes

BASE = """
@torch.no_grad()
def rollout(envs, obs, policy, critic, steps):
    start = obs
    names = ("obs", "actions", "logp", "rewards", "terminated", "truncated", "values", "final_values")
    kept = {name: [] for name in names}
    for t in range(steps):
        x = torch.tensor(obs, dtype=torch.float32)
        all_logp = policy(x).log_softmax(-1)
        a = torch.multinomial(all_logp.exp(), 1)[:, 0]
        logp = all_logp.gather(1, a[:, None])[:, 0]
        value = critic(x)[:, 0]
        obs, reward, terminated, truncated, infos = envs.step(a.numpy())
        y = torch.tensor(obs, dtype=torch.float32)
        final = np.array(obs)
        for i in np.flatnonzero(truncated):
            final[i] = infos["final_obs"][i]
        final_value = critic(torch.tensor(final, dtype=torch.float32))[:, 0]
        reward = torch.tensor(reward, dtype=torch.float32)
        terminated, truncated = torch.tensor(terminated), torch.tensor(truncated)
        row = (x, a, logp, reward, terminated, truncated, value, final_value)
        for name, entry in zip(names, row):
            kept[name].append(entry)
    last = critic(torch.tensor(obs, dtype=torch.float32))[:, 0]
    kept["values"].append(last)
    batch = {name: torch.stack(entries, dim=1) for name, entries in kept.items()}
    return batch, obs
"""
but = changes(BASE)


def like_cleanrl(envs, obs, policy, critic, steps):
    """Storage in which time comes first, exchanged at the end."""
    n = envs.num_envs
    store = {
        "obs": torch.zeros((steps, n, *envs.single_observation_space.shape)),
        "actions": torch.zeros((steps, n), dtype=torch.int64),
        **{name: torch.zeros((steps, n)) for name in ("logp", "rewards")},
        **{name: torch.zeros((steps, n), dtype=torch.bool) for name in ("terminated", "truncated")},
        "values": torch.zeros((steps + 1, n)),
        "final_values": torch.full((steps, n), float("nan")),
    }
    next_obs = torch.Tensor(obs)
    for step in range(steps):
        store["obs"][step] = next_obs
        with torch.no_grad():
            probs = Categorical(logits=policy(next_obs))
            action = probs.sample()
            store["values"][step] = critic(next_obs).flatten()
            store["logp"][step] = probs.log_prob(action)
        store["actions"][step] = action
        obs, reward, terminations, truncations, infos = envs.step(action.cpu().numpy())
        store["rewards"][step] = torch.tensor(reward).view(-1)
        store["terminated"][step] = torch.Tensor(terminations)
        store["truncated"][step] = torch.Tensor(truncations)
        for i, cut in enumerate(truncations):
            if cut:
                with torch.no_grad():
                    final = critic(torch.Tensor(infos["final_obs"][i]).unsqueeze(0))
                store["final_values"][step, i] = final.item()
        next_obs = torch.Tensor(obs)
    with torch.no_grad():
        store["values"][steps] = critic(next_obs).flatten()
    return {name: entry.transpose(0, 1) for name, entry in store.items()}, obs


class Buffer:
    """The rollout as an object that is called."""

    def __call__(self, envs, obs, policy, critic, steps):
        self.columns, self.critic = [], critic
        with torch.inference_mode(False), torch.no_grad():
            for _ in range(steps):
                obs = self.add(envs, obs, policy)
            self.last = self.value(obs)
        names = ("obs", "actions", "logp", "rewards", "terminated", "truncated", "values", "final_values")
        found = {
            name: torch.stack(list(c), 1)
            for name, c in zip(names, zip(*self.columns, strict=True), strict=True)
        }
        found["values"] = torch.cat([found["values"], self.last[:, None]], 1)
        return [found, obs]

    def value(self, obs):
        return self.critic(torch.as_tensor(np.asarray(obs), dtype=torch.float32)).squeeze(-1)

    def add(self, envs, obs, policy):
        seen = torch.as_tensor(obs.copy())
        probs = torch.softmax(policy(seen), -1)
        actions = torch.multinomial(probs, num_samples=1).squeeze(1)
        logp = torch.log(probs)[torch.arange(len(actions)), actions]
        after, rewards, over, cut, infos = envs.step(actions.tolist())
        final = torch.zeros(len(actions))
        if "final_obs" in infos:
            for i, one in enumerate(infos["final_obs"]):
                if one is not None:
                    final[i] = self.value(one)
        flags = torch.from_numpy(over.copy()), torch.from_numpy(cut.copy())
        self.columns.append(
            (seen, actions, logp, torch.from_numpy(rewards).float(), *flags, self.value(obs), final)
        )
        return after


DRAW = "torch.multinomial(all_logp.exp(), 1)[:, 0]"
FRESH = "    start = obs", "    start, new = obs, torch.Generator()\n    new.seed()"
RIGHT = {"capstone-rollout": [like_cleanrl, Buffer(), but()]}
WRONG = {
    "capstone-rollout": {
        "an axis too many": but(
            "value = critic(x)[:, 0]", "value = critic(x)", "[:, 0]\n    kept", "\n    kept"
        ),
        "time comes first": but("torch.stack(entries, dim=1)", "torch.stack(entries)"),
        "an entry of another type": [
            but(
                "    return batch", "    batch['terminated'] = batch['terminated'].float()\n    return batch"
            ),
            *(
                but("    return batch", f"    batch['{k}'] = batch['{k}'].{kind}()\n    return batch")
                for k, kind in (("obs", "double"), ("rewards", "double"), ("actions", "float"))
            ),
            but("    return batch", "    batch = {k: x.numpy() for k, x in batch.items()}\n    return batch"),
        ],
        "another number of steps": but("range(steps)", "range(steps - 1)"),
        "the environments are reset": but("    start = obs", "    obs, _ = envs.reset()"),
        "no value to bootstrap from": but('    kept["values"].append(last)\n', ""),
        "the graph is kept": but("@torch.no_grad()\n", ""),
        "the observation after the step": but("row = (x,", "row = (y,"),
        "the same observation at every step": but("row = (x,", "row = (torch.tensor(start),"),
        "environments and steps are mixed": but(
            "    return batch",
            '    batch["obs"] = torch.stack(kept["obs"]).reshape(batch["obs"].shape)\n    return batch',
        ),
        "another action than was played": [
            but("envs.step(a.numpy())", "envs.step(torch.multinomial(all_logp.exp(), 1)[:, 0].numpy())"),
            but("row = (x, a,", "row = (x, 0 * a,"),
        ],
        "the two kinds of end are exchanged": but(
            "reward, terminated, truncated, value", "reward, truncated, terminated, value"
        ),
        "the two kinds of end are one": [
            but("reward, terminated, truncated, value", "reward, terminated | truncated, truncated, value"),
            but("reward, terminated, truncated, value", "reward, terminated, terminated | truncated, value"),
            but(
                "reward, terminated, truncated, value",
                "reward, terminated | truncated, torch.zeros_like(truncated), value",
            ),
        ],
        "the rewards are of the step before": but(
            "    return batch",
            '    batch["rewards"] = F.pad(batch["rewards"], (1, 0))[:, :-1]\n    return batch',
        ),
        "always the likeliest action": but(DRAW, "all_logp.argmax(-1)"),
        "torch's seed does not repeat the actions": [
            but(
                DRAW,
                "torch.tensor([np.random.choice(3, p=p) for p in all_logp.double().softmax(-1).numpy()])",
            ),
            but(DRAW, "torch.multinomial(all_logp.exp(), 1, generator=new)[:, 0]", *FRESH),
        ],
        "the actions are the same whatever torch's seed": but(
            DRAW,
            "torch.multinomial(all_logp.exp(), 1, generator=new)[:, 0]",
            "    start = obs",
            "    start, new = obs, torch.Generator().manual_seed(0)",
        ),
        "a probability, not its logarithm": but("[:, 0]\n        value", "[:, 0].exp()\n        value"),
        "logp is that of the likeliest action": but(
            "all_logp.gather(1, a[:, None])[:, 0]", "all_logp.max(-1).values"
        ),
        "logp is of another observation": but(
            "        row =",
            "        logp = policy(y).log_softmax(-1).gather(1, a[:, None])[:, 0]\n        row =",
        ),
        "values are of the observation after the step": but(
            "        row =", "        value = critic(y)[:, 0]\n        row ="
        ),
        "the last value is zero": but("append(last)", "append(0 * last)"),
        "the last value is of the step before": but("append(last)", "append(value)"),
        "the reset observation is taken for the final one": but('final[i] = infos["final_obs"][i]', "pass"),
        "final_values are of the observation before the step": but(
            "row = (x, a, logp, reward, terminated, truncated, value, final_value)",
            "row = (x, a, logp, reward, terminated, truncated, value, value)",
        ),
        "final_values stay empty": [
            but("value, final_value)", "value, 0 * final_value)"),
            but("value, final_value)", "value, float('nan') * final_value)"),
        ],
        "old observations come back": [
            but("return batch, obs", "return batch, start"),
            but("return batch, obs", "return batch, x.numpy()"),
        ],
    }
}
UNNAMED = {
    "capstone-rollout": [
        but("value, final_value)", "value, final_value + 1)"),
        but("row = (x, a, logp, reward,", "row = (x, a, logp, reward.clamp(-1, 1),"),
        but("row = (x, a, logp,", "row = (x, a, logp * 2,"),
        but("append(last)", "append(last + 1)"),
        but(DRAW, "torch.randint(all_logp.shape[1], (len(x),))"),
        but(DRAW, "torch.multinomial((2 * all_logp).exp(), 1)[:, 0]"),
        but("row = (x,", "row = (x.round(),"),
        but(
            DRAW,
            "torch.multinomial(all_logp.exp()[:1], len(x), True)[0]",
        ),
        but(
            DRAW,
            "torch.multinomial(all_logp.exp(), 1)[:1, 0].expand(len(x)).clone()",
        ),
        but("value, final_value)", "value + 0.1, final_value)"),
    ]
}
