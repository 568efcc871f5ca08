"""Over-optimisation on the tiny language world: gold, proxy and a held-out judge against KL, in training.

Does the true reward fall while the reward model's goes on rising, at which KL, and which part of gold falls?
PPO at five weights β of the KL, on reward models that read the last token, as the field's do (Stiennon et
al. 2020, Ouyang et al. 2022), and on such as sum over tokens, the library's default. Rewards have standard
deviation 1 on the policy after SFT (`language_chain/shared.py`), so a β is the same in both.

Why gold is what it is at the same KL, and what a penalty for a missing end does, is asked in
`results/language_overoptimisation_controls`.

The learning rate, the range of β and the number of updates were chosen on seeds 0 to 2, so that the curves
show where they lead to; the seeds here are fresh, and all are reported. The question, and gold and proxy
against KL, are those of Gao, Schulman and Hilton 2023, "Scaling laws for reward model overoptimization",
whose gold is a larger reward model, and here a formula. They find that a KL penalty acts like early stopping:
at the same KL gold is the same with and without.

Each row is of 256 completions of the policy after so many updates; row 0 is the policy after SFT. Of the
first seed, `texts.json` has what the policies write in the end, to the same prompts: drawn, not chosen.
"""

import copy
import json
import sys
from functools import partial
from pathlib import Path

import torch

from ppobook.experiments import record, results
from ppobook.language import World, generate

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_chain.shared import (
    FRESH,
    KEPT,
    at_kl,
    ends,
    followed,
    judge,
    learner_of,
    looked_at,
    rewards_of,
    sft,
    summed_up,
)

LOOKS = 12
LR, UPDATES = 3e-4, 60
POOLINGS, BETAS = ("last", "sum"), (0.0, 0.03, 0.1, 0.3, 1.0)
SETTINGS = [{"pooling": pooling, "kl_coef": beta} for beta in BETAS for pooling in POOLINGS]
SHOWN = {"prompts": [0, 5, 10, 15], "seed": 0}


def one(seed: int, pooling: str, kl_coef: float) -> list[dict]:
    return curve(seed, pooling, kl_coef, updates=UPDATES, lr=LR)


def curve(
    seed: int, pooling: str, kl_coef: float, updates: int, keep: bool = True, **how: object
) -> list[dict]:
    """Measures of a policy along the way; the trained policy may be kept beside what it began with."""
    base, proxy, held_out = sft(seed), judge(seed, pooling), judge(seed, pooling, held_out=True)
    learner = learner_of("ppo", base, seed, reward=proxy, kl_coef=kl_coef, **how)
    look = partial(looked_at, base=base, proxy=proxy, held_out=held_out, seed=seed)
    rows = followed(learner, look, looks=LOOKS, updates=updates)
    if keep:
        torch.save(learner.model.state_dict(), trained(seed, pooling, kl_coef))
    return [{"update": row.pop("update"), **row} for row in rows]


def trained(seed: int, pooling: str, kl_coef: float) -> Path:
    """Return the path at which the weights of a policy are kept after training."""
    return KEPT / str(seed) / f"ppo_{pooling}_{kl_coef:g}.pt"


def texts(seed: int) -> list[dict]:
    """Sample what the policies of a seed write to a few prompts, with reward and gold; SFT's first."""
    world, base = World(), sft(seed)
    prompts, mask = world.prompt_tokens()
    rows = torch.tensor(SHOWN["prompts"])
    found = []
    for setting in [{"pooling": pooling, "kl_coef": None} for pooling in POOLINGS] + SETTINGS:
        model = copy.deepcopy(base.model)
        if setting["kl_coef"] is not None:
            model.load_state_dict(torch.load(trained(seed, **setting)))
        generator = torch.Generator().manual_seed(SHOWN["seed"])
        written = generate(model, prompts[rows], mask[rows], world.max_new_tokens, generator=generator)
        proxy = rewards_of(judge(seed, setting["pooling"]), written)
        found += [
            {
                **setting,
                "prompt": prompt,
                "text": text,
                "proxy": round(r.item(), 2),
                "gold": round(g.item(), 2),
            }
            for prompt, text, r, g in zip(
                written.prompt_texts(world.tokenizer),
                written.texts(world.tokenizer, eos=True),
                proxy,
                world.gold(written),
                strict=True,
            )
        ]
    return found


if __name__ == "__main__":
    name, settings = "language_overoptimisation", list(SETTINGS[0])
    path = record(
        name,
        one,
        SETTINGS,
        seeds=FRESH,
        digits=4,
        note="Learning rate, β and length of training chosen on seeds 0 to 2; every seed reported.",
    )
    said = json.dumps(texts(FRESH[0]), indent=1, ensure_ascii=False)
    path.with_name("texts.json").write_text(said + "\n", encoding="utf-8")
    columns = ["kl", "proxy", "held_out", "gold", "kind_words", "errors", "length", "ended", "entropy"]
    summed_up(name, settings, [*columns, "distinct_2"], ends(name, settings))
    matched = at_kl(results(name), [*settings, "seed"], (1, 2, 4, 8, 16), ["gold", "proxy", "update"])
    summed_up(f"{name}, at the same KL", [*settings, "at_kl"], ["gold", "proxy", "update"], matched)
