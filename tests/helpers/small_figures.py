"""Small interactive figures for the tests: a curve that is hidden at first, and groups of answers."""

import numpy as np

from ppobook.teaching import figures

UPDATES = [0, 10, 20, 30]
REWARD = np.array([[0.0, 1, 2, 2], [0, 1, 1, 2.5]])
GOLD = np.array([[0.5, 1, 0, -3], [0.5, 0.7, -1, -2]])
RIGHT = {"1 + 2 =": [1, 1, 0, 1, 1, 1, 1, 1], "9 + 9 =": [0, 0, 0, 0, 0, 0, 1, 0]}


def a_hidden_curve():
    return figures.reveal(
        {"The reward": ("ppo", REWARD), "What people think": ("truth", GOLD)},
        x=UPDATES,
        xlabel="Update",
        ask={
            "asks": "What happens to what people think?",
            "options": ["It climbs, too", "It falls"],
            "right": 1,
            "answer": "It falls in both runs.",
        },
        finding="The reward climbs while people like it less",
        alt="Two panels: a reward that climbs, and what people think, which falls.",
        texts={"Before": (0, "a fox ."), "After": (30, "a kind kind fox .")},
    )


def a_group_of_answers():
    answers = {
        prompt: (level, ["3" if one else "4 no 5" for one in right], right)
        for (prompt, right), level in zip(RIGHT.items(), ("88 % right", "12 % right"), strict=True)
    }
    return figures.group_answers(answers, size=4)
