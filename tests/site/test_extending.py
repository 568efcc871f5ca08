"""The code on the page about extending the library runs, top to bottom, and learns."""

import os
import re
from pathlib import Path

from warm import python

PAGE = Path(__file__).parents[2] / "reference" / "extending.md"

AT_THE_END = """
from ppobook import evaluate as evaluated
assert evaluated(longer.policy, "Thermostat-v0")["mean"] > -60, "a room that nobody heats or cools has -125"
assert longer.history["steps"].iloc[-1] == 16_000
assert len(again.history) == 30
assert (longer.history["distance"] > 0).all()
assert isinstance(ResidualPPO, type) and FiveSteps.algorithm == "ppo"
assert run.history["distance_average"].gt(0).all() and len(run.history) == 20
"""


def test_the_code_on_the_page_runs(tmp_path):
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) == 8
    script = tmp_path / "page.py"
    script.write_text("\n".join([*blocks, AT_THE_END]), encoding="utf-8")
    done = python(script.name, cwd=tmp_path, TQDM_DISABLE="1")
    assert done.returncode == 0, done.stderr


def test_the_command_lines_on_the_page_run(tmp_path):
    page = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
    # The page's classes, in a module; what trains there, left out.
    module = re.sub(r"^(run|print|again|longer).*\n", "", "\n".join(blocks), flags=re.M)
    (tmp_path / "my_module.py").write_text(module, encoding="utf-8")
    commands = "".join(re.findall(r"^```console\n(.*?)^```$", page, re.M | re.S))
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    said = ""
    for command in commands.strip().splitlines():
        words = command.removeprefix("$ ppobook ").split()
        if "--resume" in words:
            words += ["--total-steps", "3000", "--quiet"]
        elif words[0] == "train":
            words += ["--total-steps", "2000", "--num-steps", "50", "--num-envs", "4"]
        else:
            words += ["--episodes", "10"]
        done = python("-m", "ppobook", *words, cwd=tmp_path, TQDM_DISABLE="1", PYTHONPATH=path)
        assert done.returncode == 0, done.stderr
        said += done.stdout
    assert "return: mean" in said
    assert "3,000 steps" in said or "3,200 steps" in said
