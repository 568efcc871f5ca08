"""The tiny world: its corpus, grammar, gold and preferences, each against another way to say it."""

import json
import math
import random
import re

import numpy as np
import pytest
import torch

from ppobook.language.tokens import Completions
from ppobook.language.world import ADJECTIVE, CLAUSES, ON_TOPIC, SECOND_ADJECTIVE, World

WORLD = World()
WIDE = World(nouns=32, places=32, verbs=16, adjectives=16, max_new_tokens=40)
ASKED = "tell fox barn :"


def read(world, texts):
    """Completions from (prompt, text) pairs."""
    return Completions.join([world.read(prompt, text) for prompt, text in texts])


# ------------------------------------------- gold, from texts, by regular expressions and no automaton

# What must stand before a word, as letters: t(he) a(djective) n(oun) v(erb) b(y) p(lace) & . $
BEFORE = {
    "t": r"(^|[&b])$",
    "a": r"[ta]$",
    "n": r"(^|[^bta])[ta]+$",
    "v": r"n$",
    "b": r"v$",
    "p": r"b[ta]+$",
    "&": r"p$",
    ".": r"p$",
    "$": r"\.$",
}


def slow_errors(words, world):
    letters = {"the": "t", "by": "b", "and": "&", ".": ".", "<eos>": "$"}
    for letter, known in (
        ("n", world.nouns),
        ("p", world.places),
        ("v", world.verbs),
        ("a", [*world.kind, *world.grim]),
    ):
        letters.update(dict.fromkeys(known, letter))
    errors, past = 0, ""
    for word in words:
        letter = letters.get(word, "")
        errors += not (letter and re.search(BEFORE[letter], past))
        past += letter
    return errors


def slow_gold(prompt, text, world):
    _, noun, place, _ = prompt.split()
    words = text.split()
    kind = sum(word in world.kind for word in words)
    grim = sum(word in world.grim for word in words)
    strangers = sum(word in set(world.nouns + world.places) - {noun, place} for word in words)
    reward = 0.5 * (noun in words) + 0.5 * (place in words)
    reward += kind if kind <= 3 else 3 - 0.5 * (kind - 3)
    reward -= grim + 0.25 * strangers + 0.5 * min(slow_errors(words, world), 3)
    return reward - 0.5 * (words[-1] != "<eos>")


def many_texts(world, n, seed=0):
    """Texts of the corpus, whole, cut, and with words changed, dropped, doubled and swapped; and nonsense."""
    rng = random.Random(seed)
    words = [word for word in world.tokenizer.words if word not in ("<pad>", "<eos>")]
    made = []
    for record in world.corpus(n, seed):
        text = record["completion"].split()
        for _ in range(rng.choice([0, 0, 1, 2, 5])):
            i = rng.randrange(len(text))
            change = rng.randrange(4)
            if change == 0:
                text[i] = rng.choice(words)
            elif change == 1:
                text.insert(i, text[i])
            elif change == 2 and len(text) > 1:
                del text[i]
            else:
                j = rng.randrange(len(text))
                text[i], text[j] = text[j], text[i]
        if rng.random() < 0.2:
            text = text[: rng.randrange(1, len(text) + 1)]
        if rng.random() < 0.1:
            text = rng.choices(words, k=rng.randrange(1, 10))
        if rng.random() < 0.7:
            text.append("<eos>")
        made.append((record["prompt"], " ".join(text)))
    return made


@pytest.mark.parametrize("world", [WORLD, WIDE], ids=["small", "wide"])
def test_gold_is_what_a_slow_reader_of_texts_says(world):
    texts = many_texts(world, 1500)
    want = [slow_gold(prompt, text, world) for prompt, text in texts]
    found = world.gold(read(world, texts))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, torch.tensor(want), rtol=0, atol=1e-6)
    assert len({*want}) > 20


# ---------------------------------------------------------------------------------------------- the corpus


def near(hits, n, p, sigmas=4.5):
    """Return True if a frequency is what its probability makes likely."""
    return abs(hits - n * p) <= sigmas * math.sqrt(n * p * (1 - p)) + 1e-9


