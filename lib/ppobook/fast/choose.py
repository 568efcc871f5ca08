"""The one place that chooses between plain and fast forms: by what is declared, and by the setting `fast`.

    what                             plain form                       fast form
    -------------------------------  -------------------------------  ----------------------------------------
    generalized advantages           returns.gae                      scan.gae
    PPO's gradient step              PPO.gradient_step                closed_form.PPOStep, where the loss, the
                                                                      policy and the critic declare it
    a critic's gradient step         TRPO.critic_step                 closed_form.CriticStep, likewise
    Adam                             torch.optim.Adam                 adam.Adam
    actions in a rollout             policy.sample                    actor.NumpyActor
    CartPole, Acrobot, Pendulum      envs.SameStepVectorEnv           classic.ClassicVectorEnv
    functions of language models     the function itself              LANGUAGE

A function here returns the form to use. Fast forms are imported when they are chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from ppobook.fast.declare import declared

# What a function of `ppobook.language` declares, and where its fast form is.
LANGUAGE: dict[str, str] = {}


def gae(fast: bool) -> Callable[..., Any]:
    """`ppobook.returns.gae`, or the scan that gives the same advantages."""
    from ppobook import returns
    from ppobook.fast import scan

    return scan.gae if fast else returns.gae


def ppo_gradient(learner: Any) -> Callable[[Any], dict[str, Any]]:
    """What `PPO.update` does with a minibatch: ``learner.gradient_step``, or the same in closed form."""
    from ppobook.fast.closed_form import ClosedForm, PPOStep

    step: Callable[[Any], dict[str, Any]] = learner.gradient_step
    if (
        learner.settings.fast
        and learner.settings.objective == "clip"
        and declared(step) == declared(learner.loss) == "ppo_clip"
        and getattr(learner.optimizer, "flat", False)
        and ClosedForm.fits(learner.policy, learner.value)
    ):
        step = PPOStep(learner)
    return step


def critic_gradient(learner: Any) -> Callable[[Any], float]:
    """What `TRPO.fit` does with a minibatch: ``learner.critic_step``, or the same in closed form."""
    from ppobook.fast.closed_form import ClosedFormValue, CriticStep

    step: Callable[[Any], float] = learner.critic_step
    if (
        learner.settings.fast
        and declared(step) == "value_loss"
        and getattr(learner.value_optimizer, "flat", False)
        and ClosedFormValue.fits(learner.value)
    ):
        step = CriticStep(learner)
    return step


def optimizer(
    parameters: Iterable[Any], lr: float, *, eps: float = 1e-8, flat: bool = False, fast: bool
) -> Any:
    """Adam over some parameters: torch's, or `ppobook.fast.adam.Adam`, flat if asked and possible.

    Both have `param_groups`, `zero_grad`, `step`, `state_dict` and `load_state_dict`.
    """
    import torch

    from ppobook.fast.adam import Adam

    parameters = list(dict.fromkeys(parameters))
    if not fast:
        return torch.optim.Adam(parameters, lr, eps=eps)
    alike = len({(p.dtype, p.device) for p in parameters}) == 1
    return Adam(parameters, lr, eps=eps, flat=flat and alike)


def actor(policy: Any, fast: bool) -> Callable[..., Any] | None:
    """The class of `ppobook.fast.actor` that samples for this policy in a rollout; None: `policy.sample`."""
    from ppobook.fast.actor import FORMS

    return FORMS.get(declared(policy) or "") if fast else None


def vector_envs(env: Any, num_envs: int, fast: bool) -> Any | None:
    """Copies of this environment that NumPy steps all at once; None to step them one by one."""
    from ppobook.fast.classic import classic_vector

    return classic_vector(env, num_envs) if fast else None


def language(plain: Callable[..., Any], fast: bool) -> Callable[..., Any]:
    """This function of a language model, or the fast form that it declares (a line of `LANGUAGE`)."""
    name = declared(plain)
    if not fast or name is None:
        return plain
    module, _, attribute = LANGUAGE[name].partition(":")
    form: Callable[..., Any] = getattr(import_module(module), attribute)
    return form
