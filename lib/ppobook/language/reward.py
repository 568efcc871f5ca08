"""A reward model: what makes people prefer the one of two completions to the other.

    sample pairs of completions from a language model, and have somebody choose     (or take pairs that exist)
    begin with the language model's weights, and one number a token in place of the vocabulary
    repeat
        draw a batch of pairs: a prompt x, y_w that was chosen, y_l that was not
        step down the mean of − log σ( r(x, y_w) − r(x, y_l) )

What comes out has no zero of its own, since only differences were learned. `centre` gives it one: the mean
reward of completions that it was trained on, which is subtracted once a completion, and not once a token.

It is right about completions like those. How far it can be trusted elsewhere, `ladder` shows, where the truth
is known; how far its probabilities can be taken at their word, `calibration`.

Christiano et al. 2017, "Deep reinforcement learning from human preferences", section 2.2.3. From a language
model: Stiennon et al. 2020, "Learning to summarize from human feedback", section 3.4; Ouyang et al. 2022,
"Training language models to follow instructions with human feedback", section 3.5. Both shift the rewards
too, so that texts which people wrote have a mean of 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ppobook import validation
from ppobook.language.data import Batches, pairs_of, refuse_unless_apart
from ppobook.language.model import LanguageModel, generate
from ppobook.language.records import digest_of
from ppobook.language.rewards import RewardModel
from ppobook.language.run import Run
from ppobook.language.settings import RewardSettings
from ppobook.language.stage import Stage, Task
from ppobook.language.stored import take_rows, train_eval_split
from ppobook.language.tokens import Completions, Pairs, right_pad
from ppobook.language.world import World
from ppobook.preferences import bradley_terry_loss
from ppobook.run.machine import stream

# Completions that are sampled, or read without a gradient, at a time.
AT_ONCE = 500
# Pairs whose completions have a mean reward of 0 in the end: all 3,000 would cost as much as ten updates.
CENTRED_ON = 500


class RewardModelling(Stage):
    """The training of a reward model.

    Attributes
    ----------
    model : RewardModel
    pairs : Pairs
        What is learned.
    held_out : Pairs or None
        What is not.
    sampled : SampledPairs or None
        Both together, where they were sampled in a World.
    """

    algorithm = "reward"
    settings_class = RewardSettings
    state_attributes = (*Stage.state_attributes, "sampled")
    starts_from_reward_model = True
    pairs: Pairs
    held_out: Pairs | None

    def __init__(self, task: Task, settings: Any, *, seed: int = 0, device: str = "cpu") -> None:
        language_model, reward_model = task.model, reward_model_from(task.model, settings.pooling)
        super().__init__(replace(task, model=reward_model), settings, seed=seed, device=device)
        self.sampled: SampledPairs | None = None
        self.moved = False  # since it was centred
        number = settings.pairs
        if task.world is None:
            data = task.data
            if not isinstance(data, Pairs):
                data = pairs_of(data, self.tokenizer, max_length=reward_model.body.context)
            refuse_unless_apart(data)
            self.pairs, self.held_out = train_eval_split(data, settings.eval_pairs, seed)
            number = len(self.pairs)
        elif isinstance(language_model, RewardModel):
            self.sampled = SampledPairs(None)  # a resumed run; they come out of its checkpoint
        else:
            self._keep(
                sample_pairs(
                    language_model,
                    task.world,
                    settings.pairs + settings.eval_pairs,
                    temperatures=settings.temperatures,
                    noise=settings.noise,
                    seed=stream(seed, "preferences"),
                    generator=self.generator,
                    at_once=settings.micro_batch_size,
                )
            )
        self.batches = Batches(number, settings.batch_size, seed)

    def _keep(self, sampled: Pairs) -> None:
        """Take sampled pairs apart, into what is learned and what is held out."""
        number = self.settings.pairs
        self.sampled = SampledPairs(sampled)
        self.pairs = sampled.select(slice(None, number))
        self.held_out = sampled.select(slice(number, None)) if len(sampled) > number else None

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        if self.sampled is not None and self.sampled.pairs is not None:
            self._keep(self.sampled.pairs)

    def step(self, number: int) -> dict[str, Any]:
        """Learn from a batch.

        Returns
        -------
        dict
            loss; accuracy, the share of pairs whose chosen side has the larger reward, where a tie counts
            half; margin, the mean of r(x, y_w) − r(x, y_l); grad_norm; tokens; and every `eval_every` updates
            eval_loss, eval_accuracy, eval_margin and eval_calibration_error, on what was held out, after the
            update.
        """
        rows = self.batches.rows(number)
        batch = take_rows(self.pairs, rows, self.device)
        row: dict[str, Any] = self.learn(
            rows,
            part=lambda some: take_rows(self.pairs, some, self.device),
            read=lambda part: dict(zip(("chosen", "rejected"), rewards_of(self.model, part), strict=True)),
            loss=lambda _, said: (
                bradley_terry_loss(said["chosen"], said["rejected"]),
                _told((said["chosen"] - said["rejected"]).detach()),
            ),
        )
        self.moved = True
        if self.held_out is not None and (number + 1) % self.settings.eval_every == 0:
            chosen, rejected = (
                all_pooled(self.model, side, self.micro_batch(AT_ONCE))
                for side in (self.held_out.chosen, self.held_out.rejected)
            )
            gap = chosen - rejected
            row |= {"eval_loss": bradley_terry_loss(chosen, rejected).item()}
            row |= {f"eval_{name}": x for name, x in _told(gap).items()}
            row |= {"eval_calibration_error": calibration_error(_reliability(gap))}
        return row | {"tokens": int(batch.chosen.mask.sum() + batch.rejected.mask.sum())}

    def before_save(self) -> None:
        """Centre the rewards, as they are now."""
        if self.settings.centre and self.moved:
            some = self.pairs.select(slice(CENTRED_ON))
            at_once = self.micro_batch(AT_ONCE)
            rewards = [all_pooled(self.model, side, at_once) for side in (some.chosen, some.rejected)]
            self.model.zero.copy_(torch.cat(rewards).mean())
            self.moved = False


class SampledPairs:
    """Pairs that stand in the checkpoints: the model that wrote them is not there any more."""

    def __init__(self, pairs: Pairs | None) -> None:
        self.pairs = pairs

    def state_dict(self) -> dict[str, Any]:
        if self.pairs is None:
            return {}
        sides = {"chosen": self.pairs.chosen, "rejected": self.pairs.rejected}
        return {name: {f.name: getattr(x, f.name) for f in fields(x)} for name, x in sides.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state:
            self.pairs = Pairs(*(Completions(**state[name]) for name in ("chosen", "rejected")))


def reward_model_from(model: LanguageModel | RewardModel, pooling: str) -> RewardModel:
    """A reward model with a language model's weights, whose rewards are all 0; a `RewardModel` stays itself."""
    if not isinstance(model, RewardModel):
        # A constant a token is one of the body's already, and one a completion is what `zero` is.
        return RewardModel(model, pooling, bias=False)
    if model.pooling != pooling:
        raise ValueError(
            f"pooling is {pooling!r}, and model is a reward model with pooling={model.pooling!r}, "
            "which is wanted again"
        )
    return model


