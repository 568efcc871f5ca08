"""Recording on a Ray cluster of two nodes, on this machine."""

import contextlib
import os
import signal
import threading
import time

import pytest
import ray
from ray.cluster_utils import Cluster
from toy_experiment import falling, patient_height

from ppobook import experiments
from ppobook.cli import main

SETTINGS = [{"slope": 1.0}, {"slope": 2.0}]


@pytest.fixture(scope="module")
def cluster():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        cluster.second = cluster.add_node(num_cpus=1)
        yield cluster
        cluster.shutdown()


def test_an_error_is_that_of_the_function_and_says_where(tmp_path, cluster):
    with pytest.raises(ArithmeticError, match=r"^too steep: 1\.0") as raised:
        experiments.record("toy", falling, SETTINGS[:1], [7], ray=cluster.address, folder=tmp_path)
    assert raised.value.__notes__ == ["in the run with slope=1.0, seed=7"]


def test_a_script_runs_on_a_cluster(tmp_path, cluster, capsys):
    script = tmp_path / "mine.py"
    script.write_text(
        "from ppobook.experiments import record\n"
        "FACTOR = 3\n"
        "def one(seed, slope):\n    return {'height': FACTOR * slope + seed}\n"
        "if __name__ == '__main__':\n"
        "    record('mine', one, [{'slope': 2}], [5])\n"
    )
    assert main(["record", str(script), "--ray", cluster.address, "--folder", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"written to {tmp_path / 'mine' / 'table.csv'}\n"
    assert (tmp_path / "mine" / "table.csv").read_text() == "slope,seed,height\n2,5,11\n"


# The last one, as the second node is gone after it.
def test_a_node_that_is_lost_loses_no_row(tmp_path, cluster):
    begun, go = tmp_path / "begun", tmp_path / "go"
    settings = [setting | {"folder": str(tmp_path)} for setting in SETTINGS]

    def lose_a_node():
        # (A node has one CPU: with two tasks, both are at work.)
        while not (begun.exists() and begun.read_text().count("\n") == 2):
            time.sleep(0.02)
        workers = dict(line.split() for line in begun.read_text().splitlines())
        second = str(cluster.second.all_processes["raylet"][0].process.pid)
        cluster.remove_node(cluster.second, allow_graceful=False)
        # (It ends without its node, but may finish its task before.)
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(workers[second]), signal.SIGKILL)
        go.touch()

    thread = threading.Thread(target=lose_a_node)
    thread.start()
    path = experiments.record("toy", patient_height, settings, range(3), ray=cluster.address, folder=tmp_path)
    thread.join()
    whole = experiments.record("whole", patient_height, settings, range(3), workers=0, folder=tmp_path)
    assert path.read_text() == whole.read_text()
    facts = (path.parent / "facts.json").read_text()
    assert '"workers": "on Ray"' in facts
    assert cluster.address not in facts
    assert not ray.is_initialized()
