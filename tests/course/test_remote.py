"""A function in another process that is called like any other: values, gradients, exceptions, forgeries."""

import importlib
import time

import numpy as np
import pytest
import torch
from torch import nn

from ppobook.course.inert import Opaque
from ppobook.course.limits import Ended
from ppobook.course.remote import LINE, MESSAGE, NAME
from ppobook.envs import chain
from ppobook.teaching import checks
from ppobook.teaching.checks.beside.descent import GradientDescent
from ppobook.teaching.checks.beside.trust_regions import watch_a_call

IMPORTS = "import numpy as np, torch\nfrom torch import nn\n"


def test_what_travels_can_be_read_where_it_goes():
    for module in sorted({*checks.names().values()}):
        for kind in vars(importlib.import_module(module)).values():
            if isinstance(kind, type) and (issubclass(kind, nn.Module) or hasattr(kind, "__travels__")):
                assert (
                    not kind.__module__.startswith("ppobook.teaching.checks") or "beside" in kind.__module__
                )


def test_values_go_there_and_come_back(open_grader):
    grader = open_grader("def swap(a, b=1, **more): return {'a': b, 'b': [a, (b,)], **more}")
    swap = grader.name("swap")
    assert swap(np.float64(2.0), b="x", c=None) == {"a": "x", "b": [2.0, ("x",)], "c": None}


def test_gradients_come_across(open_grader):
    f = open_grader("def f(x, y, n): return (x * y.detach() ** 2).sum(), n * x").name("f")
    x, y = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([3.0, 4.0], requires_grad=True)
    total, scaled = f(2 * x, y, 3)
    assert total.requires_grad
    slopes = torch.autograd.grad(total + scaled.sum(), (x, y), allow_unused=True, retain_graph=True)
    assert slopes[0].tolist() == [24.0, 38.0]
    assert slopes[1] is None or not slopes[1].any()
    assert not f(x.detach(), y.detach(), 3)[0].requires_grad


def test_a_first_gradient_imports_nothing(open_grader):
    """Import its modules once, before the sandboxes are forked."""
    cell = "import sys\ndef f(x): return x * x\ndef new(n): return len(sys.modules) - n"
    grader = open_grader(cell)
    f, new = grader.name("f"), grader.name("new")
    x = torch.ones(2, requires_grad=True)
    before = new(0)
    torch.autograd.grad(f(x).sum(), x)
    assert new(before) == 0


def test_gradients_reach_a_networks_parameters(open_grader):
    f = open_grader("def f(net, x): return net(x).square().mean()").name("f")
    net, x = nn.Sequential(nn.Linear(2, 3), nn.Tanh()), torch.randn(4, 2)
    found = torch.autograd.grad(f(net, x), list(net.parameters()))
    wanted = torch.autograd.grad(net(x).square().mean(), list(net.parameters()))
    for one, other in zip(found, wanted, strict=True):
        assert torch.allclose(one, other)


def test_a_function_of_the_graders_can_be_differentiated_there(open_grader):
    cell = "def f(logp, x):\n    x = x.clone().requires_grad_()\n    logp(x).backward()\n    return x.grad"
    weights = torch.tensor([2.0, 5.0])
    found = open_grader(cell).name("f")(lambda x: (weights * x**2).sum(), torch.ones(2))
    assert found.tolist() == [4.0, 10.0]


def test_arguments_that_are_changed_in_place_are_changed(open_grader):
    cell = """
def f(x, a, rows, table, noise):
    x.add_(1); a[0] = 7; rows.append(3); table['new'] = a; noise.random()
"""
    x, a, rows, table = torch.zeros(2), np.zeros(2), [1], {"old": 1}
    noise = np.random.default_rng(0)
    open_grader(cell).name("f")(x, a, rows, table, noise)
    assert x.tolist() == [1, 1]
    assert a.tolist() == [7, 0]
    assert rows == [1, 3]
    assert table["new"] is a
    assert noise.random() == np.random.default_rng(0).random(2)[1]


def test_an_argument_that_is_detached_in_place_is_detached(open_grader):
    x = torch.ones(2, requires_grad=True)
    open_grader("def f(x): x.detach_()").name("f")(x)
    assert not x.requires_grad


def test_an_optimizer_moves_the_graders_parameter(open_grader):
    cell = """
def f(logits, optimizer):
    for _ in range(2):
        optimizer.zero_grad(); logits.square().sum().backward(); optimizer.step()
"""
    logits = torch.ones(2, requires_grad=True)
    optimizer = GradientDescent(logits, 0.25)
    open_grader(cell).name("f")(logits, optimizer)
    assert logits.tolist() == [0.25, 0.25]
    assert optimizer.felt == [2.0, 1.0]
    assert optimizer.param_groups[0]["params"][0] is logits


