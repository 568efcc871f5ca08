"""Training a language model: the loop of all stages, and resuming."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ppobook.language import parallel
from ppobook.language.dpo import DPO
from ppobook.language.grpo import GRPO
from ppobook.language.online import IterativePPO, LaggedGRPO, OnlineDPO
from ppobook.language.opening import open_task, reward_given
from ppobook.language.ppo import PPO
from ppobook.language.records import digest_of
from ppobook.language.reward import RewardModelling
from ppobook.language.rewards import Reward, open_reward
from ppobook.language.run import FORMAT, Run, run_of
from ppobook.language.serialization import build, build_tokenizer, describe, describe_tokenizer
from ppobook.language.sft import SFT
from ppobook.language.stage import Stage, Task
from ppobook.language.world import World
from ppobook.run.checkpoint import read_checkpoint
from ppobook.run.config import new_config, resumed_config
from ppobook.run.folder import RunFolder
from ppobook.run.history import History
from ppobook.run.interrupts import Interrupted
from ppobook.run.loop import TrainingLoop, run_training
from ppobook.run.machine import float32_on_cpu, stream, threads
from ppobook.run.metrics import finite
from ppobook.run.registry import Registry

STAGES: Registry[Stage] = Registry(
    "stage",
    Stage,
    {
        "sft": SFT,
        "reward": RewardModelling,
        "ppo": PPO,
        "grpo": GRPO,
        "dpo": DPO,
        "online_dpo": OnlineDPO,
        "iterative_ppo": IterativePPO,
        "lagged_grpo": LaggedGRPO,
    },
)

# Networks that a stage is given, so they are built before it is. It makes others itself.
_GIVEN = ("model", "reference", "reward_model")


@float32_on_cpu()
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

    Under torchrun all processes train one run together (`ppobook.language.parallel`).

    Parameters
    ----------
    stage : str or subclass of Stage
        "sft", "reward", "ppo", "grpo", "dpo", "online_dpo", "iterative_ppo" or "lagged_grpo"; or a class of
        your own, see `Stage`.
    model : Run, path, torch module or str, optional
        The initial model: a run or its folder; a `Decoder`; or a transformers model, the folder of one, or
        its name on the hub. It is copied; parameters that require no gradient stay as they are. Default: a
        new `Decoder` for the words of the World, with "sft" only.
    data : World, list of dicts, path of a JSONL file, or datasets.Dataset
        See `ppobook.language.data`. Default: the world that the model's run was trained on.
    reward : Run, path, "gold" or function
        Only for the stages that sample: a run of "reward" or its folder; a transformers model that classifies
        sequences by one label, or its folder; the world's true reward; or a function of prompts and
        completions (`ppobook.language.rewards`).
    reference : as model, optional
        The reference of the KL divergence. Default: the initial model.
    tokenizer : Tokenizer, tokenizer of transformers, or path, optional
        Default: the model's.
    lora : dict, optional
        Freeze a transformers model and train adapters: ``{"r": 8, "alpha": 16}``; see
        `ppobook.language.pretrained.Pretrained.add_lora`.
    dtype : str, optional
        The precision of a transformers model's matrix products: "float32" (the default) or "bfloat16".
    seed : int, default 0
        The same seed, settings and machine give the same run, to the bit.
    out : path, optional
        A new folder for the run.
    checkpoint_every : int, default 50
        Updates between two checkpoints.
    resume : path, optional
        Resume from the last checkpoint in this folder. Data and rewards that were passed in memory are passed
        again; everything else stays as it was, except for `updates`, which may grow, `device` and
        `checkpoint_every`. Data are compared by their content, a reward function by its name alone.
    device : str, default "cpu"
    num_threads : int, default 1
        Threads of torch.
    progress : bool, optional
        Show a progress bar. Default: in a terminal and in a notebook; elsewhere a line every 15 seconds.
    tensorboard : bool
        Also write the history as TensorBoard events, in `out`.
    **settings
        Of the stage, as listed in its `StageSettings` class; `updates` is the number of updates.

    Raises
    ------
    ValueError, TypeError, OSError
        An argument that can't be used.
    FloatingPointError
        The weights have diverged; a loss or a gradient is not finite.
    Interrupted
        Ctrl-C, SIGTERM or SIGHUP: a KeyboardInterrupt with the run so far. The update in progress is
        finished, unless Ctrl-C is pressed again.
    """
    asked: dict[str, Any] = {"stage": stage, "seed": seed, "checkpoint_every": checkpoint_every}
    asked |= {"device": device, "lora": lora, "dtype": dtype}
    asked = {name: value for name, value in asked.items() if value is not None} | settings
    given = Task(model, tokenizer, data, reward, reference)
    parallel.begin()
    try:
        training = run_training(
            lambda: StageLoop.new(asked, given),
            lambda folder: StageLoop.resumed(folder, asked, given),
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
    # With the same threads, so that what `before_save` computes for the caller is what the folder holds.
    with threads(num_threads):
        return training.run()


class StageLoop(TrainingLoop):
    """A training run in progress."""

    limit = "updates"
    format = FORMAT

    def __init__(self, config: dict[str, Any], stage: Stage) -> None:
        super().__init__(config, History.empty(("update", "tokens", "seconds"), ("update", "tokens")))
        self.stage = stage
        self.tokenizer = describe_tokenizer(stage.tokenizer)

    @classmethod
    def new(cls, asked: dict[str, Any], given: Task) -> StageLoop:
        """A run from its beginning."""
        kind, config = new_config(STAGES, asked, checkpoint_every=50)
        how: dict[str, Any] = {name: asked.pop(name) for name in ("lora", "dtype") if name in asked}
        settings = kind.settings_class.make(config["stage"], asked, {})
        device = parallel.own_device(config["device"])
        task = open_task(kind, given, device, config["seed"], how)
        config |= {name: dict(x) if name == "lora" else str(x) for name, x in how.items()}
        config |= {
            "data": data_config(task.data),
            "reward": None if task.reward is None else task.reward.name,
        }
        stage = kind(task, settings, seed=config["seed"], device=device)
        rows = stage.rows_of_data()
        if rows is not None and stage.settings.batch_size > rows:  # no batch repeats examples
            stage.settings = replace(stage.settings, batch_size=rows)
        config |= asdict(stage.settings)
        if parallel.world_size() > 1:
            parallel.same_weights(stage.modules().values())
            state = stage.state_dict()
            broadcast = {*stage.modules(), "optimizer"}
            drawn = {name: part for name, part in state.items() if name not in broadcast}
            stage.load_state_dict(state | parallel.first(lambda: drawn))
        return cls(config, stage)

    @classmethod
    def resumed(cls, folder: RunFolder, asked: dict[str, Any], given: Task) -> StageLoop:
        """A run as of its last checkpoint."""
        checkpoint = read_checkpoint(folder, FORMAT)
        for name in ("model", "reference", "tokenizer", "lora", "dtype"):
            if getattr(given, name, None) is not None or name in asked:
                raise ValueError(f"{name} must be left out on resume: the run has its own")
        kind, settings, config = resumed_config(STAGES, folder, checkpoint, asked, cls.limit)
        data = _data_of_run(folder, config, given.data)
        device = parallel.own_device(config["device"])
        with checkpoint.rebuilding():
            described = checkpoint.state["architecture"]
            parts = {name: build(description).to(device) for name, description in described.items()}
            tokenizer = build_tokenizer(checkpoint.state["tokenizer"])
            model, reference = parts["model"], parts.get("reference")
            for name in checkpoint.state.get("frozen", []):
                model.get_parameter(name).requires_grad_(False)
        world = data if isinstance(data, World) else None
        reward = None
        if config["reward"] is not None:
            known = parts.get("reward_model", "gold")
            reward = _reward_of_run(folder, config["reward"], given.reward, known, tokenizer, world)
        if reference is not None:
            reference.eval().requires_grad_(False)
        task = Task(model, tokenizer, data, reward, reference)
        stage = kind(task, settings, seed=config["seed"], device=device)
        with checkpoint.rebuilding():
            before = checkpoint.config["device"]
            state = _state_on_device(stage, checkpoint.state["stage"], before, checkpoint.update)
            stage.load_state_dict(state)
        bodies: list[Any] = [getattr(module, "body", module) for module in stage.modules().values()]
        for body in bodies:
            if hasattr(body, "share"):
                body.share(bodies[0])
        training = cls(config, stage)
        training.restore(checkpoint)
        seen = parallel.gather(lambda: [training.update])
        if len(set(seen)) > 1:
            raise ValueError(f"{folder} must be a folder that all processes share, got updates {seen}")
        return training

    def title(self) -> str:
        return Run.title(self.config)

    def shown(self, row: dict[str, float]) -> dict[str, Any]:
        names = [name for name in ("gold", "reward", "loss", "accuracy", "kl_reference") if name in row]
        return {name: f"{row[name]:.3g}" for name in names}

    def agree(self, signal: int) -> int:
        return max(parallel.gather(lambda: [signal]))

    def modules(self) -> list[nn.Module]:
        modules = self.stage.modules().values()
        return [module for module in modules if any(p.requires_grad for p in module.parameters())]

    def one_update(self) -> dict[str, Any]:
        begin = time.perf_counter()
        lr = self.stage.set_lr(self.update)
        metrics = finite(self.stage.step(self.update))
        tokens = int(metrics.pop("tokens", 0))
        past = int(self.history.last("tokens")) if self.history else 0
        return {
            "tokens": past + tokens,
            **metrics,
            "lr": lr,
            "seconds_update": time.perf_counter() - begin,
        }

    def parts(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        stage = self.stage
        stage.before_save()
        state = {
            "stage": stage.state_dict(),
            "architecture": {
                name: describe(module) for name, module in stage.modules().items() if name in _GIVEN
            },
            "tokenizer": self.tokenizer,
            "frozen": [name for name, p in stage.model.named_parameters() if not p.requires_grad],
        }
        return state, {}

    def run(self) -> Run:
        checkpoint = self.checkpoint()
        return run_of(copy.deepcopy(self.stage.model), self.stage.tokenizer, checkpoint)


def data_config(data: Any) -> dict[str, Any]:
    """The config's entry for data: a world, a file, or a digest of data in memory."""
    if isinstance(data, World):
        return {"world": copy.deepcopy(data.config)}
    if isinstance(data, str | Path):
        # Absolute: a run may be resumed from another directory. A file that was moved is given again.
        return {"file": str(Path(data).absolute()), "digest": digest_of(data)}
    return {"digest": digest_of(data)}


def _data_of_run(folder: RunFolder, config: dict[str, Any], given: Any) -> Any:
    """The data of a run that is resumed: from its config, or given again."""
    saved = config["data"]
    if given is None:
        given = World(**saved["world"]) if "world" in saved else saved.get("file")
    if given is None:
        raise ValueError(f"data must be given again, since {folder} was given them in memory, got None")
    if data_config(given) | {"file": None} != saved | {"file": None}:
        raise ValueError(f"data must be those of {folder}, got other data")
    return given


def _reward_of_run(
    folder: RunFolder, name: str, given: Any, known: Any, tokenizer: Any, world: World | None
) -> Reward:
    """The reward of a run that is resumed: from its checkpoint; only a function is given again."""
    if not name.startswith("function "):
        if given is not None and not (isinstance(given, str) and given == name):
            raise ValueError(f"reward must be left out, since {folder} has its own, got {given!r}")
        return open_reward(known, tokenizer, world)
    if given is None:
        raise ValueError(f"reward must be given again, {name!r} as in {folder}, got None")
    reward = open_reward(reward_given(given, tokenizer), tokenizer, world)
    if reward.name != name:
        raise ValueError(f"reward must be {name!r}, as in {folder}, got {reward.name!r}")
    return reward


def _state_on_device(stage: Stage, state: dict[str, Any], device: str, update: int) -> dict[str, Any]:
    """The state of a stage that was on another kind of device, with new states of its random generators."""
    if torch.device(device).type == torch.device(stage.device).type:
        return state
    state = dict(state)
    for name in state:
        mine = getattr(stage, name)
        if isinstance(mine, torch.Generator):
            mine.manual_seed(stream(stage.seed, f"{name} after update {update}"))
            state[name] = mine.get_state()
    return state
