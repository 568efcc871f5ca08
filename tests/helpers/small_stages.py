"""Small language runs: each way of passing data, reward and model; and a stage as a user might write it."""

import dataclasses

import numpy as np
import torch

from ppobook.language.data import prompts_of
from ppobook.language.generation import generate
from ppobook.language.model import Decoder, DecoderConfig, Scalar
from ppobook.language.rewards import RewardModel
from ppobook.language.settings import StageSettings
from ppobook.language.stage import Stage
from ppobook.language.tokens import completion_logits, completion_values, token_logp
from ppobook.language.training import train
from ppobook.language.world import World
from ppobook.run.machine import stream
from ppobook.settings import setting

SIZES = {"nouns": 2, "places": 2, "verbs": 1, "adjectives": 1, "clauses": [1.0], "max_new_tokens": 12}
WORLD = World(**SIZES)
SMALL_DECODER = {"layers": 1, "width": 8, "heads": 2}
RECORDS = WORLD.corpus(30, seed=1)
EVERY = 3


def decoder(tokenizer=WORLD.tokenizer, seed=0, **changes):
    sizes = {"context": 16, **SMALL_DECODER, "eos": tokenizer.eos, "pad": tokenizer.pad, **changes}
    return Decoder(DecoderConfig(**{"vocab_size": tokenizer.vocab_size, **sizes}), seed=seed)


def reward_model(seed=3):
    made = RewardModel(decoder(seed=seed))
    torch.nn.init.normal_(made.output.weight, std=0.1, generator=torch.Generator().manual_seed(seed))
    return made


def short(prompts, completions, **columns):
    return [-len(text.split()) / 4 for text in completions]


@dataclasses.dataclass(frozen=True)
class OwnSettings(StageSettings):
    memory: float = setting(0.9, "of the baseline", low=0, high=1)
    word: str = "plain"  # a field without limits


class Own(Stage):
    """A user's own stage: REINFORCE with a running mean and a critic, and all that a stage can have."""

    settings_class = OwnSettings
    state_attributes = (
        *Stage.state_attributes,
        "reference",
        "reward_model",
        "critic",
        "critic_optimizer",
        "dice",
        "mean",
        "seen",
    )
    wants_reward = True
    wants_reference = True

    def __init__(self, task, settings, *, seed=0, device="cpu"):
        super().__init__(task, settings, seed=seed, device=device)
        self.reference, self.reward, self.reward_model = task.reference, task.reward, task.reward.module
        # Frozen, in a run that is resumed as well.
        frozen = [*self.reference.parameters(), *(self.reward_model or self.reference).parameters()]
        assert not any(p.requires_grad for p in frozen)
        self.critic = Scalar(self.model)
        self.critic_optimizer = torch.optim.SGD(self.critic.parameters(), self.settings.lr)
        self.dice = np.random.default_rng(stream(seed, "dice"))
        self.mean = torch.zeros(())
        self.seen = [0]
        self.prompts = prompts_of(task.data, self.tokenizer)

    def step(self, number):
        prompts = self.prompts.select(self.dice.integers(len(self.prompts), size=6))
        done = generate(self.model, prompts.tokens, prompts.mask, 8, generator=self.generator)
        rewards = self.reward(done, prompts.columns)
        logp = token_logp(completion_logits(self.model, done), done.tokens, mask=done.mask).sum(dim=1)
        with torch.no_grad():
            far = completion_logits(self.reference, done)
        far = logp.detach() - token_logp(far, done.tokens, mask=done.mask).sum(dim=1)
        m = self.settings.memory
        self.mean = m * self.mean + (1 - m) * rewards.mean()
        values = completion_values(self.critic, done)[:, 0]
        self.optimizer.zero_grad()
        (-((rewards - self.mean - values.detach()) * logp).mean()).backward()
        norm = self.optimizer_step()
        self.critic_optimizer.zero_grad()
        (rewards - self.mean - values).square().mean().backward()
        self.critic_optimizer.step()
        self.seen[0] += len(done)
        late = {"late": 1.0} if number >= 5 else {}
        metrics = {"reward": rewards.mean(), "grad_norm": norm, "kl_reference": far.mean(), "mean": self.mean}
        return {**metrics, **late, "tokens": done.mask.sum()}


SFT_SMALL = {
    "stage": "sft",
    **SMALL_DECODER,
    "batch_size": 8,
    "examples": 40,
    "eval_examples": 8,
    "eval_every": 4,
}
REWARD_SMALL = {"pairs": 40, "eval_pairs": 9, "batch_size": 8, "eval_every": 4}
# Each way of having data, a reward and a model; and what is passed again on resume.
CASES = {
    "sft": ({**SFT_SMALL, "data": WORLD}, {}),
    "sft, data in memory": (
        {
            **{name: x for name, x in SFT_SMALL.items() if name not in (*SMALL_DECODER, "examples")},
            "data": RECORDS,
            "model": decoder(),
            "tokenizer": WORLD.tokenizer,
        },
        {"data": RECORDS},
    ),
    "reward": ({"stage": "reward", "model": decoder(), "data": WORLD, **REWARD_SMALL}, {}),
    "own, gold": ({"stage": Own, "model": decoder(), "data": WORLD, "reward": "gold"}, {"stage": Own}),
    "own, a reward model": (
        {
            "stage": Own,
            "model": decoder(),
            "data": WORLD,
            "reward": reward_model(),
            "reference": decoder(seed=5),
        },
        {"stage": Own},
    ),
    "own, a function": (
        {"stage": Own, "model": decoder(), "tokenizer": WORLD.tokenizer, "data": RECORDS, "reward": short},
        {"stage": Own, "data": RECORDS, "reward": short},
    ),
}


def fit(case="sft", **changes):
    return train(**{**CASES[case][0], "updates": 7, "checkpoint_every": EVERY, "progress": False, **changes})


def go_on(folder, case="sft", **changes):
    return train(**{**CASES[case][1], "resume": folder, "progress": False, **changes})
