"""What stands in the folder of a run and is in the way."""

import pytest

from ppobook import load, train

SMALL = {"num_envs": 2, "num_steps": 16, "num_minibatches": 2, "hidden": (4,), "progress": False}


@pytest.fixture
def run(tmp_path):
    train("ppo", env="CartPole-v1", total_steps=32, out=tmp_path / "run", **SMALL)
    return tmp_path / "run"


def test_a_folder_in_place_of_the_history_is_named(run):
    (run / "history.csv").unlink()
    (run / "history.csv").mkdir()
    with pytest.raises(OSError, match=r"must be a folder that can be written, got: history\.csv: Is a dir"):
        train(resume=run, total_steps=64, progress=False)


def test_a_file_in_place_of_a_checkpoint_is_to_be_removed(run):
    (run / "checkpoint-000098").touch()
    with pytest.raises(
        OSError, match=r"got: Not a directory\. To go back to checkpoint-000001, remove checkpoint-000098$"
    ):
        load(run)
