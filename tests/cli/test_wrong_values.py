"""Wrong values of every option of every command: one line on stderr that names it, and exit code 2.

The options are read from what --help prints, so a new one is swept, too.
"""

import re

import pytest

from ppobook.cli import course, language
from ppobook.cli.main import COMMANDS, main
from ppobook.settings import SETTINGS as ALGORITHMS

VALUES = ["", "nan", "-1", "()"]
# By option: the values that it accepts.
TEXT = ["nan", "-1", "()"]
LEGAL = {
    "hidden": ["()"],
    **dict.fromkeys(("out", "html", "csv"), TEXT),
    "folder": TEXT,
    "title": TEXT,
    "reason": ["", *TEXT],
}
# The rest of a line that runs.
POLICY = "--env CartPole-v1 --num-envs 2 --num-steps 16 --hidden 4 --total-steps 32 --quiet"
STAGE = "base --updates 1 --quiet --batch-size 8"
LINES = {
    **{f"train {name}": POLICY for name in ALGORITHMS},
    "evaluate": "run --episodes 1",
    "doctor": "run",
    "compare": "run",
    "watch": "run --out film.gif",
    "export": "run policy.onnx",
    "record": "script.py",
    "envs": "",
    "work": "work",
    "reset": "pg-loss",
    "progress": "--folder copies",
    **{f"language {name}": STAGE + " --reward gold" * x.wants_reward for name, x in language.STAGES.items()},
    "language sample": "base --n 1 --max-new-tokens 2",
    "language evaluate": "base --n 2 --max-new-tokens 2",
    "language compare": "base --n 2 --max-new-tokens 2",
    "language best_of_n": "base --n 1 --max-new-tokens 2",
    "language ladder": "reward_model",
    "language export": "base exported",
    "course new": "another",
    "course check": "--course term",
    "course release": "week-14 --course term",
    "course roster": "--course term",
    "course collect": "week-14 term --course term",
    "course extend": "ada week-14 --until 2099-01-01 --reason ill --course term",
    "course grade": "week-14 --course term",
    "course mark": "week-14 --course term",
    "course feedback": "week-14 --course term",
    "course grades": "week-14 --course term",
    "course report": "week-14 --course term",
    "course appeal": "ada week-14 pg-loss --points 1 --reason late --course term",
    "course slides": "1",
    "course schedule": "--weeks 6",
}
MADE = [
    f"train ppo {POLICY} --out run",
    "language sft --world nouns=2,places=2,verbs=1,adjectives=1 --layers 1 --width 8 --heads 2 --examples 8 "
    "--eval-examples 0 --batch-size 4 --updates 1 --quiet --out base",
    "language reward base --pairs 8 --eval-pairs 0 --batch-size 4 --updates 1 --quiet --out reward_model",
    "course new term --begin 2099-01-05 --chapters 1",
    "course release week-14 --course term",
    "work copies",
]
SCRIPT = """
from ppobook.experiments import record


def once(seed):
    return {"x": 1.0}


if __name__ == "__main__":
    record("once", once, [{}], range(1), workers=0, folder="results", progress=False)
"""


def test_each_command_is_here():
    own = {f"language {name}" for name in language.COMMANDS if name != "train"}
    own |= {f"course {name}" for name in course.COMMANDS}
    assert {line.partition(" ")[0] for line in LINES} == COMMANDS.keys()
    assert {line for line in LINES if line.startswith(("language", "course"))} == own


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("wrong")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        (path / "script.py").write_text(SCRIPT)
        for line in MADE:
            assert main(line.split()) == 0
    return path


def exit_code(words):
    try:
        return main(words)
    except SystemExit as stop:
        return stop.code


def options(command, capsys):
    """The options of a command that --help lists, and whether each takes a value."""
    assert exit_code([*command.split(), "--help"]) == 0
    listed = capsys.readouterr().out
    found = re.findall(r"^[│ ] --([a-z-]+)( \S+)?", listed, re.MULTILINE)
    assert found or command in ("doctor", "envs", "work")
    return {name: bool(value) for name, value in found}


# What was swept in another command, as --device of each stage.
SWEPT = set()


@pytest.mark.parametrize("command", LINES)
def test_wrong_values(command, folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    known, line = options(command, capsys), [*command.split(), *LINES[command].split()]
    typed = [([f"--{'x' * 9}", "1"], "x" * 9)]
    if takes := [name for name in known if known[name]]:
        typed.append(([f"--{takes[0]}", "1", f"--{takes[0]}", "1"], takes[0]))
        typed.append(([f"--{takes[0]}"], takes[0]))
        typed.append(([f"--{takes[0]}x", "1"], takes[0]))
    room = "language" if command.startswith("language") else command.partition(" ")[0]
    for name, valued in known.items():
        if (room, name) in SWEPT:
            continue
        SWEPT.add((room, name))
        for value in VALUES if valued else ["", "1"]:
            if not (valued and value in LEGAL.get(name, ())):
                typed.append(([f"--{name}={value}"], name))
    wrong = []
    for words, name in typed:
        rest = list(line)
        if words[0].partition("=")[0] in rest:
            at = rest.index(words[0].partition("=")[0])
            del rest[at : at + 1 + known.get(name, True)]
        try:
            code = exit_code([*rest, *words])
        except Exception as error:
            wrong.append(f"{words}: {type(error).__name__}: {error}")
            continue
        said = capsys.readouterr()
        named = name in said.err or name.replace("-", "_") in said.err
        if code != 2 or said.out or said.err.count("\n") != 1 or not named:
            wrong.append(f"{words}: exit code {code}, {said.err!r}")
    assert not wrong, "\n".join(wrong)
