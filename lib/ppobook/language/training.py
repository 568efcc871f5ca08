"""The loop of all stages: what `ppobook.training` is to control, for language models.

A stage says what it does with a batch (`Stage.step`). The loop, the run's folder, checkpoints, the bar and
Ctrl-C are those of `ppobook.runs`, with the same promises: a run that is killed and resumed ends with the
weights and the history of one that was not.

    base = train("sft", data=World(), out="base")
    judge = train("reward", "base", data=World(), out="judge")
    tuned = train("ppo", "base", data=World(), reward="judge", out="tuned")

A checkpoint holds every network that the stage uses, the reference and the model of rewards too, so a run's
folder needs no other. It does not hold data, nor functions: whoever resumes a run that was given these in
memory hands them over again.
"""

from __future__ import annotations

import copy
import importlib
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from ppobook import _doors, runs
from ppobook.language import parallel
from ppobook.language.adam import Adam
from ppobook.language.data import digest_of
from ppobook.language.model import Decoder, DecoderConfig
from ppobook.language.rewards import Judge, Reward, open_reward
from ppobook.language.tokens import Completions, Pairs, Tokenizer, WordTokenizer
from ppobook.language.world import World
from ppobook.runs import Checkpoint, History, Home, Interrupted, setting

# Found by name when asked for: this room may not import the stages, which are built on it.
STAGES = {
    "sft": "ppobook.language.sft:SFT",
    "reward": "ppobook.language.reward:RewardModelling",
    "ppo": "ppobook.language.ppo:PPO",
    "grpo": "ppobook.language.grpo:GRPO",
    "dpo": "ppobook.language.dpo:DPO",
    "online_dpo": "ppobook.language.online:OnlineDPO",
    "iterative_ppo": "ppobook.language.online:IterativePPO",
    "lagged_grpo": "ppobook.language.online:LaggedGRPO",
}

# Networks that a stage is given, so that they must be there before it is. Others it makes itself.
_GIVEN = ("model", "reference", "judge")

# Columns that the loop fills. `tokens` it sums up.
_FILLED = ("update", "lr", "seconds*")


@dataclass(frozen=True)
class Settings(runs.Settings):
    """The settings that every stage has."""

    steps: int = setting(100, "updates", low=1)
    lr: float = setting(1e-3, "learning rate of AdamW", above=0, high=1e3)
    warmup: int = setting(0, "updates over which the learning rate rises to lr", low=0)
    max_grad_norm: float | None = setting(1.0, "a longer gradient is shortened to this", above=0)
    micro_batch_size: int | None = setting(
        None, "rows, or pairs, that go through a model at once, to save memory; none: all of them", low=1
    )

    @classmethod
    def make(cls, name: str, given: dict[str, Any], preset: dict[str, Any]) -> Self:
        """The settings of a run, as in the base; who names one as TRL does hears what it is called here."""
        for one in given:
            mine = called_here(one, cls.__dataclass_fields__)
            if mine is not None:
                raise ValueError(
                    f"{one}={given[one]!r}: {name} has no such setting; it is called {mine!r} here"
                )
        return super().make(name, given, preset)


# What TRL calls a setting, and what it is called in the stages that have it.
OF_TRL = {
    "learning_rate": ("lr",),
    "max_steps": ("steps",),
    "warmup_steps": ("warmup",),
    "per_device_train_batch_size": ("batch_size",),
    "num_generations": ("group_size",),
    "max_completion_length": ("max_new_tokens",),
    "num_iterations": ("epochs",),
    "num_ppo_epochs": ("epochs",),
    "num_mini_batches": ("num_minibatches",),
    "epsilon": ("clip_eps",),
    "epsilon_high": ("clip_eps_high",),
    "cliprange": ("clip_eps",),
    "vf_coef": ("value_coef",),
    "beta": ("kl_coef",),
    "scale_rewards": ("scale",),
    "loss_type": ("reduction", "loss"),
    "importance_sampling_level": ("surrogate",),
}


