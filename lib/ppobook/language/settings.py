"""The settings of every stage and their defaults. Importing this module imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from ppobook import validation
from ppobook.settings import Settings, setting

# The maximum length of a completion where neither the settings nor the world have one.
MAX_NEW_TOKENS = 64


@dataclass(frozen=True)
class StageSettings(Settings):
    """The settings that every stage has."""

    # The arguments of `train` that name models, data and rewards.
    arguments = (
        *Settings.arguments,
        *("stage", "model", "data", "reward", "reference", "tokenizer", "lora", "dtype"),
    )

    updates: int = setting(100, "number of updates", low=1)
    lr: float = setting(1e-3, "learning rate of Adam", above=0, high=1e3)
    warmup: int = setting(0, "updates over which the learning rate rises linearly to lr", low=0)
    max_grad_norm: float | None = setting(1.0, "gradient clipping: maximum norm; none: no clipping", above=0)
    micro_batch_size: int | None = setting(
        None, "rows (or pairs) in one forward pass, to save memory; none: all of the batch", low=1
    )
    gradient_checkpointing: bool = setting(
        False, "compute activations again in the backward pass, to save memory; of a transformers model"
    )


@dataclass(frozen=True)
class SamplingSettings(StageSettings):
    """The settings of every stage that samples."""

    batch_size: int = setting(64, "completions in one update", low=1)
    temperature: float = setting(1.0, "sampling temperature", above=0)
    max_new_tokens: int | None = setting(
        None, f"maximum length of a completion; none: the world's, else {MAX_NEW_TOKENS} or what fits", low=1
    )
    truncation: str = setting(
        "end",
        "reward of a completion truncated at max_new_tokens: as it is, or less missing_eos_penalty",
        choices=("end", "penalty"),
    )
    missing_eos_penalty: float = setting(1.0, "subtracted from its reward with truncation='penalty'", low=0)
    generation_rows: int | None = setting(
        None, "completions that are generated side by side; none: micro_batch_size", low=1
    )


@dataclass(frozen=True)
class SFTSettings(StageSettings):
    """The settings of supervised fine-tuning.

    The defaults are for a new decoder in the World: five epochs on 3,000 texts. A pretrained model needs an
    lr that is smaller by a factor of 100 or more.
    """

    updates: int = 240
    lr: float = 3e-3
    warmup: int = 10
    batch_size: int = setting(64, "examples in one update", low=1)
    examples: int = setting(3000, "texts of a World's corpus to train on", low=1)
    eval_every: int = setting(40, "updates between two evaluations on held-out examples", low=1)
    eval_examples: int = setting(
        256, "held-out examples: sampled in a World, else at most a tenth of the data", low=0
    )
    layers: int = setting(2, "layers of a new decoder", low=1)
    width: int = setting(64, "width of a new decoder", low=1)
    heads: int = setting(4, "attention heads of a new decoder", low=1)
    context: int | None = setting(
        None, "context length of a new decoder; none: a World's prompt and max_new_tokens together", low=1
    )


POOLINGS = ("sum", "last")


@dataclass(frozen=True)
class PairSettings(StageSettings):
    """The settings of the stages that train on pairs of completions, given or sampled in a World."""

    warmup: int = 10
    batch_size: int = setting(64, "pairs in one update; for kto, completions", low=1)
    pairs: int = setting(3000, "pairs to sample in a World", low=1)
    temperatures: tuple[float, ...] = setting(
        (1.0, 1.5), "sampling temperatures of the two completions of a pair, in a World", above=0
    )
    noise: float = setting(
        0.5,
        "noise of preferences in a World: a difference in gold of this much is ranked right in 73 %",
        low=0,
    )
    eval_every: int = setting(50, "updates between two evaluations on held-out pairs", low=1)
    eval_pairs: int = setting(
        500, "held-out pairs: sampled in a World, else at most a tenth of the data", low=0
    )


@dataclass(frozen=True)
class RewardSettings(PairSettings):
    """The settings of a reward model."""

    updates: int = 150
    pooling: str = setting(
        "sum", "reward of a completion: the sum over its tokens, or that of the last one", choices=POOLINGS
    )
    centre: bool = setting(True, "shift rewards to mean 0 over the training completions")


@dataclass(frozen=True)
class ClipSettings(SamplingSettings):
    """The settings that PPO on tokens and GRPO share.

    updates, lr and kl_coef were chosen in the World, for its decoder of 100,000 weights. A large pretrained
    model needs a learning rate of 1e-6 to 1e-5.
    """

    updates: int = 60
    lr: float = 3e-4
    epochs: int = setting(2, "epochs on one batch", low=1)
    num_minibatches: int = setting(2, "minibatches of an epoch; with GRPO, of whole groups", low=1)
    clip_eps: float = setting(0.2, "ε: ratios are clipped to [1 − ε, 1 + ε]", above=0)
    clip_eps_high: float | None = setting(None, "ε of the upper bound; none: clip_eps", above=0)
    reduction: str = setting(
        "token",
        "the loss is a mean over tokens, over sequences, or a sum divided by rows times length",
        choices=("token", "sequence", "constant"),
    )
    kl_coef: float = setting(0.3, "β: weight of the KL divergence from the reference", low=0)
    kl_estimator: str = setting(
        "k1", "estimator of that KL divergence from samples", choices=("k1", "k2", "k3")
    )
    kl_weighted: bool = setting(
        True, "with kl_in='loss': weight the estimate by the ratio, right for k1 and k3; k2 is right without"
    )


@dataclass(frozen=True)
class PPOSettings(ClipSettings):
    """The settings of PPO on tokens and their defaults."""

    gamma: float = setting(1.0, "discount γ from one token to the next", low=0, high=1)
    lam: float = setting(0.95, "λ of GAE", low=0, high=1)
    value_coef: float = setting(0.5, "weight of the value loss, ½ (V − return)²", low=0)
    value_clip_eps: float | None = setting(
        None, "value clipping: how far V may move from its old value; none: no clipping", above=0
    )
    entropy_coef: float = setting(0.0, "weight of the entropy bonus", low=0)
    kl_in: str = setting(
        "reward",
        "where the KL penalty goes: into the rewards of tokens, or into the loss",
        choices=("reward", "loss"),
    )
    kl_target: float | None = setting(
        None, "KL divergence of a completion that β is adapted to, in nats; none: β is fixed", above=0
    )
    kl_horizon: int = setting(640, "completions over which β may grow by a fifth", low=1)
    truncation: str = setting(
        "end",
        "reward of a completion truncated at max_new_tokens: as it is, less missing_eos_penalty, or with the "
        "critic's value of what follows",
        choices=("end", "penalty", "bootstrap"),
    )
    normalize_advantages: str = setting(
        "batch",
        "normalize advantages to mean 0 and standard deviation 1 over the batch, each minibatch, or not",
        choices=("batch", "minibatch", "none"),
    )
    normalize_rewards: bool = setting(
        False, "divide the rewards of tokens by their standard deviation over the batch; their mean stays"
    )


BASELINES = ("group", "leave_one_out", "batch")
SCALES = ("group", "batch", "none")


class Variant(NamedTuple):
    """A variant of GRPO: the place of its definition, and the settings that it changes."""

    paper: str
    settings: dict[str, Any]


VARIANTS = {
    "grpo": Variant("Shao et al. 2024, arXiv 2402.03300, equations 3 and 4", {}),
    "dr_grpo": Variant(
        "Liu et al. 2025, arXiv 2503.20783, section 3.2",
        {"scale": "none", "reduction": "constant", "kl_coef": 0.0},
    ),
    "dapo": Variant(
        "Yu et al. 2025, arXiv 2503.14476, equations 8, 9, 11 and 13",
        {"clip_eps_high": 0.28, "reduction": "token", "kl_coef": 0.0}
        | {"filter_groups": True, "overlong": 0.2},
    ),
    "gspo": Variant(
        "Zheng et al. 2025, arXiv 2507.18071, equations 5 to 7",
        {"surrogate": "sequence", "clip_eps": 3e-4, "clip_eps_high": 4e-4, "kl_coef": 0.0},
    ),
    "cispo": Variant(
        "MiniMax 2025, arXiv 2506.13585, equations 4 and 5",
        {"surrogate": "cispo", "clip_eps": 1.0, "clip_eps_high": 4.0, "reduction": "token"}
        | {"kl_coef": 0.0, "filter_groups": True, "overlong": 0.2},
    ),
    "rloo": Variant(
        "Ahmadian et al. 2024, arXiv 2402.14740",
        {"baseline": "leave_one_out", "scale": "none", "kl_in": "reward", "kl_estimator": "k1"}
        | {"reduction": "constant", "length": 1.0, "epochs": 1, "num_minibatches": 1},
    ),
    "reinforce++": Variant(
        "Hu et al. 2025, arXiv 2501.03262v9, equations 1, 4 and 5",
        {"group_size": 1, "baseline": "batch", "scale": "none", "normalize_advantages": True}
        | {"kl_in": "to_go", "kl_estimator": "k1"},
    ),
    "reinforce++_baseline": Variant(
        "Hu et al. 2025, arXiv 2501.03262v9, equations 6 to 8",
        {"scale": "none", "normalize_advantages": True, "kl_estimator": "k2"},
    ),
}


@dataclass(frozen=True)
class GRPOSettings(ClipSettings):
    """The settings of GRPO and their defaults: the paper's where it states them, but for sizes and rates.

    The paper has a learning rate of 1e-6 and a kl_coef of 0.04, for a model of 7 billion; groups of 64,
    batches of 1024, and one gradient step on each.
    """

    variant: str = setting(
        "grpo", "the variant whose settings are the defaults, a row of variants()", choices=tuple(VARIANTS)
    )
    group_size: int = setting(8, "G: completions of one prompt; batch_size must be a multiple of it", low=1)
    baseline: str = setting(
        "group",
        "subtracted from a reward: the mean of its group, of the others in its group, or of the batch",
        choices=BASELINES,
    )
    scale: str = setting(
        "group",
        "divide advantages by the standard deviation of rewards in the group, in the batch, or not",
        choices=SCALES,
    )
    normalize_advantages: bool = setting(
        False, "then normalize the advantages of all tokens of the batch to mean 0 and standard deviation 1"
    )
    surrogate: str = setting(
        "clip",
        "surrogate objective: PPO's clip of each token's ratio, one ratio of the whole sequence (GSPO), or "
        "clipped ratios as weights (CISPO)",
        choices=("clip", "sequence", "cispo"),
    )
    reduction: str = "sequence"
    length: float | None = setting(
        None, "length of a completion with reduction='constant'; none: max_new_tokens", above=0
    )
    kl_estimator: str = "k3"
    kl_weighted: bool = False
    kl_in: str = setting(
        "loss",
        "where the KL penalty goes: a term of the loss; the completion's reward, before the baseline; or "
        "each token's advantage, as the sum from that token on",
        choices=("loss", "reward", "to_go"),
    )
    filter_groups: bool = setting(False, "replace groups whose rewards are all equal by newly sampled ones")
    max_rounds: int = setting(4, "how often filter_groups may sample in one update", low=1)
    overlong: float = setting(
        0.0,
        "last share of max_new_tokens, over which the reward of a completion falls linearly by up to 1",
        low=0,
        high=1,
    )

    @classmethod
    def make(cls, name: str, given: dict[str, Any], preset: dict[str, Any]) -> Self:
        """The settings of a run: what was given, else what its variant sets, else the defaults."""
        variant = validation.choice("variant", given.get("variant", preset.get("variant", "grpo")), VARIANTS)
        return super().make(name, given, preset | VARIANTS[variant].settings)


# The default β of each loss; its unit differs from loss to loss. The papers of DPO and KTO have 0.1 for most
# of their models.
BETA = {"dpo": 0.3, "ipo": 0.1, "kto": 0.3, "simpo": 2.0}


@dataclass(frozen=True)
class DPOSettings(PairSettings):
    """The settings of DPO and its family."""

    updates: int = 100
    lr: float = 2e-4
    loss: str = setting("dpo", "loss", choices=tuple(BETA))
    beta: float | None = setting(
        None, "β, whose unit depends on the loss; none: 0.3, for ipo 0.1, for simpo 2", above=0
    )
    label_smoothing: float = setting(0.0, "dpo: assumed share of pairs with swapped labels", low=0, high=0.5)
    gamma: float = setting(0.5, "simpo: target margin of a pair", low=0)
    desirable_weight: float = setting(1.0, "kto: weight of desirable completions", low=0)
    undesirable_weight: float = setting(1.0, "kto: weight of undesirable completions", low=0)
    # Pairs at two temperatures, as for a reward model, would also show which temperature writes better.
    temperatures: tuple[float, ...] = (1.0, 1.0)
    eval_every: int = 25


@dataclass(frozen=True)
class OnlineDPOSettings(SamplingSettings):
    """The settings of online DPO."""

    updates: int = 60
    lr: float = 3e-4
    group_size: int = setting(
        2,
        "completions of one prompt, whose best and worst make a pair; batch_size must be a multiple of it",
        low=2,
    )
    loss: str = setting("dpo", "loss of a pair", choices=("dpo", "ipo"))
    beta: float = setting(0.3, "β: the larger, the closer the policy stays to the reference", above=0)
    label_smoothing: float = setting(0.0, "dpo: assumed share of pairs with swapped labels", low=0, high=0.5)
    noise: float = setting(
        0.0,
        "noise of preferences: a difference in reward of this much is ranked right in 73 %; 0: always right",
        low=0,
    )


@dataclass(frozen=True)
class IterativePPOSettings(PPOSettings):
    """The settings of PPO, and those of the reward model's updates."""

    refresh_every: int = setting(20, "updates of the policy between two updates of the reward model", low=1)
    pairs: int = setting(500, "new preference pairs for each of them", low=1)
    temperatures: tuple[float, ...] = setting(
        (1.0, 1.0), "sampling temperatures of the two completions of a pair", above=0
    )
    noise: float = setting(
        0.5,
        "noise of preferences in a World: a difference in gold of this much is ranked right in 73 %",
        low=0,
    )
    reward_model_epochs: int = setting(1, "epochs of the reward model on the pairs", low=1)
    reward_model_batch_size: int = setting(64, "pairs in one gradient step of the reward model", low=1)
    reward_model_lr: float = setting(3e-4, "learning rate of Adam, for the reward model", above=0, high=1e3)


@dataclass(frozen=True)
class LaggedGRPOSettings(GRPOSettings):
    """The settings of GRPO with a sampler that lags behind the policy."""

    lag: int = setting(1, "k: completions are sampled by the policy as it was k updates ago", low=0)
    corrected: bool = setting(
        True, "ratios to the sampler; if false, to the policy at the start of the update"
    )
    max_weight: float | None = setting(
        None, "C, without corrected: a token's advantage is multiplied by min(π / π_sampler, C)", above=0
    )


SETTINGS: dict[str, type[StageSettings]] = {
    "sft": SFTSettings,
    "reward": RewardSettings,
    "ppo": PPOSettings,
    "grpo": GRPOSettings,
    "dpo": DPOSettings,
    "online_dpo": OnlineDPOSettings,
    "iterative_ppo": IterativePPOSettings,
    "lagged_grpo": LaggedGRPOSettings,
}
