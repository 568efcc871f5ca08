"""The races: which contestants run which jobs, and what is compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import settings

Job = dict[str, Any]

# Ours by default, which is what the chapters print, and with `fast=True`.
PLAIN, FAST = "ours, plain", "ours, fast"
FORMS = {PLAIN: False, FAST: True}

SEEDS = range(100, 105)  # our presets were tuned on seeds below 100
THRESHOLDS = {"CartPole-v1": 475.0, "Acrobot-v1": -100.0, "Pendulum-v1": -200.0}
# A run that needs more environment steps than this did not get there. Our schedules end there.
BUDGETS = {"CartPole-v1": 100_000, "Acrobot-v1": 150_000, "Pendulum-v1": 150_000}
CHECKS = {"every": 4_000, "episodes": 100}
SMALL, LARGE = (2, 64), (4, 256)  # layers and width
TITLES = {"grpo": "GRPO", "ppo": "PPO on tokens", "dpo": "DPO", "sft": "SFT", "rloo": "RLOO"}


@dataclass(frozen=True)
class Race:
    """A race: the contestants and what is compared.

    Attributes
    ----------
    recording : str
        The folder of results/ that the race is written to.
    jobs : function from a seed to one job for each contestant, which run back to back
    goals : by contestant of ours and peer, how many times as fast ours should be
    """

    name: str
    title: str
    recording: str
    jobs: Callable[[int], list[Job]]
    seeds: Sequence[int] = SEEDS
    goals: dict[tuple[str, str], float] = field(default_factory=dict)


# ------------------------------------------------------------------------------------- control


def _train(
    label: str, peer: str, env: str, seed: int, total_steps: int, given: dict[str, Any], more: dict[str, Any]
) -> Job:
    job = {"label": label, "peer": peer, "worker": peer, "algorithm": "ppo", "env": env, "seed": seed}
    return {**job, "total_steps": total_steps, "settings": given, **more}


def ours(env: str, seed: int, total_steps: int, given: dict[str, Any], **more: Any) -> list[Job]:
    """Return the plain and the fast form of one run; no settings mean the environment's preset."""
    return [
        _train(label, "ours", env, seed, total_steps, {**given, "fast": fast}, more)
        for label, fast in FORMS.items()
    ]


def sb3(env: str, seed: int, total_steps: int, given: dict[str, Any], **more: Any) -> Job:
    label = "sb3-contrib" if more.get("algorithm") == "trpo" else "SB3"
    return _train(label, "sb3", env, seed, total_steps, given, more)


def cleanrl(env: str, seed: int, total_steps: int, given: dict[str, Any], **more: Any) -> Job:
    return _train("CleanRL", "cleanrl", env, seed, total_steps, given, more)


def purejaxrl(env: str, seed: int, total_steps: int, given: dict[str, Any], **more: Any) -> Job:
    return _train("PureJaxRL", "purejaxrl", env, seed, total_steps, given, more)


def rates(steps: int) -> list[Race]:
    """Environment steps per CPU second at equal settings."""

    def race(
        name: str,
        where: str,
        env: str,
        mine: dict[str, Any],
        peer: Callable[..., Job],
        theirs: dict[str, Any],
        *,
        total: int = steps,
        algorithm: str = "ppo",
        goal: float | None = None,
    ) -> Race:
        def jobs(seed: int) -> list[Job]:
            pair = (env, seed, total)
            return [*ours(*pair, mine, algorithm=algorithm), peer(*pair, theirs, algorithm=algorithm)]

        label = jobs(0)[-1]["label"]
        goals = {} if goal is None else {(PLAIN, label): goal}
        return Race(f"rate_{name}", f"{algorithm.upper()} on {where}", "race", jobs, SEEDS, goals)

    cartpole, lander, hopper = "CartPole-v1", "LunarLander-v3", "Hopper-v5"
    zoo, at_zoos, s = settings.ZOO_PPO, "at RL-Zoo's settings", settings
    return [
        race("zoo", f"CartPole {at_zoos}", cartpole, s.EQUAL_ZOO, sb3, zoo[cartpole], goal=1.5),
        race("sb3", "CartPole at SB3's defaults", cartpole, s.EQUAL_SB3, sb3, {}, goal=1.5),
        race("cleanrl", "CartPole at CleanRL's defaults", cartpole, s.EQUAL_CLEANRL, cleanrl, {}, goal=2.5),
        race("hopper", f"{hopper} {at_zoos}", hopper, s.EQUAL_HOPPER, sb3, zoo[hopper], total=8_192),
        race(
            "lunar_lander",
            f"{lander} {at_zoos}",
            lander,
            s.EQUAL_LUNAR_LANDER,
            sb3,
            zoo[lander],
            total=16_384,
        ),
        race(
            "trpo",
            "CartPole at sb3-contrib's defaults",
            cartpole,
            s.EQUAL_TRPO,
            sb3,
            {},
            total=16_384,
            algorithm="trpo",
        ),
    ]