def called_here(name: str, known: Collection[str]) -> str | None:
    """The setting among those known that TRL has under another name; None if this is none such."""
    if name in known:
        return None
    return next((mine for mine in OF_TRL.get(name, ()) if mine in known), None)


@dataclass
class Task:
    """What a stage is given to work with.

    Attributes
    ----------
    model : torch module
        Where it begins. The stage may train it in place.
    tokenizer : Tokenizer
    data : World, or whatever `ppobook.language.data` reads
    reward : Reward or None
    reference : torch module or None
        Frozen. Where a stage wants one and none was given, a copy of the model as it began.
    """

    model: Any
    tokenizer: Tokenizer
    data: Any = None
    reward: Reward | None = None
    reference: Any = None

    @property
    def world(self) -> World | None:
        """The world, if the data are its."""
        return self.data if isinstance(self.data, World) else None


class Stage(runs.Remembering):
    """One kind of training, of one model, on one set of data.

    A subclass names its `settings_class`, makes what it needs in `__init__`, lists in `remembers` what a
    checkpoint must hold beside model and optimizer, and writes `step`.

    Attributes
    ----------
    model : torch module
        What is trained, and what the run is for.
    optimizer : Adam
        A subclass may put an optimizer of torch in its place.
    generator : torch.Generator
        For whatever is drawn while training: prompts, tokens, minibatches.
    tokenizer : Tokenizer
    settings : Settings
    device : str
    """

    algorithm: ClassVar[str]
    settings_class: ClassVar[type[Settings]] = Settings
    remembers: ClassVar[tuple[str, ...]] = ("model", "optimizer", "generator")
    wants_reward: ClassVar[bool] = False
    wants_reference: ClassVar[bool] = False
    begins_afresh: ClassVar[bool] = False
    begins_from_judge: ClassVar[bool] = False

    def __init__(self, task: Task, settings: Any, *, seed: int = 0, device: str = "cpu") -> None:
        self.task = task
        self.settings = settings
        self.seed = seed
        self.device = device
        self.tokenizer = task.tokenizer
        self.model = task.model
        self.generator = torch.Generator(device).manual_seed(runs.stream(seed, "sampling"))
        self.optimizer = self.optimizer_of(self.model)

    def optimizer_of(self, *modules: nn.Module) -> Adam:
        """Adam, over whatever of these modules is to be trained."""
        trained = [p for module in modules for p in module.parameters() if p.requires_grad]
        return Adam(trained, self.settings.lr)

    def step(self, number: int) -> dict[str, Any]:
        """One update; `number` counts them from 0. Returns what the history should say about it.

        `tokens` among it is the number of tokens that were trained on or sampled, whichever the stage is
        measured by; it is summed over the run.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method step; one is wanted")

    def learn(
        self,
        rows: Tensor,
        part: Callable[[Tensor], Any],
        read: Callable[[Any], dict[str, Tensor]],
        loss: Callable[[Any, dict[str, Tensor]], tuple[Tensor, dict[str, Any]]],
        weight: Callable[[Any], Any] = len,
    ) -> dict[str, float]:
        """One step of the optimizer down a loss that is a mean over rows, or over tokens.

        Of several processes each takes its share of the rows, `micro_batch_size` at a time, and the weighted
        gradients are summed. What the loss tells of itself is worked out from all rows together.

        Parameters
        ----------
        rows : int64, shape (B,)
            Which rows of the data.
        part : function of rows
            What belongs to some of them. Where B rows are padded, the rows of a part are padded to its width.
        read : function of a part
            What the model says of it, with a gradient: tensors whose first axis is the rows, and whose
            second, if there is one, the tokens.
        loss : function of a part and of what was read
            The mean over it, and what the history should say.
        weight : function of a part
            How much of the mean is the part's: how many rows it has, or tokens.

        Returns
        -------
        dict of float
            loss, what the loss tells, and grad_norm.
        """
        self.optimizer.zero_grad()
        whole = part(rows)
        total = float(weight(whole))

        def one(some: Tensor) -> tuple[dict[str, Tensor], float, dict[str, float]]:
            mine = whole if len(some) == len(rows) else part(rows[some.to(rows.device)])
            said = read(mine)
            value, told = loss(mine, said)
            (value * (float(weight(mine)) / total)).backward()
            read_off = {name: x.detach() for name, x in said.items()}
            return read_off, value.item(), {name: float(x) for name, x in told.items()}

        done = self.each(len(rows), one)
        _, value, told = done[0]
        if len(done) > 1:
            said = {name: _side_by_side([each[0][name] for each in done]) for name in done[0][0]}
            with torch.no_grad():
                mean, figures = loss(whole, said)
            value, told = float(mean), {name: float(x) for name, x in figures.items()}
        parallel.sum_gradients(self._learned())
        return {"loss": value, **told, "grad_norm": self.take_step()}

    def each(
        self,
        n: int,
        function: Callable[[Tensor], Any],
        *,
        at_once: int | None = None,
        together: int = 1,
    ) -> list[Any]:
        """What a function makes of n rows, a part at a time, in their order.

        Of several processes each does its share, and all are told everything. What an exception is in one of
        them is one in all.

        Parameters
        ----------
        n : int
        function : function of the numbers of some rows, on the stage's device
            Returns tensors, or what holds them.
        at_once : int, optional
            So many rows in a part. Left out: `micro_batch_size`.
        together : int
            So many rows side by side belong to one process.
        """
        mine = parallel.share(n, together).to(self.device)
        size = at_once or self.settings.micro_batch_size or n
        return parallel.gather(
            lambda: [function(rows) for rows in mine.split(size) if len(rows)], self.device
        )

    def of_each(self, function: Callable[[Completions], Tensor], completions: Completions) -> Tensor:
        """What a model says of completions, [B] or [B, T…], a part at a time and without a gradient.

        A row's entries beyond the width of its part are 0.
        """

        @torch.no_grad()
        def one(rows: Tensor) -> Tensor:
            some = part_of(completions, rows, self.device)
            x = function(some)
            wider = completions.tokens.shape[1] - some.tokens.shape[1]
            return F.pad(x, (0, wider)) if x.ndim == 2 else x

        return torch.cat(self.each(len(completions), one))

    def at_once(self, most: int) -> int:
        """How many rows may go through a model at once, without a gradient, of at `most` so many."""
        return min(most, self.settings.micro_batch_size or most)

    def descend(self, loss: Tensor) -> float:
        """One step of the optimizer down a loss of all rows; returns the length that the gradient had.

        Several processes must all have this same loss. `learn` is for each to have a part of it.
        """
        self.optimizer.zero_grad()
        loss.backward()
        return self.take_step()

    def take_step(self) -> float:
        """One step of the optimizer against the gradients that are there; returns how long they were."""
        weights = [p for p in self._learned() if p.grad is not None]
        limit = self.settings.max_grad_norm
        norm = torch.nn.utils.clip_grad_norm_(weights, torch.inf if limit is None else limit)
        self.optimizer.step()
        return float(norm)

    def _learned(self) -> list[nn.Parameter]:
        return [p for group in self.optimizer.param_groups for p in group["params"]]

    def rate(self, number: int) -> float:
        """The learning rate of an update, after warm-up; it is put into the optimizer."""
        lr = self.settings.lr * min(1.0, (number + 1) / (self.settings.warmup + 1))
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        return float(lr)

    def before_saved(self) -> None:
        """Bring up to date what a saved run must have, before a checkpoint is made and before the run is
        handed over. When that is differs from run to run: it must change nothing for later updates.
        """

    def modules(self) -> dict[str, nn.Module]:
        """The networks among what is remembered, by name."""
        named = {name: getattr(self, name) for name in self.remembers}
        return {name: part for name, part in named.items() if isinstance(part, nn.Module)}


def stage_class(stage: Any) -> type[Stage]:
    """The stage of this name; a subclass of `Stage` stands for itself."""
    if isinstance(stage, type) and issubclass(stage, Stage):
        return stage
    module, _, name = STAGES[_doors.choice("stage", stage, STAGES)].partition(":")
    found: type[Stage] = getattr(importlib.import_module(module), name)
    return found


# ---------------------------------------------------------------------------- completions that are stored

Stored = TypeVar("Stored", Completions, Pairs)


def taken(stored: Stored, rows: Tensor, device: str = "cpu") -> Stored:
    """Some rows of what is stored, on a device, and without columns that are padding in all of them."""
    if isinstance(stored, Pairs):
        return Pairs(taken(stored.chosen, rows, device), taken(stored.rejected, rows, device))
    some = stored.select(rows)
    first = some.prompt_mask.shape[1] - int(some.prompt_mask.sum(dim=1).max())
    length = int(some.lengths.max())
    return Completions(
        some.prompts[:, first:].to(device),
        some.prompt_mask[:, first:].to(device),
        some.tokens[:, :length].to(device),
        some.mask[:, :length].to(device),
        some.logp[:, :length].to(device),
        some.ended.to(device),
    )


def part_of(completions: Completions, rows: Tensor, device: str = "cpu") -> Completions:
    """Some rows, as `taken` takes them; of all of them nothing is copied."""
    return completions if len(rows) == len(completions) else taken(completions, rows, device)


def _side_by_side(parts: list[Tensor]) -> Tensor:
    """One tensor of all rows; those of narrower parts end in zeros."""
    if parts[0].ndim == 1:
        return torch.cat(parts)
    width = max(x.shape[1] for x in parts)
    return torch.cat([F.pad(x, (0, width - x.shape[1])) for x in parts])


def hold_out(stored: Stored, wanted: int, seed: int) -> tuple[Stored, Stored | None]:
    """What is to be learned from, and what is held out: `wanted` rows, but at most a tenth of all.

    None is held out of fewer than ten rows. Which ones is a matter of the seed.
    """
    n, number = len(stored), min(wanted, len(stored) // 10)
    if number == 0:
        return stored, None
    generator = torch.Generator().manual_seed(runs.stream(seed, "held out"))
    rows = torch.randperm(n, generator=generator)
    return stored.select(rows[number:]), stored.select(rows[:number])


# ------------------------------------------------------------------------------------------------- a run


@dataclass(repr=False)
class Run:
    """What training gives back.

    Attributes
    ----------
    model : torch module
        Trained: a language model, or after "reward" a `Judge`.
    tokenizer : Tokenizer
    history : DataFrame
        One row an update: update, tokens so far, what the stage measures, and seconds.
    config : dict
        Everything the run was asked for, defaults included.
    """

    model: Any
    tokenizer: Any
    history: pd.DataFrame
    config: dict[str, Any]
    _checkpoint: Checkpoint

    def __repr__(self) -> str:
        return f"Run({self.config['stage']}, {len(self.history)} updates, {type(self.model).__name__})"

    def save(self, folder: str | Path) -> Path:
        """Write the run to a new folder, from which `load` and `train(resume=…)` work.

        Raises
        ------
        OSError
            The folder holds something already, or cannot be written.
        """
        home = Home.at("folder", folder)

        def write() -> None:
            runs.new_folder(home)
            runs.write_checkpoint(home.folder, self._checkpoint)

        parallel.first(write)
        return home.folder

    def remembered(self, name: str) -> Any:
        """What the run's stage remembered under this name (`Stage.remembers`), as its checkpoint has it."""
        return self._checkpoint.state["stage"][name]

    @property
    def world(self) -> World | None:
        """The world that the run's data came from, if they did."""
        config = self.config["data"].get("world")
        return None if config is None else World(**config)


