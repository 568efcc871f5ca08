"""Right and wrong answers: four loops as data, and a budget of labels."""

from __future__ import annotations

from checks import Right, Unnamed, Wrong

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}

TABLE = {
    "texts": [1, 1, 2, 4],
    "age": [0, 0, 0, 8],
    "pairs_age": [37, 7, 37, None],
    "pairs": [3000, 4500, 3000, 0],
    "steps": [4, 4, 1, 2],
}


def but(**rows):
    return lambda: {**TABLE, **rows}


RIGHT["four-loops"] = [
    but(),
    lambda: tuple(TABLE.values()),
    but(pairs_age=(37.0, 7.0, 37.0, float("nan")), more="words"),
]
WRONG["four-loops"] = {
    "a pair is counted as one text": but(texts=[1, 1, 1, 4]),
    "a group is counted as one text": but(texts=[1, 1, 2, 1]),
    "the texts of a whole batch are counted": but(texts=[16, 16, 32, 64]),
    "the sampler is taken for the current policy": but(age=[0, 0, 0, 0]),
    "an update's number, not an age": [but(age=[37, 37, 37, 29]), but(age=[0, 0, 0, 29])],
    "the reward model's age is taken for the texts'": but(age=[0, 7, 0, 8]),
    "a rule is given an age": [but(pairs_age=[37, 7, 37, 0]), but(pairs_age=[37, 7, 37, 8])],
    "a round's number, not an age": but(pairs_age=[0, 30, 0, None]),
    "a round that is still to come": [but(pairs_age=[37, -8, 37, None]), but(pairs_age=[37, 8, 37, None])],
    "the refreshed model is as old as the frozen one": but(pairs_age=[37, 37, 37, None]),
    "online texts are taken for online labels": but(pairs_age=[37, 7, 0, None]),
    "the old pairs are thrown away": [
        but(pairs=[3000, 500, 3000, 0]),
        but(pairs=[3000, 1500, 3000, 0]),
    ],
    "the round before update 0 is forgotten": but(pairs=[3000, 4000, 3000, 0]),
    "a round that is still to come is counted": but(pairs=[3000, 5000, 3000, 0]),
    "pairs that the reward model compared are counted as labels": but(pairs=[3000, 4500, 3592, 0]),
    "a rule has learned from pairs": but(pairs=[3000, 4500, 3000, 3000]),
    "online DPO uses its pairs again": but(steps=[4, 4, 4, 2]),
    "a batch is thrown away after one step": but(steps=[1, 1, 1, 2]),
    "a lag is taken for reuse": [but(steps=[4, 4, 1, 16]), but(steps=[4, 4, 1, 8])],
}
UNNAMED["four-loops"] = [
    but(texts=[2, 1, 2, 4]),
    but(age=[0, 0, 1, 8]),
    but(pairs_age=[37, 6, 37, None]),
    but(pairs=[3000, 4501, 3000, 0]),
    but(steps=[4, 2, 1, 2]),
]


# --- label-rounds


def rounds(
    *,
    starts=lambda updates, every: list(range(0, updates, every)),
    split=None,
    when=lambda start, number: start,
    order="amt",
    measured=lambda old, new: new,
    trained=lambda old, new: old + new,
    keep=lambda old, new: old + new,
):
    """The loop with one part changed."""

    def function(budget, updates, every, ask, accuracy, train):
        begin = starts(updates, every)
        low, rest = divmod(budget, len(begin))
        shares = [low + (i < rest) for i in range(len(begin))] if split is None else split(budget, len(begin))
        old, found = [], []
        for number, (start, n) in enumerate(zip(begin, shares, strict=True)):
            new = ask(when(start, number), n)
            for step in order[1:]:
                if step == "m":
                    found.append(accuracy(measured(old, new)))
                else:
                    train(trained(old, new))
            old = keep(old, new)
        return found

    return function


