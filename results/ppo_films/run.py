"""Chapter 5: an episode of LunarLander and one of Hopper as line drawings, before training and after it.

The policies are those of `ppo_harder`, seed 100. A row is a line from (x1, y1) to (x2, y2) in a picture; the
ground stands in picture 0 only.
"""

import gymnasium as gym
import numpy as np
import torch

from ppobook import train
from ppobook.experiments import record
from ppobook.policies import RunningNorm, policy_for

STEPS = 300_000
LONGEST = {"LunarLander-v3": 600, "Hopper-v5": 500}
EVERY = {"LunarLander-v3": 3, "Hopper-v5": 8}  # about 16 pictures a second
HULL = np.array([(-14, 17), (-17, -10), (17, -10), (14, 17)]) / 30
LEG = np.array([(0, -8), (0, 8)]) / 30


def lander_lines(game) -> dict[str, list]:
    lines = {}
    for name, body, shape in (
        ("hull", game.lander, HULL),
        *((f"leg {i}", leg, LEG) for i, leg in enumerate(game.legs)),
    ):
        c, s = np.cos(body.angle), np.sin(body.angle)
        points = shape @ np.array([[c, s], [-s, c]]) + np.array(body.position)
        ends = np.roll(points, -1, axis=0) if len(points) > 2 else points[1:]
        for i, (p, q) in enumerate(zip(points, ends, strict=False)):
            lines[f"{name} {i}"] = [*p, *q]
    return lines


def hopper_lines(game) -> dict[str, list]:
    lines, model, data = {}, game.model, game.data
    for i in range(model.ngeom):
        if model.geom(i).name == "floor":
            continue
        along = data.geom_xmat[i].reshape(3, 3)[:, 2] * model.geom_size[i][1]
        p, q = data.geom_xpos[i] - along, data.geom_xpos[i] + along
        lines[model.geom(i).name] = [p[0], p[2], q[0], q[2]]
    return lines


def ground_lines(env: str, game) -> dict[str, list]:
    if env == "Hopper-v5":
        return {"ground": [-1.0, 0.0, 9.0, 0.0]}
    return {f"ground {i}": [*a, *b] for i, (a, b, *_) in enumerate(game.sky_polys)}


def filmed(policy, env: str, who: str, seed: int) -> list[dict]:
    game, generator = gym.make(env), torch.Generator().manual_seed(seed)
    observation, _ = game.reset(seed=seed)
    rows, total, ended = [], 0.0, False
    for step in range(LONGEST[env]):
        lines = lander_lines(game.unwrapped) if env == "LunarLander-v3" else hopper_lines(game.unwrapped)
        if step == 0:
            lines |= ground_lines(env, game.unwrapped)
        if step % EVERY[env] == 0 or ended:
            for part, ends in lines.items():
                x1, y1, x2, y2 = (round(float(x), 2) for x in ends)
                rows.append({"who": who, "picture": step // EVERY[env], "part": part})
                rows[-1] |= {"x1": x1, "y1": y1, "x2": x2, "y2": y2, "paid": round(total, 1)}
        if ended:
            break
        action, _ = policy.sample(torch.tensor(observation, dtype=torch.float32), generator)
        observation, reward, terminated, truncated, _ = game.step(policy.in_bounds(action).numpy())
        total, ended = total + float(reward), terminated or truncated
    return rows


def one(seed: int, env: str) -> list[dict]:
    game = gym.make(env)
    normalizer = RunningNorm(game.observation_space.shape) if env == "Hopper-v5" else None
    beginner = policy_for(game.observation_space, game.action_space, normalizer=normalizer, seed=seed)
    run = train("ppo", env=env, seed=seed, total_steps=STEPS, progress=False)
    return [
        *filmed(beginner, env, "before", 10_000 + seed),
        *filmed(run.policy, env, "after", 10_000 + seed),
    ]


if __name__ == "__main__":
    record(
        "ppo_films",
        one,
        [{"env": env} for env in LONGEST],
        seeds=[100],
        workers=1,
        digits=4,
        note="The first episode of each policy; no episode was picked.",
    )
