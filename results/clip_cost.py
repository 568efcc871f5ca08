"""Chapter 3: CPU seconds of the runs of clip_compare on CartPole.

All cases of a seed run one after the other in one process, so that a machine that is busy at the moment is
busy for all of them.
"""

from clip_compare import SETTLED, trained

from ppobook.experiments import record


def one(seed: int, env: str) -> list[dict]:
    rows = []
    for case, own in SETTLED.items():
        run, cpu = trained(seed, env, case, own)
        rows.append({"case": case, "steps": run.history["steps"].iloc[-1], "cpu": cpu})
    return rows


if __name__ == "__main__":
    record(
        "clip_cost",
        one,
        [{"env": "CartPole-v1"}],
        seeds=range(100, 105),
        workers=1,
        digits=4,
        note="Training only, without the evaluation afterwards; one thread.",
    )
