"""What is raced against what: every job of a bench, of a quick one, and of the longer recordings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import settings

Job = dict[str, Any]

# What the table calls ours with fast=False.
PLAIN = "ours, plain"

SEEDS = range(100, 105)  # ours were settled on seeds below 100
QUICK_SEEDS = range(100, 102)
MANY_SEEDS = range(100, 120)
LONG_SEEDS = range(100, 103)

# Ours may take so many times the environment steps of the other, at most.
STEPS_LIMIT = 1.15

THRESHOLDS = {"CartPole-v1": 475.0, "Acrobot-v1": -100.0, "Pendulum-v1": -200.0}
# A run that needs more environment steps than this did not get there. Our schedules end there.
BUDGETS = {"CartPole-v1": 100_000, "Acrobot-v1": 150_000, "Pendulum-v1": 150_000}
CHECKS = {"every": 4_000, "episodes": 100}


@dataclass(frozen=True)
class Race:
    """One row of the table: contestants, ours first, and what is compared.

    Attributes
    ----------
    jobs : function from a seed to one job for each contestant
    measure : str
        "steps_per_second" (a rate, in pairs; more is better), "seconds_to_threshold" (medians; less is
        better), "milliseconds" or "seconds" (in pairs; less is better), or "cost": nothing is compared.
    goals : by contestant
        The ratio, ours to theirs, that was aimed at, and the worst that is good enough.
    at_most : float, optional
        What ours may take by itself, in the race's measure.
    """

    name: str
    title: str
    jobs: Callable[[int], list[Job]]
    measure: str
    seeds: Sequence[int]
    goals: dict[str, tuple[float, float]] = field(default_factory=dict)
    at_most: float | None = None

    def units(self) -> list[list[Job]]:
        """The jobs, seed by seed: what one list holds is run back to back."""
        return [self.jobs(seed) for seed in self.seeds]


# -------------------------------------------------------------------------------------------- contestants


def ours(env: str, seed: int, total_steps: int, given: dict[str, Any] | None = None, **more: Any) -> Job:
    return _train("ours", env, seed, total_steps, given or {}, **{"label": "ours", **more})


def sb3(env: str, seed: int, total_steps: int, given: dict[str, Any], **more: Any) -> Job:
    return _train("sb3", env, seed, total_steps, given, **{"label": "SB3", **more})


def cleanrl(env: str, seed: int, total_steps: int, given: dict[str, Any] | None = None, **more: Any) -> Job:
    return _train("cleanrl", env, seed, total_steps, given or {}, **{"label": "CleanRL", **more})


def plain(env: str, seed: int, total_steps: int, given: dict[str, Any] | None = None, **more: Any) -> Job:
    """Ours with ``fast=False``: what the chapters print."""
    return ours(env, seed, total_steps, {**(given or {}), "fast": False}, label=PLAIN, **more)


def purejaxrl(env: str, seed: int, total_steps: int, given: dict[str, Any] | None = None, **more: Any) -> Job:
    return _train("purejaxrl", env, seed, total_steps, given or {}, **{"label": "PureJaxRL", **more})


def _train(peer: str, env: str, seed: int, total_steps: int, given: dict[str, Any], **more: Any) -> Job:
    return {
        "label": more.pop("label"),
        "peer": peer,
        "worker": peer,
        "algorithm": more.pop("algorithm", "ppo"),
        "env": env,
        "seed": seed,
        "total_steps": total_steps,
        "settings": given,
        **more,
    }


# ----------------------------------------------------------------------------------- equal settings, rates

# The same settings in three spellings. SB3 weighs the whole squared error of the critic where we and CleanRL
# weigh half of it, and its clip falls to 0, which ours may only come near to.
EQUAL_ZOO = {
    "num_envs": 8,
    "num_steps": 32,
    "num_minibatches": 1,
    "epochs": 20,
    "gamma": 0.98,
    "lam": 0.8,
    "lr": 1e-3,
    "lr_final": 0.0,
    "clip_eps": 0.2,
    "clip_eps_final": 1e-6,
    "entropy_coef": 0.0,
    "value_coef": 1.0,
}
EQUAL_SB3 = {
    "num_envs": 1,
    "num_steps": 2048,
    "num_minibatches": 32,
    "epochs": 10,
    "lr": 3e-4,
    "entropy_coef": 0.0,
    "value_coef": 1.0,
}
EQUAL_CLEANRL = {
    "num_envs": 4,
    "num_steps": 128,
    "num_minibatches": 4,
    "epochs": 4,
    "lr": 2.5e-4,
    "lr_final": 0.0,
    "value_clip_eps": 0.2,
    "entropy_coef": 0.01,
    "value_coef": 0.5,
}
EQUAL_LUNAR_LANDER = {
    "num_envs": 16,
    "num_steps": 1024,
    "num_minibatches": 256,
    "epochs": 4,
    "gamma": 0.999,
    "lam": 0.98,
    "entropy_coef": 0.01,
    "value_coef": 1.0,
}
EQUAL_HOPPER = {
    "num_envs": 1,
    "num_steps": 512,
    "num_minibatches": 16,
    "epochs": 5,
    "gamma": 0.999,
    "lam": 0.99,
    "lr": 9.80828e-05,
    "entropy_coef": 0.00229519,
    "max_grad_norm": 0.7,
    "value_coef": 2 * 0.835671,
    "hidden": [256, 256],
    "activation": "relu",
    "normalize_observations": True,
    "normalize_rewards": True,
}
# Where nothing was said above, SB3, CleanRL and the papers agree.
_COMMON = {"gamma": 0.99, "lam": 0.95, "lr": 3e-4, "clip_eps": 0.2, "max_grad_norm": 0.5}
for _equal in (EQUAL_ZOO, EQUAL_SB3, EQUAL_CLEANRL, EQUAL_LUNAR_LANDER, EQUAL_HOPPER):
    _equal.update({name: value for name, value in _COMMON.items() if name not in _equal})


def rates(steps: int, seeds: Sequence[int], *, few: bool = False) -> list[Race]:
    def pair(
        mine: dict[str, Any], job: Callable[..., Job], env: str, theirs: dict[str, Any], steps: int
    ) -> Any:
        return lambda seed: [ours(env, seed, steps, mine), job(env, seed, steps, theirs)]

    cartpole = "CartPole-v1"
    made = [
        Race(
            "rate_zoo",
            "PPO on CartPole at RL-Zoo's settings",
            pair(EQUAL_ZOO, sb3, cartpole, settings.ZOO_PPO[cartpole], steps),
            "steps_per_second",
            seeds,
            {"SB3": (3.0, 2.2)},
        ),
        Race(
            "rate_sb3",
            "PPO on CartPole at SB3's defaults",
            pair(EQUAL_SB3, sb3, cartpole, {}, max(steps // 2, 4096)),
            "steps_per_second",
            seeds,
            {"SB3": (3.0, 2.2)},
        ),
        Race(
            "rate_cleanrl",
            "PPO on CartPole at CleanRL's defaults",
            pair(EQUAL_CLEANRL, cleanrl, cartpole, {}, steps),
            "steps_per_second",
            seeds,
            {"CleanRL": (4.5, 3.5)},
        ),
        Race(
            "rate_hopper",
            "PPO on Hopper-v5 at RL-Zoo's settings",
            pair(EQUAL_HOPPER, sb3, "Hopper-v5", settings.ZOO_PPO["Hopper-v5"], max(steps // 5, 2048)),
            "steps_per_second",
            seeds,
            {"SB3": (1.0, 1.0)},
        ),
    ]
    if not few:
        made.append(
            Race(
                "rate_lunar_lander",
                "PPO on LunarLander-v3 at RL-Zoo's settings",
                pair(EQUAL_LUNAR_LANDER, sb3, "LunarLander-v3", settings.ZOO_PPO["LunarLander-v3"], 16_384),
                "steps_per_second",
                seeds,
            )
        )
    return made


def rates_jax(steps: int, seeds: Sequence[int]) -> list[Race]:
    """Beside a peer that is compiled as a whole, at CleanRL's settings; its compilation is not timed here."""

    def race(num_envs: int) -> Race:
        mine = {**EQUAL_CLEANRL, "num_envs": num_envs}

        def jobs(seed: int) -> list[Job]:
            return [
                ours("CartPole-v1", seed, steps, mine),
                purejaxrl("CartPole-v1", seed, 500_000, {"NUM_ENVS": num_envs}),
                plain("CartPole-v1", seed, steps, mine),
            ]

        title = f"PPO on CartPole, CleanRL's settings, {num_envs} environments, once compiled"
        return Race(f"rate_jax_{num_envs}", title, jobs, "steps_per_second", seeds)

    return [race(4), race(64)]


