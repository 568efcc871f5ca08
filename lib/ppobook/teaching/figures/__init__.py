"""The interactive figures: one function each, which computes with the library what its script then shows.

    from ppobook.teaching import figures
    figures.baseline()
    figures.film(games)

To add one: `NAME.js` beside this file (an ES module in anywidget's form that imports nothing, see `kit.js`),
`_NAME.py` with the function that computes its state and draws its still picture, and a line below.

The names below are imported when they are first used: the site needs the scripts only, and is built where
there is neither NumPy nor torch.
"""

# ruff: noqa: F401 (type checkers and editors read these imports; at run time `__getattr__` makes them)

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ppobook.teaching.figures._figure import MIME, Figure, modules, source

if TYPE_CHECKING:
    from ppobook.teaching.figures._answers import group_answers
    from ppobook.teaching.figures._baseline import baseline, best_baseline, single_pull
    from ppobook.teaching.figures._beta import beta_explorer
    from ppobook.teaching.figures._clip import ClipSample, clip_explorer, clip_sample
    from ppobook.teaching.figures._drawn import drawn_film
    from ppobook.teaching.figures._entropy import entropy_collapse, entropy_runs
    from ppobook.teaching.figures._film import film
    from ppobook.teaching.figures._gae import gae_explorer
    from ppobook.teaching.figures._group import GroupDrawn, dead_share, group_drawn, group_explorer
    from ppobook.teaching.figures._lag import lag_explorer
    from ppobook.teaching.figures._left import left_behind
    from ppobook.teaching.figures._maps import measured_maps
    from ppobook.teaching.figures._pair import PairMoved, dpo_pair, pair_moved
    from ppobook.teaching.figures._parts import LossBatch, loss_batch, loss_parts
    from ppobook.teaching.figures._rates import two_rates
    from ppobook.teaching.figures._reach import lambda_reach
    from ppobook.teaching.figures._reveal import reveal
    from ppobook.teaching.figures._runs import recorded_runs
    from ppobook.teaching.figures._simplex import METHODS, SimplexStep, simplex_step, trust_region_step
    from ppobook.teaching.figures._sweep import GaeError, gae_error, lambda_sweep
    from ppobook.teaching.figures._tokens import token_ratios

# Where each is, to be imported when it is first used.
_NAMES = {
    "_answers": ("group_answers",),
    "_baseline": ("baseline", "best_baseline", "single_pull"),
    "_beta": ("beta_explorer",),
    "_clip": ("ClipSample", "clip_explorer", "clip_sample"),
    "_drawn": ("drawn_film",),
    "_entropy": ("entropy_collapse", "entropy_runs"),
    "_film": ("film",),
    "_gae": ("gae_explorer",),
    "_group": ("GroupDrawn", "dead_share", "group_drawn", "group_explorer"),
    "_lag": ("lag_explorer",),
    "_left": ("left_behind",),
    "_maps": ("measured_maps",),
    "_pair": ("PairMoved", "dpo_pair", "pair_moved"),
    "_parts": ("LossBatch", "loss_batch", "loss_parts"),
    "_rates": ("two_rates",),
    "_reach": ("lambda_reach",),
    "_reveal": ("reveal",),
    "_runs": ("recorded_runs",),
    "_simplex": ("METHODS", "SimplexStep", "simplex_step", "trust_region_step"),
    "_sweep": ("GaeError", "gae_error", "lambda_sweep"),
    "_tokens": ("token_ratios",),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted([*_HOME, "MIME", "Figure", "modules", "source"])


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
