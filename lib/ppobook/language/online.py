"""Online loops: the policy learns from what it says itself, while it changes, and so may the reward model.

    online_dpo       pairs are sampled from the policy of this update, and judged      Guo et al. 2024
    iterative_ppo    PPO, and a reward model that goes on learning                     Ziegler et al. 2019
    lagged_grpo      GRPO on completions of the policy as it was k updates ago         Noukhovitch et al. 2024

What is learned once from data that lie there is right about those data. A policy that has learned from them
says other things. So DPO's pairs are not its own any more, and a reward model is asked about texts of a
kind that it has never seen. The first two loops ask again. The third one lets the policy be ahead of its
samples on purpose, as it is where some machines sample while others train.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ppobook import divergences, validation
from ppobook.language import grpo, parallel, reward
from ppobook.language.data import Prompts
from ppobook.language.grpo import GRPO
from ppobook.language.ppo import PPO
from ppobook.language.reward import AT_ONCE, RewardModelling, SampledPairs
from ppobook.language.rewards import RewardModel
from ppobook.language.sampling import Sampling
from ppobook.language.settings import (
    IterativePPOSettings,
    LaggedGRPOSettings,
    OnlineDPOSettings,
    RewardSettings,
)
from ppobook.language.stage import Task
from ppobook.language.stored import part_of, take_rows
from ppobook.language.tokens import Completions, Pairs, completion_logits, token_entropy, token_logp
from ppobook.preferences import dpo_loss, ipo_loss
from ppobook.run.machine import stream


class OnlineDPO(Sampling):
    """DPO on pairs that are sampled and judged as it goes.

        repeat
            sample k completions of each prompt x with π_θ
            have them judged: y_w is the best of them, y_l the worst
            step down the mean loss of the pairs (x, y_w, y_l), as DPO does; π_ref stays what it is

    **Whose rewards.** A model's, the world's, or a function's. Only their order counts, and with `noise`
    their differences. A reward model that learned from preferences is taken at its word with `noise` 1.

    **What it comes to.** With noise s the pairs are Bradley and Terry's of R / s, and the optimum of the loss
    is π_ref exp(R / (s β)) / Z, if pairs from everywhere are seen. Without noise the better one always wins:
    no β then has a finite optimum, and how far the policy goes is a matter of steps and learning rate.

    **Equal rewards** have no better one. Which is called so is left to chance, as `World.prefer` does: such a
    pair pulls the two together. `tied` in the history is their share.

    The samples are taken as given. That they were drawn from the policy, and would change with it, has no
    part in the gradient, nor has it in the paper's.

    **Differences to TRL 1.16.** It draws at `temperature` and reads log-probabilities at 1, and of equal
    rewards it calls the first one the better. Its "ipo" is on sums, as here; that of its DPOTrainer on means.

    References
    ----------
    Guo et al. 2024, "Direct language model alignment from online AI feedback", algorithm 1, where another
    language model is asked which of two it prefers. More than two, of which the ends are taken: Dong et al.
    2024, "RLHF workflow: from reward modeling to online RLHF".
    """

    algorithm = "online_dpo"
    settings_class = OnlineDPOSettings  # type: ignore[assignment]  # without what makes KL a part of rewards

    settings: OnlineDPOSettings

    def __init__(
        self, task: Task, settings: OnlineDPOSettings, *, seed: int = 0, device: str = "cpu"
    ) -> None:
        super().__init__(task, settings, seed=seed, device=device)
        if settings.batch_size % settings.group_size:
            raise ValueError(
                f"batch_size is {settings.batch_size} and group_size is {settings.group_size}; "
                "a multiple of it is wanted"
            )
        self.together = settings.group_size

    def step(self, number: int) -> dict[str, Any]:
        completions, ref_logp, row = self.gather(number)
        pairs = len(completions) // 2

        def part(some: Tensor) -> tuple[Completions, Tensor]:
            both = torch.cat([some, some + pairs]).to(self.device)
            return part_of(completions, both, self.device), ref_logp[both]

        return row | self.learn(
            torch.arange(pairs),
            part=part,
            read=lambda some: self.read(some[0]),
            loss=lambda some, said: self.loss(some[0], some[1], said),
            weight=lambda some: len(some[0]),
        )

    @torch.no_grad()
    def gather(self, number: int) -> tuple[Completions, Tensor, dict[str, Any]]:
        """The chosen completion of each prompt, then the rejected ones; log π_ref of each; and a row."""
        s = self.settings
        prompts = self.draw_prompts(number, s.batch_size // s.group_size).repeat(s.group_size)
        completions = self.sample(prompts)
        rewards = self.score(completions, prompts.columns)
        ref_logp = self.reference_logp(completions)
        row = self.told(completions, rewards, ref_logp)
        judged = self.less_penalty(completions, rewards)
        best, worst = best_and_worst(judged, s.group_size, noise=s.noise, generator=self.generator)
        row["tied"] = (judged[best] == judged[worst]).float().mean().item()
        rows = torch.cat([best, worst])
        return take_rows(completions, rows, self.device), ref_logp[rows].sum(dim=1), row

    def read(self, completions: Completions) -> dict[str, Tensor]:
        """What the policy says of as many chosen completions as rejected ones after them, [pairs] each.

        log π of both sides, with a gradient, and the sum of the entropies of both sides' tokens.
        """
        s, mask = self.settings, completions.mask
        logits = completion_logits(self.model, completions)
        logp = token_logp(logits, completions.tokens, s.temperature, mask=mask).sum(dim=1)
        entropy = token_entropy(logits.detach(), s.temperature).masked_fill(~mask, 0.0).sum(dim=1)
        chosen, rejected = logp.chunk(2)
        return {"chosen": chosen, "rejected": rejected, "entropy": entropy.view(2, -1).sum(dim=0)}

    def loss(
        self, completions: Completions, ref_logp: Tensor, said: dict[str, Tensor] | None = None
    ) -> tuple[Tensor, dict[str, Any]]:
        """What a step should make small, of as many chosen completions as rejected ones after them.

        `said` is what `read` says of them, if it is known.
        """
        s = self.settings
        said = self.read(completions) if said is None else said
        chosen, rejected = said["chosen"], said["rejected"]
        ref_chosen, ref_rejected = ref_logp.chunk(2)
        if s.loss == "ipo":
            loss, told = ipo_loss(chosen, rejected, ref_chosen, ref_rejected, s.beta)
        else:
            loss, told = dpo_loss(
                chosen, rejected, ref_chosen, ref_rejected, s.beta, label_smoothing=s.label_smoothing
            )
        return loss, told | {"entropy": said["entropy"].sum() / completions.mask.sum()}


def best_and_worst(
    rewards: Tensor, group_size: int, *, noise: float = 0.0, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Of the completions of each prompt, the one that somebody likes best and the one he likes least.

        u_i = R_i + noise · g_i        g_i from Gumbel's distribution
        best: the largest u of the group, worst: the smallest; equal ones in an order left to chance

    Of two, the first is so the better one with probability σ((R_1 − R_2) / noise): the difference of two g is
    logistic. Of more, the order is that of Plackett and Luce's model, which is to rankings what Bradley and
    Terry's is to pairs.

    Parameters
    ----------
    rewards : tensor, shape (B,)
        The completions of one prompt stand side by side.
    group_size : int of at least 2
        B is a multiple of it.
    noise : float of at least 0
        In units of the reward.
    generator : torch.Generator
        On the device of rewards. It is drawn from even without noise.

    Returns
    -------
    best, worst : int64, shape (B / group_size,)
        Row numbers; never the same one.
    """
    group_size, noise = (
        validation.count("group_size", group_size, low=2),
        validation.number("noise", noise, low=0),
    )
    if rewards.ndim != 1 or len(rewards) == 0 or len(rewards) % group_size:
        raise ValueError(
            f"rewards has shape {tuple(rewards.shape)} and group_size is {group_size}; one number a "
            "completion, and whole groups of them, are wanted"
        )
    validation.finite("rewards", rewards)
    liking = rewards.double().view(-1, group_size)
    luck = torch.rand(liking.shape, generator=generator, dtype=torch.float64, device=rewards.device)
    if noise > 0:
        liking = liking - noise * (-luck.log()).log()
    # Shuffled first, then sorted so that equal ones stay as they are.
    shuffled = luck.argsort(dim=1)
    order = shuffled.gather(1, liking.gather(1, shuffled).argsort(dim=1, stable=True))
    first = torch.arange(0, len(rewards), group_size, device=rewards.device)
    return first + order[:, -1], first + order[:, 0]