def test_a_network_is_the_same_object_in_every_call(open_grader):
    cell = """
seen = []
def f(net, x):
    seen.append((net, net.weight))
    net(x).sum().backward()
    return len({id(n) for n, _ in seen}), len({id(w) for _, w in seen}), net.weight.grad.clone()
"""
    f, net, x = open_grader(cell).name("f"), nn.Linear(2, 1), torch.ones(1, 2)
    assert f(net, x)[2].tolist() == [[1.0, 1.0]]
    loss = net(x).sum()
    with torch.no_grad():
        net.weight.zero_()
    nets, weights, slope = f(net, x)
    assert (nets, weights) == (1, 1)
    assert slope.tolist() == [[2.0, 2.0]]
    assert net.weight.grad.tolist() == [[2.0, 2.0]]
    assert loss.item() != 0
    assert f(nn.Linear(2, 1), x)[0] == 2


def test_a_graph_outlives_the_next_call(open_grader):
    f, net = open_grader("def f(net, x): return net(x).square().sum()").name("f"), nn.Linear(2, 1)
    first, _ = f(net, torch.ones(1, 2)), f(net, torch.zeros(1, 2))
    assert torch.autograd.grad(first, net.weight)[0].shape == (1, 2)


def test_what_is_made_while_it_is_looked_at_counts(open_grader):
    f = open_grader("import torch\ndef f(rng):\n    yield torch.rand(1, generator=rng).item()").name("f")
    rng = torch.Generator().manual_seed(0)
    assert list(f(rng)) != list(f(rng))


def test_a_world_is_not_changed_by_who_plays_in_it(open_grader):
    world = chain(2)
    before = world.R.copy()
    cell = "def f(world):\n    world.R = world.R.copy(); world.R[:] = 0\n    return world.n_states"
    assert open_grader(cell).name("f")(world) == world.n_states
    assert np.array_equal(world.R, before)


def test_chance_goes_on_from_one_side_to_the_other(open_grader):
    f = open_grader(IMPORTS + "def f(): return torch.rand(1).item(), np.random.rand()").name("f")
    torch.manual_seed(3), np.random.seed(3)  # noqa: NPY002
    found = [f(), f()]
    torch.manual_seed(3), np.random.seed(3)  # noqa: NPY002
    assert found == [(torch.rand(1).item(), np.random.rand()) for _ in range(2)]  # noqa: NPY002


def test_functions_and_networks_come_back(open_grader):
    cell = (
        IMPORTS
        + """
class Own(nn.Module):
    def __init__(self):
        super().__init__(); self.body = nn.Linear(2, 1)
    def forward(self, x): return self.body(x) * 2
def make(scale):
    return lambda x: scale * x, nn.Sequential(nn.Linear(2, 2), nn.ReLU()), Own()
"""
    )
    scale = torch.tensor(2.0)
    function, net, own = open_grader(cell).name("make")(scale)
    assert function(torch.tensor(3.0)) == 6.0
    scale.fill_(5.0)  # what it holds on to
    assert function(torch.tensor(3.0)) == 15.0
    assert type(net) is nn.Sequential
    x = torch.ones(3, 2)
    with torch.no_grad():
        own.body.weight.fill_(1.0)
        own.body.bias.zero_()
    assert own(x).flatten().tolist() == [4.0, 4.0, 4.0]
    (slope,) = torch.autograd.grad(own(x).sum(), own.body.bias)
    assert slope.tolist() == [6.0]


def test_exceptions_keep_their_name_their_message_and_their_line(open_grader):
    cell = "class Odd(KeyError): pass\ndef f(x):\n    raise Odd('what')\ndef g(): raise SystemExit(3)"
    grader = open_grader(cell)
    with pytest.raises(KeyError) as caught:
        grader.name("f")(1)
    assert type(caught.value).__name__ == "Odd"
    assert caught.value.in_cell == (3, "raise Odd('what')")
    with pytest.raises(Exception, match="3") as caught:
        grader.name("g")()
    assert type(caught.value).__name__ == "SystemExit"
    assert grader.name("f") is not None


def verdict_on(function):
    """The kind of the verdict, or why there is none."""
    try:
        return checks.run("clipped-loss", function).kind
    except Ended as ended:
        return ended.reason


