"""What other libraries call a setting, for "did you mean" in Python, in files and on the command line."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# Stable-Baselines3, CleanRL, TRL, and earlier versions of this library. Of several names here, a suggestion
# has those that the algorithm knows.
OTHER_NAMES = {
    "adam_epsilon": ("adam_eps",),
    "anneal_lr": ("lr_final",),
    "bf16": ("dtype",),
    "batch_size": ("num_minibatches", "value_minibatches"),
    "beta": ("kl_coef",),
    "cg_max_steps": ("cg_iterations",),
    "clip_coef": ("clip_eps",),
    "clip_range": ("clip_eps",),
    "clip_range_vf": ("value_clip_eps",),
    "clip_vloss": ("value_clip_eps",),
    "cliprange": ("clip_eps",),
    "cliprange_value": ("value_clip_eps",),
    "cut": ("truncation",),
    "ent_coef": ("entropy_coef",),
    "env_id": ("env",),
    "environment": ("env",),
    "ep_len_mean": ("length_mean",),
    "ep_rew_mean": ("return_mean",),
    "epochs": ("value_epochs", "updates"),
    "epsilon": ("clip_eps",),
    "epsilon_high": ("clip_eps_high",),
    "gae_lambda": ("lam",),
    "gradient_accumulation_steps": ("micro_batch_size",),
    "importance_sampling_level": ("surrogate",),
    "init_kl_coef": ("kl_coef",),
    "judge": ("reward_model", "reward"),
    "kl_coef_target": ("kl_target",),
    "learning_rate": ("lr",),
    "log_std_init": ("initial_std",),
    "log_dir": ("out", "tensorboard"),
    "logging_dir": ("out", "tensorboard"),
    "loss_type": ("reduction", "loss"),
    "max_completion_length": ("max_new_tokens",),
    "max_length": ("max_new_tokens",),
    "max_steps": ("updates", "total_steps"),
    "minibatch_size": ("num_minibatches",),
    "mean_return": ("return_mean",),
    "mean_reward": ("return_mean",),
    "mini_batch_size": ("num_minibatches",),
    "n_envs": ("num_envs",),
    "n_eval_episodes": ("episodes",),
    "n_epochs": ("epochs",),
    "n_steps": ("num_steps",),
    "net_arch": ("hidden",),
    "norm_adv": ("normalize_advantages",),
    "normalize_advantage": ("normalize_advantages",),
    "n_samples": ("n",),
    "num_generations": ("group_size",),
    "num_iterations": ("epochs",),
    "num_mini_batches": ("num_minibatches",),
    "num_ppo_epochs": ("epochs",),
    "num_train_epochs": ("epochs", "updates"),
    "output_dir": ("out",),
    "peft_config": ("lora",),
    "per_device_train_batch_size": ("batch_size",),
    "policy": ("hidden", "model"),
    "policy_kwargs": ("hidden", "activation"),
    "ref_model": ("reference",),
    "resume_from_checkpoint": ("resume",),
    "report_to": ("tensorboard",),
    "response_length": ("max_new_tokens",),
    "return": ("return_mean",),
    "returns": ("return_mean",),
    "reward": ("reward_model", "return_mean"),
    "reward_model": ("reward",),
    "save_path": ("out",),
    "save_steps": ("checkpoint_every",),
    "scale_rewards": ("scale",),
    "steps": ("updates", "total_steps"),
    "target_kl": ("max_kl", "kl_target"),
    "tensorboard_log": ("tensorboard",),
    "total_timesteps": ("total_steps",),
    "train_dataset": ("data",),
    "update_epochs": ("epochs",),
    "verbose": ("progress", "quiet"),
    "vf_coef": ("value_coef",),
    "warmup_steps": ("warmup",),
}

# What other libraries call the value of a setting.
OTHER_VALUES = {"sigmoid": "dpo"}

# What takes the place of something that this library does without.
INSTEAD = dict.fromkeys(
    ("callback", "callbacks"),
    "Override update, of a Learner, or step, of a Stage, in a class of your own",
)

# Where a number cannot be taken over as it is.
CONVERSIONS = {
    "batch_size": "num_minibatches is a count: num_envs · num_steps / batch_size.",
    "log_std_init": "initial_std is exp(log_std_init).",
    "minibatch_size": "num_minibatches is a count: num_envs · num_steps / minibatch_size.",
    "vf_coef": "value_coef weighs half the squared error: it is twice Stable-Baselines3's vf_coef.",
}


def meant(name: str, known: Collection[str]) -> list[str]:
    """Those of the known names that `name` may stand for: another library's spelling, or a near miss."""
    if name in OTHER_NAMES:
        return _other_names(name, known)
    lowered = {one.lower(): one for one in known}
    if name.lower() in lowered:
        return [lowered[name.lower()]]
    begun = [one for low, one in lowered.items() if low.startswith(name.lower())]
    if len(name) > 2 and len(begun) in (1, 2):  # as some command lines let one abbreviate
        return begun
    return [lowered[close] for close in difflib.get_close_matches(name.lower(), lowered, n=2)]


def did_you_mean(
    name: str,
    known: Collection[str],
    shown: str = "{!r}",
    elsewhere: Mapping[str, Collection[str]] | None = None,
) -> str:
    """The end of a message about an unknown name, ". Did you mean 'lr'?"; empty without a suggestion.

    Parameters
    ----------
    name : str
    known : collection of str
    shown : str
        The format of a name in the message.
    elsewhere : mapping, optional
        What other algorithms know: without another library's spelling, the message says which have the name.
    """
    if name in INSTEAD:
        return f". {INSTEAD[name]}."
    others = {} if _other_names(name, known) else elsewhere or {}
    for one in (name, *OTHER_NAMES.get(name, ())):
        having = [other for other, names in others.items() if one in names]
        if having:
            under = "" if one == name else f", as {shown.format(one)}"
            return f". Only {', '.join(having)} {'has' if len(having) == 1 else 'have'} it{under}."
    found = meant(name, known)
    if not found:
        return ""
    conversion = CONVERSIONS[name] if name in CONVERSIONS and OTHER_NAMES[name][0] in found else ""
    return f". Did you mean {' or '.join(map(shown.format, found))}? {conversion}".rstrip()


def hinting(function: Callable[P, T]) -> Callable[P, T]:
    """A function that suggests a name where it is given an unknown keyword argument."""
    known = list(inspect.signature(function).parameters)
    called = function.__qualname__.removesuffix(".__init__")

    @functools.wraps(function)
    def call(*args: P.args, **given: P.kwargs) -> T:
        refuse_unknown(called, given, known)
        return function(*args, **given)

    return call


def refuse_unknown(called: str, given: Collection[str], known: Collection[str]) -> None:
    """Raise TypeError for a keyword argument that a function of this name does not have."""
    for name in given:
        if name not in known:
            raise TypeError(f"{called} has no argument {name!r}{did_you_mean(name, known)}")


def _other_names(name: str, known: Collection[str]) -> list[str]:
    return [one for one in OTHER_NAMES.get(name, ()) if one in known]
