"""Stages of language training on a tiny world: random models, tasks, log-probabilities row by row."""

import functools

import torch
from small_language import ScriptedReward, rough

from ppobook.language.grpo import GRPO
from ppobook.language.model import Decoder, DecoderConfig
from ppobook.language.ppo import PPO
from ppobook.language.rewards import RewardModel
from ppobook.language.stage import Task
from ppobook.language.tokens import Completions, right_pad
from ppobook.language.training import train
from ppobook.language.world import World

TINY = {"nouns": 2, "places": 2, "verbs": 2, "adjectives": 2, "clauses": [1.0], "max_new_tokens": 10}
WORLD = World(**TINY)
WORDS = WORLD.tokenizer
# Prompts of several lengths.
RECORDS = [{"prompt": text} for text in ("tell fox barn :", "the owl", "fox", "by the", ": : :")]
# Prompts of one, two and four words, and what was said of another length on either side.
PREFERENCES = [
    {"prompt": prompt, "chosen": chosen, "rejected": rejected}
    for prompt, chosen, rejected in (
        ("tell fox barn :", "the fox sits by the barn .", "the owl"),
        ("the owl", "sits .", "sits by the barn and the fox runs ."),
        ("fox", "runs", "runs runs runs runs"),
        ("tell owl hill :", "the kind owl runs by the hill .", "the grim fox sits ."),
        ("the barn", "by the hill", "."),
        ("tell fox hill :", "fox .", "the fox and the owl and the fox"),
        (": :", "bright fox", "grim fox"),
    )
]


def decoder(vocab_size=WORDS.vocab_size, seed=0, *, ends=False, **sizes):
    """A decoder in float64 with large random weights; with `ends`, more of its completions end early."""
    given = {"context": 20, "layers": 1, "width": 16, "heads": 2} | sizes
    config = DecoderConfig(vocab_size, **given, eos=WORDS.eos, pad=WORDS.pad)
    model = rough(Decoder(config, seed=seed).double(), seed + 1)
    if ends:
        with torch.no_grad():
            model.ln_f.bias += model.wte.weight[1] / model.wte.weight[1].norm() ** 2
    return model


def reward_model(seed=40, pooling="sum"):
    made = RewardModel(decoder(seed=seed, ends=True), pooling, bias=False).double()
    return rough(made, seed=seed, scale=0.05)


def gold(completions):
    return WORLD.gold(completions).double()


def stage(kind, *, model=None, reward=None, data=WORLD, tokenizer=WORDS, reference=None, **settings):
    """A stage on the tiny world, rewarded by gold; its reference is another decoder."""
    model = model or decoder(tokenizer.vocab_size)
    reference = (reference or decoder(tokenizer.vocab_size, seed=5)).requires_grad_(False)
    given = kind.settings_class.make(kind.algorithm, {"batch_size": 12} | settings, {})
    return kind(Task(model, tokenizer, data, reward or ScriptedReward(gold), reference), given, seed=3)


@functools.cache
def base(max_new_tokens=14, updates=120, seed=1):
    """A run of SFT on the tiny world that takes a second or two."""
    sizes = {"layers": 1, "width": 32, "heads": 2, "examples": 600, "eval_examples": 0}
    world = World(**TINY | {"max_new_tokens": max_new_tokens})
    return train("sft", data=world, progress=False, seed=seed, updates=updates, **sizes)


# Settings of PPO that take all of its branches.
PPO_SETTINGS = [
    {},
    {"truncation": "bootstrap", "normalize_advantages": "minibatch", "lam": 0.7, "gamma": 0.9},
    {"truncation": "penalty", "missing_eos_penalty": 2.5, "value_clip_eps": 0.02, "kl_estimator": "k3"},
    {"kl_in": "loss", "kl_estimator": "k3", "entropy_coef": 0.3, "clip_eps_high": 0.05, "temperature": 0.7},
    {"kl_in": "loss", "kl_estimator": "k2", "kl_weighted": False, "reduction": "sequence"},
    {"reduction": "constant", "normalize_rewards": True, "normalize_advantages": "none", "clip_eps": 0.05},
]


def ppo(**given):
    """PPO whose critic is random too."""
    made = stage(PPO, **given)
    rough(made.critic, seed=9)
    return made


def grpo(**given):
    """GRPO on four groups of three completions; twelve of one for the variant without groups."""
    return stage(GRPO, **{"group_size": 1 if given.get("variant") == "reinforce++" else 3} | given)


# ------------------------------------------------------------------------------------ one row at a time


def rows_of(completions):
    """Prompts and completions as lists of ids."""
    c = completions
    return [(c.prompts[b][c.prompt_mask[b]].tolist(), c.tokens[b][c.mask[b]].tolist()) for b in range(len(c))]


def log_probs(model, prompt, said, temperature=1.0):
    """log π of each word after the prompt and after each token, from one row without padding."""
    logits = model(torch.tensor([prompt + said]))[0] / temperature
    return logits.log_softmax(-1)[len(prompt) - 1 :]


def token_log_probs(model, prompt, said, temperature=1.0):
    """log π of each token of a completion."""
    log_p = log_probs(model, prompt, said, temperature)
    return torch.stack([log_p[t, y] for t, y in enumerate(said)])


def completions_of(rows, model=None):
    """Completions of the prompt [2] from rows of tokens; with a `Table`, with its log-probabilities."""
    said, mask = right_pad(rows, 0)
    prompts = torch.full((len(rows), 1), 2)
    logp = torch.zeros(said.shape, dtype=torch.float64)
    if model is not None:
        log_p = model.logits.detach().log_softmax(-1)
        for b, row in enumerate(rows):
            for t, y in enumerate(row):
                logp[b, t] = log_p[0 if t == 0 else 1 + row[0], y]
    ended = torch.tensor([row[-1] == 1 for row in rows])
    return Completions(prompts, torch.ones_like(prompts, dtype=torch.bool), said, mask, logp, ended)


def weights_of(module):
    return {name: x.clone() for name, x in module.state_dict().items()}


# -------------------------------------------------------------------------------------------- contracts


def check_first_ratio_is_one(made):
    """In the first gradient step of an update the ratio is 1, up to the rounding of a cache."""
    loss, metrics = made.loss, []

    def noted(batch, outputs):
        found = loss(batch, outputs)
        metrics.append(found[1])
        return found

    made.loss = noted
    row = made.step(0)
    first, *later = metrics
    assert len(later) == made.settings.epochs * made.settings.num_minibatches - 1
    assert abs(first["ratio_mean"] - 1) < 1e-12
    assert first["ratio_std"] < 1e-12
    assert first["approx_kl"] < 1e-15
    assert first["clip_fraction"] == 0
    assert all(one["ratio_std"] > 1e-4 for one in later)
    assert row["ratio_std"] > 1e-4


def check_reference_is_fixed(made):
    """Two updates change the model and not the reference."""
    before, model = weights_of(made.reference), weights_of(made.model)
    for k in range(2):
        made.step(k)
    assert all(torch.equal(x, before[name]) for name, x in made.reference.state_dict().items())
    assert not any(torch.equal(x, model[name]) for name, x in made.model.state_dict().items())
