"""The three clinics: a broken run for each case, and what their checks say about each name."""

from __future__ import annotations

import re
from types import ModuleType

import pytest
from answers import clinic
from answers.online import symptoms as loop_clinic
from answers.rlhf import clinic as token_clinic
from checks import ROOT

from ppobook.teaching import checks
from ppobook.teaching.checks.clinic import diagnoses
from ppobook.teaching.checks.online import symptoms
from ppobook.teaching.checks.rlhf import clinic as tokens

# Of each check: its module, the right answers, and the page that lists the names.
CLINICS = {
    "clinic": (diagnoses, clinic, "06_clinic"),
    "token-clinic": (tokens, token_clinic, "07_rlhf"),
    "loop-clinic": (symptoms, loop_clinic, "10_online_loops"),
}
every = pytest.mark.parametrize(
    ("check", "module", "answers", "page"), [(name, *of) for name, of in CLINICS.items()], ids=[*CLINICS]
)


def broken(module: ModuleType, name: str, case: str) -> bool:
    """Return True if a number of the case's log contradicts the name."""
    gauges = module.gauges()
    seen = (gauges[case], gauges["healthy"]) if module is diagnoses else (gauges[case],)
    return any(limit.broken(*seen) for limit in module.EXPECTED[name])


@every
def test_the_page_has_the_list_of_names(check, module, answers, page) -> None:
    text = (ROOT / "exercises" / "masters" / f"{page}.md").read_text(encoding="utf-8")
    assert dict(re.findall(r"^\| `(.+)` \| (.+) \|$", text, re.MULTILINE)) == module.FAULTS
    assert set(module.EXPECTED) == set(module.FAULTS)


@every
def test_every_other_name_is_contradicted_by_a_number_and_the_right_one_is_not(
    check, module, answers, page
) -> None:
    for case in module.CASES:
        wrong = {name for name in module.FAULTS if broken(module, name, case)}
        assert wrong == set(module.FAULTS) - {answers.CURED[case]}, case
    if "healthy" in module.gauges():
        assert all(broken(module, name, "healthy") for name in module.FAULTS)


@every
def test_each_case_and_name(check, module, answers, page) -> None:
    for case in module.CASES:
        for name, fault in module.FAULTS.items():
            verdict = checks.run(check, answers.but(**{case: name}))
            assert verdict.right == (answers.CURED[case] == name)
            if not verdict.right:
                assert verdict.name == fault
                assert f"{case}✗" in verdict.message
                assert f"In case {case}" in verdict.message


@every
def test_a_part_of_the_cases_may_be_left_out_and_is_not_called_wrong(check, module, answers, page) -> None:
    for part, answer in answers.SO_FAR.items():
        verdict = checks.run(check, answer)
        assert (verdict.kind, verdict.name) == ("so far", part)
        assert f"✓ A: {module.FAULTS[answers.CURED['A']]}" in verdict.message
    assert checks.run(check, dict).name == "no case has a name"


@every
def test_what_is_not_on_the_list_is_refused_in_words(check, module, answers, page) -> None:
    for given in ({"K": "lr-high"}, {"A": "measles"}, {"A": None}, {1: 2}, {"AB": "lr-low"}):
        assert checks.run(check, lambda given=given: given).kind == "returned"
