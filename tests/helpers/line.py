"""A trainer that has neither an environment nor a policy: a line through noisy points."""

import dataclasses

import numpy as np
import torch
from torch import nn

from ppobook.run.base import BaseRun
from ppobook.run.checkpoint import read_checkpoint
from ppobook.run.history import History
from ppobook.run.loop import TrainingLoop, run_training
from ppobook.run.machine import stream
from ppobook.run.metrics import finite
from ppobook.run.state import Stateful
from ppobook.settings import Settings, setting

FORMAT = "line.fit 1"


@dataclasses.dataclass(frozen=True)
class LineSettings(Settings):
    lr: float = setting(0.05, "learning rate", above=0)
    batch: int = setting(4, "points an update", low=1)


class Line(Stateful):
    """A line through noisy points, by Adam."""

    state_attributes = ("model", "optimizer", "draw", "dice", "average", "seen", "nothing")

    def __init__(self, settings, seed):
        self.settings = settings
        self.device = "cpu"
        self.model = nn.Linear(1, 1)
        nn.init.zeros_(self.model.weight)
        nn.init.zeros_(self.model.bias)
        self.optimizer = torch.optim.Adam(self.model.parameters(), settings.lr)
        self.draw = torch.Generator().manual_seed(stream(seed, "points"))
        self.dice = np.random.default_rng(stream(seed, "dice"))
        self.average = torch.zeros(())
        self.seen = [0]
        self.nothing = None

    def step(self):
        x = torch.randn(self.settings.batch, 1, generator=self.draw)
        loss = (self.model(x) - 2 * x + float(self.dice.normal())).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.average = 0.9 * self.average + 0.1 * loss.detach()
        self.seen = [self.seen[0] + len(x)]
        return {"loss": loss.item(), "average": self.average}


@dataclasses.dataclass(kw_only=True, repr=False)
class LineRun(BaseRun):
    model: nn.Module

    @staticmethod
    def title(config):
        return "line"

    def bits(self):
        table = self.history.drop(columns="seconds")
        return table.to_csv(), {name: x.tolist() for name, x in self.model.state_dict().items()}


class Training(TrainingLoop):
    limit = "updates"
    format = FORMAT

    def __init__(self, config, line):
        super().__init__(config, History.empty(("update", "points", "loss", "seconds"), ("update", "points")))
        self.line = line

    @classmethod
    def new(cls, asked, updates):
        settings = LineSettings.make("line", asked, {})
        config = {"seed": 3, "updates": updates, "checkpoint_every": 2} | dataclasses.asdict(settings)
        return cls(config, Line(settings, config["seed"]))

    @classmethod
    def resumed(cls, folder, updates):
        read = read_checkpoint(folder, FORMAT)
        config = read.config | {"updates": updates}
        line = Line(LineSettings(config["lr"], config["batch"]), config["seed"])
        line.load_state_dict(read.state["line"])
        assert read.files == {"points.bin": b"%d" % line.seen[0]}
        training = cls(config, line)
        training.restore(read)
        return training

    def one_update(self):
        metrics = finite(self.line.step())
        return {"points": self.line.seen[0], **metrics}

    def modules(self):
        return [self.line.model]

    def parts(self):
        return {"line": self.line.state_dict()}, {"points.bin": b"%d" % self.line.seen[0]}

    def run(self):
        return LineRun.of(self.checkpoint(), model=self.line.model)

    def title(self):
        return "a line"


def fit(updates=7, out=None, resume=None, progress=None, tensorboard=False, **settings):
    return run_training(
        lambda: Training.new(settings, updates),
        lambda folder: Training.resumed(folder, updates),
        out=out,
        resume=resume,
        progress=progress,
        tensorboard=tensorboard,
    ).run()
