"""Two processes that train one run, and parts of a batch one after the other, against one process and none.

All that the two processes do is done by one pair of them, at the beginning, and looked at after.
"""

import os
import signal
import socket
import subprocess
import sys
import traceback

import pandas as pd
import pytest
import torch
from small_language import timeless
from small_stages import WORLD, decoder
from torch import multiprocessing

from ppobook.language import parallel
from ppobook.language.model import Decoder
from ppobook.language.rewards import RewardModel
from ppobook.language.run import load
from ppobook.language.training import train
from ppobook.language.world import World
from ppobook.run.interrupts import Interrupted

BASE = {"progress": False, "checkpoint_every": 2, "seed": 3}
PAIRS = {"pairs": 26, "eval_pairs": 4, "eval_every": 2, "batch_size": 7}


def double():
    return decoder().double()


def other():
    return decoder(seed=9).double()


def reward_model():
    made = RewardModel(double())
    with torch.no_grad():
        made.output.weight.normal_(generator=torch.Generator().manual_seed(5))
    return made


def short(prompts, completions, **columns):
    return [-float(len(text)) for text in completions]


# Odd sizes, that two processes do not share alike; float64, so that what differs is no rounding.
CASES = {
    "sft": {"model": double, "updates": 4, "batch_size": 7}
    | {"examples": 30, "eval_examples": 5, "eval_every": 2},
    "reward": {"model": double, "updates": 4, **PAIRS},
    "ppo": {"model": double, "reward": reward_model, "updates": 3, "batch_size": 11, "entropy_coef": 0.01}
    | {"normalize_advantages": "minibatch", "num_minibatches": 3, "kl_target": 1.0, "lr": 1e-2},
    "ppo, a mean of sequences": {"stage": "ppo", "model": double, "reward": "gold", "updates": 3}
    | {"batch_size": 5, "num_minibatches": 5, "reduction": "sequence", "kl_in": "loss", "lr": 1e-2},
    "grpo": {"model": double, "reward": "gold", "updates": 3, "batch_size": 15, "group_size": 3, "lr": 1e-2},
    "grpo, a function": {"stage": "grpo", "model": double, "reward": lambda: short, "updates": 2}
    | {"batch_size": 12, "group_size": 4, "lr": 1e-2, "reduction": "constant"},
    "dapo": {"stage": "grpo", "variant": "dapo", "model": double, "reward": lambda: short, "updates": 3}
    | {"batch_size": 10, "group_size": 2, "lr": 1e-2},
    "gspo": {"stage": "grpo", "variant": "gspo", "model": double, "reward": "gold", "updates": 3}
    | {"batch_size": 9, "group_size": 3, "lr": 1e-2},
    # With a reference of their own: where the policy is its reference, rounding decides what is a tie.
    "dpo": {"model": double, "reference": other, "updates": 4, **PAIRS},
    "kto": {"stage": "dpo", "loss": "kto", "model": double, "reference": other, "updates": 4}
    | {"pairs": 26, "batch_size": 7},
    "online_dpo": {"model": double, "reference": other, "reward": "gold", "updates": 3, "batch_size": 10}
    | {"lr": 1e-2},
    "iterative_ppo": {"model": double, "reward": reward_model, "updates": 2, "batch_size": 7}
    | {"refresh_every": 1, "num_minibatches": 2, "pairs": 9, "reward_model_batch_size": 4},
    "lagged_grpo": {"model": double, "reward": "gold", "updates": 3, "batch_size": 6, "group_size": 3}
    | {"corrected": False, "max_weight": 2.0, "lr": 1e-2},
}  # fmt: skip


def fit(case, **changes):
    given = {"stage": case, **BASE, **CASES[case], **changes}
    for name in ("model", "reward", "reference"):
        if callable(given.get(name)):
            given[name] = given[name]()
    return train(data=WORLD, **given)


def alike(one, other, tolerance=1e-9):
    """Two runs: the same histories and the same weights, but for rounding."""
    a, b = timeless(one["history"]), timeless(other["history"])
    pd.testing.assert_frame_equal(a, b, rtol=tolerance, atol=tolerance)
    for mine, theirs in zip(one["weights"], other["weights"], strict=True):
        torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance)


def outcome(run):
    return {"history": run.history, "weights": list(run.model.state_dict().values())}


# ------------------------------------------------------------------------------------- parts of a batch


@pytest.mark.parametrize("case", CASES)
def test_parts_of_a_batch_take_the_steps_of_the_whole(one, case):
    alike(outcome(fit(case, micro_batch_size=3)), one(case))


@pytest.mark.parametrize("case", ["sft", "ppo", "dapo", "dpo", "kto", "iterative_ppo"])
def test_no_more_rows_than_asked_for_go_through_a_model(monkeypatch, case):
    seen = []

    def watched(method):
        def counted(self, tokens, *given):
            seen.append(len(tokens))
            return method(self, tokens, *given)

        return counted

    for name in ("hidden", "start_cache"):
        monkeypatch.setattr(Decoder, name, watched(getattr(Decoder, name)))
    fit(case, micro_batch_size=2)
    assert max(seen) == (4 if case in ("reward", "dpo", "online_dpo", "iterative_ppo") else 2)  # pairs


