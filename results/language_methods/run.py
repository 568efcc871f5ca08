"""PPO, GRPO, RLOO, DPO and online DPO on the tiny language world, at equal numbers of sampled tokens.

All begin with the policy and the reward model of `results/language_chain`, whose rewards are the only
preferences they see: DPO learns from pairs sampled by the policy after SFT, the one with the higher reward
chosen; online DPO from pairs of its own. Each may sample `BUDGET` tokens. PPO, GRPO, RLOO and online DPO go
on until they have, 64 completions an update; DPO spends all of it on its pairs, and passes over them twice.

Each has a learning rate of its own, by one rule: the largest mean of gold at the end of the budget, over
four rates and seeds 0 to 2 (`results/language_settle`). β is 0.3 for all of them, which is not the same in
all of them: it is in units of the reward for PPO and RLOO, of a group's standard deviation for GRPO, and of
nats for the DPO family. The seeds here are fresh, and all are reported. `cpu` is the CPU seconds of training,
sampling included.
"""

import sys
import time
from pathlib import Path

import torch

from ppobook.experiments import record, results
from ppobook.language import Completions, Pairs, World, generate
from ppobook.language.opening import open_task
from ppobook.language.registry import stage_class
from ppobook.language.run import Run
from ppobook.language.stage import Task
from ppobook.run.machine import stream

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_chain.run import FRESH, begun, looked_at, summed_up

BUDGET = 60_000
BETA = 0.3
STAGES = {
    "PPO": ("ppo", {"kl_coef": BETA}),
    "GRPO": ("grpo", {"kl_coef": BETA}),
    "RLOO": ("grpo", {"variant": "rloo", "kl_coef": BETA}),
    "DPO": ("dpo", {"beta": BETA}),
    "online DPO": ("online_dpo", {"beta": BETA}),
}


def trained(seed: int, method: str, lr: float) -> tuple[torch.nn.Module, dict[str, float]]:
    """A policy that has spent the budget, and what that took."""
    base, reward_model = begun(seed)
    stage, own = STAGES[method]
    kind = stage_class(stage)
    began = time.process_time()
    if stage == "dpo":
        pairs, tokens = labelled_pairs(base, reward_model, seed)
        given = Task(base, data=pairs, tokenizer=None)
        own = {**own, "eval_pairs": 0}
        updates = 2 * len(pairs) // 64
    else:
        given, tokens, updates = Task(base, data=World(), tokenizer=None, reward=reward_model), 0, None
    settings = kind.settings_class.make(stage, {**own, "lr": lr, "batch_size": 64}, {})
    learner = kind(open_task(kind, given, "cpu", seed), settings, seed=seed)
    number = 0
    while number < updates if updates else tokens < BUDGET:
        learner.set_lr(number)
        row = learner.step(number)
        tokens += 0 if updates else row["tokens"]
        number += 1
    return learner.model, {"updates": number, "tokens": tokens, "cpu": time.process_time() - began}


def labelled_pairs(base: Run, reward_model: Run, seed: int) -> tuple[Pairs, int]:
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
    first, second = reward_model.model.rewards(both).chunk(2)
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


def chosen_rates() -> dict[str, float]:
    """For each method the rate with the largest mean of gold at the end, of those that were tried."""
    tried = results("language_settle").groupby(["method", "lr"])["gold"].mean()
    return {method: float(tried[method].idxmax()) for method in STAGES}


def one(seed: int, method: str, lr: float) -> dict:
    model, spent = trained(seed, method, lr)
    base, reward_model = begun(seed)
    return {**looked_at(model, base, reward_model, seed), **spent}


if __name__ == "__main__":
    record(
        "language_methods",
        one,
        [{"method": method, "lr": lr} for method, lr in chosen_rates().items()],
        seeds=FRESH,
        workers=1,
        digits=4,
        note="Learning rates by language_settle, on seeds 0 to 2; every seed reported.",
    )
    summed_up("language_methods", ["method"], ["gold", "proxy", "kl", "length", "ended", "cpu"])
