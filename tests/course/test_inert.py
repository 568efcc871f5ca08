"""Values as bytes and back; and bytes that somebody made up."""

import json
import math
import struct
from fractions import Fraction

import numpy as np
import pytest
import torch

from ppobook.course.inert import LIMIT, Malformed, Opaque, TooLarge, dump, load

VALUES = [
    None,
    True,
    -3,
    2**100,
    0.1,
    float("inf"),
    "ε ≤ 1",
    b"\x00\xff",
    1 + 2j,
    ...,
    slice(1, None, 2),
    range(3, 9, 2),
    (1, (2, [3.0, {"a": None, 4: (5,)}])),
    {1, 2},
    frozenset({"a"}),
    torch.float32,
    np.dtype("int64"),
]


def back(value):
    return load(dump(value))


def message(header, *buffers):
    text = json.dumps([header, [len(b) for b in buffers]]).encode()
    size = sum(map(len, buffers))
    return struct.pack("<QI", len(text) + size, len(text)) + text + b"".join(buffers)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_plain_values_come_back(value):
    found = back(value)
    assert found == value
    assert type(found) is type(value)


def test_nan_comes_back():
    assert math.isnan(back(float("nan")))


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3).T,
        np.zeros((0, 3), dtype=np.int32),
        np.array([True, False]),
        np.array(["a", "bcd"]),
        np.array(7, dtype=np.uint8),
        np.array([None, 1.5, "x"], dtype=object),
    ],
    ids=str,
)
def test_arrays_come_back(array):
    found = back(array)
    assert found.dtype == array.dtype
    assert found.shape == array.shape
    assert (found == array).all()
    if found.size:
        found[...] = found  # it can be written to


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_tensors_come_back(dtype):
    tensor = torch.arange(6).reshape(2, 3).to(dtype).T
    found = back(tensor)
    assert found.dtype == dtype
    assert torch.equal(found, tensor)


def test_numpys_numbers_keep_their_type():
    found = back(np.float32(0.1))
    assert found == np.float32(0.1)
    assert type(found) is np.float32


def test_what_is_one_object_stays_one():
    tensor, row = torch.ones(2, requires_grad=True), [1]
    first, second, rows, same = back([tensor, tensor, row, row])
    assert first is second
    assert rows is same
    assert first.requires_grad


def test_a_list_that_holds_itself_is_refused():
    row = [1]
    row.append(row)
    with pytest.raises(TooLarge, match="holds itself"):
        dump(row)


def nest(width, levels):
    row = [1.0] * width
    for _ in range(levels):
        row = [row] * width
    return row


@pytest.mark.parametrize(
    "value",
    [
        range(10**9),
        [range(10**7)] * 3,
        nest(300, 3),
        [np.zeros(10**6)] * 100,
        {k: 0 for k in range(20_000)},
        frozenset(range(20_000)),
        [torch.zeros(1) for _ in range(30_000)],
    ],
    ids=["range", "ranges", "nest", "arrays", "dict", "set", "tensors"],
)
def test_a_value_that_is_large_when_it_is_written_out_is_refused(value):
    with pytest.raises(TooLarge):
        dump(value)


def test_what_is_named_again_comes_back():
    found = back(nest(100, 2))
    assert np.shape(found) == (100, 100, 100)
    assert found[0] is found[99]


@pytest.mark.parametrize("value", [torch.uint16, np.dtype("f8,i4")], ids=str)
def test_an_odd_type_is_a_name(value):
    assert isinstance(back(value), Opaque)


def test_generators_go_on_where_they_were():
    numpy, torchs = np.random.default_rng(3), torch.Generator().manual_seed(3)
    numpy.normal()
    other, another = back((numpy, torchs))
    assert other.normal() == numpy.normal()
    assert torch.rand(1, generator=another) == torch.rand(1, generator=torchs)


class Text(str):
    def __eq__(self, other):
        raise AssertionError("nobody calls this")

    __hash__ = str.__hash__


