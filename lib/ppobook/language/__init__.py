"""Policy optimization of language models: SFT, reward model, PPO, GRPO, DPO, and online algorithms.

    base = train("sft", data=World())
    reward_model = train("reward", base)
    tuned = train("ppo", base, reward=reward_model)
    compare({"base": base, "tuned": tuned}, reward_model=reward_model, reference=base)

The same with your own model, prompts and reward function::

    def short(prompts, completions):
        return [-len(text.split()) for text in completions]

    run = train("grpo", "my-llama", data=[{"prompt": "Once upon a time"}], reward=short)
    save_pretrained(run, "my-shorter-llama")

=============================  ============================================================================
`training`, `run`, `settings`  `train`, its result and the settings of every stage
`sft`, `reward`                supervised fine-tuning; training of a reward model
`ppo`, `grpo`, `dpo`           one algorithm each; GRPO and DPO with their variants
`online`                       online DPO, PPO with a reward model that is trained further, lagged GRPO
`stage`, `on_policy`, `pairs`  what the stages share: gradient step, checkpoint; completions, rewards, KL
`rewards`                      rewards: the world's, a reward model's, or a function of texts
`world`, `data`                a tiny world whose true reward is known; the formats of your own data
`tokens`, `model`              tokenizer, padding, completions; a decoder like GPT-2, and generation
`hf`, `footprint`              models and tokenizers of transformers; the memory they take
`smollm2`, `sums`              a pretrained chat model; sums, which a program can check
`evaluating`, `best_of_n`      evaluation of policies; best-of-n sampling
=============================  ============================================================================

The names of `__all__` can be imported from `ppobook.language` itself. They are loaded on first use, so that
importing this package loads neither torch nor transformers.
"""

# ruff: noqa: F401 (type checkers and editors read these imports; at run time `__getattr__` makes them)

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ppobook.language.best_of_n import best_of_n_curve, best_of_n_kl, best_of_n_kl_exact
    from ppobook.language.data import Prompts, examples_of, labelled_of, pairs_of, prompts_of
    from ppobook.language.evaluating import Evaluation, compare, evaluate, sequence_kl
    from ppobook.language.generation import generate
    from ppobook.language.grpo import group_advantages, variants
    from ppobook.language.hf import open_pretrained, save_pretrained
    from ppobook.language.model import Decoder, DecoderConfig, LanguageModel, Scalar
    from ppobook.language.reward import calibration, calibration_error, held_out, ladder
    from ppobook.language.rewards import RewardModel
    from ppobook.language.run import Run, load
    from ppobook.language.stage import Stage, Task
    from ppobook.language.tokens import (
        Completions,
        Pairs,
        Tokenizer,
        WordTokenizer,
        completion_logits,
        completion_values,
        left_pad,
        right_pad,
        token_entropy,
        token_logp,
    )
    from ppobook.language.training import train
    from ppobook.language.world import World

_NAMES = {
    "best_of_n": ["best_of_n_curve", "best_of_n_kl", "best_of_n_kl_exact"],
    "data": ["Prompts", "examples_of", "labelled_of", "pairs_of", "prompts_of"],
    "evaluating": ["Evaluation", "compare", "evaluate", "sequence_kl"],
    "grpo": ["group_advantages", "variants"],
    "hf": ["open_pretrained", "save_pretrained"],
    "generation": ["generate"],
    "model": ["Decoder", "DecoderConfig", "LanguageModel", "Scalar"],
    "reward": ["calibration", "calibration_error", "held_out", "ladder"],
    "rewards": ["RewardModel"],
    "tokens": [
        "Completions",
        "Pairs",
        "Tokenizer",
        "WordTokenizer",
        "completion_logits",
        "completion_values",
        "left_pad",
        "right_pad",
        "token_entropy",
        "token_logp",
    ],
    "run": ["Run", "load"],
    "stage": ["Stage", "Task"],
    "training": ["train"],
    "world": ["World"],
}
_MODULE = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_MODULE)


def __getattr__(name: str) -> Any:
    if name not in _MODULE:
        raise AttributeError(f"module 'ppobook.language' has no attribute {name!r}")
    return getattr(import_module(f"ppobook.language.{_MODULE[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