def test_the_corpus_says_what_it_says_as_often_as_stated():
    world = World(max_new_tokens=100)  # no text is longer
    records = world.corpus(6000, seed=3)
    prompts = [record["prompt"] for record in records]
    for prompt in world.prompts:
        assert near(prompts.count(prompt), len(records), 1 / 16)
    clauses = [record["completion"].removesuffix(" .").split(" and ") for record in records]
    for number, p in enumerate(CLAUSES, start=1):
        assert near(sum(len(each) == number for each in clauses), len(records), p)

    own = {"noun": 0, "place": 0}
    adjectives, verbs, kind = [], [], 0
    total = 0
    for prompt, each in zip(prompts, clauses, strict=True):
        _, noun, place, _ = prompt.split()
        for clause in each:
            form = re.fullmatch(r"the ((?:\w+ )*)(\w+) (\w+) by the ((?:\w+ )*)(\w+)", clause)
            who, a_noun, verb, where, a_place = form.groups()
            assert a_noun in world.nouns
            assert a_place in world.places
            total += 1
            own["noun"] += a_noun == noun
            own["place"] += a_place == place
            verbs.append(verb)
            for half in (who.split(), where.split()):
                adjectives.append(len(half))
                assert {*half} <= {*world.kind, *world.grim}
                kind += sum(word in world.kind for word in half)
    for hits in own.values():
        assert near(hits, total, ON_TOPIC + (1 - ON_TOPIC) / 4)
    for verb in world.verbs:
        assert near(verbs.count(verb), total, 1 / 4)
    two = ADJECTIVE * SECOND_ADJECTIVE
    for number, p in enumerate((1 - ADJECTIVE, ADJECTIVE - two, two)):
        assert near(adjectives.count(number), 2 * total, p)
    assert near(kind, sum(adjectives), 1 / 2)
    # As the module says of itself: half a kind word a text, and two nouns or places of ten stray.
    assert kind / len(records) == pytest.approx(0.53, abs=0.03)
    assert sum(own.values()) / (2 * total) == pytest.approx(0.775, abs=0.01)


def test_all_that_is_in_the_corpus_is_right():
    for world in (WORLD, WIDE):
        records = world.corpus(500, seed=5)
        batch = read(world, [(r["prompt"], r["completion"] + " <eos>") for r in records])
        found = world.gold_parts(batch)
        assert not found["errors"].any()
        assert not found["truncated"].any()
        assert batch.tokens.shape[1] <= world.max_new_tokens


# ----------------------------------------------------------------------------------------------- preferences


def both(first, second, n):
    return WORLD.read(ASKED, first).select([0] * n), WORLD.read(ASKED, second).select([0] * n)


GOOD, FAIR = "the kind fox sits by the barn . <eos>", "the fox sits by the barn . <eos>"


@pytest.mark.parametrize("noise", [0.5, 4.0])
@pytest.mark.parametrize(
    ("first", "second"),
    [(GOOD, FAIR), (FAIR, "the fox sits by the hill . <eos>"), (FAIR, FAIR)],
)
def test_choices_come_as_often_as_the_sigmoid_says(first, second, noise):
    n = 4000
    a, b = both(first, second, n)
    a.logp.fill_(-1.0)  # a mark, to know the two apart where their texts are alike
    pairs = WORLD.prefer(a, b, noise=noise, seed=11)
    took_first = int((pairs.chosen.logp[:, 0] == -1).sum())
    gap = slow_gold(ASKED, first, WORLD) - slow_gold(ASKED, second, WORLD)
    assert near(took_first, n, 1 / (1 + math.exp(-gap / noise)))


def test_without_noise_the_better_one_is_chosen_and_of_equals_either():
    texts = many_texts(WORLD, 600, seed=6)
    others = [
        (prompt, text) for (prompt, _), (_, text) in zip(texts, many_texts(WORLD, 600, seed=9), strict=True)
    ]
    first, second = read(WORLD, texts), read(WORLD, others)
    pairs = WORLD.prefer(first, second, noise=0)
    gap = WORLD.gold(pairs.chosen) - WORLD.gold(pairs.rejected)
    assert (gap >= 0).all()
    assert 0 < (gap == 0).sum() < 300
    a, b = both(FAIR, FAIR, 2000)
    a.logp.fill_(-1.0)
    assert near(int((WORLD.prefer(a, b, noise=0).chosen.logp[:, 0] == -1).sum()), 2000, 0.5)


# ----------------------------------------------------------------------------------------------------- sizes


def test_the_worlds_of_all_sizes():
    assert len(WORLD.prompts) == 16
    assert WORLD.tokenizer.vocab_size == 28
    assert len(WIDE.prompts) == len({*WIDE.prompts}) == 1024
    assert WIDE.tokenizer.vocab_size == 2 + 6 + 32 + 32 + 16 + 2 * 16
    long = World(clauses=[0] * 9 + [1], max_new_tokens=90)
    assert {r["completion"].count(" by ") for r in long.corpus(50)} == {10}
    for world in (WORLD, WIDE, long):
        tokens, mask = world.prompt_tokens()
        assert tokens.shape == (len(world.prompts), 4)
        assert mask.all()
        assert [world.tokenizer.decode(row) for row in tokens] == world.prompts
    with pytest.raises(ValueError, match="max_new_tokens must be larger"):
        World(max_new_tokens=7).corpus(1)


def test_a_world_can_be_made_again_from_its_config():
    given = World(nouns=np.int64(3), adjectives=2, clauses=(1 / 3, 1 / 3, 1 / 3), max_new_tokens=30)
    again = World(**json.loads(json.dumps(given.config)))
    assert again.config == given.config
    assert again.corpus(30, seed=2) == given.corpus(30, seed=2)
