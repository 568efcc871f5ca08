"""InstructGPT's pretraining term (PPO-ptx): PPO, and beside it the SFT loss on texts of the corpus.

In each minibatch the loss of PPO gets γ_ptx times the next-token loss on 64 texts of the corpus (Ouyang et
al. 2022, "Training language models to follow instructions with human feedback", equation 2, whose corpus is
that of pretraining). Two questions: does the term keep what the policy learned from the corpus, and does it
prevent over-optimization? `corpus_loss` is the loss on 1,024 held-out texts, in nats a token.

Reward models read the last token and have standard deviation 1 (`language_chain/shared.py`). Rate and number
of updates are those of `language_overoptimisation`. On seeds 0 to 2, without a price on the KL, γ_ptx of .03
and .1 let gold collapse, .3 delayed that, and 1 kept gold near 1.9: the last two are recorded. The seeds here
are fresh, and all are reported.
"""

import sys
from pathlib import Path

import torch

from ppobook.experiments import record
from ppobook.language import World
from ppobook.language.data import examples_of
from ppobook.language.ppo import PPO
from ppobook.language.sft import next_token_loss

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_chain.shared import followed, judge, learner_of, looked_at, sft, summed_up

LR, UPDATES, LOOKS = 3e-4, 60, 4
PAIRS = ((0.0, 0.0), (0.03, 0.0), (0.0, 0.3), (0.0, 1.0))
SETTINGS = [{"kl_coef": beta, "ptx": ptx} for beta, ptx in PAIRS]
WORLD = World()


def texts(n: int, seed: int):
    return examples_of(WORLD.corpus(n, seed), WORLD.tokenizer)


class PPOptx(PPO):
    """PPO with the pretraining term."""

    ptx = 0.0

    def loss(self, batch, outputs=None):
        loss, metrics = super().loss(batch, outputs)
        rows = torch.randint(len(self.corpus), (64,), generator=self.generator)
        return loss + self.ptx * next_token_loss(self.model, self.corpus.select(rows))[0], metrics


def one(seed: int, kl_coef: float, ptx: float) -> list[dict]:
    base, proxy, held_out = sft(seed), judge(seed, "last"), judge(seed, "last", held_out=True)
    learner = learner_of(PPOptx, base, seed, reward=proxy, kl_coef=kl_coef, lr=LR)
    learner.ptx, learner.corpus, further = ptx, texts(3000, seed), texts(1024, 50_000 + seed)

    def look(policy):
        with torch.no_grad():
            loss = next_token_loss(policy, further)[0].item()
        return {"corpus_loss": loss, **looked_at(policy, base, proxy, held_out, seed)}

    return followed(learner, look, looks=LOOKS, updates=UPDATES)


if __name__ == "__main__":
    record(
        "language_ptx",
        one,
        SETTINGS,
        seeds=range(100, 105),
        workers=1,
        digits=4,
        note="The weights of the term were chosen on seeds 0 to 2; every seed reported.",
    )
    summed_up("language_ptx", [*SETTINGS[0], "update"], ["corpus_loss", "kl", "proxy", "gold", "kind_words"])
