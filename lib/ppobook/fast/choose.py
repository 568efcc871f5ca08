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

    return returns.gae


def ppo_gradient(learner: Any) -> Callable[[Any], dict[str, Any]]:
    """What `PPO.update` does with a minibatch: ``learner.gradient_step``, or the same in closed form."""
    step: Callable[[Any], dict[str, Any]] = learner.gradient_step
    return step


def critic_gradient(learner: Any) -> Callable[[Any], float]:
    """What `TRPO.fit` does with a minibatch: ``learner.critic_step``, or the same in closed form."""
    step: Callable[[Any], float] = learner.critic_step
    return step


def optimizer(parameters: Iterable[Any], lr: float, *, eps: float = 1e-8, fast: bool) -> Any:
    """Adam over some parameters: torch's, or `ppobook.fast.adam.Adam`.

    Both have `param_groups`, `zero_grad`, `step`, `state_dict` and `load_state_dict`.
    """
    import torch

    from ppobook.fast.adam import Adam

    if not fast:
        return torch.optim.Adam(list(dict.fromkeys(parameters)), lr, eps=eps)
    return Adam(parameters, lr)


def actor(policy: Any, fast: bool) -> Callable[..., Any] | None:
    """The `ppobook.fast.actor.NumpyActor` that stands in for `policy.sample` in a rollout; None for sample."""
    from ppobook.fast.actor import FORMS  # type: ignore[import-not-found]

    return FORMS.get(declared(policy)) if fast else None


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