# ------------------------------------------------------------------------------------ until it has learned


def until_learned(env: str, seeds: Sequence[int], *, with_cleanrl: bool) -> Race:
    checks = {**CHECKS, "threshold": THRESHOLDS[env]}

    def jobs(seed: int) -> list[Job]:
        made = [
            ours(env, seed, BUDGETS[env], **checks),
            # The budget is where a run is given up; the schedules go by what RL-Zoo trains for.
            sb3(env, seed, BUDGETS[env], settings.ZOO_PPO[env], **checks),
        ]
        # Its runs are by far the longest: the bench's seeds have to do.
        if with_cleanrl and seed in SEEDS:
            made.append(cleanrl(env, seed, 500_000, **checks))
        return made

    goals = {"SB3": (1 / 6, 1 / 4)} if env == "CartPole-v1" else {}
    title = f"PPO on {env} to {THRESHOLDS[env]:g}"
    return Race(f"reach_{_short(env)}", title, jobs, "seconds_to_threshold", seeds, goals)


def from_cold(seeds: Sequence[int]) -> Race:
    """From the start of the process, imports and compilation included, to 475 on CartPole."""
    checks = {**CHECKS, "threshold": 475.0, "cold": True}

    def jobs(seed: int) -> list[Job]:
        return [
            ours("CartPole-v1", seed, BUDGETS["CartPole-v1"], **checks),
            sb3("CartPole-v1", seed, BUDGETS["CartPole-v1"], settings.ZOO_PPO["CartPole-v1"], **checks),
            purejaxrl("CartPole-v1", seed, 500_000, **checks),
            plain("CartPole-v1", seed, BUDGETS["CartPole-v1"], **checks),
        ]

    return Race("cold_cartpole", "CartPole to 475 from a cold start", jobs, "seconds_to_threshold", seeds)


