"""A function in another process that is called like any other: values, gradients, exceptions, forgeries."""

import time

import numpy as np
import pytest
import torch
from torch import nn

from ppobook.course.calls import LINE, MESSAGE, NAME, _StudentNetwork
from ppobook.course.sandbox import Ended
from ppobook.course.serialization import Malformed
from ppobook.teaching import checks
from ppobook.teaching.checks.beside.trust_regions import watch_a_call

IMPORTS = "import numpy as np, torch\nfrom torch import nn\n"


@pytest.fixture
def f(grader):
    """Runs a cell and gives the function `f` of it."""

    def made(cell, name="f"):
        assert grader.cell(IMPORTS + cell, 300.0) is None
        grader.sandbox.deadline = time.monotonic() + 300
        return grader.name(name)

    return made


def test_values_go_there_and_come_back(f):
    swap = f("def f(a, b=1, **more): return {'a': b, 'b': [a, (b,)], **more}")
    assert swap(np.float64(2.0), b="x", c=None) == {"a": "x", "b": [2.0, ("x",)], "c": None}
    found = f("class Thing: pass\ndef f(): return [Thing()]")()
    assert type(found[0]).__name__ == "Thing"


def test_a_function_of_the_graders_can_be_differentiated_there(f):
    there = f(
        "def f(logp, x):\n    x = x.clone().requires_grad_()\n    logp(x).backward()\n    return x.grad"
    )
    weights = torch.tensor([2.0, 5.0])
    assert there(lambda x: (weights * x**2).sum(), torch.ones(2)).tolist() == [4.0, 10.0]


def test_a_checks_clock_rings_in_what_was_lent_too(open_grader):
    grader = open_grader("""
def f(lent):
    while True:
        try:
            lent()
        except BaseException:
            pass
""")
    again = grader.name("f")
    with pytest.raises(checks.TooSlow), checks._time_limit(0.5):
        again(lambda: time.sleep(60))
    assert grader.ended.reason == "time"


def test_what_is_played_in_the_students_process_takes_few_messages(f, grader, monkeypatch):
    sent = []
    monkeypatch.setattr(grader, "send", lambda *message: sent.append(type(grader).send(grader, *message)))
    evaluate = f("""
import gymnasium as gym
def f(policy, env_id, episodes, seed):
    env, found = gym.make(env_id), []
    generator = torch.Generator().manual_seed(seed)
    for episode in range(episodes):
        (obs, _), total, over = env.reset(seed=seed if episode == 0 else None), 0.0, False
        while not over:
            chances = policy(torch.as_tensor(obs)[None]).softmax(-1)
            action = torch.multinomial(chances, 1, generator=generator).item()
            obs, reward, terminated, truncated, _ = env.step(action)
            total, over = total + reward, terminated or truncated
        found.append(total)
    return np.array(found)
""")
    verdict = checks.run("capstone-evaluate", evaluate)
    assert verdict.right, verdict.message
    assert len(sent) == 6  # the cell, the name, and four evaluations of up to 400 episodes


def test_a_network_is_the_same_object_in_every_call(f):
    step = f("""
seen = []
def f(net, x):
    seen.append((net, net.weight))
    net(x).sum().backward()
    return len({id(n) for n, _ in seen}), len({id(w) for _, w in seen}), net.weight.grad.clone()
""")
    net, x = nn.Linear(2, 1), torch.ones(1, 2)
    assert step(net, x)[2].tolist() == [[1.0, 1.0]]
    with torch.no_grad():
        net.weight.zero_()
    nets, weights, slope = step(net, x)
    assert (nets, weights) == (1, 1)
    assert slope.tolist() == net.weight.grad.tolist() == [[2.0, 2.0]]
    assert step(nn.Linear(2, 1), x)[0] == 2


def test_what_a_check_seeds_again_draws_the_same_again(f):
    draw = f("import random\ndef f(): return torch.rand(1).item(), np.random.rand(), random.random()")
    torch.manual_seed(3)
    found = [draw(), draw()]
    torch.manual_seed(3)
    assert found == [draw(), draw()]
    assert len({number for row in found for number in row}) == 6


def test_functions_and_networks_come_back(f):
    scale = torch.tensor(2.0)
    function, own = f("""
class Own(nn.Module):
    def __init__(self):
        super().__init__(); self.body = nn.Linear(2, 1)
    def forward(self, x): return self.body(x) * 2
def f(scale): return lambda x: scale * x, Own()
""")(scale)
    assert function(torch.tensor(3.0)) == 6.0
    with torch.no_grad():
        own.body.weight.fill_(1.0)
        own.body.bias.zero_()
    x = torch.ones(3, 2)
    assert own(x).flatten().tolist() == [4.0, 4.0, 4.0]
    (slope,) = torch.autograd.grad(own(x).sum(), own.body.bias)
    assert slope.tolist() == [6.0]


def test_a_network_of_many_levels_is_refused():
    with pytest.raises(Malformed, match="at most 20 levels"):
        _StudentNetwork(None, {"a." * 30 + "weight": nn.Parameter(torch.ones(1))})


