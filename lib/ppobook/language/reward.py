"""Training of a reward model from preferences between pairs of completions.

    sample pairs of completions from a language model, and ask for preferences     (or read existing pairs)
    start from the language model's weights, with one output per token in place of the vocabulary
    repeat
        draw a batch of pairs: a prompt x, the chosen completion y_w, the rejected one y_l
        descend the mean of − log σ( r(x, y_w) − r(x, y_l) )

Only differences of rewards are learned, so their zero is arbitrary. `centre` subtracts the mean reward of
training completions, once per completion.

Christiano et al. 2017, "Deep reinforcement learning from human preferences", section 2.2.3. From a language
model: Stiennon et al. 2020, "Learning to summarize from human feedback", section 3.4; Ouyang et al. 2022,
"Training language models to follow instructions with human feedback", section 3.5.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ppobook.language.data import pairs_of, take_rows, train_eval_split
from ppobook.language.pairs import EVAL_BATCH_SIZE, PairStage, SampledPairs
from ppobook.language.records import digest_of
from ppobook.language.rewards import RewardModel
from ppobook.language.run import Run, load_from
from ppobook.language.settings import RewardSettings
from ppobook.language.stage import Task
from ppobook.language.tokens import Completions, Pairs, logp_unknown, right_pad
from ppobook.language.world import World
from ppobook.preferences import bradley_terry_loss
from ppobook.run.folder import RunFolder
from ppobook.run.machine import float32_on_cpu

# Pairs whose mean reward is set to 0: all 3,000 would cost as much as ten updates.
CENTRED_ON = 500


class RewardModelling(PairStage):
    """Training of a reward model, `model`. Options: `RewardSettings`."""

    algorithm = "reward"
    settings_class = RewardSettings
    starts_from_reward_model = True

    def __init__(self, task: Task, settings: Any, *, seed: int = 0, device: str = "cpu") -> None:
        # A resumed run starts from its reward model, and has its pairs in the checkpoint.
        sampler = None if isinstance(task.model, RewardModel) else task.model
        # No bias: the body has one per token already, and `zero` is one per completion.
        reward_model = task.model if sampler is None else RewardModel(sampler, settings.pooling, bias=False)
        if reward_model.pooling != settings.pooling:
            raise ValueError(f"pooling must be {reward_model.pooling!r}, as before, got {settings.pooling!r}")
        super().__init__(replace(task, model=reward_model), settings, seed=seed, device=device)
        self.moved = False  # since rewards were centred
        self.open_pairs(sampler, reward_model.body.context, settings.eval_pairs)

    def step(self, number: int) -> dict[str, Any]:
        """One gradient step on a batch.

        Returns
        -------
        dict
            loss; accuracy, the share of pairs whose chosen completion has the larger reward (a tie counts
            half); margin, the mean of r(x, y_w) − r(x, y_l); grad_norm; tokens; and every `eval_every`
            updates eval_loss, eval_accuracy, eval_margin and eval_calibration_error on the held-out pairs,
            after the step.
        """
        rows = self.batch_rows(number)
        batch = take_rows(self.pairs, rows, self.device)
        # forward, loss, gradient step
        metrics = self.learn(rows, select=lambda rows: take_rows(self.pairs, rows, self.device))
        self.moved = True
        if self.held_out is not None and (number + 1) % self.settings.eval_every == 0:
            metrics |= self.evaluate(self.held_out)
        return metrics | {"tokens": int(batch.chosen.mask.sum() + batch.rejected.mask.sum())}

    def forward(self, batch: Pairs) -> dict[str, Tensor]:
        """r(x, y_w) and r(x, y_l), [B] each, with gradient."""
        chosen, rejected = rewards_of(self.model, batch)
        return {"chosen": chosen, "rejected": rejected}

    def loss(self, batch: Pairs, outputs: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """− log σ(r(x, y_w) − r(x, y_l)), and metrics."""
        chosen, rejected = outputs["chosen"], outputs["rejected"]
        return bradley_terry_loss(chosen, rejected), _accuracy_and_margin((chosen - rejected).detach())

    def evaluate(self, held_out: Pairs) -> dict[str, float]:
        """The metrics of held-out pairs."""
        chosen, rejected = (
            pooled_rewards(self.model, side, self.micro_batch(EVAL_BATCH_SIZE))
            for side in (held_out.chosen, held_out.rejected)
        )
        margins = chosen - rejected
        metrics = {"loss": bradley_terry_loss(chosen, rejected), **_accuracy_and_margin(margins)}
        error = calibration_error(_reliability(margins))
        return {f"eval_{name}": float(x) for name, x in metrics.items()} | {"eval_calibration_error": error}

    def before_save(self) -> None:
        """Centre the rewards of the current model."""
        if self.settings.centre and self.moved:
            pairs = self.pairs.select(slice(CENTRED_ON))
            rows = self.micro_batch(EVAL_BATCH_SIZE)
            rewards = [pooled_rewards(self.model, side, rows) for side in (pairs.chosen, pairs.rejected)]
            self.model.zero.copy_(torch.cat(rewards).mean())
            self.moved = False


# ------------------------------------------------------------------------------------------------- pairs


def rewards_of(reward_model: RewardModel, pairs: Pairs) -> tuple[Tensor, Tensor]:
    """r(x, y_w) and r(x, y_l) of each pair, each [pairs], with gradient, before centring."""
    chosen, rejected = reward_model.pooled(Completions.join([pairs.chosen, pairs.rejected])).chunk(2)
    return chosen, rejected


@torch.no_grad()
def pooled_rewards(
    reward_model: RewardModel, completions: Completions, batch_size: int = EVAL_BATCH_SIZE
) -> Tensor:
    """Rewards before centring, [B], without gradient, on the CPU; computed in batches."""
    device = str(reward_model.zero.device)
    parts = torch.arange(len(completions)).split(batch_size)
    return torch.cat(
        [reward_model.pooled(take_rows(completions, rows, device)).float().cpu() for rows in parts]
    )


def _accuracy_and_margin(margins: Tensor) -> dict[str, Tensor]:
    """Compute accuracy and mean of the margins r(x, y_w) − r(x, y_l) of some pairs. A tie counts half."""
    return {"accuracy": (0.5 + 0.5 * margins.sign()).mean(), "margin": margins.mean()}


# --------------------------------------------------------------------------------------------- evaluation


@float32_on_cpu()
def held_out(run: Run | str | Path, data: Any = None) -> Pairs | None:
    """The pairs that a run of "reward" was not trained on, or None if there are none.

    Parameters
    ----------
    run : Run or path
    data : optional
        The training data of the run; not needed after training in a World, whose pairs are in the checkpoint.

    Raises
    ------
    ValueError
        A run of another stage; data that are missing or differ from the run's.
    """
    run = run if isinstance(run, Run) else load_from(RunFolder.at("run", run))
    if run.config["stage"] != RewardModelling.algorithm:
        raise ValueError(f"run must be a run of 'reward', got one of {run.config['stage']!r}")
    number = run.config["eval_pairs"]
    if run.world is None:
        if data is None or digest_of(data) != run.config["data"]["digest"]:
            got = None if data is None else "other data"
            raise ValueError(f"data must be the training data of the run, got {got}")
        pairs = pairs_of(data, run.tokenizer, max_length=run.model.body.context)
        return train_eval_split(pairs, number, run.config["seed"])[1]
    sampled = SampledPairs(None)
    sampled.load_state_dict(run.stage_state("sampled"))
    return None if sampled.pairs is None or not number else sampled.pairs.select(slice(-number, None))


@float32_on_cpu()
def calibration(reward_model: RewardModel, pairs: Pairs, bins: int = 10) -> pd.DataFrame:
    """Reliability of a reward model's probabilities: predicted and observed accuracy.

    In each pair it prefers one completion with probability p = σ(|r(x, y_1) − r(x, y_2)|) of at least ½. If p
    is calibrated, that completion was chosen in 80 % of the pairs with p near 0.8.

    Parameters
    ----------
    reward_model : RewardModel
    pairs : Pairs
        Held-out pairs.
    bins : int
        Number of bins of equal width from ½ to 1.

    Returns
    -------
    DataFrame
        One row per non-empty bin: low and high, its edges; pairs, their number; predicted, the mean of p;
        observed, the share of pairs whose chosen completion has the larger reward (a tie counts half).

    References
    ----------
    Guo et al. 2017, "On calibration of modern neural networks", section 2.
    """
    chosen, rejected = (pooled_rewards(reward_model, side) for side in (pairs.chosen, pairs.rejected))
    return _reliability(chosen - rejected, bins)


def _reliability(margins: Tensor, bins: int = 10) -> pd.DataFrame:
    """The table of `calibration`, from r(x, y_w) − r(x, y_l) of each pair."""
    edges = np.linspace(0.5, 1.0, bins + 1)
    p = torch.sigmoid(margins.double().abs()).numpy()
    right = (0.5 + 0.5 * margins.sign()).double().numpy()
    # A p on an edge belongs to the bin above, except p = 1.
    place = np.clip(np.searchsorted(edges, p, side="right") - 1, 0, bins - 1)
    table = pd.DataFrame({"bin": place, "pairs": 1, "predicted": p, "observed": right})
    table = table.groupby("bin").agg({"pairs": "sum", "predicted": "mean", "observed": "mean"})
    table.insert(0, "low", edges[table.index])
    table.insert(1, "high", edges[table.index + 1])
    return table.reset_index(drop=True)


def calibration_error(table: pd.DataFrame) -> float:
    """Expected calibration error: the mean over all pairs of |predicted − observed| in their bin."""
    error = (table["predicted"] - table["observed"]).abs()
    return float((error * table["pairs"]).sum() / table["pairs"].sum())


@float32_on_cpu()
def ladder(
    reward_model: RewardModel, world: World, top: int = 6, texts: int = 4, seed: int = 0
) -> pd.DataFrame:
    """Rewards of texts with an increasing number of kind words, beside their true rewards.

        the bright fox sings by the kind barn and the fox sleeps by the barn .          two kind words

    All texts follow their prompt and the grammar; only the number of kind words differs. The true reward
    (gold) increases up to three and then decreases; training pairs with more than three are rare.

    Parameters
    ----------
    reward_model : RewardModel
    world : World
        The world of the reward model.
    top : int of at least 1
        The largest number of kind words.
    texts : int
        Texts per prompt, with random verbs and kind words.

    Returns
    -------
    DataFrame
        One row per number of kind words, from 0 to `top`: kind, that number; gold and proxy, the means of the
        true reward and of the reward model's; proxy_std over the texts; text, the first of them.
    """
    rng = np.random.default_rng(seed)
    rungs = []
    for kind in range(top + 1):
        prompts = [prompt for prompt in world.prompts for _ in range(texts)]
        generated = [_with_kind_words(world, prompt, kind, rng) for prompt in prompts]
        rung = _completions_of(world, prompts, generated)
        proxy = pooled_rewards(reward_model, rung).double() - reward_model.zero.double().cpu()
        rungs.append(
            {
                "kind": kind,
                "gold": world.gold(rung).double().mean().item(),
                "proxy": proxy.mean().item(),
                "proxy_std": proxy.std(correction=0).item(),
                "text": generated[0],
            }
        )
    return pd.DataFrame(rungs)


def _with_kind_words(world: World, prompt: str, kind: int, rng: np.random.Generator) -> str:
    """Two clauses on the prompt's noun and place, with `kind` kind words distributed over the nouns."""
    noun, place = prompt.split()[1:3]

    def before(slot: int) -> list[str]:
        return [str(rng.choice(world.kind)) for _ in range(slot, kind, 4)]

    clauses = []
    for clause in (0, 2):
        verb = str(rng.choice(world.verbs))
        clauses.append(["the", *before(clause), noun, verb, "by", "the", *before(clause + 1), place])
    return " ".join([*clauses[0], "and", *clauses[1], "."])


def _completions_of(world: World, prompts: list[str], texts: list[str]) -> Completions:
    """Texts as completions, with an end of sequence."""
    tokenizer = world.tokenizer
    ids = [[*tokenizer.encode(text), tokenizer.eos] for text in texts]
    tokens, mask = right_pad(ids, tokenizer.pad)
    ended = torch.ones(len(ids), dtype=torch.bool)
    return Completions(*world.prompt_tokens(prompts), tokens, mask, logp_unknown(tokens), ended)