def until_learned_trpo(env: str, seeds: Sequence[int]) -> Race:
    checks = {**CHECKS, "threshold": THRESHOLDS[env], "algorithm": "trpo"}

    def jobs(seed: int) -> list[Job]:
        return [
            ours(env, seed, BUDGETS[env], **checks),
            sb3(env, seed, BUDGETS[env], settings.ZOO_TRPO[env], label="sb3-contrib", **checks),
        ]

    title = f"TRPO on {env} to {THRESHOLDS[env]:g}"
    return Race(f"reach_trpo_{_short(env)}", title, jobs, "seconds_to_threshold", seeds)


def _short(env: str) -> str:
    return env.split("-")[0].lower()


# sb3-contrib's defaults in our spelling; its critic takes minibatches of 128, ten times through the batch.
EQUAL_TRPO = {
    "num_envs": 1,
    "num_steps": 2048,
    "gamma": 0.99,
    "lam": 0.95,
    "max_kl": 0.01,
    "cg_iterations": 15,
    "cg_damping": 0.1,
    "line_search_steps": 10,
    "backtrack": 0.8,
    "value_lr": 1e-3,
    "value_epochs": 10,
    "value_minibatches": 16,
}


def rate_trpo(steps: int, seeds: Sequence[int]) -> Race:
    def jobs(seed: int) -> list[Job]:
        return [
            ours("CartPole-v1", seed, steps, EQUAL_TRPO, algorithm="trpo"),
            sb3("CartPole-v1", seed, steps, {}, label="sb3-contrib", algorithm="trpo"),
        ]

    title = "TRPO on CartPole at sb3-contrib's defaults"
    return Race("rate_trpo", title, jobs, "steps_per_second", seeds)


