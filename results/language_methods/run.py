"""PPO, GRPO, RLOO, DPO and online DPO on the tiny language world: equal tokens, equal gradient steps.

All begin with the policy after SFT, and see preferences only through one reward model, which reads the last
token and has standard deviation 1 on that policy (`language_chain/shared.py`): DPO learns from pairs sampled
by the policy after SFT, the one with the higher reward chosen; online DPO from pairs of its own. Each may
sample `BUDGET` tokens, 64 completions an update; DPO spends all of it on its pairs.

Two regimes, the same for all. *One* gradient step on each batch of 64 completions; or *four*, two passes in
halves. For DPO a batch of 64 completions is 32 pairs: it takes one pass in batches of 32 pairs, or two in
batches of 16. RLOO as published takes one, online DPO as well; PPO and GRPO may take either.

**β and the learning rate** are chosen together, for each method and regime, by one rule: the largest mean of
gold at the end of the budget, over the rates and β tried on seeds 0 to 2 (`results/language_settle`). β is
not one thing: PPO's and RLOO's is in standard deviations of the reward a nat, GRPO's in those of a group's
rewards; DPO's turns nats of its log-ratio into log-odds of a preference. Here the higher reward always wins,
so β of DPO and online DPO has no unit of reward, and their loss no finite optimum: how far they go is a
matter of the learning rate and the number of steps as well.

Each row is of 256 completions, along the way, so that methods can be compared at the same KL; the seeds are
fresh, and all are reported. `cpu` is the CPU seconds of training, sampling included.
"""

import sys
import time
from functools import partial
from pathlib import Path

import torch

from ppobook.experiments import record, results
from ppobook.language import Completions, Pairs, World, generate
from ppobook.language.online import OnlineDPO
from ppobook.language.rewards import RewardModel
from ppobook.language.run import Run
from ppobook.run.machine import stream
from ppobook.run.metrics import means

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_chain.shared import (
    FRESH,
    SETTLED_ON,
    at_kl,
    ends,
    followed,
    judge,
    learner_of,
    looked_at,
    rewards_of,
    sft,
    summed_up,
)

BUDGET = 40_000
LOOKS = 6
POOLING = "last"
# Gradient steps on a batch: how many passes, and in how many parts each.
STEPS = {1: (1, 1), 4: (2, 2)}


class RepeatedOnlineDPO(OnlineDPO):
    """Online DPO with several gradient steps on a batch of pairs."""

    passes, parts = STEPS[4]

    def step(self, number: int) -> dict[str, float]:
        batch, metrics = self.make_pairs(number)
        orders = [torch.randperm(len(batch), generator=self.generator) for _ in range(self.passes)]
        rows = [part for order in orders for part in order.tensor_split(self.parts)]
        return metrics | means([self.minibatch_step(batch.select(some)) for some in rows])


STAGES = {
    "PPO": ("ppo", {}),
    "GRPO": ("grpo", {}),
    "RLOO": ("grpo", {"variant": "rloo"}),
    "DPO": ("dpo", {"eval_pairs": 0, "warmup": 0}),  # as the others
    "online DPO": ("online_dpo", {}),
}


def curve(seed: int, method: str, steps: int, beta: float, lr: float, looks: int, n: int) -> list[dict]:
    """Measures of a policy until it has spent the budget."""
    base, proxy = sft(seed), judge(seed, POOLING)
    # Nothing is chosen by the held-out judge: the seeds that settle need none.
    held_out = proxy if seed in SETTLED_ON else judge(seed, POOLING, held_out=True)
    look = partial(looked_at, base=base, proxy=proxy, held_out=held_out, seed=seed, n=n)
    (stage, own), (passes, parts) = STAGES[method], STEPS[steps]
    how = {**own, "lr": lr, "beta" if "DPO" in method else "kl_coef": beta}
    if method == "DPO":
        began = time.process_time()
        pairs, tokens = labelled_pairs(base, proxy, seed)
        size = 32 // parts
        learner = learner_of(stage, base, seed, pairs, **how, batch_size=size)
        spent = {"tokens": tokens, "cpu": time.process_time() - began}
        rows = followed(learner, look, looks=looks, updates=passes * len(pairs) // size)
        return [{**row, "tokens": tokens, "cpu": row["cpu"] + spent["cpu"]} for row in rows]
    if method == "online DPO":
        stage = RepeatedOnlineDPO if steps > 1 else stage
    else:
        how |= {"epochs": passes, "num_minibatches": parts}
    learner = learner_of(stage, base, seed, reward=proxy, batch_size=64, **how)
    return followed(learner, look, looks=looks, tokens=BUDGET)


def labelled_pairs(base: Run, reward_model: RewardModel, seed: int) -> tuple[Pairs, int]:
    """Pairs of completions by the policy after SFT, the one with the higher reward first; their tokens.

    As many as the budget has. Of two that are worth the same, the first is taken to be the better one.
    """
    world = World()
    prompts, mask = world.prompt_tokens()
    generator = torch.Generator().manual_seed(stream(seed, "judged pairs"))
    lots: list[list[Completions]] = [[], []]
    tokens = 0
    while tokens < BUDGET:
        for lot in lots:
            rows = torch.arange(512) % len(prompts)
            lot.append(
                generate(base.model, prompts[rows], mask[rows], world.max_new_tokens, generator=generator)
            )
            tokens += int(lot[-1].mask.sum())
    both = Completions.join([*lots[0], *lots[1]])
    first, second = rewards_of(reward_model, both).chunk(2)
    number = torch.arange(len(first))
    better, worse = (
        torch.where(first >= second, a, b)
        for a, b in ((number, number + len(first)), (number + len(first), number))
    )
    of_each = both.mask.sum(dim=1)
    of_pairs = (of_each[: len(first)] + of_each[len(first) :]).cumsum(dim=0)
    affordable = int((of_pairs < BUDGET).sum()) + 1
    pairs = Pairs(both.select(better), both.select(worse)).select(slice(affordable))
    return pairs, int(of_pairs[affordable - 1])


def chosen() -> list[dict]:
    """For each method and regime the β and the rate with the largest mean of gold, of those tried."""
    tried = results("language_settle").groupby(["method", "steps", "beta", "lr"])["gold"].mean()
    best = {(method, steps): tried[method][steps].idxmax() for steps in STEPS for method in STAGES}
    return [
        {"method": method, "steps": steps, "beta": float(beta), "lr": float(lr)}
        for (method, steps), (beta, lr) in best.items()
    ]


def one(seed: int, method: str, steps: int, beta: float, lr: float) -> list[dict]:
    return curve(seed, method, steps, beta, lr, LOOKS, 256)


if __name__ == "__main__":
    name, settings = "language_methods", ["method", "steps", "beta", "lr"]
    record(
        name,
        one,
        chosen(),
        seeds=FRESH,
        digits=4,
        note="β and learning rates by language_settle, on seeds 0 to 2; every seed reported.",
    )
    columns = ["gold", "proxy", "held_out", "kl", "length", "ended", "entropy", "distinct_2", "cpu"]
    summed_up(name, settings, columns, ends(name, settings))
    matched = at_kl(results(name), [*settings, "seed"], (0.5, 1, 2, 3, 4, 6), ["gold", "proxy", "tokens"])
    summed_up(f"{name}, at the same KL", [*settings, "at_kl"], ["gold", "proxy", "tokens"], matched)
