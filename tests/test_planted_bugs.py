"""The usual mistakes, planted one by one in formulas and control: a named test finds each.

A test that cannot fail holds nothing. Each pitfall that is an edit of code is made where the library could
have made it, in every form in which it does the thing: the losses, the closed form, GAE, trainers. See
helpers/planting.py for how a bug is planted.
"""

import pytest
from planting import outcomes, read

BUGS = read("core.diff")


@pytest.fixture(scope="module")
def found():
    return outcomes(BUGS)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: f"{bug.file}: {bug.mistake}")
def test_a_bug_is_found(bug, found):
    assert found[bug] == "found"


def test_every_pitfall_that_is_an_edit_of_code_is_planted():
    """Two of the list are not: too many epochs, and a clip fraction that nobody looks at."""
    assert {bug.mistake for bug in BUGS} == {
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


def test_a_bug_that_is_not_planted_or_not_found_is_reported():
    test = "test_objectives.py::test_ppo_loss_leaves_data_alone_and_its_diagnostics_detached"
    bug = BUGS[0]._replace(file="objectives.py", here="mean(-objective)", test=test)
    expected = {
        bug._replace(here="no such line"): "objectives.py must have these lines once, got 0 times",
        bug._replace(here="Losses are minimised", wrong=""): "must be changed inside a function",
        bug._replace(wrong="mean(-objective) + 0"): "passes with this bug in objectives.py",
        bug._replace(wrong="mean(1 / 0)"): "failed, but by no assertion",
        bug._replace(test="test_objectives.py::test_none"): "there is no such test",
    }
    for wrong, outcome in outcomes(list(expected)).items():
        assert expected[wrong] in outcome