def jitted(num_envs: int) -> Race:
    """Steps per CPU second beside a program that is compiled as a whole, once it has been compiled."""
    mine = {**settings.EQUAL_CLEANRL, "num_envs": num_envs}

    def jobs(seed: int) -> list[Job]:
        theirs = purejaxrl("CartPole-v1", seed, 500_000, {"NUM_ENVS": num_envs})
        return [*ours("CartPole-v1", seed, 65_536, mine), theirs]

    title = f"PPO on CartPole, CleanRL's settings, {num_envs} environments"
    return Race(f"rate_jax_{num_envs}", title, "race_forms", jobs)


def from_cold() -> Race:
    """From the start of the process, imports and compilation included, to 475 on CartPole."""
    checks = {**CHECKS, "threshold": 475.0, "cold": True}
    env, budget = "CartPole-v1", BUDGETS["CartPole-v1"]

    def jobs(seed: int) -> list[Job]:
        return [
            *ours(env, seed, budget, {}, **checks),
            sb3(env, seed, budget, settings.ZOO_PPO[env], **checks),
            purejaxrl(env, seed, 500_000, {}, **checks),
        ]

    return Race("cold_cartpole", "CartPole to 475 from a cold start", "race_forms", jobs)


def until_learned(env: str, algorithm: str = "ppo", *, with_cleanrl: bool = False) -> Race:
    """CPU seconds until the policy's mean return reaches the environment's threshold."""
    checks = {**CHECKS, "threshold": THRESHOLDS[env], "algorithm": algorithm}
    zoo = {"ppo": settings.ZOO_PPO, "trpo": settings.ZOO_TRPO}[algorithm]

    def jobs(seed: int) -> list[Job]:
        made = [
            *ours(env, seed, BUDGETS[env], {}, **checks),
            sb3(env, seed, BUDGETS[env], zoo[env], **checks),
        ]
        # CleanRL's runs are by far the longest, so it runs on five seeds only.
        if with_cleanrl and seed in SEEDS:
            made.append(cleanrl(env, seed, 500_000, {}, **checks))
        return made

    short = ("trpo_" if algorithm == "trpo" else "") + env.split("-")[0].lower()
    title = f"{algorithm.upper()} on {env} to {THRESHOLDS[env]:g}"
    return Race(f"reach_{short}", title, "race_many_seeds", jobs)


def curves() -> list[Race]:
    """500,000 steps on LunarLander and Hopper, three seeds each, evaluated on the way."""
    made = []
    for env in ("LunarLander-v3", "Hopper-v5"):

        def jobs(seed: int, env: str = env) -> list[Job]:
            run = (env, seed, 500_000)
            how = {"every": 25_000, "episodes": 20}
            return [ours(*run, {}, **how)[1], sb3(*run, settings.ZOO_PPO[env], **how)]

        name = f"curve_{env.split('-')[0].lower()}"
        made.append(Race(name, f"{env}, 500,000 steps", "race_curves", jobs, SEEDS[:3]))
    return made


# ------------------------------------------------------------------------------------ language