# ------------------------------------------------------------------------------------ one call, one start


def gae(seconds: float, seeds: Sequence[int]) -> list[Race]:
    def race(steps: int, envs: int, goal: float) -> Race:
        def jobs(seed: int) -> list[Job]:
            return [
                {
                    "label": label,
                    "peer": "ours",
                    "worker": "gae",
                    "form": form,
                    "steps": steps,
                    "envs": envs,
                    "seconds": seconds,
                    "seed": seed,
                }
                for label, form in (("ours", "public"), ("a plain torch loop", "loop"))
            ]

        goals = {"a plain torch loop": (1 / goal, 1 / goal)}
        title = f"GAE of {steps} steps in {envs} environments"
        return Race(f"gae_{steps}_{envs}", title, jobs, "milliseconds", seeds, goals)

    return [race(2048, 8, 100.0), race(128, 1024, 8.0)]


def start_up(seeds: Sequence[int]) -> list[Race]:
    def start(label: str, peer: str, code: str) -> Callable[[int], Job]:
        return lambda seed: {"label": label, "peer": peer, "code": code, "seed": seed}

    ours_import = start("ours", "ours", "import ppobook")
    sb3_import = start("SB3", "sb3", "import stable_baselines3")
    ours_help = start("ours", "ours", "import sys; from ppobook.cli import main; sys.exit(main(['--help']))")
    return [
        Race(
            "start_import",
            "import ppobook, and import stable_baselines3",
            lambda seed: [ours_import(seed), sb3_import(seed)],
            "seconds",
            seeds,
            at_most=0.3,
        ),
        Race("start_help", "ppobook --help", lambda seed: [ours_help(seed)], "seconds", seeds, at_most=0.5),
    ]


# ---------------------------------------------------------------------------------------- how cost grows


def cost(seeds: Sequence[int], *, few: bool = False) -> list[Race]:
    """Ours at growing sizes: 256 steps in each environment, minibatches of 256, four epochs."""

    def at(label: str, num_envs: int, width: int, threads: int) -> Callable[[int], Job]:
        given = {
            "num_envs": num_envs,
            "num_steps": 256,
            "num_minibatches": num_envs,
            "epochs": 4,
            "hidden": [width, width],
        }
        steps = max(256 * num_envs, 8_192 if width > 256 else 32_768)
        return lambda seed: ours("CartPole-v1", seed, steps, given, label=label, threads=threads)

    def race(name: str, title: str, points: list[Callable[[int], Job]]) -> Race:
        return Race(name, title, lambda seed: [point(seed) for point in points], "cost", seeds)

    numbers = [1, 8, 64] if few else [2**k for k in range(11)]
    widths = [64, 256] if few else [64, 128, 256, 512, 1024]
    made = [
        race(
            "cost_environments",
            "environments, networks of 64",
            [at(f"{n} environment{'s' * (n > 1)}", n, 64, 1) for n in numbers],
        )
    ]
    for threads in (1, 2):
        title = f"width of the networks, 8 environments, {threads} thread{'s' * (threads > 1)}"
        points = [at(f"width {w}", 8, w, threads) for w in widths]
        made.append(race(f"cost_width_{threads}", title, points))
    return made