# ------------------------------------------------------------------------------------------ two processes


def angry(prompts, completions):
    if parallel.rank() == 1:
        raise ValueError("reward angry wants kinder words")
    return [0.0] * len(completions)


def stopped(folder):
    """Ctrl-C in one of the two, in the second update."""
    seen = []

    def reward(prompts, completions):
        seen.append(len(completions))
        if len(seen) == 2 and parallel.rank() == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return [float(len(text)) for text in completions]

    try:
        fit("grpo, a function", reward=lambda: reward, updates=5, out=folder)
    except Interrupted as stop:
        return len(stop.run.history)
    return None


def work(rank, port, folder):
    """Do the work of one of the two processes; the first records the results."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}
    torch.set_num_threads(1)
    found = {}
    try:
        for case in CASES:
            found[case] = outcome(fit(case, out=folder / f"two, {case}" if case in RESUMED else None))
        found["in parts"] = outcome(fit("ppo", micro_batch_size=2))
        for case in RESUMED:
            shorter = CASES[case]["updates"] - 1
            fit(case, updates=shorter, out=folder / f"short, {case}")
            function = CASES[case]["reward"]() if case == "dapo" else None
            found[f"resumed, {case}"] = outcome(
                train(resume=folder / f"short, {case}", reward=function, updates=shorter + 1, progress=False)
            )
        update = stopped(folder / "stopped")
        found["stopped"] = parallel.gather(lambda: [update])
        try:
            fit("grpo, a function", reward=lambda: angry)
        except (ValueError, RuntimeError) as error:
            sentence = str(error)
            found["angry"] = parallel.gather(lambda: [sentence])
    except BaseException:
        found["failed"] = traceback.format_exc()
    torch.save(found, folder / f"found-{rank}.pt")


RESUMED = ("ppo", "dapo", "reward")


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Results of all that two processes did together."""
    folder = tmp_path_factory.mktemp("two")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # Forked: to import torch once more takes longer than all that they do.
    multiprocessing.start_processes(work, (port, folder), nprocs=2, start_method="fork")
    found, other = (torch.load(folder / f"found-{rank}.pt", weights_only=False) for rank in (0, 1))
    for each in (found, other):
        assert "failed" not in each, each["failed"]
    return found | {"folder": folder}


@pytest.fixture(scope="module")
def one():
    """Results of one process on the same cases, each computed when it is asked for."""
    known = {}

    def made(case):
        if case not in known:
            known[case] = outcome(fit(case))
        return known[case]

    return made


@pytest.mark.parametrize("case", CASES)
def test_two_processes_take_the_steps_of_one(two, one, case):
    alike(two[case], one(case))


def test_parts_and_processes_at_once(two, one):
    alike(two["in parts"], one("ppo"))


@pytest.mark.parametrize("case", RESUMED)
def test_two_processes_resume_to_the_same_bits(two, case):
    whole, again = two[case], two[f"resumed, {case}"]
    alike(again, whole, tolerance=0)
    assert (two["folder"] / f"two, {case}" / "history.csv").exists()
    kept = load(two["folder"] / f"two, {case}")
    alike(outcome(kept), whole, tolerance=0)
    # And one process goes on from where two have been.
    function = CASES[case]["reward"]() if case == "dapo" else None
    steps = CASES[case]["updates"]
    on = train(resume=two["folder"] / f"two, {case}", reward=function, updates=steps + 1, progress=False)
    assert len(on.history) == steps + 1


def test_ctrl_c_in_one_process_stops_both_at_the_same_update(two):
    assert two["stopped"] == [2, 2]
    assert len(load(two["folder"] / "stopped").history) == 2


def test_an_error_in_one_process_is_raised_in_both(two):
    sentence = "reward angry wants kinder words"
    assert two["angry"] == [f"process 1 has raised ValueError('{sentence}')", sentence]


def test_torchrun_and_the_command_line(tmp_path):
    """The real thing: two processes that torchrun starts, the first of which writes and speaks."""
    environment = os.environ | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    words = "language sft --world nouns=2,places=2 --updates 3 --examples 41 --eval-examples 0 --width 8"
    words += " --layers 1"
    launch = "-m torch.distributed.run --nproc-per-node 2 --rdzv-backend c10d --rdzv-endpoint 127.0.0.1:0"
    command = [
        sys.executable,
        *launch.split(),
        "-m",
        "ppobook",
        *words.split(),
        "--out",
        str(tmp_path / "run"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    sizes = {"examples": 41, "eval_examples": 0, "width": 8, "layers": 1}
    alone = train("sft", data=World(nouns=2, places=2), updates=3, progress=False, **sizes)
    alike(outcome(load(tmp_path / "run")), outcome(alone), tolerance=1e-4)
    alone.save(tmp_path / "alone")
    spoken = done.stdout.replace(str(tmp_path / "run"), "")
    assert spoken.count("sft") <= 2, spoken
