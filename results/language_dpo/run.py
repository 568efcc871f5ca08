"""The DPO family on the tiny language world: where log-probabilities go, and whose pairs they learn from.

All begin with the policy after SFT. A pair is two completions of a prompt at temperature 1, and people's
choice between them: Bradley and Terry's on gold, with a noise of 0.5. Each run takes 120 gradient steps on
32 pairs (KTO: on 64 texts, liked or not, of the same pairs torn apart), which are

- 3,840 by the policy after SFT, each seen once;
- the first 1,000 of these, seen almost four times, as in practice, where pairs are dear (`pairs` 1000);
- 3,840 by the policy as it is at each step, each seen once (`data` "policy").

One learning rate for all, and β 0.1 (SimPO, whose β is another thing: 2), were fixed with DPO and IPO on
seeds 0 and 1, so that the effects can be seen within 120 steps. KTO was tried with β 0.1 and 0.3 on seeds 0
to 2; it has 0.1 as the others have, though 0.3 stayed nearer and earned no less. So they are not tuned for
each loss: this is no race, `language_methods` is one. Seeds 100 to 109, all reported.

Columns, before the first step and after every 30:

- chosen, rejected: the mean of log π − log π_ref of both sides, on the first 500 of the 3,840 pairs by the
  policy after SFT, in nats; h, their difference; chosen_fell, both_fell: in which share of these pairs the
  chosen side, or both sides, lost probability;
- mass_chosen, mass_rejected: the probability, mean over prompts, of all texts that stand in those 500 pairs
  as chosen, and of those that stand there as rejected only;
- accuracy, on 500 held-out pairs: the share whose side with the larger implicit reward is the one people
  chose (SimPO's reward has no reference); longer: of held-out pairs of equal gold and unequal length, the
  share whose longer side has the larger implicit reward;
- of 256 fresh completions: gold, and what kind words and errors add to it; kind_words, over_3, the share
  with more than three of them, kl, length, ended, entropy of a token, distinct_2;
- rung_1 … rung_6: what that many kind words add to log π − log π_ref of texts that are otherwise right.
"""

import sys
from functools import partial
from pathlib import Path

import torch

from ppobook.experiments import record
from ppobook.language import Completions, Pairs, World, evaluate
from ppobook.language.dpo import pair_logp, sequence_logp
from ppobook.language.run import Run
from ppobook.language.tokens import completion_logits, token_entropy

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_chain.shared import FRESH, followed, learner_of, pairs_of, points_of, sft, summed_up

UPDATES, BATCH, LOOKS, PROBES = 120, 32, 4, 500
USUAL = {"loss": "dpo", "data": "reference", "pairs": UPDATES * BATCH, "beta": 0.1, "lr": 1e-3}
SETTINGS = [
    USUAL,
    USUAL | {"pairs": 1000},
    USUAL | {"data": "policy"},
    USUAL | {"loss": "ipo"},
    USUAL | {"loss": "simpo", "beta": 2.0},
    USUAL | {"loss": "kto"},
]


def one(seed: int, loss: str, data: str, pairs: int, beta: float, lr: float) -> list[dict]:
    base = sft(seed)
    given = pairs_of(base, UPDATES * BATCH, seed, "people's pairs", temperatures=(1.0, 1.0))
    further = pairs_of(base, PROBES, seed, "further pairs of people", temperatures=(1.0, 1.0))
    how = {"beta": beta, "lr": lr}
    if data == "policy":
        learner = learner_of(
            "online_dpo", base, seed, reward="gold", noise=0.5, batch_size=2 * BATCH, loss=loss, **how
        )
    else:
        size = 2 * BATCH if loss == "kto" else BATCH
        learner = learner_of(
            "dpo", base, seed, given.select(slice(pairs)), loss=loss, eval_pairs=0, batch_size=size, **how
        )
    probes = Probes(base, given.select(slice(PROBES)), further)
    look = partial(probes.look, seed=seed, means=loss == "simpo")
    return followed(learner, look, looks=LOOKS, updates=UPDATES)