# --------------------------------------------------------------------------------------------- the lists


def bench() -> list[Race]:
    """`make bench`: five seeds."""
    return [
        *rates(40_000, SEEDS),
        until_learned("CartPole-v1", SEEDS, with_cleanrl=True),
        until_learned("Acrobot-v1", SEEDS, with_cleanrl=False),
        until_learned("Pendulum-v1", SEEDS, with_cleanrl=False),
        rate_trpo(16_384, SEEDS),
        until_learned_trpo("CartPole-v1", SEEDS),
        *gae(1.0, SEEDS),
        *start_up(SEEDS),
        *cost(SEEDS[:2]),
    ]


def quick() -> list[Race]:
    """`make bench QUICK=1`: two seeds, shorter runs, and of the longer rows only CartPole's."""
    return [
        *rates(12_288, QUICK_SEEDS, few=True),
        until_learned("CartPole-v1", QUICK_SEEDS, with_cleanrl=False),
        rate_trpo(8_192, QUICK_SEEDS),
        *gae(0.3, QUICK_SEEDS),
        *start_up(QUICK_SEEDS),
        *cost(QUICK_SEEDS[:1], few=True),
    ]


def forms() -> list[Race]:
    """The plain form beside the fast one, and both beside a peer that is compiled as a whole."""

    def race(one: Race, env: str, mine: dict[str, Any], steps: int, **more: Any) -> Race:
        def jobs(seed: int) -> list[Job]:
            return [ours(env, seed, steps, mine, **more), plain(env, seed, steps, mine, **more)]

        return Race(one.name, one.title, jobs, "steps_per_second", SEEDS)

    cartpole = "CartPole-v1"
    settings_of = {
        "rate_zoo": (cartpole, EQUAL_ZOO),
        "rate_sb3": (cartpole, EQUAL_SB3),
        "rate_cleanrl": (cartpole, EQUAL_CLEANRL),
        "rate_hopper": ("Hopper-v5", EQUAL_HOPPER),
        "rate_lunar_lander": ("LunarLander-v3", EQUAL_LUNAR_LANDER),
    }
    return [
        *(race(one, *settings_of[one.name], 16_384) for one in rates(16_384, SEEDS)),
        race(rate_trpo(16_384, SEEDS), cartpole, EQUAL_TRPO, 16_384, algorithm="trpo"),
        *rates_jax(65_536, SEEDS),
        from_cold(SEEDS),
        *gae(0.5, SEEDS),
    ]


def many_seeds() -> list[Race]:
    """What learning takes, with twenty seeds where a goal hangs on it; the other rows are the bench's."""
    return [
        until_learned("CartPole-v1", MANY_SEEDS, with_cleanrl=True),
        until_learned("Acrobot-v1", SEEDS, with_cleanrl=False),
        until_learned("Pendulum-v1", SEEDS, with_cleanrl=False),
        until_learned_trpo("CartPole-v1", SEEDS),
    ]


LONG_ENVS = ("LunarLander-v3", "Hopper-v5")
_LONG = {"every": 25_000, "episodes": 20}


def long_sb3(env: str, seed: int) -> Job:
    return sb3(env, seed, 500_000, settings.ZOO_PPO[env], **_LONG)


def long_ours(env: str, seed: int) -> Job:
    return ours(env, seed, 500_000, **_LONG)


def curves() -> list[Race]:
    """500,000 steps of LunarLander and Hopper, three seeds each, evaluated on the way.

    A run takes minutes, and what is compared is what was learned, so that each is kept by itself.
    """
    made = []
    for env in LONG_ENVS:
        for name, job in (("ours", long_ours), ("sb3", long_sb3)):
            made.append(
                Race(
                    f"curve_{_short(env)}_{name}",
                    f"{env}, 500,000 steps",
                    lambda seed, job=job, env=env: [job(env, seed)],
                    "curve",
                    LONG_SEEDS,
                )
            )
    return made