def test_exceptions_keep_their_name_their_message_and_their_line(f):
    raises = f("class Odd(KeyError): pass\ndef f(x):\n    raise Odd('what')")
    with pytest.raises(KeyError) as caught:
        raises(1)
    assert type(caught.value).__name__ == "Odd"
    assert caught.value.in_cell == (5, "raise Odd('what')")
    for said, kind in (("b'\\xff'.decode()", "UnicodeDecodeError"), ("exit(3)", "SystemExit")):
        with pytest.raises(Exception, match=r"3|decode") as caught:
            f(f"import sys\nexit = sys.exit\ndef f(): {said}")()
        assert type(caught.value).__name__ == kind
    with pytest.raises(Exception, match="y") as caught:
        f("def f(): raise type('X' * 10**4, (Exception,), {})('y' * 10**5)" + " #" + "z" * 10**4)()
    said = [type(caught.value).__name__, str(caught.value), caught.value.in_cell[1]]
    assert [len(text) for text in said] == [NAME, MESSAGE, LINE]


@pytest.mark.parametrize(
    "said",
    [
        "raise checks.Stop('right', 'clipped-loss')",
        "raise checks.Mistake('an argument is overwritten', position=1)",
        "return range(10**9)",
        "return torch.zeros(1).as_strided((2500000000,), (0,))",
        "a = []; a.extend([a, a]); return a",
    ],
)
def test_an_answer_of_any_kind_is_wrong_and_no_more(f, grader, said):
    verdict = checks.run("clipped-loss", f(f"from ppobook.teaching import checks\ndef f(*a, **k): {said}"))
    assert verdict.kind in ("raised", "returned")
    assert grader.cell("1 + 1", 300.0) is None


def test_only_a_companion_may_say_what_it_found_and_not_much(f, open_grader):
    cell = """
from ppobook.teaching import checks
import ppobook.teaching.checks.beside.trust_regions as c
def f(*a): raise checks.Mistake('an argument is overwritten', position=1)
def use(what):
    def companion(answer, *a): raise checks.Mistake('an argument is overwritten', position=what)
    companion.__name__ = companion.__qualname__ = 'watch_a_call'
    c.watch_a_call = companion
"""

    def found(what):
        grader = open_grader(cell)
        grader.name("use")(what)
        with pytest.raises((checks.Mistake, Ended)) as caught:
            grader.name("f").beside("fisher-softmax", watch_a_call)
        return caught.value

    assert found(2).values == {"position": 2}
    assert found("1" * 300).reason == "forged"


# --- what the worker may ask of the grader


def test_only_what_was_lent_can_be_asked_for(f, grader):
    class World:
        __lends__ = ("size",)
        size = 3
        _world = "hidden"

    reach = "import gc\nside = next(o for o in gc.get_objects() if type(o).__name__ == 'Worker')\n"
    asks = {
        "['get', world._number, '__class__']": AttributeError,
        "['get', world._number, '_world']": AttributeError,
        "['get', 999, 'x']": AttributeError,
        "['call', world._number]": ReferenceError,
        "['gradients', 4, 5]": KeyError,
    }
    for ask, kind in asks.items():
        with pytest.raises(kind):
            f(f"{reach}\ndef f(world):\n    assert world.size == 3\n    return side.ask({ask})")(World())
    assert f("def f(g): return hasattr(g, 'shape'), g(2)")(lambda x: x + 1) == (False, 3)
    assert f("def f(g):\n    global kept\n    kept = g; return g(1)")(lambda x: x + 1) == 2
    with pytest.raises(ReferenceError, match="another part"):
        f("def f(): return kept(1)")()


_CONTEXT = ["tuple", [9, False, None]]
_REQUEST = [["tuple", ["cell", "1", 1]], *[["tuple", []]] * 2, _CONTEXT]
FRAMES = {
    "half a message": "b'='",
    "2^60 bytes": "struct.pack('<cQ', b'=', 2**60) + b'abc'",
    "no JSON": "message(b'=', b'}{')",
    "deep JSON": "message(b'=', b'[' * 200_000)",
    "another request": f"message(b'?', json.dumps({_REQUEST}).encode())",
    "an answer": "message(b'=', json.dumps([True, []]).encode())",
    "a change of what isn't there": "message(b'=', json.dumps([1, [[1, 2]]]).encode())",
    "an endless error": "message(b'!', json.dumps([['dict', None, [['type', 10**400]]], []]).encode())",
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_a_message_that_is_written_by_hand_earns_nothing(open_grader, frame):
    cell = f"""
import json, os, struct
def message(kind, data): return struct.pack('<cQ', kind, len(data)) + data
def f(*a, **k):
    for fd in range(3, 20):
        try: os.write(fd, {frame})
        except OSError: pass
    os._exit(0)
"""
    try:
        found = checks.run("clipped-loss", open_grader(cell).name("f")).kind
    except Ended as ended:
        found = ended.reason
    assert found in ("raised", "returned", "property", "mistake", "forged", "ended")


def test_a_checks_clock_ends_the_process(open_grader, monkeypatch):
    monkeypatch.setattr(checks, "SECONDS", 0.3)
    stubborn = "def f(*a, **k):\n    while True:\n        try: 1\n        except BaseException: pass"
    grader = open_grader(stubborn)
    assert checks.run("clipped-loss", grader.name("f")).kind == "slow"
    with pytest.raises(Ended):
        grader.name("f")
