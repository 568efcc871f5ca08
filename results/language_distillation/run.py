"""On-policy distillation: PPO whose only reward is the per-token KL to a teacher, beside SFT on its texts.

The teacher is PPO's policy on a reward model that reads the last token, at β = .03, after 60 updates
(`language_overoptimisation`); the student begins as the policy after SFT. "on-policy" is the library's PPO
with R = 0, the teacher as reference and β = 1: the student writes, and the teacher says how probable each
token is. "sft" is the next-token loss on texts of the teacher. Both take four gradient steps on each 64 new
texts, in two epochs of two minibatches.

`kl` is KL(student, teacher) and `kl_reverse` KL(teacher, student), in nats a text, exact in each state, over
512 completions of the student and of the teacher. Each rate is the one of 1e-4, 3e-4, 1e-3 and 3e-3 with the
smallest `kl` after 60 updates on seeds 0 to 2. The seeds here are fresh, and all are reported.
"""

import copy
import sys
from functools import cache
from pathlib import Path

import torch

from ppobook.experiments import record
from ppobook.language import World, evaluate, generate, sequence_kl
from ppobook.language.opening import open_task
from ppobook.language.ppo import PPO
from ppobook.language.settings import PPOSettings
from ppobook.language.sft import next_token_loss
from ppobook.language.stage import Task

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_chain.shared import followed, judge, learner_of, sft, summed_up

UPDATES, LOOKS = 60, 6
SETTINGS = [{"way": way, "lr": 3e-4} for way in ("on-policy", "sft")]
WORLD = World()


@cache
def teacher_of(seed: int) -> torch.nn.Module:
    learner = learner_of("ppo", sft(seed), seed, reward=judge(seed, "last"), kl_coef=0.03, lr=3e-4)
    for number in range(60):
        learner.step(number)
    return learner.model.eval().requires_grad_(False)


def nothing(prompts, completions):
    return [0.0] * len(completions)


class Imitation(PPO):
    """SFT on as many new texts of the teacher, in PPO's minibatches."""

    def make_experience(self, number):
        prompts = self.draw_prompts(number, self.settings.batch_size)
        sampler, self.model = self.model, self.reference
        completions = self.sample(prompts)
        self.model = sampler
        return completions, {"kl_reference": 0.0, "tokens": int(completions.mask.sum())}

    def minibatch(self, experience, rows):
        return experience.select(rows)

    def forward(self, batch):
        return {}

    def loss_weight(self, batch):
        return len(batch)

    def loss(self, batch, outputs=None):
        return next_token_loss(self.model, batch)[0], {}


@torch.no_grad()
def compared(student: torch.nn.Module, teacher: torch.nn.Module, seed: int) -> dict[str, float]:
    found = evaluate(student, WORLD, reference=teacher, n=512, seed=10_000 + seed)
    asked = found.completions
    generator = torch.Generator().manual_seed(10_000 + seed)
    its = generate(teacher, asked.prompts, asked.prompt_mask, WORLD.max_new_tokens, generator=generator)
    return {
        "kl": found.numbers["kl_reference"],
        "kl_reverse": sequence_kl(teacher, student, its).mean().item(),
        "gold": found.numbers["gold"],
        "teacher_gold": WORLD.gold(its).mean().item(),
    }


def one(seed: int, way: str, lr: float) -> list[dict]:
    teacher = teacher_of(seed)
    given = Task(sft(seed), data=WORLD, tokenizer=None, reward=nothing, reference=copy.deepcopy(teacher))
    kind = PPO if way == "on-policy" else Imitation
    learner = kind(open_task(kind, given, "cpu", seed), PPOSettings(kl_coef=1.0, lr=lr), seed=seed)
    return followed(learner, lambda policy: compared(policy, teacher, seed), looks=LOOKS, updates=UPDATES)


if __name__ == "__main__":
    record(
        "language_distillation",
        one,
        SETTINGS,
        seeds=range(100, 105),
        workers=1,
        digits=4,
        note="The learning rates were chosen on seeds 0 to 2; every seed reported.",
    )
    summed_up("language_distillation", ["way", "update"], ["kl", "kl_reverse", "gold", "teacher_gold"])
