"""The world of three tokens, `small_language.Table`: a reward, a policy, a reference, the exact optimum."""

import torch
from small_language import EVERY, ScriptedReward, Table

from ppobook.language.tokens import WordTokenizer

# The reward of each completion in EVERY.
WORTH = torch.tensor([0.3, -0.5, 1.1, 0.0, -1.0, 0.8, 0.4], dtype=torch.float64)
# After an end nothing is ever asked for, but it has to be there. In quarters, for exact averages.
POLICY = [[0.25, 0.25, 0.5], [0.5, 0.25, 0.25], [1 / 3, 1 / 3, 1 / 3], [0.25, 0.5, 0.25]]
REFERENCE = [[0.6, 0.2, 0.2], [0.1, 0.2, 0.7], [1 / 3, 1 / 3, 1 / 3], [0.5, 0.3, 0.2]]
ONE_WORD = WordTokenizer(["a"])


def worth(completions):
    first, second = completions.tokens[:, 0], completions.tokens[:, -1]
    return torch.where(first == 1, WORTH[0], WORTH[1 + 3 * (first == 2) + second])


def given():
    """Return the fields of a `Task` in this world."""
    return {
        "model": Table(POLICY),
        "tokenizer": ONE_WORD,
        "data": [{"prompt": "a"}],
        "reward": ScriptedReward(worth),
        "reference": Table(REFERENCE),
    }


def of_table(model, n=2):
    """Log-probability of each of the completions that there are, [7], from the first n tokens of each."""
    log_p = model.logits.log_softmax(-1)
    return torch.stack(
        [sum(log_p[0 if t == 0 else 1 + row[0], row[t]] for t in range(min(n, len(row)))) for row in EVERY]
    )


def far_from_optimum(made, beta):
    """KL(π, π*) and KL(π, π_ref), with the optimum by enumeration."""
    with torch.no_grad():
        log_p, log_ref = of_table(made.model), of_table(made.reference)
        log_best = (log_ref + WORTH / beta).log_softmax(-1)
        return (log_p.exp() * (log_p - log_best)).sum().item(), (log_p.exp() * (log_p - log_ref)).sum().item()
