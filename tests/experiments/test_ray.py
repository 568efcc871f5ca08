"""Recording on a Ray cluster of two nodes, on this machine."""

import threading
import time

import pytest
import ray
from ray.cluster_utils import Cluster
from toy_experiment import falling, height, slow_height

from ppobook import experiments
from ppobook.cli import main
from ppobook.experiments import engines

SETTINGS = [{"slope": 1.0}, {"slope": 2.0}]


@pytest.fixture(scope="module")
def cluster():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        cluster.second = cluster.add_node(num_cpus=1)
        yield cluster
        cluster.shutdown()


def test_a_cluster_gives_the_same_table(tmp_path, cluster):
    one = experiments.record("one", height, SETTINGS, range(3), workers=0, folder=tmp_path)
    two = experiments.record("two", height, SETTINGS, range(3), ray=cluster.address, folder=tmp_path)
    assert one.read_text() == two.read_text()
    facts = (two.parent / "facts.json").read_text()
    assert '"workers": "on Ray"' in facts
    assert cluster.address not in facts
    assert not ray.is_initialized()


def test_an_error_is_that_of_the_function_and_says_where(tmp_path, cluster):
    with pytest.raises(ArithmeticError, match=r"^too steep: 1\.0") as raised:
        experiments.record("toy", falling, SETTINGS[:1], [7], ray=cluster.address, folder=tmp_path)
    assert raised.value.__notes__ == ["in the run with slope=1.0, seed=7"]


def test_other_versions_on_a_node_are_refused(tmp_path, cluster, monkeypatch):
    monkeypatch.setattr(engines, "versions", lambda: {**VERSIONS, "torch": "1.0"})
    with pytest.raises(ValueError, match=r"every node of the cluster must have torch 1\.0, as this machine"):
        experiments.record("toy", height, SETTINGS, [0], ray=cluster.address, folder=tmp_path)


VERSIONS = engines.versions()


def test_where_no_cluster_is(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "")
    with pytest.raises(ValueError, match=r"ray must be the address of a cluster, got 'nowhere'"):
        experiments.record("toy", height, SETTINGS, [0], ray="nowhere", folder=tmp_path)


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
def test_a_node_that_is_lost_loses_one_task_and_no_row(tmp_path, cluster):
    log = tmp_path / "begun.txt"
    settings = [setting | {"log": str(log)} for setting in SETTINGS]
    whole = experiments.record("whole", slow_height, settings, range(4), workers=0, folder=tmp_path)
    log.unlink()
    partial = tmp_path / "toy" / "partial.jsonl"

    def lose_a_node():
        while not (partial.exists() and partial.read_text().count("\n") >= 2):
            time.sleep(0.02)
        cluster.remove_node(cluster.second, allow_graceful=False)

    thread = threading.Thread(target=lose_a_node)
    thread.start()
    path = experiments.record("toy", slow_height, settings, range(4), ray=cluster.address, folder=tmp_path)
    thread.join()
    begun = [line.split(maxsplit=1) for line in log.read_text().splitlines()]
    assert len({node for node, _ in begun}) == 2
    assert len(begun) <= len({task for _, task in begun}) + 1 == 8 + 1
    assert path.read_text() == whole.read_text()
