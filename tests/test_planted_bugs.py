"""The usual mistakes, planted one by one in a copy of the library: for each, a test that finds it.

A test that cannot fail holds nothing. Each pitfall that is an edit of code is made here where the library
could have made it, in every form in which it does the thing: the losses, the closed form, GAE, trainers.
The named test has to fail by an assertion. That it passes on a copy without a bug is checked first.

The planted lines are looked up by their text. When they have been rewritten, the test of this bug says so:
plant it in what stands there now.
"""

import compileall
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import NamedTuple

import pytest

import ppobook

ROOT = Path(__file__).parents[1]
LIBRARY = Path(ppobook.__file__).parent


class Bug(NamedTuple):
    """A pitfall, and where: the text `here`, which `file` has once, becomes `wrong`; `test` must notice."""

    pitfall: str
    file: str
    here: str
    wrong: str
    test: str


CLOSED = "test_closed_form.py::test_gradient_and_diagnostics_are_those_of_the_plain_form"
PPO_LOSS = "test_objectives.py::test_ppo_loss_is_its_parts_and_says_what_they_were"
PPO_WALK = "test_ppo.py::test_advantages_are_those_of_a_slow_walk_through_the_rollout"
PPO_NORMAL = "test_ppo.py::test_advantages_are_normalised_where_the_setting_says"
WALK = "test_trpo.py::test_advantages_by_hand[0]"
SLOW_GAE = "test_returns.py::test_gae_is_the_weighted_average_of_n_step_advantages"
STEP = "test_parity_sb3.py::test_one_step[categorical-autograd-None-plain-None]"
CLIPPED_STEP = "test_parity_sb3.py::test_one_step[categorical-autograd-0.2-plain-None]"

