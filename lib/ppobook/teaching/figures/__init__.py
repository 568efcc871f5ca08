"""The interactive figures: one function each, which computes with the library what its script then shows.

    from ppobook.teaching import figures
    figures.baseline()
    figures.clip_explorer()
    figures.trust_region_step()
    figures.film(games)

To add one: `NAME.js` beside this file (an ES module in anywidget's form that imports nothing, see `kit.js`),
`_NAME.py` with the function that computes its state and draws its still picture, and a line below.

The names below are imported when they are first used: the site needs the scripts only, and is built where
there is neither NumPy nor torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ppobook.teaching.figures._figure import MIME, Figure, modules, source

if TYPE_CHECKING:
    from ppobook.teaching.figures._baseline import baseline, best_baseline, single_pull
    from ppobook.teaching.figures._beta import beta_explorer
    from ppobook.teaching.figures._clip import ClipSample, clip_explorer, clip_sample
    from ppobook.teaching.figures._drawn import drawn_film
    from ppobook.teaching.figures._entropy import entropy_collapse, entropy_runs
    from ppobook.teaching.figures._film import film
    from ppobook.teaching.figures._gae import gae_explorer
    from ppobook.teaching.figures._lag import lag_explorer
    from ppobook.teaching.figures._maps import measured_maps
    from ppobook.teaching.figures._pair import PairMoved, dpo_pair, pair_moved
    from ppobook.teaching.figures._parts import LossBatch, loss_batch, loss_parts
    from ppobook.teaching.figures._simplex import METHODS, SimplexStep, simplex_step, trust_region_step
    from ppobook.teaching.figures._sweep import GaeError, gae_error, lambda_sweep
    from ppobook.teaching.figures._tokens import token_ratios

__all__ = [
    "METHODS",
    "MIME",
    "ClipSample",
    "Figure",
    "GaeError",
    "LossBatch",
    "PairMoved",
    "SimplexStep",
    "baseline",
    "best_baseline",
    "beta_explorer",
    "clip_explorer",
    "clip_sample",
    "dpo_pair",
    "drawn_film",
    "entropy_collapse",
    "entropy_runs",
    "film",
    "gae_error",
    "gae_explorer",
    "lag_explorer",
    "lambda_sweep",
    "loss_batch",
    "loss_parts",
    "measured_maps",
    "modules",
    "pair_moved",
    "simplex_step",
    "single_pull",
    "source",
    "token_ratios",
    "trust_region_step",
]

_HOME = {
    "METHODS": "_simplex",
    "ClipSample": "_clip",
    "GaeError": "_sweep",
    "LossBatch": "_parts",
    "PairMoved": "_pair",
    "SimplexStep": "_simplex",
    "baseline": "_baseline",
    "best_baseline": "_baseline",
    "beta_explorer": "_beta",
    "clip_explorer": "_clip",
    "clip_sample": "_clip",
    "dpo_pair": "_pair",
    "drawn_film": "_drawn",
    "entropy_collapse": "_entropy",
    "entropy_runs": "_entropy",
    "film": "_film",
    "gae_error": "_sweep",
    "gae_explorer": "_gae",
    "lag_explorer": "_lag",
    "lambda_sweep": "_sweep",
    "loss_batch": "_parts",
    "loss_parts": "_parts",
    "measured_maps": "_maps",
    "pair_moved": "_pair",
    "simplex_step": "_simplex",
    "single_pull": "_baseline",
    "token_ratios": "_tokens",
    "trust_region_step": "_simplex",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