class IterativePPO(PPO):
    """PPO, whose reward model goes on learning from preferences between texts of the policy.

        every `refresh_every` updates, and before the first
            sample two completions of each of `pairs` prompts from π_θ, and ask which one is preferred
            put these preferences to those asked for before       (or forget the old ones)
            go on training the reward model on all of them, as the stage "reward" does
        make an update of PPO on the reward model's rewards

    A reward model is right about texts like those that it was trained on. PPO moves to where it is wrong;
    preferences between these new texts correct it. `fresh_accuracy` in the history is the reward model's
    accuracy on the new preferences before it learns from them: how far the policy has left its training
    data. `fresh_accuracy_after` is its accuracy afterwards. The scale of its rewards changes in each lesson,
    so compare `gold` over a run, not `reward`.

    **Who is asked.** In a World it is `World.prefer`. Elsewhere, write a `prefer` of your own::

        class Mine(IterativePPO):
            def prefer(self, prompts, first, second):
                return [len(a) < len(b) for a, b in zip(first, second)]

        train(Mine, "base", data="prompts.jsonl", reward="reward_model")

    **What differs from the papers.** Both train a new reward model each time, on all preferences so far,
    from the language model: Ziegler et al. for one epoch. Here the reward model goes on from where it is, which
    is a matter of seconds; what it was trained on before this run is not looked at again. The critic is never
    begun anew, and has to follow.

    References
    ----------
    Ziegler et al. 2019, "Fine-tuning language models from human preferences", section 2.3. Bai et al. 2022,
    "Training a helpful and harmless assistant with reinforcement learning from human feedback", section 4.5.
    """

    algorithm = "iterative_ppo"
    settings_class = IterativePPOSettings
    state_attributes = (*PPO.state_attributes, "asked")

    settings: IterativePPOSettings
    reward_model: RewardModel

    def __init__(
        self, task: Task, settings: IterativePPOSettings, *, seed: int = 0, device: str = "cpu"
    ) -> None:
        super().__init__(task, settings, seed=seed, device=device)
        if not isinstance(self.reward_model, RewardModel):
            raise ValueError(
                f"reward is {self.reward.name!r}, which learns nothing; a reward model is wanted"
            )
        if len(settings.temperatures) != 2:
            raise ValueError(
                f"temperatures is {settings.temperatures}; two are wanted, for the first and the second"
            )
        self.asks_world = type(self).prefer is IterativePPO.prefer
        if self.asks_world and task.world is None:
            raise ValueError(
                "data is no World, which alone tells by itself which of two completions is preferred; "
                "a class with a method prefer(prompts, first, second) is wanted"
            )
        self.asked = SampledPairs(None)

    def step(self, number: int) -> dict[str, Any]:
        lesson = self.refresh(number) if number % self.settings.refresh_every == 0 else {}
        row = super().step(number)
        return row | lesson | {"tokens": row["tokens"] + lesson.get("tokens", 0)}

    def refresh(self, number: int) -> dict[str, Any]:
        """Ask for preferences between texts of the policy, and have the reward model learn from them."""
        s, old = self.settings, self.asked.pairs
        new, tokens = self.ask(number)
        row = {"tokens": tokens, "fresh_accuracy": self.guessed(new)}
        self.asked.pairs = pairs = new if old is None or not s.keep_old else joined([old, new])
        lesson = RewardSettings(
            updates=s.reward_model_epochs * -(-len(pairs) // s.reward_model_batch_size),
            lr=s.reward_model_lr,
            warmup=0,
            batch_size=s.reward_model_batch_size,
            pooling=self.reward_model.pooling,
            eval_pairs=0,
            micro_batch_size=s.micro_batch_size,
        )
        task = Task(self.reward_model.requires_grad_(True), self.tokenizer, pairs)
        seed = stream(self.seed, f"lesson {number}")
        teacher = RewardModelling(task, lesson, seed=seed, device=self.device)
        for k in range(lesson.updates):
            teacher.set_lr(k)
            teacher.step(k)
        teacher.before_save()  # its rewards are centred
        self.reward_model.requires_grad_(False)
        return row | {"fresh_accuracy_after": self.guessed(new), "preferences": len(pairs)}

    @torch.no_grad()
    def ask(self, number: int) -> tuple[Pairs, int]:
        """Preferences between texts of the policy as it is now, and how many tokens these have."""
        s = self.settings
        chosen_from = torch.randint(
            len(self.prompts), (s.pairs,), generator=self.generator, device=self.device
        )
        sides: tuple[list[Completions], list[Completions]] = ([], [])
        for rows in chosen_from.split(AT_ONCE):
            prompts = self.prompts.select(rows.cpu())
            for side, temperature in zip(sides, s.temperatures, strict=True):
                side.append(self.drawn(self.model, prompts, temperature))
        first, second = (take_rows(Completions.join(side), torch.arange(s.pairs)) for side in sides)
        tokens = int(first.mask.sum() + second.mask.sum())
        if self.asks_world:
            assert self.task.world is not None
            seed = stream(self.seed, f"preferences {number}")
            return self.task.world.prefer(first, second, noise=s.noise, seed=seed), tokens
        texts = first.texts(self.tokenizer), second.texts(self.tokenizer)
        # Somebody who is asked is asked once.
        answers = parallel.first(lambda: self.prefer(first.prompt_texts(self.tokenizer), *texts))
        return by_answers(answers, first, second), tokens

    def prefer(self, prompts: list[str], first: list[str], second: list[str]) -> Sequence[Any]:
        """For a class that extends this one: of each prompt's two completions, whether the first is better.

        Parameters
        ----------
        prompts, first, second : lists of str

        Returns
        -------
        list of bool
        """
        raise NotImplementedError(f"{type(self).__name__} has no method prefer; one is wanted")

    def guessed(self, pairs: Pairs) -> float:
        """The share of pairs whose chosen side has the larger reward; a tie counts half."""
        at_once = self.micro_batch(AT_ONCE)
        chosen, rejected = (
            reward.all_pooled(self.reward_model, side, at_once) for side in (pairs.chosen, pairs.rejected)
        )
        return (0.5 + 0.5 * (chosen - rejected).sign()).mean().item()


def joined(parts: Sequence[Pairs]) -> Pairs:
    """Pairs from several places, in their order."""
    return Pairs(*(Completions.join([getattr(p, side) for p in parts]) for side in ("chosen", "rejected")))


def by_answers(answers: Any, first: Completions, second: Completions) -> Pairs:
    """Preferences from what a function of texts said of each pair: whether the first is the better one.

    Raises
    ------
    ValueError, TypeError
        Not one answer a pair, or one that is neither True nor False.
    """
    n = len(first)
    if not isinstance(answers, Iterable):
        raise TypeError(f"prefer returned a {type(answers).__name__}; a list of {n} is wanted")
    listed = [validation.flag(f"prefer's answer {i}", answer) for i, answer in enumerate(answers)]
    if len(listed) != n:
        raise ValueError(f"prefer returned {len(listed)} answers; {n} are wanted, one a pair")
    both, rows = Completions.join([first, second]), torch.arange(n)
    takes_first = torch.tensor(listed)
    return Pairs(
        both.select(torch.where(takes_first, rows, rows + n)),
        both.select(torch.where(takes_first, rows + n, rows)),
    )


class LaggedGRPO(GRPO):
    """GRPO on completions of the policy as it was some updates ago.

        θ_n: the weights at the begin of update n
        sample with π_μ, μ = θ_{n−k} (θ_0 for the first k updates), and score, as GRPO does
        learn, with the ratio

            ρ_t = π_θ / π_μ            corrected: what is on average right for π_θ, as the samples are π_μ's;
                                       the clip holds π_θ near μ
            ρ_t = π_θ / π_{θ_n}        not corrected: begins at 1, as if π_{θ_n} had sampled; the clip holds
                                       π_θ near θ_n
            ρ_t = π_θ / π_{θ_n}, and Â_t times min(π_{θ_n} / π_μ, C)           `max_weight`: both of it

    Where machines that sample run beside others that train, completions are late. To take them for the
    policy's own is a mistake that no ratio shows: all begin at 1. It is repaired by the ratio to the sampler.
    But that one has two jobs, to correct and to be clipped, and with a long lag tokens are clipped that this
    update has not touched yet. The third line parts the two jobs.

    As a ratio is a token's, and not its whole prefix's, all of these correct what is drawn in a state, and
    not how often the state is met.

    **What the history says.** `lag_kl` is KL(π_μ, π_{θ_n}) of a token, by k3, on the samples that are learned
    from. reward, kl_reference and the like are of the samples, and so of π_μ.

    With `lag` 0 it is GRPO.

    References
    ----------
    Noukhovitch et al. 2024, "Asynchronous RLHF: faster and more efficient off-policy RL for language models".
    The two jobs: Hilton, Cobbe and Schulman 2021, "Batch size-invariance for policy optimization". A weight
    that is cut off above: Espeholt et al. 2018, "IMPALA: scalable distributed deep-RL with importance
    weighted actor-learner architectures"; for language models Yao et al. 2025, "Your efficient RL framework
    secretly brings you off-policy RL training".
    """

    algorithm = "lagged_grpo"
    settings_class = LaggedGRPOSettings
    state_attributes = (*GRPO.state_attributes, "sampler", "past")

    settings: LaggedGRPOSettings

    def __init__(
        self, task: Task, settings: LaggedGRPOSettings, *, seed: int = 0, device: str = "cpu"
    ) -> None:
        super().__init__(task, settings, seed=seed, device=device)
        if settings.max_weight is not None and settings.corrected:
            raise ValueError(
                f"max_weight is {settings.max_weight:g} and corrected is True, which has the weight in its "
                "ratios; corrected=False is wanted with it"
            )
        if settings.max_weight is not None and settings.surrogate == "sequence":
            raise ValueError("max_weight weighs tokens, and surrogate is 'sequence'; 'clip' is wanted")
        self.sampler = copy.deepcopy(self.model).requires_grad_(False)
        self.past = Past()

    def step(self, number: int) -> dict[str, Any]:
        self.past.weights.append(copy.deepcopy(self.model.state_dict()))
        if len(self.past.weights) > self.settings.lag:
            self.sampler.load_state_dict(self.past.weights.pop(0))
        return super().step(number)

    def sample(self, prompts: Prompts) -> Completions:
        """A completion of each prompt by the sampler, with its log-probabilities."""
        return self.drawn(self.sampler, prompts, self.settings.temperature)

    @torch.no_grad()
    def gather(self) -> tuple[dict[str, Any], grpo.Experience | None]:
        s = self.settings
        row, experience = super().gather()
        if experience is None:
            return row, None
        late = experience.completions
        mask = late.mask
        now = self.logp_of(self.model, late)
        row["lag_kl"] = divergences.k3(late.logp[mask], now[mask]).mean().item()
        if s.corrected:
            return row, experience
        advantages = experience.advantages
        if s.max_weight is not None:
            advantages = advantages * (now - late.logp).exp().clamp(max=s.max_weight)
        return row, replace(experience, completions=replace(late, logp=now), advantages=advantages)


class Past:
    """Weights of some updates, oldest first."""

    def __init__(self) -> None:
        self.weights: list[dict[str, Tensor]] = []

    def state_dict(self) -> dict[str, Any]:
        return {"weights": list(self.weights)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.weights = list(state["weights"])
