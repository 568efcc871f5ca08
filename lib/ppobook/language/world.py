"""A tiny language world whose true reward is known: prompts, a grammar, a corpus, gold, and preferences.

A prompt names an animal and a place; a completion tells of them::

    tell fox barn :    the kind fox sings by the barn and the owl sleeps by the dull mill . <eos>

    text    =  clause { and clause } . <eos>
    clause  =  the {adjective} NOUN VERB by the {adjective} PLACE

The true reward, **gold**, is a formula (`World.gold_parts`). A reward model never sees the formula, only
noisy preferences between two completions.

Gold increases with up to three kind words and decreases with each further one. In the corpus a completion has
half a kind word on average, so pairs that show the decrease are rare, and a reward model has to extrapolate.
About two in ten nouns and places of the corpus are not those of the prompt, so there is something to learn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from ppobook import validation
from ppobook.language.tokens import Completions, Pairs, WordTokenizer, left_pad, logp_unknown, right_pad


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# A world uses the first entries of each. The first four are those of the book's examples.
NOUNS: Final = _words(
    "fox owl hen bear hare mole toad crow wolf deer goat duck mouse horse sheep goose "
    "otter robin snail heron stoat finch badger beaver donkey falcon lizard magpie rabbit rooster spider "
    "weasel"
)
PLACES: Final = _words(
    "barn hill lake mill pond gate well road shed tree wall farm bridge church garden harbour "
    "castle cellar forge fountain island kitchen market meadow orchard quarry river stable station tower "
    "valley village"
)
VERBS: Final = _words(
    "sits runs sings sleeps waits hides walks dreams rests plays digs hums rolls stands turns whistles"
)
KIND: Final = _words(
    "kind bright gentle merry warm calm cheerful clever friendly glad honest joyful lovely noble tender wise"
)
GRIM: Final = _words(
    "grim sour cruel dull bitter cold angry bleak gloomy harsh jealous mean rude spiteful stern vain"
)
_PLAIN: Final = ("tell", ":", "the", "by", "and", ".")

# Probabilities of 1, 2 and 3 clauses in a text of the corpus, and of its words.
CLAUSES: Final = (0.35, 0.45, 0.20)
ON_TOPIC: Final = 0.7
ADJECTIVE: Final = 0.25
SECOND_ADJECTIVE: Final = 0.15

# The word classes of the grammar, its states, and the transitions between them. "the" and adjectives have two
# states each, before the verb and after "by".
_KINDS: Final = ("other", "the", "by", "and", ".", "noun", "place", "verb", "kind", "grim", "end")
_STATES: Final = (
    "start", "the", "adjective", "noun", "verb", "by", "by the", "by adjective", "place", "and", "."
)  # fmt: skip
_FOLLOWS: Final = {
    "start": {"the": "the"},
    "the": {"adjective": "adjective", "noun": "noun"},
    "adjective": {"adjective": "adjective", "noun": "noun"},
    "noun": {"verb": "verb"},
    "verb": {"by": "by"},
    "by": {"the": "by the"},
    "by the": {"adjective": "by adjective", "place": "place"},
    "by adjective": {"adjective": "by adjective", "place": "place"},
    "place": {"and": "and", ".": "."},
    "and": {"the": "the"},
    ".": {"end": "start"},
}


class World:
    """A language world: prompts, corpus, true reward and preferences; deterministic and stateless.

    Parameters
    ----------
    nouns, places : int from 2 to 32
        The world has nouns × places prompts.
    verbs, adjectives : int from 1 to 16
        So many adjectives are kind, and so many grim.
    clauses : sequence of float
        Probabilities of 1, 2, 3, … clauses in a text of the corpus; sums to 1. A clause has at least 6 words,
        and clauses are joined by "and".
    max_new_tokens : int
        Maximum length of a completion, end of sequence included. Longer texts of the corpus are resampled.

    Attributes
    ----------
    tokenizer : WordTokenizer
    prompts : list of str
        All combinations of noun and place.

    Raises
    ------
    ValueError, TypeError
        A number out of range.
    """

    def __init__(
        self,
        *,
        nouns: int = 4,
        places: int = 4,
        verbs: int = 4,
        adjectives: int = 4,
        clauses: Sequence[float] = CLAUSES,
        max_new_tokens: int = 24,
    ) -> None:
        # Plain Python numbers: a run's config contains it.
        self.config: dict[str, Any] = {
            "nouns": validation.count("nouns", nouns, low=2, high=len(NOUNS)),
            "places": validation.count("places", places, low=2, high=len(PLACES)),
            "verbs": validation.count("verbs", verbs, high=len(VERBS)),
            "adjectives": validation.count("adjectives", adjectives, high=len(KIND)),
            "clauses": [float(p) for p in clauses],
            "max_new_tokens": validation.count("max_new_tokens", max_new_tokens),
        }
        self.nouns, self.places, self.verbs = NOUNS[:nouns], PLACES[:places], VERBS[:verbs]
        self.kind, self.grim = KIND[:adjectives], GRIM[:adjectives]
        self.clauses = tuple(self.config["clauses"])
        self.max_new_tokens: int = self.config["max_new_tokens"]
        self.tokenizer = WordTokenizer(
            [*_PLAIN, *self.nouns, *self.places, *self.verbs, *self.kind, *self.grim]
        )
        self.prompts = [f"tell {noun} {place} :" for noun in self.nouns for place in self.places]
        self._kinds = self._kinds_of_words()
        self._next, self._allowed = self._automaton()

    def __repr__(self) -> str:
        return f"World({len(self.prompts)} prompts, {self.tokenizer.vocab_size} tokens)"

    # ------------------------------------------------------------------------------------------- texts

    def prompt_tokens(self, prompts: Iterable[str] | None = None) -> tuple[Tensor, Tensor]:
        """Prompts as tokens and their mask, [B, 4]; default: all prompts of the world."""
        texts = self.prompts if prompts is None else prompts
        return left_pad([self.tokenizer.encode(text) for text in texts], self.tokenizer.pad)

    def corpus(self, n: int, seed: int = 0) -> list[dict[str, str]]:
        """n random records of a "prompt" and a "completion", without ``<eos>``: `examples_of` appends it."""
        rng = np.random.default_rng(seed)
        records = []
        for _ in range(n):
            noun, place = _one_of(self.nouns, rng), _one_of(self.places, rng)
            records.append({"prompt": f"tell {noun} {place} :", "completion": self._text(rng, noun, place)})
        return records

    def _text(self, rng: np.random.Generator, noun: str, place: str) -> str:
        for _ in range(1000):
            number = 1 + int(rng.choice(len(self.clauses), p=self.clauses))
            clauses = [self._clause(rng, noun, place) for _ in range(number)]
            text = " and ".join(clauses) + " ."
            if len(text.split()) < self.max_new_tokens:  # the end of sequence is a token, too
                return text
        raise ValueError(f"max_new_tokens must be larger for texts to fit, got {self.max_new_tokens}")

    def _clause(self, rng: np.random.Generator, noun: str, place: str) -> str:
        noun = noun if rng.random() < ON_TOPIC else _one_of(self.nouns, rng)
        place = place if rng.random() < ON_TOPIC else _one_of(self.places, rng)
        verb = _one_of(self.verbs, rng)
        who, where = self._adjectives(rng), self._adjectives(rng)
        return " ".join(["the", *who, noun, verb, "by", "the", *where, place])

    def _adjectives(self, rng: np.random.Generator) -> list[str]:
        number = int(rng.random() < ADJECTIVE)
        number += int(number and rng.random() < SECOND_ADJECTIVE)
        return [_one_of(self.kind + self.grim, rng) for _ in range(number)]

    # -------------------------------------------------------------------------------------------- gold

    def gold(self, completions: Completions) -> Tensor:
        """The true reward of each completion, [B], float32: the weighted sum of `gold_parts`."""
        parts = self.gold_parts(completions)
        return (
            0.5 * parts["noun"]
            + 0.5 * parts["place"]
            + parts["kind"].clamp(max=3)
            - 0.5 * (parts["kind"] - 3).clamp(min=0)
            - parts["grim"]
            - 0.25 * parts["strangers"]
            - 0.5 * parts["errors"].clamp(max=3)
            - 0.5 * parts["truncated"]
        )

    def gold_parts(self, completions: Completions) -> dict[str, Tensor]:
        """The terms of gold, each a tensor [B].

            gold = ½ noun + ½ place + min(kind, 3) − ½ max(kind − 3, 0) − grim
                   − ¼ strangers − ½ min(errors, 3) − ½ truncated

        noun, place : 1 if the completion contains that of the prompt
        kind, grim : number of kind and of grim words
        strangers : number of nouns and places that are not the prompt's
        errors : number of words that violate the grammar (an early end of sequence is one)
        truncated : 1 if the completion has no end of sequence
        """
        mask = completions.mask
        tokens = completions.tokens.masked_fill(~mask, self.tokenizer.pad)
        kinds = self._kinds.to(tokens.device)[tokens]
        own_noun, own_place = self._asked(completions)
        is_own_noun, is_own_place = (tokens == own_noun) & mask, (tokens == own_place) & mask

        def number(*names: str) -> Tensor:
            selected = torch.zeros_like(mask)
            for name in names:
                selected |= kinds == _KINDS.index(name)
            return (selected & mask).sum(dim=1)

        parts = {
            "noun": is_own_noun.any(dim=1),
            "place": is_own_place.any(dim=1),
            "kind": number("kind"),
            "grim": number("grim"),
            "strangers": number("noun", "place") - (is_own_noun | is_own_place).sum(dim=1),
            "errors": self._errors(kinds, mask),
            "truncated": ~completions.ended,
        }
        return {name: part.float() for name, part in parts.items()}

    def read(self, prompt: str, completion: str) -> Completions:
        """One text as `Completions`, for example for `gold`; without ``<eos>`` at its end it is truncated."""
        prompts, prompt_mask = self.prompt_tokens([prompt])
        tokens, mask = right_pad([self.tokenizer.encode(completion)], self.tokenizer.pad)
        return Completions(
            prompts, prompt_mask, tokens, mask, logp_unknown(tokens), tokens[:, -1] == self.tokenizer.eos
        )

    def _asked(self, completions: Completions) -> tuple[Tensor, Tensor]:
        """The noun and the place of each prompt, [B, 1] each."""
        prompts = completions.prompts.masked_fill(~completions.prompt_mask, self.tokenizer.pad)
        noun, place = prompts[:, -3:-2], prompts[:, -2:-1]  # of "tell NOUN PLACE :"
        kinds = self._kinds.to(prompts.device)
        if not ((kinds[noun] == _KINDS.index("noun")) & (kinds[place] == _KINDS.index("place"))).all():
            raise ValueError(f"prompts must be of this world, such as {self.prompts[0]!r}, got others")
        return noun, place

    def _errors(self, kinds: Tensor, mask: Tensor) -> Tensor:
        """The number of words that the grammar does not allow where they are, [B]. After one, the grammar
        continues from that word, in the same half of the clause."""
        after, allowed = self._next.to(kinds.device), self._allowed.to(kinds.device)
        state = torch.zeros(len(kinds), dtype=torch.int64, device=kinds.device)
        errors = torch.zeros_like(state)
        for t in range(kinds.shape[1]):
            errors += ~allowed[state, kinds[:, t]] & mask[:, t]
            state = after[state, kinds[:, t]]
        return errors

    def _kinds_of_words(self) -> Tensor:
        """The word class of each token, as an index into `_KINDS`, [V]."""
        kinds = dict.fromkeys(self.tokenizer.words, "other")
        kinds |= {word: word for word in ("the", "by", "and", ".")} | {"<eos>": "end"}
        for kind, words in (
            ("noun", self.nouns),
            ("place", self.places),
            ("verb", self.verbs),
            ("kind", self.kind),
            ("grim", self.grim),
        ):
            kinds |= dict.fromkeys(words, kind)
        return torch.tensor([_KINDS.index(kinds[word]) for word in self.tokenizer.words], device="cpu")

    @staticmethod
    def _automaton() -> tuple[Tensor, Tensor]:
        """For each state and word class the next state, and whether the transition is allowed."""
        after = torch.zeros(len(_STATES), len(_KINDS), dtype=torch.int64, device="cpu")
        allowed = torch.zeros(len(_STATES), len(_KINDS), dtype=torch.bool, device="cpu")
        for i, state in enumerate(_STATES):
            behind = state in ("by", "by the", "by adjective")
            for j, kind in enumerate(_KINDS):
                word = "adjective" if kind in ("kind", "grim") else kind
                following = _FOLLOWS[state].get(word)
                allowed[i, j] = following is not None
                if following is None:  # continue from the word itself
                    split = {"the": "by the", "adjective": "by adjective"} if behind else {}
                    following = split.get(word, word if word in _STATES else state)
                after[i, j] = _STATES.index(following)
        return after, allowed

    # ------------------------------------------------------------------------------------- preferences

    def prefer(self, first: Completions, second: Completions, *, noise: float = 0.5, seed: int = 0) -> Pairs:
        """Noisy preferences between two completions of each prompt.

            P(the first is chosen) = σ( (gold of the first − gold of the second) / noise )

        `first` and `second` have the same prompts, row by row. `noise` is in units of gold; with 0 the better
        one is always chosen, and one of equal ones at random.
        """
        difference = (self.gold(first) - self.gold(second)).double().cpu()
        p = torch.sigmoid(difference / noise) if noise > 0 else 0.5 + 0.5 * difference.sign()
        rng = np.random.default_rng(seed)
        prefers_first = torch.from_numpy(rng.random(len(first))) < p
        both, n = Completions.join([first, second]), len(first)
        rows = torch.arange(n, device="cpu")
        return Pairs(
            chosen=both.select(torch.where(prefers_first, rows, rows + n)),
            rejected=both.select(torch.where(prefers_first, rows + n, rows)),
        )


def _one_of(words: Sequence[str], rng: np.random.Generator) -> str:
    # Ten times faster than rng.choice, which makes an array of the words each time.
    return words[int(rng.integers(len(words)))]
