"""What PPO writes at each weight β of the KL, as training goes on: texts from over-optimisation.

The runs are those of `results/language_overoptimisation` with the usual learning rate, on the first two of
its seeds, at every β and with both kinds of reward model. They are made again, since that record keeps no
texts: same seeds, same numbers. At each look the first completions of the 256 that are measured there are
kept, with the true reward and the reward model's. `gold_mean` and `kl`, of all 256, are for comparison with
that record.
"""

import sys
from functools import partial
from pathlib import Path

from ppobook.experiments import record
from ppobook.language import World, evaluate
from ppobook.language.rewards import RewardModel
from ppobook.language.run import Run

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_chain.shared import FRESH, followed, judge, learner_of, rewards_of, sft
from language_overoptimisation.run import LOOKS, LR, POOLINGS, UPDATES

SHOWN = 2
BETAS = (0.0, 0.03, 0.1, 0.3, 1.0)
SETTINGS = [{"pooling": pooling, "kl_coef": beta} for pooling in POOLINGS for beta in BETAS]


def written(policy: object, base: Run, proxy: RewardModel, seed: int) -> dict[str, object]:
    """The first completions of those that the over-optimisation's record measures."""
    found = evaluate(policy, World(), reference=base, n=256, seed=10_000 + seed)
    rewards, first = rewards_of(proxy, found.completions), slice(0, SHOWN)
    texts = found.completions.select(first).texts(World().tokenizer, eos=True)
    return {
        "gold_mean": found.numbers["gold"],
        "kl": found.numbers["kl_reference"],
        "prompts": found.prompts[first],
        "texts": [text.replace("<eos>", "").strip() if "<eos>" in text else f"{text} …" for text in texts],
        "gold": found.gold[first].tolist(),
        "proxy": rewards[first].tolist(),
    }


def one(seed: int, pooling: str, kl_coef: float) -> list[dict]:
    base, proxy = sft(seed), judge(seed, pooling)
    learner = learner_of("ppo", base, seed, reward=proxy, kl_coef=kl_coef, lr=LR)
    rows, look_at = [], partial(written, base=base, proxy=proxy, seed=seed)
    for look in followed(learner, look_at, looks=LOOKS, updates=UPDATES):
        columns = zip(look["prompts"], look["texts"], look["gold"], look["proxy"], strict=True)
        shared = {name: look[name] for name in ("update", "kl", "gold_mean")}
        rows += [
            {**shared, "prompt": prompt, "text": text, "gold": gold, "proxy": reward}
            for prompt, text, gold, reward in columns
        ]
    return rows


if __name__ == "__main__":
    record(
        "language_beta_texts",
        one,
        SETTINGS,
        seeds=FRESH[:2],
        digits=4,
        note="The first two seeds of language_overoptimisation; nothing chosen by what they write.",
    )
