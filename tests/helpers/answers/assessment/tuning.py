"""Searches for a learning rate."""

from __future__ import annotations

import numpy as np
from checks import Right, Unnamed, Wrong

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}


def search(
    limit=1.0,
    up=True,
    down="if no gain",
    patience=1,
    pick=lambda tried: min(tried, key=lambda i: (-tried[i], i)),
    give_up=False,
    again=False,
    steps_down=99,
):
    def function(rates, start, measure):
        tried, last = {}, [start]

        def gains(i):
            score, kl = measure(rates[i])
            if again:
                measure(rates[i])
            best = max(tried.values(), default=-np.inf)
            last.append(i)
            if kl <= limit:
                tried[i] = score
            return kl <= limit and score > best

        gained, first = False, gains(start)
        if first and up:
            misses, i = 0, start + 1
            while i < len(rates) and misses < patience:
                won = gains(i)
                gained, misses, i = gained or won, 0 if won else misses + 1, i + 1
        if down == "always" or (down == "if no gain" and not gained):
            for taken, i in enumerate(range(start - 1, -1, -1)):
                some = bool(tried)
                if (not some and give_up) or taken >= steps_down:
                    break
                if not gains(i) and some:
                    break
        if not tried:
            return None
        return rates[last[-1] if pick == "last" else pick(tried)]

    return function


def everything(rates, start, measure):
    tried = {rate: measure(rate) for rate in rates}
    good = {rate: score for rate, (score, kl) in tried.items() if kl <= 1}
    return max(good, key=lambda rate: good[rate]) if good else None


def in_a_list(rates, start, measure):
    """The same, with a list of what was found."""
    found = []

    def look(i):
        score, kl = measure(rates[i])
        best = max((s for s, k, _ in found if k <= 1), default=float("-inf"))
        found.append((score, kl, i))
        return kl <= 1 and score > best

    i, some_step = start, False
    if look(i):
        while i < len(rates) - 1:
            i += 1
            if not look(i):
                break
            some_step = True
    i = start
    while not some_step and i > 0:
        i -= 1
        nothing = not any(k <= 1 for _, k, _ in found)
        if not look(i) and not nothing:
            break
    good = [(-s, i) for s, k, i in found if k <= 1]
    return rates[sorted(good)[0][1]] if good else None


RIGHT["final-tune"] = [search(), in_a_list]
WRONG["final-tune"] = {
    "all rates are measured": everything,
    "a rate is measured twice": search(again=True),
    "it never goes up": search(up=False),
    "the largest KL is not looked at": search(limit=np.inf),
    "it goes on after a step that gained nothing": search(patience=2),
    "both directions are tried": search(down="always"),
    "the last rate that was measured": search(pick="last"),
    "the rate with the smallest KL": search(pick=min),
    "it never goes down": search(down="never"),
    "it stops at a start that does not count": search(give_up=True),
    "it stops going down too soon": search(steps_down=1),
}
UNNAMED["final-tune"] = [
    search(limit=0.99),
    search(pick=lambda tried: max(tried, key=lambda i: (tried[i], i))),
    lambda *given: search()(*given) or given[0][0],
]
