"""`ppobook language …`: train small language models, and evaluate them."""

from __future__ import annotations

from collections.abc import Sequence

from ppobook.cli.main import run_command

STAGES = {
    "sft": "supervised fine-tuning",
    "reward": "train a reward model on preferences",
    "ppo": "PPO on a reward, with a critic",
    "grpo": "GRPO and its variants on a reward, without a critic",
    "dpo": "DPO and its variants on preferences, without a reward",
    "online_dpo": "DPO on pairs sampled from the policy and ranked by a reward",
    "iterative_ppo": "PPO, with a reward model that is trained on",
    "lagged_grpo": "GRPO on completions of an earlier policy",
}

COMMANDS = {
    **{name: ("ppobook.cli.language.train:stage", summary) for name, summary in STAGES.items()},
    "train": ("ppobook.cli.language.train:own", "train by a stage of your own"),
    "sample": ("ppobook.cli.language.evaluate:sample", "print completions of a model"),
    "evaluate": ("ppobook.cli.language.evaluate:evaluate", "evaluate a model, or a reward model"),
    "compare": ("ppobook.cli.language.evaluate:compare", "compare models on the same prompts"),
    "best_of_n": ("ppobook.cli.language.evaluate:best_of_n", "sample n completions, keep the best"),
    "ladder": ("ppobook.cli.language.evaluate:ladder", "rewards of texts with more and more kind words"),
    "export": ("ppobook.cli.language.evaluate:export", "export a model for transformers"),
    "smollm2": ("ppobook.cli.language.smollm2:smollm2", "download a pretrained chat model to train"),
}

EXAMPLES = """\
  ppobook language sft --out base
  ppobook language reward base --out reward_model
  ppobook language ppo base --reward reward_model --out ppo
  ppobook language grpo base --reward reward_model --variant dr_grpo --out grpo
  ppobook language dpo base --out dpo
  ppobook language compare base ppo grpo dpo --reward-model reward_model --reference base
  ppobook language best_of_n base --reward-model reward_model --n 1,4,16,64"""


def run(words: Sequence[str], prog: str) -> None:
    """Run the command that the first word names."""
    run_command(words, prog, COMMANDS, EXAMPLES)
