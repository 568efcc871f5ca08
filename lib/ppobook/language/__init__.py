"""Policy optimization on tokens: a small language model, and what is done with the sentences it writes.

    base = train("sft", data=World())
    reward_model = train("reward", base)
    tuned = train("ppo", base, reward=reward_model)
    compare({"base": base, "tuned": tuned}, reward_model=reward_model, reference=base)

The same with a model, texts and a reward of one's own::

    def short(prompts, completions):
        return [-len(text.split()) for text in completions]

    run = train("grpo", "my-llama", data=[{"prompt": "Once upon a time"}], reward=short)
    save_pretrained(run, "my-shorter-llama")

`ppobook.language.training` has the loop of all stages, `.world` a tiny world whose true reward is known,
`.data` what reads yours; `.tokens` holds words, padding and completions; `.model` a decoder of GPT-2's shape,
and how it generates; `.rewards` says what a reward may be; `.hf` opens and saves models of transformers; each
stage has a room of its own. The names below are at hand in `ppobook.language` itself; each brings in what it
needs when it is first used, so that importing this package loads neither torch nor a library of models. The
function `best_of_n` is not among them: a room has that name.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ppobook.language.best_of_n import best_of_n_curve, best_of_n_kl, best_of_n_kl_exact
    from ppobook.language.data import Prompts, examples_of, labelled_of, pairs_of, prompts_of
    from ppobook.language.evaluating import Evaluation, compare, evaluate, sequence_kl
    from ppobook.language.grpo import group_advantages, variants
    from ppobook.language.hf import open_pretrained, save_pretrained
    from ppobook.language.model import (
        Decoder,
        DecoderConfig,
        LanguageModel,
        Scalar,
        generate,
        load_model,
        save_model,
    )
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
    "model": ["Decoder", "DecoderConfig", "LanguageModel", "Scalar", "generate", "load_model", "save_model"],
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
_HOME = {name: room for room, names in _NAMES.items() for name in names}

__all__ = [
    "Completions",
    "Decoder",
    "DecoderConfig",
    "Evaluation",
    "LanguageModel",
    "Pairs",
    "Prompts",
    "RewardModel",
    "Run",
    "Scalar",
    "Stage",
    "Task",
    "Tokenizer",
    "WordTokenizer",
    "World",
    "best_of_n_curve",
    "best_of_n_kl",
    "best_of_n_kl_exact",
    "calibration",
    "calibration_error",
    "compare",
    "completion_logits",
    "completion_values",
    "evaluate",
    "examples_of",
    "generate",
    "group_advantages",
    "held_out",
    "labelled_of",
    "ladder",
    "left_pad",
    "load",
    "load_model",
    "open_pretrained",
    "pairs_of",
    "prompts_of",
    "right_pad",
    "save_model",
    "save_pretrained",
    "sequence_kl",
    "token_entropy",
    "token_logp",
    "train",
    "variants",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'ppobook.language' has no attribute {name!r}")
    return getattr(import_module(f"ppobook.language.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
