"""Which part of the library may use which, what importing brings in, how long files are, and their words."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ppobook

PACKAGE = Path(ppobook.__file__).parent
ROOT = Path(__file__).parents[1]
FILES = sorted(PACKAGE.rglob("*.py"))

# These hold nothing of the subject; everything may use them.
EVERYWHERE = {"validation", "_reads"}
FORMULAS = {"returns", "divergences", "diagnostics", "reductions", "objectives", "preferences"}
WORLD = {"policies", "envs", "rollouts", "evaluation", "episodes", "spaces"}
LEARNER = {"batches", "settings", "presets", "learner", "adaptive_kl"}
TRAINERS = {"vanilla", "actor_critic", "trpo", "ppo"}
RUNS = {"run", "registry", "training"}
CONTROL = FORMULAS | WORLD | LEARNER | RUNS | {"fast"}
MAY_USE = {
    "returns": set(),
    "divergences": set(),
    "diagnostics": {"divergences"},
    "reductions": set(),
    "objectives": {"divergences", "diagnostics", "reductions"},
    "preferences": {"objectives", "reductions"},
    # What every run shares, control or language. It knows none of its users.
    "run": set(),
    "policies": {"returns", "fast"},
    "envs": {"fast"},
    "rollouts": {"returns", "policies", "envs", "fast"},
    "evaluation": {"returns", "policies", "envs", "rollouts", "fast", "run"},
    "episodes": {"returns", "rollouts", "run"},
    "spaces": {"run"},
    "batches": {"rollouts"},
    "settings": {"envs", "run"},
    "presets": {"settings", "run"},
    "adaptive_kl": {"run"},
    "learner": FORMULAS | WORLD | {"batches", "settings", "run", "fast"},
    "registry": {"learner", "run"},
    "vanilla": FORMULAS | WORLD | LEARNER | {"run", "fast"},
    "actor_critic": FORMULAS | WORLD | LEARNER | {"run", "fast"},
    "trpo": FORMULAS | WORLD | LEARNER | {"run", "fast", "actor_critic"},
    "ppo": FORMULAS | WORLD | LEARNER | {"run", "fast", "actor_critic"},
    "training": CONTROL - {"training"},
    "fast": FORMULAS | WORLD | {"batches", "learner", "language", "run"},
    "language": FORMULAS | {"run", "fast", "adaptive_kl"},
    "experiments": CONTROL | TRAINERS,
    "teaching": CONTROL | TRAINERS | {"language", "experiments"},
    "course": {"teaching", "run"},
    "analysis": CONTROL | {"language", "teaching"},
    "cli": CONTROL | TRAINERS | {"language", "experiments", "teaching", "course", "analysis"},
    "__main__": {"cli"},
    # The names of `import ppobook`, each looked up when it is first used.
    "__init__": {"evaluation", "experiments", "training"},
}

# Of what `fast` accelerates, each file knows `choose` and `declare`; only `choose` knows the other files.
FAST = {"fast.choose", "fast.declare"}

# Inside language: a file uses files of its own line and of the lines above.
LANGUAGE = [
    "settings footprint word_problems",
    "tokens",
    "model cache generation files parallel",
    "world sums",
    "encoding records data",
    "hub pretrained pretrained_tokenizer gpt2 rewards",
    "describing stored run",
    "hf",
    "stage registry",
    "on_policy sft",
    "reward",
    "dpo ppo grpo",
    "online",
    "opening evaluating best_of_n",
    "resuming training",
    "named report",
    "__init__",
]


def name_of(path):
    """The module of a file, without "ppobook."."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def imports(path, *, at_top=False):
    """The modules that a file imports, except for type checkers; at_top: those outside of functions."""
    package = ["ppobook", *path.relative_to(PACKAGE).parent.parts]
    found = set()

    def visit(node):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if at_top and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *filter(None, [node.module])])
            found.update(f"{module}.{alias.name}" for alias in node.names)
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text(encoding="utf-8")))
    return found


def own(names):
    """Of some imports, the modules of ours, without "ppobook."."""
    found = set()
    for name in names:
        parts = name.split(".")
        if parts[0] != "ppobook" or len(parts) == 1:
            continue
        for end in range(len(parts), 1, -1):
            path = PACKAGE.joinpath(*parts[1:end])
            if path.with_suffix(".py").exists() or (path / "__init__.py").exists():
                found.add(".".join(parts[1:end]))
                break
    return found


def room(module):
    return module.partition(".")[0]


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_file_uses_only_what_it_may(path):
    name, used = name_of(path), own(imports(path))
    mine = room(name)
    if mine in EVERYWHERE:
        assert not used - EVERYWHERE
        return
    assert mine in MAY_USE, f"{mine} is not in the table of rooms"
    assert {room(module) for module in used} <= MAY_USE[mine] | EVERYWHERE | {mine}
    if mine != "fast":
        assert {module for module in used if room(module) == "fast"} <= FAST
    if mine == "language":
        lines = {module: n for n, line in enumerate(LANGUAGE) for module in line.split()}
        place = name.partition(".")[2] or "__init__"
        assert place in lines, f"{place} is not in the order of the files of language"
        for module in used:
            if module.startswith("language."):
                assert lines[module.partition(".")[2]] <= lines[place], f"{place} uses {module}"


