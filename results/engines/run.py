"""The overhead of each engine: forty runs in this process, in two processes, and on a Ray cluster.

The cluster's two nodes are on one machine too, so that nothing of a network is in the figures.
"""

import os
import time

from ppobook.experiments import record
from ppobook.experiments.engines import here, on_ray

RUNS = 40
SETTINGS = [
    {"engine": engine, "cpu_of_a_run": cpu}
    for engine in ("this process", "processes", "Ray")
    for cpu in (0.0, 0.5)
]


def nothing(seed: int, cpu: float) -> dict:
    begun = time.process_time()
    while time.process_time() - begun < cpu:
        pass
    return {"height": seed}


def one(seed: int, engine: str, cpu_of_a_run: float) -> dict:
    tasks = [({"cpu": cpu_of_a_run}, run) for run in range(RUNS)]
    begun = time.perf_counter()
    cluster, started = None, 0.0
    try:
        if engine == "Ray":
            os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
            from ray.cluster_utils import Cluster

            cluster = Cluster(
                initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
            )
            cluster.add_node(num_cpus=1)
            started = time.perf_counter() - begun
            list(on_ray(nothing, tasks, cluster.address))
        else:
            list(here(nothing, tasks, 2 if engine == "processes" else 0))
    finally:
        if cluster is not None:
            cluster.shutdown()
    seconds = time.perf_counter() - begun
    workers = 1 if engine == "this process" else 2
    ideal = RUNS * cpu_of_a_run / workers
    return {"start": started, "seconds": seconds, "beside": seconds - started - ideal}


if __name__ == "__main__":
    record(
        "engines",
        one,
        SETTINGS,
        seeds=range(3),
        workers=0,
        digits=3,
        note="Forty runs of 0 or 0.5 CPU seconds; three repetitions. start: seconds until the cluster "
        "is there; beside: the seconds after that, less those of the runs on two idle cores.",
    )
