"""TODO."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ppobook import validation
from ppobook.language import parallel
from ppobook.language.data import digest_of
from ppobook.language.describing import build, build_tokenizer, describe, describe_tokenizer
from ppobook.language.opening import _reward_model_in, open_task
from ppobook.language.registry import _name_of, _stage_of_run, stage_class
from ppobook.language.rewards import RewardModel, Reward, open_reward
from ppobook.language.run import Run, _read, _run_of
from ppobook.language.stage import Stage, Task
from ppobook.language.world import World
from ppobook.run.checkpoint import LANGUAGE
from ppobook.run.folder import RunFolder
from ppobook.run.history import History, checked_metrics
from ppobook.run.interrupts import Interrupted
from ppobook.run.loop import TrainingLoop, run_training
from ppobook.run.machine import checked_device, stream, threads
from ppobook.run.settings import refuse_other_settings
from ppobook.run.state import refuse_to_forget

# Networks that a stage is given, so that they must be there before it is. Others it makes itself.
_GIVEN = ("model", "reference", "reward_model")


# Columns that the loop fills. `tokens` it sums up.
_FILLED = ("update", "lr", "seconds*")


def train(
    stage: str | type[Stage] | None = None,
    model: Any = None,
    data: Any = None,
    *,
    reward: Any = None,
    reference: Any = None,
    tokenizer: Any = None,
    lora: Mapping[str, Any] | None = None,
    dtype: str | None = None,
    seed: int | None = None,
    out: str | Path | None = None,
    checkpoint_every: int | None = None,
    resume: str | Path | None = None,
    device: str | None = None,
    num_threads: int = 1,
    progress: bool | None = None,
    tensorboard: bool = False,
    **settings: Any,
) -> Run:
    """Train a language model, in one of the stages.

    Under torchrun, all its processes train one run together, as `ppobook.language.parallel` says: what two
    CPU processes do has been compared with what one does, several GPUs have not been tried. The
    `micro_batch_size` that every stage has is for a batch that does not fit into memory; the result is the
    same but for rounding.

    Parameters
    ----------
    stage : str or subclass of Stage
        "sft", "reward", "ppo", "grpo", "dpo", "online_dpo", "iterative_ppo" or "lagged_grpo".
    model : Run, path, torch module or str, optional
        Where to begin: a run or its folder; a `Decoder`; or a transformers model, the folder of one, or its
        name on the hub. It is copied. Left out: a fresh `Decoder` for the words of the World, which "sft"
        alone can begin from.
    data : World, list of dicts, path of a JSONL file, or datasets.Dataset
        See `ppobook.language.data`. Left out: the world that the model's run was trained on.
    reward : Run, path, "gold" or function
        A run of "reward" or its folder, or that of a transformers model which classifies sequences by one
        label; the world's true reward; or a function of prompts and completions (`ppobook.language.rewards`).
        Only for the stages that sample.
    reference : as model, optional
        What the KL is measured from. Left out: the model as it began.
    tokenizer : Tokenizer, tokenizer of transformers, or path, optional
        Left out: the one that the model was trained with.
    lora : dict, optional
        Of a transformers model, freeze all and train adapters: ``{"r": 8, "alpha": 16}``, as
        `ppobook.language.pretrained.Pretrained.add_lora` explains. They cost the reference no second model.
    dtype : str, optional
        "bfloat16": what a transformers model multiplies matrices in, for accelerators. Left out: float32.
    seed : int, default 0
        Decides everything random: the same seed, settings and machine give the same run, to the bit.
    out : path, optional
        A new folder for the run. One that holds something is refused.
    checkpoint_every : int, default 50
        Updates between two checkpoints.
    resume : path, optional
        Go on from the last checkpoint in this folder. Data and rewards that were given in memory are given
        again; everything else is as it was, but for `updates`, which may grow.
    device : str, default "cpu"
    num_threads : int, default 1
        Threads of torch.
    progress : bool, optional
        A bar. If left out: in a terminal and in a notebook.
    tensorboard : bool
        Also write the history as TensorBoard events, under `out`.
    **settings
        Of the stage, as its `StageSettings` class lists them; `updates` is how many updates it makes.

    Returns
    -------
    Run

    Raises
    ------
    ValueError, TypeError, OSError
        An argument that cannot be used, with a sentence that says why.
    FloatingPointError
        The weights have grown beyond all bounds. The last checkpoint is whole.
    ppobook.runs.Interrupted
        Ctrl-C; a KeyboardInterrupt that carries the run so far.
    """
    asked: dict[str, Any] = {"stage": stage, "seed": seed, "checkpoint_every": checkpoint_every}
    asked |= {"device": device, "lora": lora, "dtype": dtype}
    asked = {name: value for name, value in asked.items() if value is not None} | settings
    given = Task(model, tokenizer, data, reward, reference)
    parallel.begin()
    try:
        training = run_training(
            lambda: _Training.fresh(asked, given),
            lambda home: _Training.resumed(home, asked, given),
            out=out,
            resume=resume,
            num_threads=num_threads,
            progress=progress if parallel.rank() == 0 else False,
            tensorboard=tensorboard,
            writes=parallel.rank() == 0,
        )
    except Interrupted:
        parallel.wait()
        raise
    parallel.wait()
    # With the threads that it had: what is brought up to date for the caller is what stands in the folder.
    with threads(num_threads):
        return training.run()


class _Training(TrainingLoop):
    """A run while it runs."""

    limit = "updates"
    format = LANGUAGE

    def __init__(self, config: dict[str, Any], stage: Stage) -> None:
        super().__init__(config, History.empty(("update", "tokens", "seconds"), ("update", "tokens")))
        self.stage = stage

    @classmethod
    def fresh(cls, asked: dict[str, Any], given: Task) -> _Training:
        kind = stage_class(asked.pop("stage", None))
        head: dict[str, Any] = {
            "stage": _name_of(kind),
            "seed": validation.count("seed", asked.pop("seed", 0), low=0),
            "checkpoint_every": validation.count("checkpoint_every", asked.pop("checkpoint_every", 50)),
            "device": checked_device(asked.pop("device", "cpu")),
        }
        how: dict[str, Any] = {name: asked.pop(name) for name in ("lora", "dtype") if name in asked}
        settings = kind.settings_class.make(head["stage"], asked, {})
        device = parallel.own_device(head["device"])
        task = open_task(kind, given, device, head["seed"], how)
        config = head | {name: dict(x) if name == "lora" else str(x) for name, x in how.items()}
        config |= {
            "data": _data_config(task.data),
            "reward": None if task.reward is None else task.reward.name,
            **asdict(settings),
        }
        stage = kind(task, settings, seed=head["seed"], device=device)
        refuse_to_forget(stage)
        state = stage.state_dict()  # what no checkpoint can hold is refused before there is a folder
        if parallel.world_size() > 1:
            parallel.same_weights(stage.modules().values())
            given_away = {*stage.modules(), "optimizer"}
            drawn = {name: part for name, part in state.items() if name not in given_away}
            stage.load_state_dict(state | parallel.first(lambda: drawn))
        return cls(config, stage)

    @classmethod
    def resumed(cls, home: RunFolder, asked: dict[str, Any], given: Task) -> _Training:
        checkpoint = _read(home)
        state, before = checkpoint.state, checkpoint.state["config"]
        kind = _stage_of_run(home, before, asked.pop("stage", None))
        settings = _settings_again(home, kind, before)
        for name in ("model", "reference", "tokenizer", "lora", "dtype"):
            if getattr(given, name, None) is not None or name in asked:
                raise ValueError(f"{name} was given, and a resumed run has its own; wanted: leave it out")
        config = before | {
            "device": checked_device(asked.pop("device", before["device"])),
            "updates": type(settings).checked("updates", asked.pop("updates", before["updates"])),
        }
        refuse_other_settings(home, asked, config, settings)
        data = _data_again(home, config, given.data)
        device = parallel.own_device(config["device"])
        try:
            parts = {name: build(described) for name, described in state["architecture"].items()}
            tokenizer = build_tokenizer(state["tokenizer"])
            for part in parts.values():
                part.to(device)
            model, reference = parts["model"], parts.get("reference")
        except (KeyError, TypeError, RuntimeError, AttributeError) as error:
            raise checkpoint.damaged(error) from None
        world = data if isinstance(data, World) else None
        reward = _reward_again(home, config, given.reward, parts.get("reward_model"), tokenizer, world)
        if reference is not None:
            reference.eval().requires_grad_(False)
        task = Task(model, tokenizer, data, reward, reference)
        stage = kind(task, settings, seed=config["seed"], device=device)
        try:
            stage.load_state_dict(_on_device(stage, state["stage"], before["device"], checkpoint.update))
        except (KeyError, ValueError, TypeError, RuntimeError, AttributeError) as error:
            raise checkpoint.damaged(error) from None
        bodies: list[Any] = [getattr(module, "body", module) for module in stage.modules().values()]
        for body in bodies:
            if hasattr(body, "share"):
                body.share(bodies[0])
        training = cls(config, stage)
        training.go_on_from(checkpoint)
        seen = parallel.gather(lambda: [training.update])
        if len(set(seen)) > 1:
            raise ValueError(f"{home} is at updates {seen} for the processes; a folder they share is wanted")
        return training

    def label(self) -> str:
        return str(self.config["stage"])

    def to_go_on(self, folder: Path) -> str:
        reward = self.config["reward"]
        again = f", and reward {reward!r} again" if f"{reward}".startswith("function ") else ""
        return super().to_go_on(folder) + again

    def shown(self, row: dict[str, float]) -> dict[str, Any]:
        told = [name for name in ("gold", "reward", "loss", "accuracy", "kl_reference") if name in row]
        return {name: f"{row[name]:.3g}" for name in told}

    def agreed(self, stop: bool) -> bool:
        return any(parallel.gather(lambda: [stop]))

    def modules(self) -> list[nn.Module]:
        modules = self.stage.modules().values()
        return [module for module in modules if any(p.requires_grad for p in module.parameters())]

    def one_update(self) -> dict[str, Any]:
        begin = time.perf_counter()
        lr = self.stage.set_lr(self.update)
        made = self._step()
        measured = dict(checked_metrics(f"{type(self.stage).__name__}.step", made, _FILLED))
        tokens = int(measured.pop("tokens", 0))
        past = int(self.history.last("tokens")) if self.history else 0
        return {
            "tokens": past + tokens,
            **measured,
            "lr": lr,
            "seconds_update": time.perf_counter() - begin,
        }

    def _step(self) -> Any:
        """A step. One that fails before it has changed a weight, as a reward may, is taken back."""
        stage = self.stage
        before, written = stage.beside_weights(), self._written()
        try:
            return stage.step(self.update)
        except Exception:
            if self._written() == written:
                stage.put_back(before)
                self.untouched = True
            raise

    def _written(self) -> list[int]:
        """How often each tensor of the stage's modules has been written to."""
        modules = self.stage.modules().values()
        return [x._version for module in modules for x in module.state_dict(keep_vars=True).values()]

    def parts(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        stage = self.stage
        stage.before_save()
        state = {
            "stage": stage.state_dict(),
            "architecture": {
                name: describe(module) for name, module in stage.modules().items() if name in _GIVEN
            },
            "tokenizer": describe_tokenizer(stage.tokenizer),
        }
        return state, {}

    def run(self) -> Run:
        checkpoint = self.checkpoint()
        return _run_of(copy.deepcopy(self.stage.model), self.stage.tokenizer, checkpoint)


def _settings_again(home: RunFolder, kind: type[Stage], config: dict[str, Any]) -> Any:
    """The settings of a run that is resumed."""
    known = [f.name for f in fields(kind.settings_class)]
    lacking = [name for name in known if name not in config]
    if lacking:
        raise ValueError(
            f"{home}: {kind.__name__} has the setting {lacking[0]!r}, which the run was made without; "
            "wanted: the class as it was then"
        )
    return kind.settings_class(**{name: config[name] for name in known})


def _reward_again(
    home: RunFolder,
    config: dict[str, Any],
    given: Any,
    reward_model: RewardModel | None,
    tokenizer: Any,
    world: World | None,
) -> Reward | None:
    """The reward of a run that is resumed: out of its checkpoint, but for a function."""
    named = config["reward"]
    if reward_model is not None or named in (None, "gold"):
        if given is not None and not (named == "gold" and isinstance(given, str) and given == "gold"):
            has = "none" if named is None else repr(named)
            raise ValueError(f"reward was given, and {home} has {has}; wanted: leave it out")
        reward = reward_model if reward_model is not None else named
        return None if reward is None else open_reward(reward, tokenizer, world)
    if given is None:
        raise ValueError(f"reward is None, and {home} was made with {named!r}; the same one is wanted again")
    reward = open_reward(_reward_model_in(given, tokenizer), tokenizer, world)
    if reward.name != named:
        raise ValueError(
            f"reward is {reward.name!r}, and {home} was made with {named!r}; the same one is wanted again"
        )
    return reward


def _on_device(stage: Stage, state: dict[str, Any], device: str, update: int) -> dict[str, Any]:
    """What a stage remembered on some device, less what can't be brought to the one that it is on now.

    The state of a random generator belongs to its kind of device. On another one it begins anew, from a seed
    that says where.
    """
    if torch.device(device).type == torch.device(stage.device).type:
        return state
    state = dict(state)
    for name in state:
        mine = getattr(stage, name)
        if isinstance(mine, torch.Generator):
            mine.manual_seed(stream(stage.seed, f"{name} after update {update}"))
            state[name] = mine.get_state()
    return state


def _data_config(data: Any) -> dict[str, Any]:
    """What a config says of data: a world, a file, or a digest of what was in memory."""
    if isinstance(data, World):
        return {"world": data.config}
    if isinstance(data, str | Path):
        # Absolute: a run may be resumed from another directory. One that was moved is given it again.
        return {"file": str(Path(data).absolute()), "digest": digest_of(data)}
    return {"digest": digest_of(data)}


def _data_again(home: RunFolder, config: dict[str, Any], given: Any) -> Any:
    """The data of a run that is resumed."""
    kept = config["data"]
    if "world" in kept:
        if given is not None and _data_config(given) != kept:
            raise ValueError(f"data is not the world of {home}; wanted: leave it out")
        return World(**kept["world"])
    data = kept.get("file") if given is None else given
    if data is None:
        raise ValueError(
            f"data is None, and {home} was given its data in memory; the same data are wanted again"
        )
    if isinstance(data, World) or digest_of(data) != kept["digest"]:
        raise ValueError(f"data differ from those of {home}; the same are wanted again")
    return data