@pytest.mark.parametrize(
    "said",
    [
        "raise checks.Stop('right', 'clipped-loss')",
        "raise checks.Stop('so far', 'clipped-loss')",
        "e = checks.Stop('raised', 'x'); e.kind = 'right'; raise e",
        "checks.run = checks._verdict = lambda *a, **k: checks.Verdict('right', '', ''); return 1",
    ],
)
def test_a_verdict_cannot_be_raised_or_patched(open_grader, said):
    f = open_grader(f"from ppobook.teaching import checks\ndef f(*a, **k): {said}").name("f")
    assert verdict_on(f) in ("raised", "returned", "property", "mistake", "forged")


HONEST = {
    "a text that is none": ("b'\\xff'.decode()", UnicodeError, "UnicodeDecodeError"),
    "several at once": ("exec('raise ExceptionGroup(\"two\", [ValueError()])')", Exception, "ExceptionGroup"),
    "a file": ("open('/nothing')", FileNotFoundError, "FileNotFoundError"),
    "half a character": ("exec('raise ValueError(chr(0xd800))')", ValueError, "ValueError"),
}


@pytest.mark.parametrize("name", HONEST)
def test_an_exception_of_any_class_is_raised_here(open_grader, name):
    said, base, kind = HONEST[name]
    f = open_grader(f"def f(): return {said}").name("f")
    with pytest.raises(base) as caught:
        f()
    assert type(caught.value).__name__ == kind
    assert f._grader.ended is None


def test_a_lent_function_has_no_attributes(open_grader):
    grader = open_grader(
        "def f(g): return hasattr(g, 'shape'), getattr(g, 'name', None), g(2)\ndef h(g): return g.shape"
    )
    assert grader.name("f")(lambda x: x + 1) == (False, None, 3)
    with pytest.raises(AttributeError, match="shape"):
        grader.name("h")(lambda x: x + 1)


def test_what_was_lent_is_forgotten_when_another_name_is_asked_for(open_grader):
    grader = open_grader("def f(g):\n    global kept\n    kept = g; return g(1)\ndef h(): return kept(1)")
    assert grader.name("f")(lambda x: x + 1) == 2
    assert isinstance(grader.name("kept"), Opaque)
    with pytest.raises(ReferenceError, match="another part"):
        grader.name("h")()
    assert grader.name("f")(lambda x: x + 2) == 3


def test_only_a_companion_may_say_what_it_found_and_not_much(open_grader):
    cell = """
from ppobook.teaching import checks
import ppobook.teaching.checks.beside.trust_regions as c
def f(*a): raise checks.Mistake('an argument is overwritten', position=1)
def few(answer, *a): raise checks.Mistake('an argument is overwritten', position=2)
def much(answer, *a): raise checks.Mistake('an argument is overwritten', position='1' * 300)
def nest(answer, *a): raise checks.Mistake('an argument is overwritten', position=[1, [2]])
def use(what): c.watch_a_call = globals()[what]
"""

    def found(what):
        grader = open_grader(cell)
        grader.name("use")(what)
        with pytest.raises((checks.Mistake, Ended)) as caught:
            grader.name("f").beside("fisher-softmax", watch_a_call)
        return caught.value

    with pytest.raises(Exception, match="overwritten") as caught:
        open_grader(cell).name("f")()
    assert not isinstance(caught.value, checks.Mistake)
    assert found("few").values == {"position": 2}
    assert [found(what).reason for what in ("much", "nest")] == ["forged", "forged"]


def test_an_exception_says_so_much(open_grader):
    cell = "def f(): raise type('X' * 10**4, (Exception,), {})('y' * 10**5)" + " #" + "z" * 10**4
    with pytest.raises(Exception, match="y") as caught:
        open_grader(cell).name("f")()
    said = [type(caught.value).__name__, str(caught.value), caught.value.in_cell[1]]
    assert [len(text) for text in said] == [NAME, MESSAGE, LINE]


HOSTILE_VALUES = {
    "10 GB": "torch.zeros(1).as_strided((2500000000,), (0,))",
    "text": "'1' * 10**7",
    "a range": "range(10**9)",
    "many ranges": "[range(10**6)] * 1000",
    "a nest": "__import__('functools').reduce(lambda a, _: [a] * 300, range(4), 1.0)",
    "itself": "(lambda a: a.extend([a, a]) or a)([])",
    "many keys": "{k * (2**61 - 1): 0 for k in range(1, 15_000)}",
    "levels": "__import__('functools').reduce(lambda a, _: [a], range(10**5), [])",
}