def language(
    algorithm: str, size: tuple[int, int], steps: int, models: Sequence[str], seeds: Sequence[int]
) -> Race:
    """Milliseconds of a step at equal work, of the library and of TRL."""
    alike = {"algorithm": algorithm, "layers": size[0], "width": size[1], "warm_up": 2, "steps": steps}
    alike |= {"folder": "gpt2_{}x{}".format(*size), "maker": "make_gpt2", "rows": 64, "new_tokens": 24}

    def jobs(seed: int) -> list[Job]:
        job = {**alike, "seed": seed}
        mine = [
            {
                **job,
                "label": f"{label}, plain",
                "peer": "ours",
                "worker": "ours_language",
                "model": model,
                "settings": settings.ours_settings(algorithm),
            }
            for model, label in (("folder", "the same GPT-2"), ("decoder", "our decoder"))
            if model in models
        ]
        peer = "trl_ppo" if algorithm == "ppo" else "trl"
        theirs = {**job, "label": "TRL", "peer": peer, "worker": "trl_steps"}
        return [*mine, {**theirs, "settings": settings.trl_settings(algorithm)}]

    name = "{}_{}x{}".format(algorithm, *size)
    title = "{}, {} layers of width {}".format(TITLES[algorithm], *size)
    return Race(name, title, "language_race", jobs, seeds)


def real(name: str, title: str, **changed: dict[str, Any]) -> Race:
    """Milliseconds of a step of SmolLM2-135M with LoRA, 32 completions of 16 tokens, of the library and TRL.

    `changed` are settings, by "ours" and "trl", that differ from those of the other language races.
    """
    algorithm = name.partition("_")[0]
    job = {"algorithm": algorithm, "folder": "smollm2", "maker": "make_real", "rows": 32, "new_tokens": 16}
    lora = {"r": settings.LORA["r"], "lora_alpha": settings.LORA["alpha"], "target_modules": "all-linear"}
    job |= {"warm_up": 1, "steps": 2, "lora": lora}

    def jobs(seed: int) -> list[Job]:
        mine, theirs = (
            made | changed.get(side, {})
            for side, made in zip(("ours", "trl"), settings.real_settings(algorithm), strict=True)
        )
        ours = {"label": "ours, plain", "peer": "ours", "worker": "ours_language", "model": "folder"}
        peer = {"label": "TRL", "peer": "trl_ppo" if algorithm == "ppo" else "trl", "worker": "trl_steps"}
        return [
            {**job, "seed": seed, **ours, "settings": mine},
            {**job, "seed": seed, **peer, "settings": theirs},
        ]

    return Race(f"real_{name}", title, "real_race", jobs, SEEDS[:3])


def reals() -> list[Race]:
    """Return the races on a real model."""
    return [
        real("grpo", "GRPO", ours={"kl_coef": 0.0}, trl={"beta": 0.0}),
        real("grpo_kl", "GRPO with a KL penalty"),
        real("ppo", "PPO, one epoch", ours={"epochs": 1}, trl={"num_ppo_epochs": 1}),
        real("dpo", "DPO"),
        real("sft", "SFT"),
        real("generate", "generation alone"),
    ]


# ----------------------------------------------------------------------------------- the lists


def bench() -> list[Race]:
    """Return all races; `make bench` runs them."""
    both = ("folder", "decoder")
    return [
        *rates(40_000),
        jitted(4),
        jitted(64),
        from_cold(),
        until_learned("CartPole-v1", with_cleanrl=True),
        until_learned("Acrobot-v1"),
        until_learned("Pendulum-v1"),
        until_learned("CartPole-v1", "trpo"),
        *(language(name, SMALL, 6 if name == "ppo" else 12, both, SEEDS) for name in TITLES),
        *(language(name, LARGE, 3, both, SEEDS[:3]) for name in ("grpo", "ppo", "dpo", "sft")),
        *reals(),
    ]


def quick() -> list[Race]:
    """Return the races behind the library's goals, in shorter runs; `make bench QUICK=1` runs them."""
    wanted = ("rate_zoo", "rate_cleanrl", "rate_trpo")
    return [
        *(race for race in rates(12_288) if race.name in wanted),
        language("grpo", SMALL, 8, ["decoder"], SEEDS),
        language("ppo", SMALL, 4, ["decoder"], SEEDS),
    ]
