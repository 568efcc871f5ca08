"""An update of PPO on two texts, for the tests of the figure that shows their ratios."""

import numpy as np

from ppobook.teaching import figures

WORDS = (
    ["the", "kind", "fox", "sings", "by", "the", "barn", ".", "<eos>"],
    ["the", "grim", "owl", "runs"],
)
STEPS = [0, 2, 4, 8]
PATHS = ["clip", "no clip"]


def a_token_text(which):
    """A text: ratios drift with the advantage, some against it, and further on the second path."""
    rng = np.random.default_rng(which)
    words = WORDS[which]
    old_logp = -rng.uniform(0.05, 3, len(words))
    advantages = rng.normal(size=len(words))
    drift = 0.3 * np.sign(advantages) * rng.uniform(-1.5, 1.5, len(words))
    share = np.array(STEPS) / STEPS[-1]
    new_logp = old_logp + np.array([1.0, 3.0])[:, None, None] * share[:, None] * drift
    return {"words": words, "old_logp": old_logp, "new_logp": new_logp, "advantages": advantages}


def token_figure(**settings):
    texts = {"first": a_token_text(0), "second": a_token_text(1)}
    return figures.token_ratios(texts, steps=STEPS, paths=PATHS, **settings)
