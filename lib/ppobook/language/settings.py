"""The settings of every stage, and their defaults. Importing this module imports no torch."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Self

from ppobook import validation
from ppobook.run.settings import Settings, setting


@dataclass(frozen=True)
class StageSettings(Settings):
    """The settings that every stage has."""

    steps: int = setting(100, "updates", low=1)
    lr: float = setting(1e-3, "learning rate of AdamW", above=0, high=1e3)
    warmup: int = setting(0, "updates over which the learning rate rises to lr", low=0)
    max_grad_norm: float | None = setting(1.0, "a longer gradient is shortened to this", above=0)
    micro_batch_size: int | None = setting(
        None, "rows, or pairs, that go through a model at once, to save memory; none: all of them", low=1
    )

    @classmethod
    def make(cls, name: str, given: dict[str, Any], preset: dict[str, Any]) -> Self:
        """The settings of a run, as in the base; who names one as TRL does hears what it is called here."""
        for one in given:
            mine = called_here(one, cls.__dataclass_fields__)
            if mine is not None:
                raise ValueError(
                    f"{one}={given[one]!r}: {name} has no such setting; it is called {mine!r} here"
                )
        return super().make(name, given, preset)


# What TRL calls a setting, and what it is called in the stages that have it.
OF_TRL = {
    "learning_rate": ("lr",),
    "max_steps": ("steps",),
    "warmup_steps": ("warmup",),
    "per_device_train_batch_size": ("batch_size",),
    "num_generations": ("group_size",),
    "max_completion_length": ("max_new_tokens",),
    "num_iterations": ("epochs",),
    "num_ppo_epochs": ("epochs",),
    "num_mini_batches": ("num_minibatches",),
    "epsilon": ("clip_eps",),
    "epsilon_high": ("clip_eps_high",),
    "cliprange": ("clip_eps",),
    "vf_coef": ("value_coef",),
    "beta": ("kl_coef",),
    "scale_rewards": ("scale",),
    "loss_type": ("reduction", "loss"),
    "importance_sampling_level": ("surrogate",),
}


def called_here(name: str, known: Collection[str]) -> str | None:
    """The setting among those known that TRL has under another name; None if this is none such."""
    if name in known:
        return None
    return next((mine for mine in OF_TRL.get(name, ()) if mine in known), None)


# Where neither a setting nor a world says how long a completion may be.
MAX_NEW_TOKENS = 64


@dataclass(frozen=True)
class SamplingSettings(StageSettings):
    """The settings of every stage that samples."""

    batch_size: int = setting(64, "completions that an update is made from", low=1)
    temperature: float = setting(1.0, "of the distribution that tokens are drawn from", above=0)
    max_new_tokens: int | None = setting(
        None, f"the longest completion; none: the world's, else {MAX_NEW_TOKENS} or what has room", low=1
    )
    cut: str = setting(
        "end",
        "what a completion counts for that was cut at max_new_tokens: as one that ended, or less",
        choices=("end", "penalty"),
    )
    missing_eos_penalty: float = setting(1.0, "what cut='penalty' takes off its reward", low=0)
    kl_coef: float = setting(0.3, "β: what a nat of KL to the reference costs", low=0)
    kl_estimator: str = setting("k1", "how that KL is estimated from samples", choices=("k1", "k2", "k3"))


@dataclass(frozen=True)
class SFTSettings(StageSettings):
    """The settings of supervised fine-tuning.

    The defaults are for the World's fresh decoder: five passes over 3,000 texts. A model that knows its
    language already wants an lr that is smaller by a hundred, or more.
    """

    steps: int = setting(240, "updates", low=1)
    lr: float = setting(3e-3, "learning rate of AdamW", above=0, high=1e3)
    warmup: int = setting(10, "updates over which the learning rate rises to lr", low=0)
    batch_size: int = setting(64, "examples an update", low=1)
    examples: int = setting(3000, "texts of a World's corpus", low=1)
    eval_every: int = setting(40, "updates from one look at examples held out to the next", low=1)
    eval_examples: int = setting(
        256, "examples held out: more of a World's, else at most a tenth of the data", low=0
    )
    layers: int = setting(2, "of a fresh decoder", low=1)
    width: int = setting(64, "of a fresh decoder", low=1)
    heads: int = setting(4, "of a fresh decoder", low=1)
    context: int | None = setting(
        None, "of a fresh decoder; none: a World's prompt and max_new_tokens together", low=1
    )


POOLINGS = ("sum", "last")


@dataclass(frozen=True)
class RewardSettings(StageSettings):
    """The settings of a reward model."""

    steps: int = setting(150, "updates", low=1)
    lr: float = setting(1e-3, "learning rate of AdamW", above=0, high=1e3)
    warmup: int = setting(10, "updates over which the learning rate rises to lr", low=0)
    batch_size: int = setting(64, "pairs an update", low=1)
    pooling: str = setting(
        "sum", "a completion's reward: of all its tokens together, or the last one's", choices=POOLINGS
    )
    centre: bool = setting(True, "shift rewards to a mean of 0 over the completions it was trained on")
    pairs: int = setting(3000, "pairs that are sampled in a World", low=1)
    temperatures: tuple[float, ...] = setting(
        (1.0, 1.5), "of a pair's first completion and its second, in a World", above=0
    )
    noise: float = setting(0.5, "in a World: gold apart by this much is told apart in 73 of 100 pairs", low=0)
    eval_every: int = setting(50, "updates from one look at pairs held out to the next", low=1)
    eval_pairs: int = setting(
        500, "pairs held out: more of a World's, else at most a tenth of the data", low=0
    )


@dataclass(frozen=True)
class PPOSettings(SamplingSettings):
    """The settings of PPO on tokens, and their defaults.

    steps, lr and kl_coef were chosen in the World, for its decoder of 100,000 weights
    (`results/language_settle`). A large pretrained model wants a learning rate of 1e-6 to 1e-5.
    """

    steps: int = setting(60, "updates", low=1)
    lr: float = setting(3e-4, "learning rate of AdamW, for policy and critic", above=0, high=1e3)
    epochs: int = setting(2, "passes over one batch", low=1)
    num_minibatches: int = setting(2, "parts of a batch, each good for one gradient step", low=1)
    clip_eps: float = setting(0.2, "ε: how far a token's ratio may gain from 1", above=0)
    clip_eps_high: float | None = setting(None, "an ε of its own for ratios above 1", above=0)
    gamma: float = setting(1.0, "γ: what the next token's worth counts in this one's", low=0, high=1)
    lam: float = setting(0.95, "λ of GAE", low=0, high=1)
    value_coef: float = setting(0.5, "weight of the critic's half squared error", low=0)
    value_clip_eps: float | None = setting(None, "how far V may gain from its old value", above=0)
    entropy_coef: float = setting(0.0, "weight of the entropy bonus", low=0)
    reduction: str = setting(
        "token",
        "what the loss is a mean over; constant: rows times max_new_tokens",
        choices=("token", "sequence", "constant"),
    )
    kl_in: str = setting("reward", "where the KL to the reference is charged", choices=("reward", "loss"))
    kl_weighted: bool = setting(True, "in the loss: times the ratio, without which only k2 is right")
    kl_target: float | None = setting(
        None, "β follows this KL of a completion, in nats; none: it is fixed", above=0
    )
    kl_horizon: int = setting(640, "completions over which β may grow by a fifth", low=1)
    cut: str = setting(
        "end",
        "what a completion counts for that was cut at max_new_tokens: as one that ended, or less, or for "
        "what the critic expects of its rest",
        choices=("end", "penalty", "bootstrap"),
    )
    normalize_advantages: str = setting(
        "batch",
        "the tokens over which advantages are shifted and scaled, to mean 0 and deviation 1",
        choices=("batch", "minibatch", "none"),
    )
    normalize_rewards: bool = setting(
        False, "rewards of tokens divided by their deviation over the batch, their mean kept"
    )
    critic_from: str | None = setting(
        None,
        "the body that the critic begins with; none: the reward model's, if there is one",
        choices=("reward_model", "policy"),
    )


BASELINES = ("group", "leave_one_out", "batch")


SCALES = ("group", "batch", "none")


# What each sets. GRPO itself is the defaults of `Settings`.
VARIANTS: dict[str, dict[str, Any]] = {
    "grpo": {},
    "dr_grpo": {"scale": "none", "reduction": "constant", "kl_coef": 0.0},
    "dapo": {"clip_eps_high": 0.28, "reduction": "token", "kl_coef": 0.0}
    | {"filter_groups": True, "overlong": 0.2},
    "gspo": {"surrogate": "sequence", "clip_eps": 3e-4, "clip_eps_high": 4e-4, "kl_coef": 0.0},
    "cispo": {"surrogate": "cispo", "clip_eps": 1.0, "clip_eps_high": 4.0, "reduction": "token"}
    | {"kl_coef": 0.0, "filter_groups": True, "overlong": 0.2},
    "rloo": {"baseline": "leave_one_out", "scale": "none", "kl_in": "reward", "kl_estimator": "k1"}
    | {"reduction": "constant", "length": 1.0, "epochs": 1, "num_minibatches": 1},
    "reinforce++": {"group_size": 1, "baseline": "batch", "scale": "none", "normalize_advantages": True}
    | {"kl_in": "to_go", "kl_estimator": "k1"},
    "reinforce++_baseline": {"scale": "none", "normalize_advantages": True, "kl_estimator": "k2"},
}


PAPERS = {
    "grpo": "Shao et al. 2024, arXiv 2402.03300, equations 3 and 4",
    "dr_grpo": "Liu et al. 2025, arXiv 2503.20783, section 3.2",
    "dapo": "Yu et al. 2025, arXiv 2503.14476, equations 8, 9, 11 and 13",
    "gspo": "Zheng et al. 2025, arXiv 2507.18071, equations 5 to 7",
    "cispo": "MiniMax 2025, arXiv 2506.13585, equations 4 and 5",
    "rloo": "Ahmadian et al. 2024, arXiv 2402.14740",
    "reinforce++": "Hu et al. 2025, arXiv 2501.03262v9, equations 1, 4 and 5",
    "reinforce++_baseline": "Hu et al. 2025, arXiv 2501.03262v9, equations 6 to 8",
}


@dataclass(frozen=True)
class GRPOSettings(SamplingSettings):
    """The settings of GRPO, and their defaults: those of the paper where it says, but for three.

    steps, lr and kl_coef were chosen in the World, for its decoder of 100,000 weights
    (`results/language_settle`). The paper has 1e-6 and 0.04, for a model of 7 billion.
    """

    variant: str = setting("grpo", "a row of variants(), where settings begin", choices=tuple(VARIANTS))
    group_size: int = setting(8, "G: completions of one prompt; batch_size is a multiple of it", low=1)
    steps: int = setting(60, "updates", low=1)
    lr: float = setting(3e-4, "learning rate of AdamW", above=0, high=1e3)
    epochs: int = setting(2, "passes over one batch", low=1)
    num_minibatches: int = setting(2, "parts of a batch, of whole groups, one gradient step each", low=1)
    baseline: str = setting(
        "group",
        "what is taken off a reward: the mean of its group, of the others of its group, or of the batch",
        choices=BASELINES,
    )
    scale: str = setting("group", "whose deviation of rewards divides an advantage", choices=SCALES)
    normalize_advantages: bool = setting(
        False, "then bring all the tokens' advantages, over the batch, to mean 0 and deviation 1"
    )
    surrogate: str = setting(
        "clip",
        "what is made of ratios: PPO's clip of each token, one clip of the whole sequence (GSPO), or weights "
        "that are clipped (CISPO)",
        choices=("clip", "sequence", "cispo"),
    )
    clip_eps: float = setting(0.2, "ε: how far a ratio may gain from 1", above=0)
    clip_eps_high: float | None = setting(None, "an ε of its own for ratios above 1", above=0)
    reduction: str = setting(
        "sequence",
        "what the loss is a mean over; constant: rows times length",
        choices=("token", "sequence", "constant"),
    )
    length: float | None = setting(
        None, "what reduction='constant' takes for a completion's length; none: max_new_tokens", above=0
    )
    kl_coef: float = setting(0.3, "β: what a nat of KL to the reference costs", low=0)
    kl_estimator: str = setting("k3", "how that KL is estimated from samples", choices=("k1", "k2", "k3"))
    kl_in: str = setting(
        "loss",
        "where the KL is charged: a term of the loss; the reward of the whole, before the baseline; or each "
        "token's advantage, for itself and what comes after it",
        choices=("loss", "reward", "to_go"),
    )
    kl_weighted: bool = setting(False, "in the loss: times the ratio, without which only k2 is right")
    filter_groups: bool = setting(
        False, "groups whose rewards are all equal are left out, and others sampled in their place"
    )
    max_rounds: int = setting(4, "how often filter_groups may sample for one update", low=1)
    overlong: float = setting(
        0.0,
        "the last share of max_new_tokens, over which a completion's reward falls by up to 1",
        low=0,
        high=1,
    )

    @classmethod
    def make(cls, name: str, given: dict[str, Any], preset: dict[str, Any]) -> Self:
        """The settings of a run: what was given, else what its variant sets, else the defaults."""
        variant = validation.choice("variant", given.get("variant", preset.get("variant", "grpo")), VARIANTS)
        return super().make(name, given, preset | VARIANTS[variant])


# The family. β is in another unit in each of them; where none is given, it is this. The papers of DPO and KTO
# have 0.1 for most of their models; in the World that leads further away than it is worth.
BETA = {"dpo": 0.3, "ipo": 0.1, "kto": 0.3, "simpo": 2.0}


@dataclass(frozen=True)
class DPOSettings(StageSettings):
    """The settings of DPO and its family."""

    steps: int = setting(100, "updates", low=1)
    lr: float = setting(2e-4, "learning rate of AdamW", above=0, high=1e3)
    warmup: int = setting(10, "updates over which the learning rate rises to lr", low=0)
    batch_size: int = setting(64, "pairs an update; for kto, completions", low=1)
    loss: str = setting("dpo", "which of the family", choices=tuple(BETA))
    beta: float | None = setting(
        None, "β, in another unit in each loss; none: 0.3, for ipo 0.1, for simpo 2", above=0
    )
    label_smoothing: float = setting(
        0.0, "dpo: the share of pairs that are taken to be the wrong way round", low=0, high=0.5
    )
    gamma: float = setting(0.5, "simpo: the margin that a pair should have", low=0)
    desirable_weight: float = setting(1.0, "kto: weight of completions that were liked", low=0)
    undesirable_weight: float = setting(1.0, "kto: weight of those that were not", low=0)
    pairs: int = setting(3000, "pairs that are sampled in a World", low=1)
    # Of pairs at two temperatures, as a reward model has them, a policy learns chiefly not to be the hotter one.
    temperatures: tuple[float, ...] = setting(
        (1.0, 1.0), "of a pair's first completion and its second, in a World", above=0
    )
    noise: float = setting(0.5, "in a World: gold apart by this much is told apart in 73 of 100 pairs", low=0)
    eval_every: int = setting(25, "updates from one look at pairs held out to the next", low=1)
    eval_pairs: int = setting(
        500, "pairs held out: more of a World's, else at most a tenth of the data", low=0
    )


@dataclass(frozen=True)
class OnlineDPOSettings(StageSettings):
    """The settings of online DPO."""

    steps: int = setting(60, "updates", low=1)
    lr: float = setting(3e-4, "learning rate of AdamW", above=0, high=1e3)
    batch_size: int = setting(64, "completions that an update is made from", low=1)
    group_size: int = setting(
        2, "completions of one prompt, the best and the worst of which are a pair; batch_size is a multiple",
        low=2,
    )  # fmt: skip
    loss: str = setting("dpo", "what is made of a pair", choices=("dpo", "ipo"))
    beta: float = setting(0.3, "β: the larger, the nearer to the reference", above=0)
    label_smoothing: float = setting(
        0.0, "dpo: the share of pairs that are taken to be the wrong way round", low=0, high=0.5
    )
    noise: float = setting(
        0.0, "rewards apart by this much are told apart in 73 of 100 pairs; 0: whenever they differ", low=0
    )
    temperature: float = setting(1.0, "of the distribution that tokens are drawn from", above=0)
    max_new_tokens: int | None = setting(
        None, "the longest completion; none: the world's, else 64 or what has room", low=1
    )
    cut: str = setting(
        "end",
        "what a completion counts for that was cut at max_new_tokens: as one that ended, or less",
        choices=("end", "penalty"),
    )
    missing_eos_penalty: float = setting(1.0, "what cut='penalty' takes off its reward", low=0)


@dataclass(frozen=True)
class IterativePPOSettings(PPOSettings):
    """The settings of PPO, and those of the reward model's further lessons."""

    refresh_every: int = setting(20, "updates from one lesson of the reward model to the next", low=1)
    pairs: int = setting(500, "preferences that are asked for at each", low=1)
    keep_old: bool = setting(True, "those of earlier lessons are learned from again")
    temperatures: tuple[float, ...] = setting(
        (1.0, 1.0), "of a pair's first completion and its second", above=0
    )
    noise: float = setting(0.5, "in a World: gold apart by this much is told apart in 73 of 100 pairs", low=0)
    reward_model_epochs: int = setting(1, "passes over the pairs in a lesson", low=1)
    reward_model_batch_size: int = setting(64, "pairs of one gradient step", low=1)
    reward_model_lr: float = setting(3e-4, "learning rate of AdamW, for the reward model", above=0, high=1e3)


@dataclass(frozen=True)
class LaggedGRPOSettings(GRPOSettings):
    """The settings of GRPO, and those of the lag."""

    lag: int = setting(1, "k: the sampler is the policy as it was k updates ago", low=0)
    corrected: bool = setting(
        True, "ratios are to the sampler; else to the policy at the begin of the update, as if it had sampled"
    )
    max_weight: float | None = setting(
        None, "C, where not corrected: a token's advantage is weighed by min(π / π_sampler, C)", above=0
    )
