"""Names that other libraries give to a setting, for "did you mean" in Python and on the command line."""

from __future__ import annotations

from collections.abc import Collection

# Stable-Baselines3, CleanRL and TRL. Of several names here, a suggestion has those that the algorithm knows.
OTHER_NAMES = {
    "anneal_lr": ("lr_final",),
    "batch_size": ("num_minibatches", "value_minibatches"),
    "beta": ("kl_coef",),
    "clip_coef": ("clip_eps",),
    "clip_range": ("clip_eps",),
    "clip_range_vf": ("value_clip_eps",),
    "cliprange": ("clip_eps",),
    "ent_coef": ("entropy_coef",),
    "env_id": ("env",),
    "ep_rew_mean": ("return_mean",),
    "epsilon": ("clip_eps",),
    "gae_lambda": ("lam",),
    "learning_rate": ("lr",),
    "loss_type": ("reduction", "loss"),
    "max_completion_length": ("max_new_tokens",),
    "max_length": ("max_new_tokens",),
    "max_steps": ("updates", "total_steps"),
    "n_envs": ("num_envs",),
    "n_epochs": ("epochs",),
    "n_steps": ("num_steps",),
    "net_arch": ("hidden",),
    "norm_adv": ("normalize_advantages",),
    "num_generations": ("group_size",),
    "num_train_epochs": ("epochs", "updates"),
    "output_dir": ("out",),
    "ref_model": ("reference",),
    "target_kl": ("max_kl", "kl_target"),
    "total_timesteps": ("total_steps",),
    "train_dataset": ("data",),
    "update_epochs": ("epochs",),
    "verbose": ("progress", "quiet"),
    "vf_coef": ("value_coef",),
}

# Where a number cannot be taken over as it is.
CONVERSIONS = {
    "batch_size": " num_minibatches is a count: num_envs · num_steps / batch_size",
    "vf_coef": " value_coef weighs half the squared error: it is twice Stable-Baselines3's vf_coef",
}


def did_you_mean(name: str, known: Collection[str], shown: str = "{!r}") -> str:
    """The end of a message about an unknown name, ". Did you mean 'lr'?"; empty without a suggestion."""
    found = [one for one in OTHER_NAMES.get(name, ()) if one in known]
    if not found:
        from ppobook import validation  # brings in NumPy

        return validation.did_you_mean(name, known, shown)
    return f". Did you mean {' or '.join(map(shown.format, found))}?{CONVERSIONS.get(name, '')}"