def test_the_reader_of_imports_sees_every_spelling(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    (tmp_path / "language").mkdir()
    for name in ("envs", "validation", "ppo", "returns", "trpo", "vanilla", "training", "language/model"):
        (tmp_path / f"{name}.py").touch()
    file = tmp_path / "language" / "online.py"
    file.write_text(
        "import ppobook.envs as e\nfrom ppobook import validation, ppo\nfrom ppobook.returns import gae\n"
        "from .. import trpo\nfrom ..vanilla import Vanilla\nfrom . import model\n"
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import ppobook.evaluation\n"
        "def f():\n    from ppobook.training import train\n"
    )
    at_top = {"envs", "validation", "ppo", "returns", "trpo", "vanilla", "language.model"}
    assert own(imports(file)) == at_top | {"training"}
    assert own(imports(file, at_top=True)) == at_top


# In this order one process imports them: what must be absent shrinks from line to line.
LIGHT = [
    ("ppobook ppobook.cli ppobook.language", "torch pandas numpy matplotlib"),
    ("ppobook.run.settings ppobook.language.settings", "torch pandas matplotlib"),
    (
        "ppobook.returns ppobook.divergences ppobook.diagnostics ppobook.experiments",
        "torch pandas matplotlib",
    ),
    ("ppobook.settings ppobook.presets", "torch pandas matplotlib"),
    # The processes that grade; nbgrader takes seconds to import.
    ("ppobook.course.graders ppobook.course.processes", "torch pandas nbgrader"),
    ("ppobook.teaching", "torch"),
    (
        " ".join(
            f"ppobook.language.{path.stem}" for path in sorted((PACKAGE / "language").glob("[a-z]*.py"))
        ),
        "transformers peft datasets ppobook.training",
    ),
]
IMPORT = """
import importlib, json, sys
found, seen = {}, set()
for modules, absent in json.loads(sys.argv[1]):
    for module in modules.split():
        importlib.import_module(module)
        found[module] = [name for name in absent.split() if name in sys.modules and name not in seen]
        seen.update(found[module])
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def brought_in():
    command = [sys.executable, "-c", IMPORT, json.dumps(LIGHT)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize("module", [module for modules, _ in LIGHT for module in modules.split()])
def test_importing_brings_in_no_more_than_is_needed(module, brought_in):
    assert brought_in[module] == []


def test_threads_are_set_in_one_place():
    assert [name_of(path) for path in FILES if "set_num_threads" in path.read_text()] == ["run.machine"]


def test_no_library_file_imports_a_chapter():
    for path in FILES:
        assert "chapters" not in {name.split(".")[0] for name in imports(path)}


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        _ = ppobook.trian
    assert {"train", "load", "evaluate", "results"} <= set(dir(ppobook))


# --- files and words ------------------------------------------------------------------------------------

OURS = [
    path
    for folder in ("lib", "tests", "benchmarks", "tools", "results", "examples")
    for path in sorted((ROOT / folder).rglob("*.py"))
]


@pytest.mark.parametrize("folder", ["lib", "tests", "benchmarks", "tools", "results", "examples"])
def test_files_are_short(folder):
    lines = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in OURS
        if path.is_relative_to(ROOT / folder)
    }
    assert not {path: n for path, n in lines.items() if n >= 600}


# A word that a user of PyTorch would have to translate, and the field's. Two files have old setting names.
OLD_NAMES = {"run.old", "run.spellings"}
WORDS = {
    r"rubbish": "padding",
    r"_doors\b|\bdoors?\b": "validation",
    r"AdamW": "Adam",
    r"[Bb]egin_?\s?afresh|\bafresh\b": "reset",
    r"model of rewards|\bJudge\b": "reward model",
    r"--judge|\b(a|the) judge\b": "reward model",
    r"(?<![Ss]tandard )\bdeviations?\b": "standard deviation",
    r"\bcut (short|at)\b": "truncated",
    r"whole number": "integer",
    r"\btold\b|\bas it goes\b|has to say|none that has": "plain words",
    r"hold_out": "train_eval_split",
    r"carry_out": "run_training",
    r"choice among": "discrete actions",
    r"kl_coef_target": "kl_target",
    r"less_penalty": "apply_truncation_penalty",
    r"(is|are) wanted|[^,(] wanted: |\"wanted: |wants one": "x must be …, got …",
}


@pytest.mark.parametrize("word", WORDS)
def test_the_fields_words(word):
    found = {}
    for path in (path for path in FILES if name_of(path) not in OLD_NAMES):
        for n, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if re.search(word, line):
                found[f"{path.relative_to(PACKAGE)}:{n}"] = line.strip()
    assert not found, f"write {WORDS[word]}"
