"""DPO's own reward model, judged on two kinds of pairs: the reference's, and those of the policy itself.

The implicit reward, log π − log π_ref, is asked which of two texts has more gold: on 500 held-out pairs by
the policy after SFT (`on_reference`), and on 500 pairs by the policy as it is at that step (`on_own`). Pairs
of equal gold are left out; ½ is chance. Also gold and KL of the policy's own texts. Runs, settings and seeds
are those of `language_dpo`: DPO on 3,840 pairs by the policy after SFT.
"""

import sys
from functools import partial
from pathlib import Path

import torch

from ppobook.experiments import record
from ppobook.language import Pairs, World
from ppobook.language.dpo import pair_logp
from ppobook.language.evaluating import sequence_kl
from ppobook.language.pairs import sample_pairs
from ppobook.language.run import Run
from ppobook.run.machine import stream

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_chain.shared import FRESH, followed, learner_of, pairs_of, sft, summed_up
from language_dpo.run import BATCH, LOOKS, PROBES, UPDATES, USUAL


def one(seed: int, beta: float, lr: float) -> list[dict]:
    base = sft(seed)
    given = pairs_of(base, UPDATES * BATCH, seed, "people's pairs", temperatures=(1.0, 1.0))
    further = pairs_of(base, PROBES, seed, "further pairs of people", temperatures=(1.0, 1.0))
    learner = learner_of("dpo", base, seed, given, eval_pairs=0, batch_size=BATCH, beta=beta, lr=lr)
    look = partial(judged, base=base, further=further, seed=seed)
    return followed(learner, look, looks=LOOKS, updates=UPDATES)


@torch.no_grad()
def judged(policy: torch.nn.Module, base: Run, further: Pairs, seed: int) -> dict[str, float]:
    """Measure how well the policy's log-ratio tells which text has more gold, and what it writes."""
    world = World()
    generator = torch.Generator().manual_seed(stream(seed, "own pairs"))
    own = sample_pairs(policy, world, PROBES, temperatures=(1.0, 1.0), seed=seed, generator=generator)
    return {
        "on_reference": _right(policy, base, further),
        "on_own": _right(policy, base, own),
        "gold": 0.5 * (world.gold(own.chosen) + world.gold(own.rejected)).mean().item(),
        "kl": sequence_kl(policy, base.model, own.chosen).mean().item(),
    }


def _right(policy: torch.nn.Module, base: Run, pairs: Pairs) -> float:
    """The share of pairs whose text with more gold has the larger implicit reward; a tie counts half."""
    ratio = pair_logp(policy, pairs) - pair_logp(base.model, pairs)
    gold = World().gold(pairs.chosen) - World().gold(pairs.rejected)
    agrees = (ratio[:, 0] - ratio[:, 1]).sign() * gold.sign()
    return (0.5 + 0.5 * agrees)[gold != 0].mean().item()


if __name__ == "__main__":
    name = "language_dpo_own"
    record(
        name,
        one,
        [{"beta": USUAL["beta"], "lr": USUAL["lr"]}],
        seeds=FRESH,
        digits=4,
        note="Settings of language_dpo; every seed reported.",
    )
    summed_up(name, ["update"], ["on_reference", "on_own", "gold", "kl"])
