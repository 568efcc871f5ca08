"""RLHF of SmolLM2 with a learned reward: PPO with and without a KL penalty, and what becomes of its English.

People like an answer that is polite, on topic and short (`real_common.points`, from 0 to 3). A reward model
learns that from pairs of the model's own answers, and PPO maximizes the reward model's reward. That reward is
`proxy`, the true one is `points`.

β is in standard deviations of the reward per nat. The learning rate and the number of updates were chosen on
seed 0 with a β of 0; the other two are guesses. Each row is of 60 answers to questions about topics that
are held out from everything.
"""

import sys
from pathlib import Path

from ppobook.experiments import record

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the shared part is

from real_common import (
    ANSWER_TOKENS,
    TEMPERATURE,
    AnswersLook,
    followed,
    learner_of,
    questions,
    reward_model_of,
)

BETAS = (0.0, 0.01, 0.05)
PPO = {"batch_size": 32, "epochs": 1, "num_minibatches": 2, "lr": 4e-4, "temperature": TEMPERATURE}
UPDATES, EVERY = 30, 6


def one(seed: int, kl_coef: float) -> list[dict]:
    return curve(seed, kl_coef, UPDATES, EVERY)


def curve(seed: int, kl_coef: float, updates: int, every: int, **changed: object) -> list[dict]:
    """Measures of a policy along the way."""
    reward_model, facts = reward_model_of(seed)
    asked, held_out = questions(seed)
    how = {**PPO, "max_new_tokens": ANSWER_TOKENS, "kl_coef": kl_coef, **changed}
    learner = learner_of("ppo", asked, seed, reward_model, **how)
    look = AnswersLook(learner, held_out, learner.reference, learner.reward_model)
    return [{**facts, **row} for row in followed(learner, look, updates, every)]


if __name__ == "__main__":
    record(
        "real_rlhf",
        one,
        [{"kl_coef": beta} for beta in BETAS],
        seeds=range(100, 103),
        workers=1,
        digits=4,
        note="Learning rate and updates were chosen on seed 0; every seed reported.",
    )
