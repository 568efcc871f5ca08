"""The one place that chooses between plain and fast forms: by what is declared, and by the setting `fast`.

    what                             plain form                       fast form
    -------------------------------  -------------------------------  ----------------------------------------
    PPO's gradient step              PPO.gradient_step                closed_form.PPOStep, where the loss, the
                                                                      policy and the critic declare it
    a critic's gradient step         TRPO.critic_step                 closed_form.CriticStep, likewise
    Adam                             torch.optim.Adam                 adam.Adam
    actions in a rollout             policy.sample                    actor.NumpyActor
    CartPole, Acrobot, Pendulum      envs.SameStepVectorEnv           classic.ClassicVectorEnv
    a decoder's GELU                 nn.GELU                          gelu.FastGELU
    a decoder in `generate`          Decoder.start_cache, step        decoding.FastDecoding

A function here returns the form to use. Fast forms are imported when they are chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from ppobook.fast.declare import declared

# What a class of `ppobook.language` declares, and the module of its fast form.
LANGUAGE = {"decoder": "ppobook.fast.decoding"}


def ppo_gradient(learner: Any) -> Callable[[Any], dict[str, Any]]:
    """What `PPO.update` does with a minibatch: ``learner.gradient_step``, or the same in closed form."""
    step: Callable[[Any], dict[str, Any]] = learner.gradient_step
    if not (
        learner.settings.fast
        and learner.settings.objective == "clip"
        and declared(step) == declared(learner.loss) == declared(learner.coefficients) == "ppo_clip"
        and _flat(learner.optimizer, learner.policy, learner.value)
    ):
        return step
    from ppobook.fast.closed_form import ClosedForm, PPOStep

    return PPOStep(learner) if ClosedForm.fits(learner.policy, learner.value) else step


def critic_gradient(learner: Any) -> Callable[[Any], float]:
    """What `TRPO.fit` does with a minibatch: ``learner.critic_step``, or the same in closed form."""
    step: Callable[[Any], float] = learner.critic_step
    if not (
        learner.settings.fast
        and declared(step) == "value_loss"
        and _flat(learner.value_optimizer, learner.value)
    ):
        return step
    from ppobook.fast.closed_form import ClosedFormValue, CriticStep

    return CriticStep(learner) if ClosedFormValue.fits(learner.value) else step


def _flat(optimizer: Any, *networks: Any) -> bool:
    """Whether a flat optimizer has made the gradients of these: a network put in another's place has none."""
    return getattr(optimizer, "flat", False) and all(
        p.grad is not None for network in networks for p in network.parameters()
    )


def optimizer(
    parameters: Iterable[Any],
    lr: float,
    *,
    eps: float = 1e-8,
    step: Callable[..., Any] | None = None,
    fast: bool,
) -> Any:
    """Adam over some parameters: torch's, or `ppobook.fast.adam.Adam`.

    The latter holds them in one flat vector where `step`, the loss or gradient step that it serves, declares
    a fast form: an own loss may leave parameters without a gradient, and these must stay as they are.

    Both have `param_groups`, `zero_grad`, `step`, `state_dict` and `load_state_dict`.
    """
    import torch

    parameters = list(dict.fromkeys(parameters))
    if not fast:
        return torch.optim.Adam(parameters, lr, eps=eps)
    from ppobook.fast.adam import Adam

    alike = len({(p.dtype, p.device) for p in parameters}) == 1
    return Adam(parameters, lr, eps=eps, flat=step is not None and declared(step) is not None and alike)


def stepped(optimizer: Any) -> list[Any]:
    """The tensors that an optimizer steps, of all its groups, for clipping: of a flat one the one vector."""
    if getattr(optimizer, "flat", False):
        return list(optimizer.parameters)
    return [p for group in optimizer.param_groups for p in group["params"]]


def actor(policy: Any, fast: bool) -> Callable[..., Any] | None:
    """The class of `ppobook.fast.actor` that samples for this policy in a rollout; None: `policy.sample`."""
    if not fast or (form := declared(policy)) is None:
        return None
    import torch

    parameter = next(policy.parameters(), None)
    if parameter is None or parameter.dtype == torch.bfloat16:  # which NumPy has not
        return None
    from ppobook.fast.actor import FORMS

    return FORMS.get(form)


def vector_envs(env: Any, num_envs: int, fast: bool) -> Any | None:
    """Copies of this environment that NumPy steps all at once; None to step them one by one."""
    from ppobook.fast.classic import classic_vector

    return classic_vector(env, num_envs) if fast else None


def language_model(model: Any, fast: bool | None = None) -> None:
    """Let the parts of a language model that declare a fast form use it, or their plain form again. In place.

    Parameters
    ----------
    model : torch module
    fast : bool, optional
        Default: True, unless the environment has PPOBOOK_FAST=0.
    """
    from ppobook.run.settings import fast_by_default

    for part in model.modules():
        name = declared(part)
        if name in LANGUAGE:
            import_module(LANGUAGE[name]).use(part, fast_by_default() if fast is None else fast)


def generation(model: Any) -> Any:
    """What has the `start_cache` and `step` that `generate` calls: the model, or a quicker form of it."""
    if not getattr(model, "fast", False):
        return model
    from ppobook.fast.decoding import FastDecoding

    return FastDecoding(model)
