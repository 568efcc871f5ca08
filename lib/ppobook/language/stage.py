"""The base of all stages: the model, its optimizer, and gradients over parts of a batch.

A stage says what it does with a batch (`Stage.step`). The loop, the run's folder and checkpoints are those of
`ppobook.run`. A checkpoint holds every network that the stage uses, but neither data nor functions: whoever
resumes a run that was given these in memory passes them again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from ppobook.language import parallel
from ppobook.language.data import Batches, join_rows, part_of
from ppobook.language.rewards import Reward
from ppobook.language.settings import StageSettings
from ppobook.language.tokens import Completions, Tokenizer
from ppobook.language.world import World
from ppobook.run.machine import stream
from ppobook.run.rates import scale_rates
from ppobook.run.state import Stateful


@dataclass
class Task:
    """The model, data and settings that a stage works with.

    Attributes
    ----------
    model : torch module
        The initial model. The stage may train it in place.
    tokenizer : Tokenizer
    data : World, or anything that `ppobook.language.data` reads
    reward : Reward or None
    reference : torch module or None
        Frozen. By default a copy of the initial model, for the stages that have one.
    """

    model: Any
    tokenizer: Tokenizer
    data: Any = None
    reward: Reward | None = None
    reference: Any = None

    @property
    def world(self) -> World | None:
        """The data, if they are a World."""
        return self.data if isinstance(self.data, World) else None


class Stage(Stateful):
    """One kind of training, of one model, on one data set.

    A subclass names its `settings_class`, makes what it needs in `__init__`, lists in `state_attributes` what
    a checkpoint must hold besides model and optimizer, and writes `step`. As class attributes it says whether
    it `wants_reward` and `wants_reference`, and whether it `starts_from_scratch` or from a reward model.

    Attributes
    ----------
    model : torch module
        The model that is trained.
    optimizer : optimizer
        Adam. A subclass may use another optimizer of torch.
    generator : torch.Generator
        For everything that is drawn while training: prompts, tokens, minibatches.
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
        if settings.gradient_checkpointing:
            for module in (task.model, task.reference, task.reward and task.reward.module):
                body: Any = getattr(module, "body", module)
                if hasattr(body, "set_gradient_checkpointing"):
                    body.set_gradient_checkpointing()
        self.generator = torch.Generator(device).manual_seed(stream(seed, "sampling"))
        self.optimizer = self.optimizer_of(self.model)

    def optimizer_of(self, *modules: nn.Module) -> Any:
        """Adam over the parameters of these modules that require a gradient."""
        trained = [p for module in modules for p in module.parameters() if p.requires_grad]
        if not trained:
            raise ValueError(
                "model must have weights to train, got only frozen ones: requires_grad_() frees them"
            )
        return torch.optim.Adam(trained, self.settings.lr, fused=True)

    def rows_of_data(self) -> int | None:
        """The number of examples that batches are drawn from; None for a stage that samples its own."""
        return None

    def batch_rows(self, number: int) -> Tensor:
        """Return the indices of the examples in the batch of this update, counted from 0."""
        return Batches(self.rows_of_data() or 0, self.settings.batch_size, self.seed).rows(number)

    def step(self, number: int) -> dict[str, Any]:
        """One update; `number` counts them from 0. Returns its metrics.

        Among them, `tokens` is the number of tokens that were trained on or sampled; it is summed over the
        run.
        """
        raise NotImplementedError

    def forward(self, batch: Any) -> dict[str, Tensor]:
        """Compute what the loss needs from the networks, with gradient: tensors of shape [B] or [B, T]."""
        raise NotImplementedError

    def loss(self, batch: Any, outputs: dict[str, Tensor]) -> tuple[Tensor, dict[str, Any]]:
        """The mean loss of a batch, from the outputs of `forward`, and its metrics."""
        raise NotImplementedError

    def loss_weight(self, batch: Any) -> int:
        """The number of entries that the loss of a batch is a mean over: its rows, or its tokens."""
        return len(batch)

    def learn(
        self, rows: Tensor, select: Callable[[Tensor], Any], loss: Callable[..., Any] | None = None
    ) -> dict[str, Any]:
        """A gradient step on the loss of the batch that `select` makes of these rows, [B].

        The gradient is accumulated over micro-batches of `micro_batch_size` rows, and over the processes,
        each with its share of the rows. Metrics are computed from all rows together: loss, those of the loss,
        and grad_norm. `loss` is called in place of the method.
        """
        loss = loss or self.loss
        self.optimizer.zero_grad()
        whole = select(rows)
        total = self.loss_weight(whole)

        def one(some: Tensor) -> tuple[dict[str, Tensor], dict[str, Any]]:
            part = whole if len(some) == len(rows) else select(rows[some.to(rows.device)])
            outputs = self.forward(part)
            value, metrics = loss(part, outputs)
            (value * (self.loss_weight(part) / total)).backward()
            return _detached(outputs), _detached({"loss": value, **metrics})

        done = self.map_rows(len(rows), one)
        metrics = done[0][1]
        if len(done) > 1:
            outputs = {name: join_rows([part[0][name] for part in done]) for name in done[0][0]}
            with torch.no_grad():
                value, of_all = loss(whole, outputs)
            metrics = {"loss": value, **of_all}
        parallel.sum_gradients(self._trained())
        return metrics | {"grad_norm": self.optimizer_step()}

    def map_rows(
        self,
        n: int,
        function: Callable[[Tensor], Any],
        *,
        at_once: int | None = None,
        together: int = 1,
    ) -> list[Any]:
        """Call a function on each part of n rows, and return the results in order.

        Each of several processes does its share, and gathers the results of all. An exception in one of them
        is raised in all.

        Parameters
        ----------
        n : int
        function : function of the indices of some rows, on the stage's device
            Returns tensors, or containers of them.
        at_once : int, optional
            Rows of a part. Default: `micro_batch_size`.
        together : int
            Groups of this many rows stay in one process.
        """
        mine = parallel.share(n, together).to(self.device)
        size = at_once or self.settings.micro_batch_size or n
        return parallel.gather(
            lambda: [function(rows) for rows in mine.split(size) if len(rows)], self.device
        )

    def map_batches(self, function: Callable[[Completions], Tensor], completions: Completions) -> Tensor:
        """Apply a function to parts of the completions, without a gradient: [B], or [B, T…] padded with 0."""

        @torch.no_grad()
        def one(rows: Tensor) -> Tensor:
            some = part_of(completions, rows, self.device)
            x = function(some)
            wider = completions.tokens.shape[1] - some.tokens.shape[1]
            return F.pad(x, (0, wider)) if x.ndim == 2 else x

        return torch.cat(self.map_rows(len(completions), one))

    def micro_batch(self, most: int) -> int:
        """Rows that go through a model at once, without a gradient: at most `most`."""
        return min(most, self.settings.micro_batch_size or most)

    def optimizer_step(self) -> Tensor:
        """Clip the gradients and step the optimizer; returns their norm before clipping."""
        weights = [p for p in self._trained() if p.grad is not None]
        limit = self.settings.max_grad_norm
        norm = torch.nn.utils.clip_grad_norm_(weights, torch.inf if limit is None else limit)
        self.optimizer.step()
        return norm

    def _trained(self) -> list[nn.Parameter]:
        return [p for group in self.optimizer.param_groups for p in group["params"]]

    def set_lr(self, number: int) -> float:
        """Set the learning rates of an update, which rise linearly during warm-up; returns the first."""
        lr, warmup = self.settings.lr, self.settings.warmup
        scale_rates(self.optimizer, lr, lr * min(1.0, (number + 1) / (warmup + 1)))
        return float(self.optimizer.param_groups[0]["lr"])

    def before_save(self) -> None:
        """Compute what a checkpoint or the returned run must hold, without changing later updates."""

    def modules(self) -> dict[str, nn.Module]:
        """The networks among the state attributes, by name."""
        named = {name: getattr(self, name) for name in self.state_attributes}
        return {name: part for name, part in named.items() if isinstance(part, nn.Module)}


def _detached(numbers: dict[str, Any]) -> dict[str, Any]:
    return {name: x.detach() if isinstance(x, Tensor) else x for name, x in numbers.items()}