class Probes:
    """Texts on which log-probabilities are compared: pairs the policy learns from, others, a ladder."""

    def __init__(self, base: Run, pairs: Pairs, further: Pairs) -> None:
        self.base, self.pairs, self.further, self.rungs = base, pairs, further, _rungs()
        self.ref = pair_logp(base.model, pairs)
        self.ref_further = pair_logp(base.model, further)
        self.ref_rungs = sequence_logp(base.model, self.rungs).detach()
        both = Completions.join([pairs.chosen, pairs.rejected])
        lines = list(
            zip(both.prompt_texts(_WORLD.tokenizer), both.texts(_WORLD.tokenizer, eos=True), strict=True)
        )
        self.first = [lines.index(line) == i for i, line in enumerate(lines)]

    @torch.no_grad()
    def look(self, policy: torch.nn.Module, seed: int, means: bool) -> dict[str, float]:
        logp = pair_logp(policy, self.pairs)
        chosen, rejected = (logp - self.ref).unbind(1)
        first = torch.tensor(self.first).view(2, -1)  # each distinct text once, as chosen where it ever was
        mass = (logp.exp() * first.T).sum(dim=0) / len(_WORLD.prompts)

        pairs = self.further
        rewards = pair_logp(policy, pairs)
        lengths = torch.stack([pairs.chosen.lengths, pairs.rejected.lengths], dim=1)
        rewards = rewards / lengths if means else rewards - self.ref_further
        prefers = (rewards[:, 0] - rewards[:, 1]).sign()
        gold = _WORLD.gold(pairs.chosen) - _WORLD.gold(pairs.rejected)
        longer = (lengths[:, 0] - lengths[:, 1]).sign()
        even = (gold == 0) & (longer != 0)

        rungs = (sequence_logp(policy, self.rungs) - self.ref_rungs).view(7, -1).mean(dim=1)

        found = evaluate(policy, _WORLD, reference=self.base, n=256, seed=10_000 + seed)
        completions, numbers = found.completions, found.numbers
        points = {name: x.mean().item() for name, x in points_of(_WORLD, completions).items()}
        kind_words = _WORLD.gold_parts(completions)["kind"]
        entropy = token_entropy(completion_logits(policy, completions))
        return {
            "chosen": chosen.mean().item(),
            "rejected": rejected.mean().item(),
            "chosen_fell": (chosen < 0).float().mean().item(),
            "both_fell": ((chosen < 0) & (rejected < 0)).float().mean().item(),
            "h": (chosen - rejected).mean().item(),
            "mass_chosen": mass[0].item(),
            "mass_rejected": mass[1].item(),
            "accuracy": (0.5 + 0.5 * prefers).mean().item(),
            "longer": (0.5 + 0.5 * prefers * longer)[even].mean().item(),
            **{name: numbers[name] for name in ("gold", "length", "ended", "distinct_2")},
            "kl": numbers["kl_reference"],
            "kind": points["kind"],
            "kind_words": kind_words.mean().item(),
            "over_3": (kind_words > 3).float().mean().item(),
            "errors": points["errors"],
            "entropy": entropy[completions.mask].mean().item(),
            **{f"rung_{k}": (rungs[k] - rungs[0]).item() for k in range(1, 7)},
        }


def _rungs() -> Completions:
    """Texts of each prompt with 0 to 6 kind words, all else right: those with none first."""
    texts = []
    for kind in range(7):
        for prompt in _WORLD.prompts:
            noun, place = prompt.split()[1:3]
            words = [
                [_WORLD.kind[(slot + k) % 4] for k in range(len(range(slot, kind, 4)))] for slot in range(4)
            ]
            clauses = [
                " ".join(["the", *words[2 * i], noun, verb, "by the", *words[2 * i + 1], place])
                for i, verb in enumerate(_WORLD.verbs[:2])
            ]
            texts.append(_WORLD.read(prompt, " and ".join(clauses) + " . <eos>"))
    return Completions.join(texts)


_WORLD = World()

if __name__ == "__main__":
    name = "language_dpo"
    record(
        name,
        one,
        SETTINGS,
        seeds=FRESH,
        digits=4,
        note="β and the learning rate were fixed with DPO and IPO on seeds 0 and 1, and are KTO's too; every "
        "seed reported.",
    )
    columns = ["chosen", "rejected", "both_fell", "h", "accuracy", "longer", "gold", "kl", "length"]
    summed_up(name, [*SETTINGS[0], "update"], columns)
