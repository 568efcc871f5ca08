"""Values inside a text: PPO's critic beside the mean of K rollouts from the same prefix (VinePPO).

On tiny sums (`ppobook.language.sums`), with the runs of `language_critic`: PPO without a KL, 64 prompts an
update. At a look each of the 100 prompts is answered once. The true value of each prefix of an answer, the
empty one among them, is the share right of 128 rollouts from it. There are three estimates of it: the
critic's V, the mean of K = 8 other rollouts from the prefix (`vine`), and the mean of 8 other answers to the
prompt, one number for the whole text (`group`). Of each, the share of the variance over prefixes is taken
that it explains, 1 − mean squared error / variance; with the suffix _step the same for what a token changes,
V(s_{t+1}) − V(s_t), over all tokens but the last. `tokens` is the number of tokens of the 8 rollouts for each
token of the texts.

Kazemnejad et al. 2025, "VinePPO: refining credit assignment in RL training of LLMs". Nothing was chosen: the
rate is that of `language_critic`, and so are the seeds. All are reported.
"""

import sys
from pathlib import Path

import numpy as np
import torch

from ppobook.experiments import record
from ppobook.language import generate, prompts_of
from ppobook.language.sums import MAX_NEW_TOKENS, last_is_right
from ppobook.language.tokens import completion_values

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_chain.shared import followed, summed_up
from language_critic.run import chosen
from language_verifiable.run import SUMS, UPDATES, learner_of, pupil

K, MANY = 8, 128
SETTINGS = [{"method": "ppo", "lr": chosen()}]


@torch.no_grad()
def judged(learner, seed: int) -> dict[str, float]:
    generator = torch.Generator().manual_seed(30_000 + seed)
    asked = prompts_of(SUMS.prompts, SUMS.tokenizer)
    texts = generate(learner.model, asked.tokens, asked.mask, MAX_NEW_TOKENS, generator=generator)
    answers = np.array([row["answer"] for row in SUMS.prompts])
    found, continued = {}, 0  # estimates of each prefix: [critic, of 8, of 128]
    values = completion_values(learner.critic, texts)
    for t in range(int(texts.lengths.max())):
        rows = torch.arange(len(texts))[texts.lengths > t].repeat_interleave(K + MANY)
        prompts = torch.cat([texts.prompts, texts.tokens[:, :t]], dim=1)[rows]
        rest = generate(learner.model, prompts, None, MAX_NEW_TOKENS - t, generator=generator)
        begun = texts.select(rows).tokens[:, :t]
        whole = [
            f"{SUMS.tokenizer.decode(head)} {tail}".strip()
            for head, tail in zip(begun.tolist(), rest.texts(SUMS.tokenizer), strict=True)
        ]
        right = np.reshape(last_is_right([], whole, answers[rows].tolist()), (-1, K + MANY))
        continued += rest.lengths.sum().item() * K / (K + MANY)
        for b, r in zip(rows[:: K + MANY].tolist(), right, strict=True):
            found[b, t] = [values[b, t].item(), r[:K].mean(), r[K:].mean()]
    table = np.array(list(found.values()))
    group = np.array([found[b, 0][1] for b, _ in found])
    steps = np.array([np.subtract(found[b, t + 1], x) for (b, t), x in found.items() if (b, t + 1) in found])
    truth, change = table[:, 2], steps[:, 2]

    def share(estimate, true):
        return 1 - ((estimate - true) ** 2).mean() / true.var()

    return {
        "critic": share(table[:, 0], truth),
        "vine": share(table[:, 1], truth),
        "group": share(group, truth),
        "critic_step": share(steps[:, 0], change),
        "vine_step": share(steps[:, 1], change),
        "right": truth.mean(),
        "tokens": continued / texts.mask.sum().item(),
    }


def one(seed: int, method: str, lr: float) -> list[dict]:
    learner = learner_of(method, pupil(seed), "last", seed, lr=lr)
    return followed(learner, lambda _: judged(learner, seed), looks=4, updates=UPDATES)


if __name__ == "__main__":
    record(
        "language_vine",
        one,
        SETTINGS,
        seeds=range(100, 110),
        workers=1,
        digits=4,
        note="Every seed reported.",
    )
    columns = ["critic", "vine", "group", "critic_step", "vine_step", "right", "tokens"]
    summed_up("language_vine", ["method", "update"], columns)