def load(folder: str | Path, device: str = "cpu") -> Run:
    """A run as its last checkpoint has it.

    Raises
    ------
    ValueError, OSError
        No run there, or a checkpoint that is cut short, from another version, or not ours to read.
    """
    return _load(Home.at("folder", folder), device)


def _load(home: Home, device: str) -> Run:
    checkpoint = _read(home)
    device = runs.device(device)
    try:
        model = build(checkpoint.state["architecture"]["model"]).to(device)
        model.load_state_dict(checkpoint.state["stage"]["model"])
        return _run_of(model, build_tokenizer(checkpoint.state["tokenizer"]), checkpoint)
    except (KeyError, TypeError, RuntimeError, AttributeError) as error:
        raise checkpoint.damaged(error) from None


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
        again; everything else is as it was, but for `steps`, which may grow.
    device : str, default "cpu"
    num_threads : int, default 1
        Threads of torch.
    progress : bool, optional
        A bar. If left out: in a terminal and in a notebook.
    tensorboard : bool
        Also write the history as TensorBoard events, under `out`.
    **settings
        Of the stage, as its `Settings` class lists them; `steps` is the number of updates.

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
        training = runs.carry_out(
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
    with runs.threads(num_threads):
        return training.run()


class _Training(runs.Training):
    """A run while it runs."""

    limit = "steps"
    format = runs.LANGUAGE

    def __init__(self, config: dict[str, Any], stage: Stage) -> None:
        super().__init__(config, History.empty(("update", "tokens", "seconds"), ("update", "tokens")))
        self.stage = stage

    @classmethod
    def fresh(cls, asked: dict[str, Any], given: Task) -> _Training:
        kind = stage_class(asked.pop("stage", None))
        head: dict[str, Any] = {
            "stage": _name_of(kind),
            "seed": _doors.count("seed", asked.pop("seed", 0), low=0),
            "checkpoint_every": _doors.count("checkpoint_every", asked.pop("checkpoint_every", 50)),
            "device": runs.device(asked.pop("device", "cpu")),
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
        runs.refuse_to_forget(stage)
        state = stage.state_dict()  # what no checkpoint can hold is refused before there is a folder
        if parallel.world_size() > 1:
            parallel.same_weights(stage.modules().values())
            given_away = {*stage.modules(), "optimizer"}
            drawn = {name: part for name, part in state.items() if name not in given_away}
            stage.load_state_dict(state | parallel.first(lambda: drawn))
        return cls(config, stage)

    @classmethod
    def resumed(cls, home: Home, asked: dict[str, Any], given: Task) -> _Training:
        checkpoint = _read(home)
        state, before = checkpoint.state, checkpoint.state["config"]
        kind = _stage_of_run(home, before, asked.pop("stage", None))
        settings = _settings_again(home, kind, before)
        for name in ("model", "reference", "tokenizer", "lora", "dtype"):
            if getattr(given, name, None) is not None or name in asked:
                raise ValueError(f"{name} was given, and a resumed run has its own; wanted: leave it out")
        config = before | {
            "device": runs.device(asked.pop("device", before["device"])),
            "steps": type(settings).checked("steps", asked.pop("steps", before["steps"])),
        }
        runs.refuse_other_settings(home, asked, config, settings)
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
        reward = _reward_again(home, config, given.reward, parts.get("judge"), tokenizer, world)
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
        lr = self.stage.rate(self.update)
        made = self._step()
        measured = dict(runs.checked_metrics(f"{type(self.stage).__name__}.step", made, _FILLED))
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
        stage.before_saved()
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


def _run_of(model: Any, tokenizer: Any, checkpoint: Checkpoint) -> Run:
    state = checkpoint.state
    model.eval().requires_grad_(False)
    return Run(model, tokenizer, History(state["history"]).table(), dict(state["config"]), checkpoint)


def _read(home: Home) -> Checkpoint:
    return runs.read_checkpoint(home, format=runs.LANGUAGE, needs=("stage", "architecture", "tokenizer"))


def _name_of(kind: type[Stage]) -> str:
    """What a run's config calls a stage: "ppo", or "my_module:MyPPO" for a user's own."""
    place = f"{kind.__module__}:{kind.__qualname__}"
    return {where: name for name, where in STAGES.items()}.get(place, place)


def _stage_of_run(home: Home, config: dict[str, Any], given: Any) -> type[Stage]:
    named = config.get("stage")
    if given is None:
        if isinstance(named, str) and ":" in named:
            short = named.partition(":")[2]
            raise ValueError(
                f"{home} was trained by {named!r}, a class of its owner's; wanted: the class itself, "
                f"train({short}, resume=…)"
            )
        try:
            return stage_class(named)
        except ValueError as error:
            raise ValueError(f"{home}: {error}") from None
    kind = stage_class(given)
    if _name_of(kind) != named:
        raise ValueError(f"stage is {_name_of(kind)!r}, and {home} was trained by {named!r}, which is wanted")
    return kind


def _settings_again(home: Home, kind: type[Stage], config: dict[str, Any]) -> Any:
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
    home: Home, config: dict[str, Any], given: Any, judge: Judge | None, tokenizer: Any, world: World | None
) -> Reward | None:
    """The reward of a run that is resumed: out of its checkpoint, but for a function."""
    named = config["reward"]
    if judge is not None or named in (None, "gold"):
        if given is not None and not (named == "gold" and isinstance(given, str) and given == "gold"):
            has = "none" if named is None else repr(named)
            raise ValueError(f"reward was given, and {home} has {has}; wanted: leave it out")
        reward = judge if judge is not None else named
        return None if reward is None else open_reward(reward, tokenizer, world)
    if given is None:
        raise ValueError(f"reward is None, and {home} was made with {named!r}; the same one is wanted again")
    reward = open_reward(_judge_in(given, tokenizer), tokenizer, world)
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
            mine.manual_seed(runs.stream(stage.seed, f"{name} after update {update}"))
            state[name] = mine.get_state()
    return state


# ------------------------------------------------------------------------------------------ what it is given


def open_task(
    kind: type[Stage], given: Task, device: str, seed: int = 0, how: Mapping[str, Any] | None = None
) -> Task:
    """What a stage works with, from what the user gave: models copied, names and folders opened.

    `how` is what was asked of a transformers model, lora or dtype.
    """
    how = how or {}
    origin = _run_in("model", given.model)
    data = given.data
    if data is None and origin is not None:
        data = origin.world
    if data is None:
        raise ValueError("data is None; a World, a list of dicts, a JSONL file or a Dataset is wanted")
    world = data if isinstance(data, World) else None

    tokenizer = given.tokenizer
    if tokenizer is not None and not hasattr(tokenizer, "eos"):
        from ppobook.language import hf

        tokenizer = hf.open_tokenizer(tokenizer)
    if (
        tokenizer is not None
        and not isinstance(tokenizer, WordTokenizer)
        and not hasattr(tokenizer, "description")
    ):
        raise TypeError(
            f"tokenizer is of type {type(tokenizer).__name__}, which no checkpoint can hold; a "
            "WordTokenizer, a tokenizer of transformers, or the folder of one is wanted"
        )
    if origin is not None:
        tokenizer = origin.tokenizer if tokenizer is None else tokenizer
        model = (
            open_model(origin.model, tokenizer, world, seed, how)[0] if how else copy.deepcopy(origin.model)
        )
    elif given.model is not None:
        model, tokenizer = open_model(given.model, tokenizer, world, seed, how)
    elif world is not None and kind.begins_afresh and not how:
        model, tokenizer = None, world.tokenizer if tokenizer is None else tokenizer
    else:
        raise ValueError(
            f"model is None; {_name_of(kind)!r} wants a run, its folder, a Decoder or a transformers model"
        )
    if isinstance(model, Judge):
        if not kind.begins_from_judge:
            raise ValueError(f"model is a model of rewards; {_name_of(kind)!r} wants a language model")
        if world is not None:
            raise ValueError(
                "model is a model of rewards, and data is a World, whose pairs a language model samples; "
                "pairs of your own are wanted"
            )
    if world is not None:
        refuse_other_words("data", world.tokenizer, tokenizer)
    if model is not None:
        model.to(device).requires_grad_(True)
        refuse_other_tokens(model, tokenizer, world)

    reward = None
    if kind.wants_reward:
        if given.reward is None:
            raise ValueError(
                f"reward is None; {_name_of(kind)!r} wants a run of 'reward', 'gold', or a function"
            )
        reward = open_reward(_judge_in(given.reward, tokenizer), tokenizer, world)
        if reward.module is not None:
            reward.module.to(device)
            refuse_other_vocabulary("reward", reward.module, model)
    elif given.reward is not None:
        raise ValueError(f"reward was given, and {_name_of(kind)!r} has no use for one; wanted: leave it out")

    reference = None
    if kind.wants_reference:
        reference = copy.deepcopy(model)
        if given.reference is not None:
            reference = _reference_in(given.reference, tokenizer, world).to(device)
        refuse_other_vocabulary("reference", reference, model)
        reference.eval().requires_grad_(False)
    elif given.reference is not None:
        raise ValueError(f"reference was given, and {_name_of(kind)!r} has none; wanted: leave it out")
    return Task(model, tokenizer, data, reward, reference)


def _run_in(name: str, given: Any) -> Run | None:
    """The run that was given, or whose folder was; None if it is something else."""
    if isinstance(given, Run):
        return given
    if isinstance(given, str | Path) and is_run(given):
        return _load(Home.at(name, given), "cpu")
    return None


def _judge_in(reward: Any, tokenizer: Any) -> Any:
    """The model of rewards of a run or a folder; anything else as it is."""
    if isinstance(reward, str | Path) and reward != "gold":
        if not is_run(reward) and Path(reward, "config.json").is_file():
            from ppobook.language import hf

            return hf.open_judge(reward, tokenizer)
        if ":" in str(reward) and not Path(reward).exists():
            raise ValueError(
                f"reward is {str(reward)!r}, and there is no such folder; the function itself is wanted, "
                "whose name only the command line takes"
            )
        reward = _load(Home.at("reward", reward), "cpu")
    if not isinstance(reward, Run):
        return copy.deepcopy(reward) if isinstance(reward, Judge) else reward
    if not isinstance(reward.model, Judge):
        raise ValueError(f"reward is a run of {reward.config['stage']!r}; one of 'reward' is wanted")
    refuse_other_words("reward", reward.tokenizer, tokenizer)
    return copy.deepcopy(reward.model)


def _reference_in(given: Any, tokenizer: Any, world: World | None) -> Any:
    origin = _run_in("reference", given)
    if origin is not None:
        refuse_other_words("reference", origin.tokenizer, tokenizer)
    model = open_model(given, tokenizer, world)[0] if origin is None else copy.deepcopy(origin.model)
    if isinstance(model, Judge):
        raise ValueError("reference is a model of rewards; a language model is wanted")
    return model


def is_run(folder: str | Path) -> bool:
    """Whether a path is the folder of a run."""
    path = Path(folder)
    return path.is_dir() and bool(runs.checkpoints(path))


def open_model(
    model: Any,
    tokenizer: Any,
    world: World | None,
    seed: int = 0,
    how: Mapping[str, Any] | None = None,
) -> tuple[Any, Any]:
    """A copy of a model that is no run, and its tokenizer."""
    if tokenizer is None and world is not None and isinstance(model, nn.Module):
        tokenizer = world.tokenizer
    if isinstance(getattr(model, "body", model), Decoder):
        for name in how or {}:
            raise ValueError(f"{name} was given, and is for models of transformers; wanted: leave it out")
        if tokenizer is None:
            raise ValueError("tokenizer is None; with a Decoder one is wanted")
        return copy.deepcopy(model), tokenizer
    # Only now: transformers is an extra, and takes a second to import.
    from ppobook.language import hf

    return hf.open_pretrained(model, tokenizer, seed=runs.stream(seed, "adapters"), **how or {})


def refuse_other_vocabulary(name: str, model: Any, policy: Any) -> None:
    """Refuse a reference or a model of rewards whose tokens are not the policy's."""
    other = getattr(model, "body", model).vocab_size
    # A sequence classifier has a pad of its own, a word that no model says.
    more = name == "reward" and other > policy.vocab_size
    if other != policy.vocab_size and not more:
        raise ValueError(
            f"{name} has a vocabulary of {other} tokens and the model one of {policy.vocab_size}; "
            "the same is wanted"
        )


def refuse_other_words(name: str, mine: Any, tokenizer: Any) -> None:
    """Refuse data, a reference or a model of rewards that were made with other words than the model."""
    words, others = (getattr(x, "words", None) for x in (tokenizer, mine))
    if words == others:
        return
    if words is None or others is None:
        kinds = f"tokens of a {type(mine).__name__}, and the model those of a {type(tokenizer).__name__}"
    elif len(words) != len(others):
        kinds = f"a vocabulary of {len(others)} tokens and the model one of {len(words)}"
    else:
        one, other = next((a, b) for a, b in zip(others, words, strict=True) if a != b)
        kinds = f"the word {one!r} where the model has {other!r}"
    raise ValueError(f"{name} has {kinds}; what the model was made with is wanted")


def refuse_other_tokens(model: Any, tokenizer: Any, world: World | None) -> None:
    """Refuse a model that does not fit its tokenizer. It may have room for more ids, but not in a World."""
    body = getattr(model, "body", model)
    n, wanted = body.vocab_size, tokenizer.vocab_size
    if n < wanted or (world is not None and n != wanted):
        raise ValueError(
            f"model has a vocabulary of {n} tokens and its tokenizer one of {wanted}; the same is wanted"
        )
    if body.eos != tokenizer.eos:
        raise ValueError(
            f"model ends a sequence with id {body.eos} and its tokenizer with {tokenizer.eos}; "
            "the same is wanted"
        )


def describe(model: nn.Module) -> dict[str, Any]:
    """A model without its weights, in plain data, for a checkpoint."""
    if isinstance(model, Decoder):
        dtype = str(model.wte.weight.dtype).removeprefix("torch.")
        return {"kind": "decoder", "dtype": dtype, **asdict(model.config)}
    if isinstance(model, Judge):
        return {
            "kind": "judge",
            "body": describe(model.body),
            "bias": model.output.bias is not None,
            "pooling": model.pooling,
        }
    described: dict[str, Any] = model.description()  # type: ignore[operator]
    return described


def build(described: dict[str, Any]) -> Any:
    """The model that `describe` described, with weights of no meaning."""
    sizes = dict(described)
    kind = sizes.pop("kind")
    if kind == "decoder":
        dtype = getattr(torch, sizes.pop("dtype"))
        return Decoder(DecoderConfig(**sizes)).to(dtype)
    if kind == "judge":
        return Judge(build(sizes["body"]), sizes["pooling"], bias=sizes["bias"])
    from ppobook.language import hf

    return hf.build(described)


def describe_tokenizer(tokenizer: Any) -> dict[str, Any]:
    if isinstance(tokenizer, WordTokenizer):
        return {"kind": "words", "words": list(tokenizer.words[2:])}
    described: dict[str, Any] = tokenizer.description()
    return described


def build_tokenizer(described: dict[str, Any]) -> Any:
    if described["kind"] == "words":
        return WordTokenizer(described["words"])
    from ppobook.language import hf

    return hf.build_tokenizer(described)


def _data_config(data: Any) -> dict[str, Any]:
    """What a config says of data: a world, a file, or a digest of what was in memory."""
    if isinstance(data, World):
        return {"world": data.config}
    if isinstance(data, str | Path):
        # Absolute: a run may be resumed from another directory. One that was moved is given it again.
        return {"file": str(Path(data).absolute()), "digest": digest_of(data)}
    return {"digest": digest_of(data)}


def _data_again(home: Home, config: dict[str, Any], given: Any) -> Any:
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
