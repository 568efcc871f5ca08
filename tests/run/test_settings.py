"""Settings: names of other libraries, and the switch of the fast forms."""

import dataclasses

import pytest

import ppobook.language.settings as language
import ppobook.settings as control
from ppobook.run.settings import Settings, setting
from ppobook.run.spellings import OTHER_NAMES


def test_other_names_stand_for_settings_that_there_are():
    kinds = [*control.SETTINGS.values(), *language.SETTINGS.values()]
    known = {name for kind in kinds for name in kind.__dataclass_fields__}
    known |= {"env", "out", "total_steps", "reward", "reward_model"}  # arguments
    assert {name for names in OTHER_NAMES.values() for name in names} <= known


@pytest.mark.parametrize(
    ("word", "fast"), [(None, True), ("1", True), ("0", False), ("False", False), ("", True), ("off", "")]
)
def test_the_environment_variable_fast(word, fast, monkeypatch):
    monkeypatch.delenv("PPOBOOK_FAST", raising=False)
    if word is not None:
        monkeypatch.setenv("PPOBOOK_FAST", word)
    if fast == "":
        with pytest.raises(ValueError, match="PPOBOOK_FAST must be 0, 1, false or true, got 'off'"):
            Settings()
    else:
        assert Settings().fast is fast
        assert Settings(fast=not fast).fast is not fast


def test_an_integer_without_limits_has_none():
    @dataclasses.dataclass(frozen=True)
    class Own(Settings):
        bare: int = 0
        counted: int = setting(0, "no limits")
        several: tuple[int, ...] = setting((0,), "no limits")

    made = Own.make("own", {"bare": -3, "counted": -1, "several": (0, -2)}, {})
    assert (made.bare, made.counted, made.several) == (-3, -1, (0, -2))
    with pytest.raises(TypeError, match=r"bare must be an integer, got 0\.5"):
        Own.make("own", {"bare": 0.5}, {})