class Liar(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        raise AssertionError("nobody calls this")


class Equal(np.ndarray):
    def __eq__(self, other):
        return True

    def tobytes(self, order=None):
        return b""


def test_subclasses_come_back_as_what_they_are_underneath():
    text, tensor, array = back((Text("a"), torch.ones(2).as_subclass(Liar), np.ones(2).view(Equal)))
    assert type(text) is str
    assert type(tensor) is torch.Tensor
    assert torch.equal(tensor, torch.ones(2))
    assert type(array) is np.ndarray
    assert not (array == 2).any()


def test_a_fraction_is_a_number_and_an_object_only_a_name():
    assert back(Fraction(1, 4)) == 0.25
    found = back(object())
    assert isinstance(found, Opaque)
    assert type(found).__name__ == "object"


def test_a_view_of_few_bytes_is_not_written_out():
    huge = torch.zeros(1).as_strided((10**10,), (0,))
    with pytest.raises(TooLarge, match="shape"):
        dump(huge)
    with pytest.raises(TooLarge):
        dump(np.broadcast_to(0.0, (10**10,)))


@pytest.mark.parametrize(
    "value", [["x"] * 600_000, "x" * 2**23, b"x" * LIMIT], ids=["entries", "text", "bytes"]
)
def test_what_is_too_large_is_refused(value):
    with pytest.raises(TooLarge):
        dump(value)


def test_too_many_levels_are_refused():
    value = []
    for _ in range(100):
        value = [value]
    with pytest.raises(TooLarge, match="levels"):
        dump(value)


FORGED = {
    "nothing": b"",
    "a wrong length": struct.pack("<QI", 2**60, 2) + b"[]",
    "no JSON": struct.pack("<QI", 3, 3) + b"}{]",
    "deep JSON": struct.pack("<QI", 200_000, 200_000) + b"[" * 200_000,
    "a buffer of too much": struct.pack("<QI", 9, 9) + b"[1,[9999]",
    "a kind that is none": message(["pickle", 0], b"cos\nsystem\n"),
    "a reference to nothing": message(["ref", 3]),
    "no node": message({"a": 1}),
    "a tensor with too few bytes": message(["tensor", 1, ["float32", [1000], 0], 0, None], b"1234"),
    "a negative size": message(["tensor", 1, ["float32", [-1, -1], 0], 0, None], b"1234"),
    "a huge empty shape": message(["array", 1, ["<f8", [2**41, 0], 0]], b""),
    "pointers": message(["array", 1, ["|O", [1], 0]], b"12345678"),
    "a record": message(["array", 1, ["<f8,<f8", [1], 0]], b"1234567812345678"),
    "letters that are none": message(["array", 1, ["<U1", [1], 0]], b"\xff\xff\xff\xff"),
    "letters the other way round": message(["array", 1, [">U2", [1], 0]], b"\0\0\0A\0\x11\0\0"),
    "a letter that is none": message(["scalar", "<U1", 0], b"\xff\xff\xff\xff"),
    "a module": message(["module", 1, "Linear", True, [], [], [], []]),
    "a function": message(["function", 1, "f"]),
    "an unhashable key": message(["dict", 1, [[["list", 2, []], 1]]]),
    "two with one number": message(["tuple", [["list", 1, []], ["list", 1, []]]]),
    "a list that holds itself": message(["list", 1, [["ref", 1], ["ref", 1]]]),
    "a list of lists of lists": message(
        [
            "tuple",
            [
                ["list", 1, [0.0] * 300],
                *(["list", n + 1, [["ref", n]] * 300] for n in (1, 2, 3)),
            ],
        ]
    ),
    "a long range": message(["range", [0, 10**12, 1]]),
    "numbers with one hash": message(["frozenset", [k * (2**61 - 1) for k in range(1, 20_001)]]),
    "keys with one hash": message(["dict", 1, [[k * (2**61 - 1), 0] for k in range(1, 20_001)]]),
    "one buffer again and again": message(["tuple", [["bytes", 0]] * 2], b"1234"),
    "a class for each value": message(["tuple", [["opaque", "Thing"]] * 30_000]),
    "a generator of another kind": message(
        ["numpy generator", 1, ["dict", 2, [["bit_generator", "MT19937"]]]]
    ),
}


@pytest.mark.parametrize("data", FORGED.values(), ids=FORGED)
def test_made_up_bytes_are_refused(data):
    with pytest.raises(Malformed):
        load(data)


def test_a_boolean_is_true_or_false():
    found = load(message(["tensor", 1, ["bool", [3], 0], 0, None], b"\x00\x01\x07"))
    assert found.tolist() == [False, True, True]
    assert (found.int() <= 1).all()


def test_letters_come_back():
    for dtype in ("<U2", ">U2"):
        array = np.array(["a\U0010ffff", ""], dtype)
        assert load(dump(array)).tolist() == array.tolist()
        assert load(dump(array[0])) == "a\U0010ffff"


def test_a_longer_message_than_wanted_is_refused():
    with pytest.raises(Malformed, match="at most 10 bytes"):
        load(dump([1, 2, 3]), limit=10)
