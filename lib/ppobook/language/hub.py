"""Names of models that are no folder: whether the Hugging Face hub may know them, and can be asked."""

from __future__ import annotations

import functools
import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

from ppobook import validation
from ppobook.run.folder import folders_like, is_run

# Names on the hub are OWNER/NAME, but for some old ones. These are causal.
_WITHOUT_OWNER = ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "distilgpt2", "openai-gpt")
_SECONDS = 10.0


def may_have(name: str) -> bool:
    """Whether the hub, or the copies of what was read from it before, may have a model of this name."""
    if not importlib.util.find_spec("transformers"):
        return False
    if re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", name):
        return not Path(name).parent.is_dir()  # a folder beside which others are is no owner
    return name in _WITHOUT_OWNER or _is_stored(name)


def refuse_nowhere(option: str, name: Any, kind: str = "a run's folder") -> None:
    """Raise for a name that is neither a path nor the name of a transformers model."""
    if not isinstance(name, str) or is_run(name):
        return
    path, must = Path(name), f"{option} must be {kind}, or a transformers model, got {name!r}"
    if path.is_dir() and not (path / "config.json").is_file():
        raise ValueError(f"{must}, a folder without a run")
    if path.is_dir() and not importlib.util.find_spec("transformers") and (path / "history.csv").exists():
        raise ValueError(f"{must}, a run without a checkpoint")
    if not path.exists() and not may_have(name):
        import gymnasium

        hint = ": an environment is for ppobook.train" if name in gymnasium.registry else folders_like(name)
        raise ValueError(f"{must}, and there is no such folder{hint}")


@functools.cache
def only_stored(name: str) -> bool:
    """Ask the hub for a model or a tokenizer; of the same name, once.

    Returns
    -------
    bool
        Whether it can't be reached, so that a stored copy has to do.

    Raises
    ------
    LookupError
        The hub has none of this name, or neither it nor a stored copy can be reached. Its message is the end
        of a sentence.
    """
    where = f"{name!r}, where there is no folder"
    if not may_have(name):
        raise LookupError(f"{where}{folders_like(name)}")
    import huggingface_hub
    from huggingface_hub import constants, errors

    if not constants.HF_HUB_OFFLINE:
        print(f"asking {constants.ENDPOINT} for {name!r}", file=sys.stderr)
    try:
        huggingface_hub.get_hf_file_metadata(
            huggingface_hub.hf_hub_url(name, "config.json"), timeout=_SECONDS
        )
    except errors.EntryNotFoundError:
        return False  # a tokenizer needs no config.json
    except errors.RepositoryNotFoundError:
        raise LookupError(f"{where}, and which the hub does not have, or not for you") from None
    except Exception as error:  # of many types
        if not _is_stored(name):
            why = validation.reason(error).split("; ")[0]
            raise LookupError(f"{where}, and the hub cannot be reached ({why})") from None
        return True
    return False


def _is_stored(name: str) -> bool:
    import huggingface_hub

    try:
        files = [
            huggingface_hub.try_to_load_from_cache(name, file)
            for file in ("config.json", "tokenizer_config.json")
        ]
    except ValueError:  # not a name that the hub can have
        return False
    return any(isinstance(file, str) for file in files)
