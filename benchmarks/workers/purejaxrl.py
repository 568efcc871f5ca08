"""PureJaxRL's ppo.py, compiled by JAX as it stands, but for a few lines.

1. Its `wrappers.py` imports brax and navix, which CartPole does not need: these lines are left out.
2. Where the policy is evaluated on the way, each update also returns its parameters. The whole run is one
   compiled call, so the policies are evaluated after it; an update costs the same throughout, so the time to
   the k-th of n is compilation plus k/n of the rest.

The environments, the network, the loss and the settings stay; a job's settings are entries of its `config`.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

# One core for everybody: XLA takes all it sees, whatever OMP_NUM_THREADS says.
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import common
import numpy as np

CONFIG = {
    "LR": 2.5e-4,
    "NUM_ENVS": 4,
    "NUM_STEPS": 128,
    "UPDATE_EPOCHS": 4,
    "NUM_MINIBATCHES": 4,
    "GAMMA": 0.99,
    "GAE_LAMBDA": 0.95,
    "CLIP_EPS": 0.2,
    "ENT_COEF": 0.01,
    "VF_COEF": 0.5,
    "MAX_GRAD_NORM": 0.5,
    "ACTIVATION": "tanh",
    "ANNEAL_LR": True,
    "DEBUG": False,
}
NOT_NEEDED = (
    "from brax import envs\n",
    "from brax.envs.wrappers.training import EpisodeWrapper, AutoResetWrapper\n",
    "import navix as nx\n",
)
LAST_LINE = "            return runner_state, metric\n"
WITH_PARAMETERS = '            return runner_state, {**metric, "params": train_state.params}\n'


def module(folder: Path, *, keep_parameters: bool) -> Any:
    """PureJaxRL's ppo module from a checkout's folder `purejaxrl`."""
    place = Path(tempfile.mkdtemp())
    wrappers = common.patched((folder / "wrappers.py").read_text(), dict.fromkeys(NOT_NEEDED, ""))
    (place / "wrappers.py").write_text(wrappers)
    changes = {LAST_LINE: WITH_PARAMETERS} if keep_parameters else {}
    (place / "purejaxrl_ppo.py").write_text(common.patched((folder / "ppo.py").read_text(), changes))
    sys.path.insert(0, str(place))
    import purejaxrl_ppo

    return purejaxrl_ppo


def run(job: dict[str, Any]) -> dict[str, Any]:
    evaluated = "every" in job
    ppo = module(Path(os.environ["PEER_FILES"], "purejaxrl"), keep_parameters=evaluated)
    import jax

    config = {**CONFIG, **job["settings"], "ENV_NAME": job["env"], "TOTAL_TIMESTEPS": job["total_steps"]}
    key = jax.random.PRNGKey(job["seed"])
    compiled = jax.jit(ppo.make_train(config)).lower(key).compile()
    start_up = time.process_time()  # of this process from its start: imports and compilation
    out = jax.block_until_ready(compiled(key))
    cpu = time.process_time() - start_up
    updates = int(config["NUM_UPDATES"])
    steps = updates * config["NUM_STEPS"] * config["NUM_ENVS"]
    result = {"steps": steps, "cpu_seconds": cpu, "start_up_seconds": start_up}
    if not evaluated:
        return {**result, "reached": None, "checks": []}
    return {**result, **evaluate(job, ppo, out["metrics"]["params"], updates, steps, start_up, cpu)}


def evaluate(
    job: dict[str, Any], ppo: Any, parameters: Any, updates: int, steps: int, start_up: float, cpu: float
) -> dict[str, Any]:
    """The policy's return every so many steps, until the threshold is met, as for the others."""
    import jax

    network = ppo.ActorCritic(2)
    logits = jax.jit(lambda params, x: network.apply(params, x)[0].logits)
    checks: list[dict[str, float]] = []
    next_check = job["every"]
    for k in range(1, updates + 1):
        done = k * steps // updates
        if done < next_check:
            continue
        next_check = job["every"] * (done // job["every"] + 1)
        policy = jax.tree_util.tree_map(lambda x, k=k: x[k - 1], parameters)
        rng = np.random.default_rng(0)

        def act(observations: np.ndarray, policy: Any = policy, rng: Any = rng) -> np.ndarray:
            scores = np.asarray(logits(policy, observations))
            return (scores + rng.gumbel(size=scores.shape)).argmax(1)

        seed = 10_000 + 1_000 * job["seed"] + len(checks)
        returns = common.play(act, job["env"], job["episodes"], seed=seed)
        spent = start_up + cpu * k / updates
        checks.append(
            {"steps": done, "cpu_seconds": spent, "mean": float(returns.mean()), "std": float(returns.std())}
        )
        if returns.mean() >= job["threshold"]:
            break
    last = checks[-1]
    return {
        "steps": int(last["steps"]),
        "cpu_seconds": last["cpu_seconds"],
        "reached": last["mean"] >= job["threshold"],
        "checks": checks,
    }


if __name__ == "__main__":
    common.main(run)