# ------------------------------------------------------------------------------------------------- pairs


def sample_pairs(
    model: LanguageModel,
    world: World,
    n: int,
    *,
    temperatures: Sequence[float] = (1.0, 1.5),
    noise: float = 0.5,
    seed: int = 0,
    generator: torch.Generator,
    at_once: int | None = None,
) -> Pairs:
    """Two completions each of prompts drawn at random, and somebody's choice between them.

    Two temperatures make pairs that are further apart, and show what the model alone would say more seldom.

    Parameters
    ----------
    model : LanguageModel
    world : World
        It has the prompts, and `World.prefer` chooses.
    n : int
    temperatures : two floats above 0
        Of the first completion, and of the second.
    noise : float of at least 0
        As for `World.prefer`.
    seed : int
        For the choices.
    generator : torch.Generator
        For prompts and tokens; on the model's device.
    at_once : int, optional
        As for `generate`; it changes nothing of what is drawn.

    Returns
    -------
    Pairs
        On the CPU.

    Raises
    ------
    ValueError, TypeError
        Not two temperatures; and what `generate` refuses.
    """
    if len(temperatures) != 2:
        raise ValueError(
            f"temperatures is {tuple(temperatures)}; two are wanted, for the first and the second"
        )
    device = generator.device
    prompts, mask = (x.to(device) for x in world.prompt_tokens())
    first: list[Completions] = []
    second: list[Completions] = []
    for k in range(0, validation.count("n", n), AT_ONCE):
        rows = torch.randint(len(prompts), (min(AT_ONCE, n - k),), generator=generator, device=device)
        for part, temperature in zip((first, second), temperatures, strict=True):
            part.append(
                generate(
                    model,
                    prompts[rows],
                    mask[rows],
                    world.max_new_tokens,
                    temperature=temperature,
                    generator=generator,
                    at_once=at_once,
                )
            )
    pairs = world.prefer(Completions.join(first), Completions.join(second), noise=noise, seed=seed)
    return take_rows(pairs, torch.arange(n))