BUGS = [
    # The ratio is a quotient of probabilities, not of their logarithms.
    Bug(
        "ratio by division",
        "objectives.py",
        "    log_ratio = logp - old_logp\n    ratio = log_ratio.exp()",
        "    log_ratio = logp - old_logp\n    ratio = logp / old_logp",
        PPO_LOSS,
    ),
    Bug(
        "ratio by division",
        "objectives.py",
        "    ratio = (logp - old_logp).exp()\n    return _reduce(-ratio * advantages,",
        "    ratio = logp / old_logp\n    return _reduce(-ratio * advantages,",
        "test_objectives.py::test_surrogate_loss_is_the_sum_written_out",
    ),
    Bug(
        "ratio by division",
        "objectives.py",
        "    ratio = _ratio_to_clip(logp - old_logp, advantages)\n    clipped =",
        "    ratio = logp / old_logp\n    clipped =",
        "test_objectives.py::test_clipped_surrogate_loss_is_the_sum_of_its_cases",
    ),
    Bug(
        "ratio by division",
        "objectives.py",
        "    ratio = (logp - old_logp).exp()\n    return _reduce(-(ratio * advantages",
        "    ratio = logp / old_logp\n    return _reduce(-(ratio * advantages",
        "test_objectives.py::test_kl_penalized_loss_is_the_sum_written_out",
    ),
    Bug(
        "ratio by division",
        "closed_form.py",
        "ratio = np.exp(log_ratio)",
        "ratio = self.head.logp / old_logp",
        CLOSED,
    ),
    # Advantages of one scale.
    Bug(
        "no advantage normalisation",
        "ppo.py",
        'if s.normalize_advantages == "minibatch":',
        "if False:",
        PPO_NORMAL,
    ),
    Bug(
        "no advantage normalisation",
        "ppo.py",
        'if s.normalize_advantages == "batch":',
        "if False:",
        PPO_NORMAL,
    ),
    Bug(
        "no advantage normalisation",
        "diagnostics.py",
        "scaled = centred / std",
        "scaled = centred",
        "test_diagnostics.py::test_normalize",
    ),
    Bug(
        "no advantage normalisation",
        "trpo.py",
        "if self.settings.normalize_advantages:",
        "if False:",
        "test_trpo.py::test_advantages_are_normalised_over_the_batch[True]",
    ),
    # The minimum is what makes the objective pessimistic.
    Bug(
        "min and max swapped",
        "objectives.py",
        "objective = torch.minimum(objective,",
        "objective = torch.maximum(objective,",
        PPO_LOSS,
    ),
    Bug(
        "min and max swapped",
        "objectives.py",
        "-torch.minimum(ratio * advantages,",
        "-torch.maximum(ratio * advantages,",
        "test_objectives.py::test_clipped_surrogate_loss_is_the_sum_of_its_cases",
    ),
    Bug(
        "min and max swapped",
        "closed_form.py",
        "flat = np.where(advantages > 0, ratio > high, ratio < low)",
        "flat = np.where(advantages > 0, ratio < low, ratio > high)",
        CLOSED,
    ),
    Bug(
        "min and max swapped",
        "objectives.py",
        "errors = torch.maximum(errors,",
        "errors = torch.minimum(errors,",
        "test_objectives.py::test_value_loss_is_the_sum_of_its_cases",
    ),
    Bug(
        "min and max swapped",
        "closed_form.py",
        "(np.abs(clipped) > np.abs(error))",
        "(np.abs(clipped) < np.abs(error))",
        CLOSED,
    ),
    # What the policy said when it acted has to be kept: said again later, it is another policy's.
    Bug(
        "old log-probs not stored",
        "ppo.py",
        "            batch.old_logp,\n            batch.advantages,",
        "            now.logp(batch.actions).detach(),\n            batch.advantages,",
        STEP,
    ),
    Bug(
        "old log-probs not stored",
        "closed_form.py",
        "log_ratio = self.head.logp - old_logp",
        "log_ratio = self.head.logp - self.head.logp",
        CLOSED,
    ),
    Bug(
        "old values not stored",
        "ppo.py",
        "old_values=batch.old_values",
        "old_values=values.detach()",
        CLIPPED_STEP,
    ),
    Bug(
        "old values not stored",
        "closed_form.py",
        "change = values - old_values",
        "change = values - values",
        CLOSED,
    ),
    # What was measured is data.
    Bug(
        "advantages not detached",
        "objectives.py",
        '_DATA = {"old_logp", "advantages",',
        '_DATA = {"old_logp",',
        "test_objectives.py::test_data_is_detached_and_the_first_tensor_rules_the_dtype",
    ),
    Bug(
        "advantages not detached",
        "objectives.py",
        '"returns", "old_values"}',
        '"old_values"}',
        "test_objectives.py::test_ppo_loss_leaves_data_alone_and_its_diagnostics_detached",
    ),
    # What follows an end belongs to another episode.
    Bug(
        "done mask missing",
        "returns.py",
        "        carry.reshape(-1)[self.at] = 0.0\n",
        "",
        SLOW_GAE,
    ),
    Bug(
        "done mask missing",
        "returns.py",
        "        flat[self.at] = 0.0\n",
        "",
        SLOW_GAE,
    ),
    Bug(
        "done mask missing",
        "actor_critic.py",
        "            rollout.terminated,\n            rollout.truncated,\n",
        "            0 * rollout.terminated,\n            rollout.truncated & ~rollout.terminated,\n",
        WALK,
    ),
    # Where a time limit cut, more would have come, and the critic knows how much.
    Bug(
        "bootstrap missing at a truncation",
        "returns.py",
        "ends.put(deltas, gamma * final)",
        "ends.put(deltas, 0.0)",
        "test_returns.py::test_a_truncated_step_reads_its_final_value_and_not_the_next_episodes",
    ),
    Bug(
        "bootstrap missing at a truncation",
        "training.py",
        "final_values[cut] = value(rollout.final_observations)",
        "final_values[cut] = 0.0",
        PPO_WALK,
    ),
    Bug(
        "bootstrap missing at a truncation",
        "rollouts.py",
        "finals = np.array([showed[cut] for cut in cuts])",
        "finals = np.array([observations[t + 1, i] for i, t in cuts])",
        "test_rollouts.py::test_final_observation_is_the_one_it_was_cut_at",
    ),
    Bug(
        "truncated treated as terminated",
        "actor_critic.py",
        "            rollout.terminated,\n            rollout.truncated,\n            final_values,\n",
        "            rollout.terminated | rollout.truncated,\n            None,\n            None,\n",
        WALK,
    ),
    Bug(
        "truncated treated as terminated",
        "vanilla.py",
        "rewards, terminated, truncated, gamma=s.gamma,",
        "rewards, terminated | truncated, None, gamma=s.gamma,",
        "test_vanilla.py::test_psi_by_hand[reward_to_go-0]",
    ),
    Bug(
        "done mask missing",
        "vanilla.py",
        "rewards, terminated, truncated, gamma=s.gamma,",
        "rewards, None, truncated & ~terminated, gamma=s.gamma,",
        "test_vanilla.py::test_psi_by_hand[reward_to_go-0]",
    ),
    Bug(
        "bootstrap missing for the unfinished rollout",
        "actor_critic.py",
        "torch.cat([values, last_values[:, None]], dim=1)",
        "torch.cat([values, 0 * last_values[:, None]], dim=1)",
        WALK,
    ),
    Bug(
        "bootstrap missing for the unfinished rollout",
        "vanilla.py",
        "gamma=s.gamma, last_values=last_values,",
        "gamma=s.gamma, last_values=None,",
        "test_vanilla.py::test_psi_by_hand[reward_to_go-0]",
    ),
    # Signs.
    Bug(
        "entropy sign",
        "objectives.py",
        '- entropy_coef * parts["entropy"]',
        '+ entropy_coef * parts["entropy"]',
        PPO_LOSS,
    ),
    Bug(
        "entropy sign",
        "closed_form.py",
        "-entropy_coef / size",
        "entropy_coef / size",
        CLOSED,
    ),
    Bug(
        "advantage sign",
        "objectives.py",
        '"policy_loss": mean(-objective)',
        '"policy_loss": mean(objective)',
        PPO_LOSS,
    ),
    Bug(
        "advantage sign",
        "objectives.py",
        "_reduce(-logp * advantages,",
        "_reduce(logp * advantages,",
        "test_objectives.py::test_sign",
    ),
    Bug(
        "advantage sign",
        "closed_form.py",
        "np.where(flat, 0, gain) / -size",
        "np.where(flat, 0, gain) / size",
        CLOSED,
    ),
    Bug(
        "advantage sign",
        "returns.py",
        "        deltas += reward\n        deltas -= value[:-1]\n",
        "        deltas += reward\n        deltas -= value[:-1]\n        deltas *= -1\n",
        SLOW_GAE,
    ),
    Bug(
        "advantage sign",
        "trpo.py",
        "gradient = -_row(",
        "gradient = _row(",
        "test_trpo.py::test_the_step_is_the_natural_gradient",
    ),
    Bug(
        "entropy sign",
        "vanilla.py",
        "loss = loss - s.entropy_coef *",
        "loss = loss + s.entropy_coef *",
        "test_vanilla.py::test_an_entropy_bonus_keeps_a_policy_random",
    ),
    # The weight that a critic has.
    Bug(
        "half of the value loss missing",
        "objectives.py",
        "return 0.5 * errors",
        "return errors",
        "test_objectives.py::test_value_loss_is_the_sum_of_its_cases",
    ),
    Bug(
        "half of the value loss missing",
        "closed_form.py",
        "by_value * (value_coef / size)",
        "by_value * (2 * value_coef / size)",
        CLOSED,
    ),
    Bug(
        "half of the value loss missing",
        "closed_form.py",
        "self.critic.backward((error / size)[:, None])",
        "self.critic.backward((2 * error / size)[:, None])",
        "test_trpo.py::test_the_critics_closed_form_is_what_autograd_finds[0-False-tanh]",
    ),
]

