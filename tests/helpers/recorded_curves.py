"""Made-up runs for the figure of recorded runs."""

import numpy as np

from ppobook.teaching import figures


def runs_figure() -> figures.Figure:
    """Three runs that rise, and three that fall."""
    x = np.linspace(0, 100, 11)
    rising = np.outer([0.5, 0.8, 1.0], x)
    return figures.recorded_runs(
        {
            "short steps": (rising, "vanilla", "All rise."),
            "long steps": (rising[:, ::-1], "vanilla", "All fall."),
        },
        x,
        ask={
            "asks": "What do long steps do?",
            "options": ["All rise", "All fall"],
            "right": 1,
            "todo": "Then press “long steps”.",
            "decides": 1,
            "answer": "With long steps, all fall.",
        },
        labels=("time steps", "return"),
        limits=(0, 100),
        ticks=((0, 50, 100), (0, 50, 100)),
        alt="Two panels of three runs each. With short steps they rise, and with long ones they fall.",
    )
