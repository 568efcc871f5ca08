"""The forms of language models: what is left of choosing by declaration."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from ppobook.fast.declare import declared

# What a class of `ppobook.language` declares, and the module of its fast form.
LANGUAGE = {"decoder": "ppobook.fast.decoding"}


def optimizer(
    parameters: Iterable[Any],
    lr: float,
    *,
    eps: float = 1e-8,
    step: Callable[..., Any] | None = None,
    fast: bool,
) -> Any:
    """Adam over some parameters."""
    import torch

    parameters = list(dict.fromkeys(parameters))
    if not fast:
        return torch.optim.Adam(parameters, lr, eps=eps)
    return torch.optim.Adam(parameters, lr, eps=eps, fused=True)


def language_model(model: Any, fast: bool | None = None) -> None:
    """Let the parts of a language model that declare a fast form use it, or their plain form again. In place.

    Parameters
    ----------
    model : torch module
    fast : bool, optional
        Default: False.
    """
    for part in model.modules():
        name = declared(part)
        if name in LANGUAGE:
            import_module(LANGUAGE[name]).use(part, bool(fast))


def generation(model: Any) -> Any:
    """What has the `start_cache` and `step` that `generate` calls: the model, or a quicker form of it."""
    if not getattr(model, "fast", False):
        return model
    from ppobook.fast.decoding import FastDecoding

    return FastDecoding(model)
