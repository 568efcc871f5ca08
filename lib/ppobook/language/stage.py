"""The loop of all stages: what `ppobook.training` is to control, for language models.

A stage says what it does with a batch (`Stage.step`). The loop, the run's folder, checkpoints, the bar and
Ctrl-C are those of `ppobook.runs`, with the same promises: a run that is killed and resumed ends with the
weights and the history of one that was not.

    base = train("sft", data=World(), out="base")
    reward_model = train("reward", "base", data=World(), out="reward_model")
    tuned = train("ppo", "base", data=World(), reward="reward_model", out="tuned")

A checkpoint holds every network that the stage uses, the reference and the reward model too, so a run's
folder needs no other. It does not hold data, nor functions: whoever resumes a run that was given these in
memory hands them over again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from ppobook.fast import choose
from ppobook.fast.adam import Adam
from ppobook.language import parallel
from ppobook.language.rewards import Reward
from ppobook.language.settings import StageSettings
from ppobook.language.stored import _side_by_side, part_of
from ppobook.language.tokens import Completions, Tokenizer
from ppobook.language.world import World
from ppobook.run.machine import stream
from ppobook.run.state import Stateful


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


class Stage(Stateful):
    """One kind of training, of one model, on one set of data.

    A subclass names its `settings_class`, makes what it needs in `__init__`, lists in `state_attributes` what
    a checkpoint must hold beside model and optimizer, and writes `step`.

    Attributes
    ----------
    model : torch module
        What is trained, and what the run is for.
    optimizer : Adam
        A subclass may put an optimizer of torch in its place.
    generator : torch.Generator
        For whatever is drawn while training: prompts, tokens, minibatches.
    tokenizer : Tokenizer
    settings : StageSettings
    device : str
    """

    algorithm: ClassVar[str]
    settings_class: ClassVar[type[StageSettings]] = StageSettings
    state_attributes: ClassVar[tuple[str, ...]] = ("model", "optimizer", "generator")
    wants_reward: ClassVar[bool] = False
    wants_reference: ClassVar[bool] = False
    starts_from_scratch: ClassVar[bool] = False
    starts_from_reward_model: ClassVar[bool] = False

    def __init__(self, task: Task, settings: Any, *, seed: int = 0, device: str = "cpu") -> None:
        self.task = task
        self.settings = settings
        self.seed = seed
        self.device = device
        self.tokenizer = task.tokenizer
        self.model = task.model
        for module in (task.model, task.reference, task.reward and task.reward.module):
            if module is not None:
                choose.language_model(module, settings.fast)
        self.generator = torch.Generator(device).manual_seed(stream(seed, "sampling"))
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

        done = self.map_rows(len(rows), one)
        _, value, told = done[0]
        if len(done) > 1:
            said = {name: _side_by_side([each[0][name] for each in done]) for name in done[0][0]}
            with torch.no_grad():
                mean, figures = loss(whole, said)
            value, told = float(mean), {name: float(x) for name, x in figures.items()}
        parallel.sum_gradients(self._learned())
        return {"loss": value, **told, "grad_norm": self.optimizer_step()}

    def map_rows(
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

    def map_batches(self, function: Callable[[Completions], Tensor], completions: Completions) -> Tensor:
        """What a model says of completions, [B] or [B, T…], a part at a time and without a gradient.

        A row's entries beyond the width of its part are 0.
        """

        @torch.no_grad()
        def one(rows: Tensor) -> Tensor:
            some = part_of(completions, rows, self.device)
            x = function(some)
            wider = completions.tokens.shape[1] - some.tokens.shape[1]
            return F.pad(x, (0, wider)) if x.ndim == 2 else x

        return torch.cat(self.map_rows(len(completions), one))

    def micro_batch(self, most: int) -> int:
        """How many rows may go through a model at once, without a gradient, of at `most` so many."""
        return min(most, self.settings.micro_batch_size or most)

    def gradient_step(self, loss: Tensor) -> float:
        """One step of the optimizer down a loss of all rows; returns the length that the gradient had.

        Several processes must all have this same loss. `learn` is for each to have a part of it.
        """
        self.optimizer.zero_grad()
        loss.backward()
        return self.optimizer_step()

    def optimizer_step(self) -> float:
        """One step of the optimizer against the gradients that are there; returns how long they were."""
        weights = [p for p in self._learned() if p.grad is not None]
        limit = self.settings.max_grad_norm
        norm = torch.nn.utils.clip_grad_norm_(weights, torch.inf if limit is None else limit)
        self.optimizer.step()
        return float(norm)

    def _learned(self) -> list[nn.Parameter]:
        return [p for group in self.optimizer.param_groups for p in group["params"]]

    def set_lr(self, number: int) -> float:
        """The learning rate of an update, after warm-up; it is put into the optimizer."""
        lr = self.settings.lr * min(1.0, (number + 1) / (self.settings.warmup + 1))
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        return float(lr)

    def before_save(self) -> None:
        """Bring up to date what a saved run must have, before a checkpoint is made and before the run is
        handed over. When that is differs from run to run: it must change nothing for later updates.
        """

    def modules(self) -> dict[str, nn.Module]:
        """The networks among what is remembered, by name."""
        named = {name: getattr(self, name) for name in self.state_attributes}
        return {name: part for name, part in named.items() if isinstance(part, nn.Module)}
