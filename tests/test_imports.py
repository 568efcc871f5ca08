"""Importing brings in no more than is needed. (`lint-imports` holds which room may use which.)"""

import json
import subprocess
import sys

import pytest

import ppobook

# One process imports them in this order, so that what must be absent shrinks from line to line.
LIGHT = [
    ("ppobook ppobook.cli ppobook.language", "torch pandas numpy matplotlib"),
    ("ppobook.settings ppobook.language.settings ppobook.experiments", "torch pandas matplotlib"),
    ("ppobook.settings ppobook.presets ppobook.teaching", "torch"),
    ("ppobook.course.graders ppobook.course.processes", "torch pandas nbgrader"),
    ("ppobook.language.training ppobook.language.grpo", "transformers peft datasets ppobook.training"),
]
IMPORT = """
import importlib, json, sys
found = {}
for modules, absent in json.loads(sys.argv[1]):
    for module in modules.split():
        importlib.import_module(module)
        found[module] = [name for name in absent.split() if name in sys.modules]
print(json.dumps(found))
"""


def test_importing_brings_in_no_more_than_is_needed():
    command = [sys.executable, "-c", IMPORT, json.dumps(LIGHT)]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert found == {module: [] for modules, _ in LIGHT for module in modules.split()}


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        _ = ppobook.trian
    assert {"train", "load", "evaluate", "results"} <= set(dir(ppobook))
