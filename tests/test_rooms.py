"""A room of the library uses only the rooms above it: the table of the design, held by the syntax trees."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import ppobook

PACKAGE = Path(ppobook.__file__).parent

CORE = {"returns", "divergences", "diagnostics", "objectives", "preferences", "networks", "envs"}
LOOP = CORE | {"rollouts", "evaluation", "runs", "training"}
TRAINERS = {"vanilla", "trpo", "ppo"}
MAY_USE = {
    "returns": set(),
    "divergences": set(),
    "diagnostics": {"divergences"},
    "objectives": {"divergences", "diagnostics"},
    "preferences": {"objectives"},
    "networks": set(),
    "envs": set(),
    "rollouts": {"returns", "networks", "envs"},
    "evaluation": {"rollouts", "returns", "networks", "envs"},
    "runs": set(),
    "training": LOOP - {"training"},
    "updates": CORE | {"rollouts"},
    "closed_form": CORE | {"updates"},
    "vanilla": LOOP,
    "actor_critic": LOOP | {"updates"},
    "trpo": LOOP | {"updates", "actor_critic", "closed_form"},
    "ppo": LOOP | {"updates", "actor_critic", "closed_form"},
    "language": CORE - {"envs"} | {"runs"},
    "experiments": LOOP | TRAINERS,
    "teaching": LOOP | TRAINERS | {"language", "experiments"},
    "course": {"teaching"},
    # What the command line does with runs, each for Python as well.
    "doctor": set(),
    "comparing": LOOP | {"teaching"},
    "watching": LOOP,
    "exporting": LOOP,
    "cli": LOOP
    | TRAINERS
    | {"language", "experiments", "teaching", "course", "doctor", "comparing", "watching", "exporting"},
    "__main__": {"cli"},
    # The four names of `import ppobook`, each looked up when it is first used.
    "__init__": {"evaluation", "experiments", "training"},
}
# These hold nothing of the subject; every room may use them.
EVERYWHERE = {"_arguments", "validation", "_reads"}


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def rooms_used(path: Path) -> set[str]:
    """The rooms of ours that a file imports, at its top or anywhere inside."""
    used = set()
    package = ("ppobook", *path.relative_to(PACKAGE).parent.parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) + "." if node.level else ""
            module = (base + (node.module or "")).rstrip(".")
            names = [f"{module}.{alias.name}" for alias in node.names] if module == "ppobook" else [module]
        for name in names:
            top, _, rest = name.partition(".")
            if top == "ppobook" and rest:
                used.add(rest.partition(".")[0])
    return used - EVERYWHERE - {"__version__"}


FILES = sorted(path for path in PACKAGE.rglob("*.py") if "_results" not in path.parts)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_uses_only_rooms_above_it(path):
    room = room_of(path)
    if room in EVERYWHERE:
        assert not rooms_used(path)
        return
    assert room in MAY_USE, f"{room} is not in the table of rooms"
    assert rooms_used(path) <= MAY_USE[room] | {room}


def test_the_reader_of_imports_sees_every_spelling(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    (tmp_path / "language").mkdir()
    file = tmp_path / "language" / "online.py"
    file.write_text(
        "import ppobook.envs as e\nfrom ppobook import validation, ppo\nfrom ppobook.returns import gae\n"
        "from .. import trpo\nfrom ..vanilla import Vanilla\nfrom . import model\n"
        "def f():\n    from ppobook.training import train\n"
    )
    assert rooms_used(file) == {"envs", "ppo", "returns", "trpo", "vanilla", "training", "language"}


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("ppobook", ["torch", "pandas", "numpy", "matplotlib"]),
        ("ppobook.returns", ["torch", "pandas", "matplotlib"]),
        ("ppobook.divergences", ["torch", "pandas", "matplotlib"]),
        ("ppobook.diagnostics", ["torch", "pandas", "matplotlib"]),
        ("ppobook.cli", ["torch", "pandas", "numpy", "matplotlib"]),
        ("ppobook.experiments", ["torch", "pandas", "matplotlib"]),
        ("ppobook.teaching", ["torch"]),
        ("ppobook.language", ["torch", "pandas", "numpy"]),
        ("ppobook.language.cli", ["torch", "pandas", "numpy"]),
        *(
            (f"ppobook.language.{path.stem}", ["transformers", "peft", "datasets", "ppobook.training"])
            for path in sorted((PACKAGE / "language").glob("[a-z]*.py"))
        ),
    ],
)
def test_importing_brings_in_no_more_than_is_needed(module, absent):
    code = f"import sys, {module}; print([m for m in {absent!r} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_threads_are_set_in_one_place():
    places = [path.name for path in FILES if "set_num_threads" in path.read_text(encoding="utf-8")]
    assert places == ["runs.py"]


def test_no_library_file_imports_a_chapter():
    for path in FILES:
        assert "chapters" not in {
            name.split(".")[0]
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in (
                [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            )
        }


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        _ = ppobook.trian
    assert {"train", "load", "evaluate", "results"} <= set(dir(ppobook))