# A process that has the heavy imports behind it forks for every bug: they are most of what a run would cost.
NURSERY = """
import contextlib, io, json, os, sys
import gymnasium, hypothesis.strategies, numpy, pandas, pytest, scipy.stats, tqdm
import sb3_contrib, stable_baselines3, torch, torch._dynamo, torch.testing

with contextlib.redirect_stdout(io.StringIO()):
    pytest.main(["--version"])  # imports its own parts

# The first example that fails will do. The smallest one would take longer to find.
hypothesis.settings.register_profile(
    "planted", phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate], derandomize=True, database=None
)
for line in sys.stdin:
    library, output, tests = json.loads(line)
    child = os.fork()
    if child == 0:
        file = os.open(output, os.O_WRONLY | os.O_CREAT)
        os.dup2(file, 1), os.dup2(file, 2)
        assert not any(name.split(".")[0] == "ppobook" for name in sys.modules)
        sys.path.insert(0, library)
        import ppobook
        assert ppobook.__file__.startswith(library), ppobook.__file__
        hypothesis.settings.load_profile("planted")
        code = pytest.main(["-q", "-p", "no:cacheprovider", "--tb=short", *tests])
        sys.stdout.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that can fork")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """run(library, tests) -> exit code of pytest and what it printed, with that copy of the library."""
    folder = tmp_path_factory.mktemp("planted")
    environment = {name: x for name, x in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    environment |= {"OMP_NUM_THREADS": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", NURSERY],
        cwd=ROOT,
        env=environment,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as nursery:
        jobs = iter(range(10_000))

        def run(library, tests):
            output = folder / f"output-{next(jobs)}"
            nursery.stdin.write(json.dumps([str(library), str(output), [f"tests/{test}" for test in tests]]))
            nursery.stdin.write("\n")
            nursery.stdin.flush()
            code = int(nursery.stdout.readline())
            return code, output.read_text(encoding="utf-8")

        yield run
        nursery.stdin.close()


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """A folder with a copy of the library, to be put right again after each use."""
    folder = tmp_path_factory.mktemp("library")
    shutil.copytree(LIBRARY, folder / "ppobook", ignore=shutil.ignore_patterns("__pycache__"))
    # Python tells a changed file by its time and size. A bug may be as long as what it replaces, and planted
    # within the same tick of a clock.
    compileall.compile_dir(folder, quiet=1, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
    return folder


def test_without_a_bug_the_tests_pass(run, copied):
    code, output = run(copied, sorted({bug.test for bug in BUGS}))
    assert code == 0, output


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: f"{bug.pitfall}, {bug.file}")
def test_a_bug_is_found(bug, run, copied):
    path = copied / "ppobook" / bug.file
    text = path.read_text(encoding="utf-8")
    found = text.count(bug.here)
    assert found == 1, f"{bug.file} has this {found} times, and once is wanted: {bug.here!r}"
    try:
        path.write_text(text.replace(bug.here, bug.wrong), encoding="utf-8")
        code, output = run(copied, [bug.test])
    finally:
        path.write_text(text, encoding="utf-8")
    assert code == 1, f"{bug.test} did not fail\n{output}"
    assert f"FAILED tests/{bug.test}" in output, output
    assert any(line.startswith("E") and "assert" in line.lower() for line in output.splitlines()), output


def test_every_pitfall_that_is_an_edit_of_code_is_planted():
    """Two of the list are not: too many epochs, and a clip fraction that nobody looks at."""
    assert {bug.pitfall for bug in BUGS} == {
        "ratio by division",
        "no advantage normalisation",
        "min and max swapped",
        "old log-probs not stored",
        "old values not stored",
        "advantages not detached",
        "done mask missing",
        "bootstrap missing at a truncation",
        "bootstrap missing for the unfinished rollout",
        "truncated treated as terminated",
        "entropy sign",
        "advantage sign",
        "half of the value loss missing",
    }