@pytest.mark.parametrize("value", HOSTILE_VALUES.values(), ids=HOSTILE_VALUES)
def test_a_value_of_any_kind_is_wrong_and_no_more(open_grader, value):
    grader = open_grader(IMPORTS + f"value = {value}\ndef f(*a, **k): return value")
    verdict = checks.run("clipped-loss", grader.name("f"))
    assert verdict.kind in ("raised", "returned", "mistake", "property")
    assert grader.cell("1 + 1", 5.0) is None


def test_what_cannot_be_sent_is_only_a_name(open_grader):
    found = open_grader("class Thing: pass\ndef f(): return [Thing()]").name("f")()
    assert isinstance(found[0], Opaque)
    assert type(found[0]).__name__ == "Thing"


# --- what the worker may ask of the grader

REACH = """
import gc
from ppobook.course.worker import Worker
side = next(o for o in gc.get_objects() if isinstance(o, Worker))
"""


@pytest.mark.parametrize(
    ("ask", "what"),
    [
        ("['get', world._number, '__class__']", AttributeError),
        ("['get', world._number, '_world']", AttributeError),
        ("['get', 999, 'x']", Ended),
        ("['call', 12345]", Ended),
        ("['cell', 'import os', 1]", Ended),
        ("['name', '__import__(\"os\").getpid()']", Ended),
        ("['beside', 1, 'os:getpid', 'x']", Ended),
        ("'call'", Ended),
        ("['gradients', 4, 5]", KeyError),
    ],
)
def test_only_what_was_lent_can_be_asked_for(open_grader, ask, what):
    class World:
        __lends__ = ("size",)
        size = 3
        _world = "hidden"

    grader = open_grader(f"{REACH}\ndef f(world):\n    assert world.size == 3\n    return side.ask({ask})")
    with pytest.raises(what):
        grader.name("f")(World())


FRAMES = {
    "half a frame": "b'\\x10'",
    "2^60 bytes": "struct.pack('<QI', 2**60, 3) + b'abc'",
    "no JSON": "struct.pack('<QI', 3, 3) + b'abc'",
    "an answer": """message(['value', True, None, [], None])""",
    "an answer to nothing": """message(['value', ['ref', 77], None, [], None])""",
    "a change of what isn't there": """message(['value', 1, None, [[1, 2, 3, 4]], None])""",
    "an endless number": """message(['value', 1, float('inf'), [], None])""",
    "a number that is none": """message(['value', 1, 'x', [], None])""",
    "an endless change": """message(['value', 1, None, float('inf'), None])""",
    "an endless error": """message(['error', {'type': 'X', 'line': [10**400, 'x']}, None, [], None])""",
    "an endless chance": """message(['value', 1, None, [], ['00', ['MT19937', '00', 700], [3, [], 0]]])""",
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_a_frame_that_is_written_by_hand_earns_nothing(open_grader, frame):
    cell = f"""
import json, os, struct
def message(header):
    text = json.dumps([header, []]).encode()
    return struct.pack('<QI', len(text), len(text)) + text
def f(*a, **k):
    for fd in range(3, 20):
        try: os.write(fd, {frame})
        except OSError: pass
    os._exit(0)
"""
    f = open_grader(cell).name("f")
    f._grader.deadline = time.monotonic() + 3
    assert verdict_on(f) in ("raised", "returned", "property", "mistake", "forged", "ended", "time")


@pytest.mark.parametrize("said", ["[1]", "{}", "{'type': [1], 'message': ''}", "{'type': '', 'message': 1}"])
def test_a_cells_error_that_is_no_text_is_forged(open_grader, said):
    grader = open_grader(
        f"from ppobook.course.worker import Worker\nWorker._told = staticmethod(lambda error: {said})"
    )
    with pytest.raises(Ended, match="none"):
        grader.cell("1 / 0", 20.0)


def test_an_endless_dialogue_ends(open_grader):
    grader = open_grader("def f(g):\n    while True: g(1)")
    grader.deadline = time.monotonic() + 0.5
    with pytest.raises(Ended, match="too long"):
        grader.name("f")(lambda x: x)


def test_a_checks_clock_ends_the_process(open_grader, monkeypatch):
    monkeypatch.setattr(checks, "SECONDS", 0.3)
    grader = open_grader(
        "def f(*a, **k):\n    while True:\n        try: 1\n        except BaseException: pass"
    )
    assert checks.run("clipped-loss", grader.name("f")).kind == "slow"
    with pytest.raises(Ended):
        grader.name("f")
