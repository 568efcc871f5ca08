"""The state of a vector environment as bytes, for checkpoints."""

from __future__ import annotations

import io
import pickle
from typing import Any

from gymnasium.utils import EzPickle
from gymnasium.vector import SyncVectorEnv, VectorEnv, VectorWrapper


def save_envs(envs: VectorEnv) -> bytes | None:
    """The environments in mid-episode, random number generators included; None if they cannot be saved.

    They cannot where their state is in another process or in a library that does not give access to it
    (Box2D, MuJoCo).
    """
    # A wrapper around the vector may have a state of its own.
    if isinstance(envs, VectorWrapper):
        return None
    own = getattr(envs, "state_dict", None)
    if callable(own):
        return pickle.dumps(own())
    if not isinstance(envs, SyncVectorEnv):
        return None
    file = io.BytesIO()
    try:
        StatePickler(file).dump(envs.envs)
    except Exception:  # anything an environment's parts raise when pickled
        return None
    return file.getvalue()


def load_envs(envs: VectorEnv, saved: bytes) -> None:
    """Put vector environments into the state that `save_envs` returned.

    This unpickles, which can run code: load only what you saved yourself.
    """
    vector: Any = envs
    restored = pickle.loads(saved)
    if not isinstance(restored, list):
        vector.load_state_dict(restored)
        return
    if str(restored[0]) != str(vector.envs[0]):  # both with all wrappers
        raise ValueError(f"env must be the run's, {restored[0]}, got {vector.envs[0]}")
    vector.envs = restored


def env_name(envs: VectorEnv) -> str:
    """The id of the environment, or its class."""
    first: Any = envs.envs[0] if isinstance(envs, SyncVectorEnv) else envs
    spec = envs.spec or first.spec
    return spec.id if spec else type(first.unwrapped).__name__


def is_rebuilt_when_copied(obj: Any) -> bool:
    """Return True if pickling and copying keep the arguments of its constructor, and not its state."""
    return isinstance(obj, EzPickle) and type(obj).__getstate__ is EzPickle.__getstate__


class StatePickler(pickle.Pickler):
    """Refuses `EzPickle` objects, which save the arguments of their constructor and not their state."""

    def reducer_override(self, obj: Any) -> Any:
        if is_rebuilt_when_copied(obj):
            raise pickle.PicklingError(f"{type(obj).__name__} would be saved without its state")
        return NotImplemented