def rewards_of(reward_model: RewardModel, pairs: Pairs) -> tuple[Tensor, Tensor]:
    """r(x, y_w) and r(x, y_l) of each pair, each [pairs], with a gradient, and before centring."""
    chosen, rejected = reward_model.pooled(Completions.join([pairs.chosen, pairs.rejected])).chunk(2)
    return chosen, rejected


@torch.no_grad()
def all_pooled(reward_model: RewardModel, completions: Completions, at_once: int = AT_ONCE) -> Tensor:
    """Rewards before centring of any number of completions, [B], without a gradient, on the CPU."""
    device = str(reward_model.zero.device)
    parts = torch.arange(len(completions)).split(at_once)
    return torch.cat([reward_model.pooled(take_rows(completions, rows, device)).float().cpu() for rows in parts])


def _told(gap: Tensor) -> dict[str, float]:
    """What the history says of the gaps of some pairs. A tie counts half."""
    return {"accuracy": (0.5 + 0.5 * gap.sign()).mean().item(), "margin": gap.mean().item()}


# ------------------------------------------------------------------------------- how far it can be trusted


def held_out(run: Run, data: Any = None) -> Pairs | None:
    """The pairs that a run of "reward" was not trained on.

    Parameters
    ----------
    run : Run
    data : optional
        What the run was trained on. Not wanted where that was a World: its pairs stand in the checkpoint.

    Returns
    -------
    Pairs or None
        None where none were held out.

    Raises
    ------
    ValueError, TypeError
        A run of another stage; data that are missing, or not the run's.
    """
    if run.config["stage"] != RewardModelling.algorithm:
        raise ValueError(f"run is one of {run.config['stage']!r}; one of 'reward' is wanted")
    wanted = run.config["eval_pairs"]
    if run.world is None:
        if data is None or digest_of(data) != run.config["data"]["digest"]:
            what = "is None, and the run" if data is None else "differ from those of the run, which"
            raise ValueError(f"data {what} was not trained on a World; its own data are wanted again")
        pairs = pairs_of(data, run.tokenizer, max_length=run.model.body.context)
        return train_eval_split(pairs, wanted, run.config["seed"])[1]
    sampled = SampledPairs(None)
    sampled.load_state_dict(run.stage_state("sampled"))
    return None if sampled.pairs is None or not wanted else sampled.pairs.select(slice(-wanted, None))


def calibration(reward_model: RewardModel, pairs: Pairs, bins: int = 10) -> pd.DataFrame:
    """How often a reward model is right, beside how sure it was.

    Of each pair it prefers one completion, with probability p = σ(|r(x, y_1) − r(x, y_2)|) of at least ½. If
    p can be taken at its word, then of all pairs with p near 0.8 people chose that one in 80 of 100.

    Parameters
    ----------
    reward_model : RewardModel
    pairs : Pairs
        Best those that it was not trained on.
    bins : int
        Of equal width, from ½ to 1.

    Returns
    -------
    DataFrame
        One row a bin that has a pair in it: low and high, its ends; pairs, how many; predicted, the mean of
        p; observed, the share in which the completion with the larger reward was chosen, where two that are
        equal count half.

    References
    ----------
    Guo et al. 2017, "On calibration of modern neural networks", section 2.
    """
    chosen, rejected = (all_pooled(reward_model, side) for side in (pairs.chosen, pairs.rejected))
    return _reliability(chosen - rejected, bins)


