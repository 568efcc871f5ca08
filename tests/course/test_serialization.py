"""Values as JSON and back; and messages that somebody made up."""

import json
from fractions import Fraction

import numpy as np
import pytest
import torch

from ppobook.course.serialization import Malformed, Reader, Writer

PLAIN = [None, True, -3, 2**100, 0.1, float("inf"), "ε ≤ 1", b"\x00\xff"]
NESTED = (1, (2, [3.0, {"a": None, 4: (5,)}]))
TENSORS = (torch.float64, torch.int64, torch.bool)
ARRAYS = [
    np.arange(6.0).reshape(2, 3).T,
    np.zeros((0, 3), dtype=np.int32),
    np.array([True, False]),
    np.array(7, dtype=np.uint8),
    *(torch.arange(6).reshape(2, 3).to(kind).T for kind in TENSORS),
]


def back(value):
    return Reader().value(json.loads(json.dumps(Writer().node(value))))


@pytest.mark.parametrize("value", [*PLAIN, NESTED], ids=repr)
def test_plain_values_come_back(value):
    found = back(value)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("value", ARRAYS, ids=lambda value: f"{value.dtype} {list(value.shape)}")
def test_arrays_and_tensors_come_back(value):
    found = back(value)
    assert (type(found), found.dtype, found.shape) == (type(value), value.dtype, value.shape)
    assert (found == value).all()
    found[...] = found  # it can be written to


def test_generators_go_on_where_they_were():
    numpy, torchs = np.random.default_rng(3), torch.Generator().manual_seed(3)
    numpy.normal()
    other, another = back((numpy, torchs))
    assert other.normal() == numpy.normal()
    assert torch.rand(1, generator=another) == torch.rand(1, generator=torchs)


def test_a_fraction_is_a_number_and_an_object_only_a_name():
    assert back(Fraction(1, 4)) == 0.25
    assert back(range(3)) == [0, 1, 2]
    found = back({1, 2})
    assert (type(found).__name__, isinstance(found, set)) == ("set", False)


FORGED = {
    "a kind that is none": ["pickle", "cos\nsystem\n"],
    "a reference to nothing": ["ref", 3],
    "no node": {"a": 1},
    "a tensor with too few bytes": ["tensor", -1, "float32", [1000], "AAAA", False, None],
    "a negative size": ["array", -1, "<f8", [-1, -1], "AAAAAAAA"],
    "pointers": ["array", -1, "|O", [1], "AAAAAAAAAAA="],
    "a record": ["array", -1, "<f8,<f8", [1], "AAAAAAAAAAAAAAAAAAAAAA=="],
    "a number of ours": ["array", 1, "|b1", [1], "AA=="],
    "a function": ["function", 1, "f"],
    "an unhashable key": ["dict", None, [[["list", None, []], 1]]],
    "two with one number": ["tuple", [["array", -1, "|b1", [1], "AA=="]] * 2],
    "keys with one hash": ["dict", None, [[k * (2**61 - 1), 0] for k in range(1, 20_001)]],
    "a generator of another kind": ["numpy generator", -1, ["dict", None, [["bit_generator", "MT19937"]]]],
}


@pytest.mark.parametrize("node", FORGED.values(), ids=FORGED)
def test_made_up_messages_are_refused(node):
    with pytest.raises(Malformed):
        Reader().value(node)


def test_few_lists_cannot_unfold_to_millions():
    reader = Reader({1: [], 2: [[]], 3: [0.0] * 10_000})
    for number in (2, 3):
        with pytest.raises(Malformed, match="stand twice"):
            reader.put(reader.known[1], [[["ref", number]] * 300])


def test_a_list_of_the_graders_that_stands_twice_is_copied():
    given = [1.0, torch.ones(2)]
    first, second = Reader({1: given}).value(["tuple", [["ref", 1], ["ref", 1]]])
    assert first is given
    assert second is not given
    assert second == given


def test_only_plain_attributes_that_are_there_can_be_changed():
    class Optimizer:
        def __init__(self):
            self.lr, self.step, self._hidden = 0.1, print, 1

    made = Optimizer()
    Reader().put(made, [[["lr", 0.2], ["step", 3], ["_hidden", 4], ["other", 5]]])
    assert vars(made) == {"lr": 0.2, "step": print, "_hidden": 1}
