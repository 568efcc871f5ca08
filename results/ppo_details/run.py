"""Chapter 5: PPO with one detail changed at a time, CartPole. Cases: `ppo_details/details.py`."""

from details import CASES, one

from ppobook.experiments import record

if __name__ == "__main__":
    record(
        "ppo_details",
        one,
        [{"env": "CartPole-v1", "case": case} for case in CASES],
        seeds=range(100, 110),
        workers=1,
        digits=4,
        note="The presets, one thing changed at a time; steps by runs on seeds 0 and 1; every seed reported.",
    )