def while_it_lasts(budget, updates, every, ask, accuracy, train):
    todo = -(-updates // every)
    pairs, found, update = [], [], 0
    while update < updates:
        n = -(-budget // todo)
        budget, todo = budget - n, todo - 1
        new = ask(update=update, n=n)
        found.append(float(accuracy(new)))
        pairs.extend(new)
        train(pairs)
        update += every
    return tuple(found)


def by_numpy(budget, updates, every, ask, accuracy, train):
    import numpy as np

    parts = [len(x) for x in np.array_split(np.arange(budget), len(np.arange(0, updates, every)))]
    data, found = [], []
    for update in range(updates):
        if update % every == 0:
            fresh = ask(update, parts[update // every])
            found.append(accuracy(fresh))
            data = [*data, *fresh]
            train(data)
    return np.array(found)


def at_the_end(budget, updates, every, ask, accuracy, train):
    found, old = [], []
    begin = range(0, updates, every)
    low, rest = divmod(budget, len(begin))
    for i, start in enumerate(begin):
        new = ask(start, low + (i < rest))
        found.append(accuracy(new))
        old += new
    train(old)
    return found


def at_once(budget, updates, every, ask, accuracy, train):
    new = ask(0, budget)
    found = [accuracy(new)]
    train(new)
    return found * len(range(0, updates, every))


def never(budget, updates, every, ask, accuracy, train):
    return rounds()(budget, updates, every, ask, accuracy, lambda pairs: None)


RIGHT["label-rounds"] = [rounds(), while_it_lasts, by_numpy]
WRONG["label-rounds"] = {
    "a round at the last update": rounds(starts=lambda u, e: [*range(0, u, e), u]),
    "a round is left out": [
        rounds(starts=lambda u, e: [i * e for i in range(u // e)]),
        rounds(starts=lambda u, e: list(range(0, u, e))[:-1]),
    ],
    "not one accuracy per round": lambda *given: rounds()(*given)[:2],
    "the whole budget is spent in each round": rounds(split=lambda b, n: [b] * n),
    "all labels are asked for at once": [at_once, rounds(when=lambda s, i: 0)],
    "no round before update 0": [
        rounds(when=lambda s, i: s + 4),
        rounds(when=lambda s, i: s + 1),
    ],
    "rounds are counted, not updates": rounds(when=lambda s, i: i),
    "the rest of the division is lost": rounds(split=lambda b, n: [b // n] * n),
    "the last round gets the rest": rounds(split=lambda b, n: [b // n] * (n - 1) + [b - b // n * (n - 1)]),
    "the first round gets the whole rest": rounds(
        split=lambda b, n: [b - b // n * (n - 1)] + [b // n] * (n - 1)
    ),
    "the late rounds get more": rounds(split=lambda b, n: [(b + i) // n for i in range(n)]),
    "the reward model is never trained": never,
    "old pairs are thrown away": rounds(trained=lambda old, new: new),
    "the first pairs stay out of the later trainings": rounds(
        trained=lambda old, new: [x for x in old if x >= 4] + new
    ),
    "pairs are in a training twice": [
        rounds(trained=lambda old, new: old + new + new),
        rounds(keep=lambda old, new: old + old + new),
    ],
    "trained only when all labels are in": at_the_end,
    "each training is one round behind": rounds(trained=lambda old, new: old),
    "the accuracy is taken after the training": rounds(order="atm"),
    "the accuracy is taken on old pairs too": rounds(measured=lambda old, new: old + new),
    "the accuracy is taken on the old pairs only": rounds(measured=lambda old, new: old),
}
UNNAMED["label-rounds"] = [
    rounds(order="amtt"),
    lambda *given: [2 * x for x in rounds()(*given)],
    rounds(measured=lambda old, new: new[:-1]),
    rounds(split=lambda b, n: [4, 4, 3] if b == 11 else [b // n] * (n - 1) + [b - b // n * (n - 1)]),
]