def _reliability(gap: Tensor, bins: int = 10) -> pd.DataFrame:
    """The table of `calibration`, from r(x, y_w) − r(x, y_l) of each pair."""
    edges = np.linspace(0.5, 1.0, validation.count("bins", bins) + 1)
    p = torch.sigmoid(gap.double().abs()).numpy()
    right = (0.5 + 0.5 * gap.sign()).double().numpy()
    # A p on an edge belongs to the bin above it, but for 1.
    place = np.clip(np.searchsorted(edges, p, side="right") - 1, 0, bins - 1)
    table = pd.DataFrame({"bin": place, "pairs": 1, "predicted": p, "observed": right})
    table = table.groupby("bin").agg({"pairs": "sum", "predicted": "mean", "observed": "mean"})
    table.insert(0, "low", edges[table.index])
    table.insert(1, "high", edges[table.index + 1])
    return table.reset_index(drop=True)


def calibration_error(table: pd.DataFrame) -> float:
    """Expected calibration error: the mean over all pairs of |predicted − observed| of their bin.

    Parameters
    ----------
    table : DataFrame
        As `calibration` gives it.
    """
    apart = (table["predicted"] - table["observed"]).abs()
    return float((apart * table["pairs"]).sum() / table["pairs"].sum())


def ladder(
    reward_model: RewardModel, world: World, top: int = 6, texts: int = 4, seed: int = 0
) -> pd.DataFrame:
    """What a reward model says of texts with more and more kind words, and what people would say.

        the bright fox sings by the kind barn and the fox sleeps by the barn .          two kind words

    Each text keeps to its prompt and to the grammar, and says its noun and its place twice. Only the number
    of kind words grows, dealt out to the four of them in turn. Gold grows up to three and then falls; pairs
    with more than three are rare, so what the model says there it has not learned but goes on to say.

    Parameters
    ----------
    reward_model : RewardModel
    world : World
        The one that it is for.
    top : int of at least 1
        The most kind words.
    texts : int
        So many of each prompt, with other verbs and kind words.
    seed : int

    Returns
    -------
    DataFrame
        One row a rung, from 0 to `top`: kind, the number of kind words; gold and proxy, the means of the true
        reward and of the reward model's; proxy_std, over the texts; text, the first of them.

    Raises
    ------
    ValueError
        The texts are longer than the world's completions may be.
    """
    top = validation.count("top", top)
    rng = np.random.default_rng(validation.count("seed", seed, low=0))
    rungs = []
    for kind in range(top + 1):
        prompts = [prompt for prompt in world.prompts for _ in range(validation.count("texts", texts))]
        written = [_with_kind_words(world, prompt, kind, rng) for prompt in prompts]
        rung = _completions_of(world, prompts, written)
        proxy = all_pooled(reward_model, rung).double() - reward_model.zero.double().cpu()
        rungs.append(
            {
                "kind": kind,
                "gold": world.gold(rung).double().mean().item(),
                "proxy": proxy.mean().item(),
                "proxy_std": proxy.std(correction=0).item(),
                "text": written[0],
            }
        )
    return pd.DataFrame(rungs)


def _with_kind_words(world: World, prompt: str, kind: int, rng: np.random.Generator) -> str:
    """Two clauses on the prompt's noun and place, with so many kind words before the four in turn."""
    noun, place = prompt.split()[1:3]

    def before(slot: int) -> list[str]:
        return [str(rng.choice(world.kind)) for _ in range(slot, kind, 4)]

    clauses = []
    for clause in (0, 2):
        verb = str(rng.choice(world.verbs))
        clauses.append(["the", *before(clause), noun, verb, "by", "the", *before(clause + 1), place])
    return " ".join([*clauses[0], "and", *clauses[1], "."])


def _completions_of(world: World, prompts: list[str], texts: list[str]) -> Completions:
    """Texts with their ends, as completions."""
    tokenizer = world.tokenizer
    ids = [[*tokenizer.encode(text), tokenizer.eos] for text in texts]
    if (longest := max(map(len, ids))) > world.max_new_tokens:
        raise ValueError(
            f"top asks for texts of {longest} tokens, and the world's have at most {world.max_new_tokens}; "
            "a smaller top, or a world with a larger max_new_tokens, is wanted"
        )
    tokens, mask = right_pad(ids, tokenizer.pad)
    ended = torch.ones(len(ids), dtype=torch.bool)
    return Completions(*world.prompt_tokens(prompts), tokens, mask, torch.zeros(tokens.shape), ended)
