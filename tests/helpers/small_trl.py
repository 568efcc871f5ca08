"""Small models, completions and trainers that TRL's losses and ours are compared on."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import small_pretrained
import torch
from small_pretrained import EOS, PAD, WORDS, V, seeded, words

from ppobook.language import hf
from ppobook.language.pretrained_tokenizer import open_tokenizer
from ppobook.language.stage import Task
from ppobook.language.tokens import Completions, completion_logits, left_pad, right_pad, token_logp

SIZES = {
    "llama": {"hidden_size": 16, "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 24},
    "gpt2": {"n_embd": 16, "n_head": 2, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0},
}


def net_of(seed=0, kind="llama", **changes):
    """A model of transformers without dropout, in the training mode that TRL expects."""
    return small_pretrained.net_of(kind, seed, **SIZES[kind], **changes).train()


def plain(folder, **more):
    """Settings of all of TRL's configs: on the CPU, in float32, nothing saved or logged."""
    return {"output_dir": str(folder), "use_cpu": True, "bf16": False, "report_to": "none"} | {
        "save_strategy": "no",
        "disable_tqdm": True,
        **more,
    }


def opened(net, tokenizer=None):
    return hf.open_pretrained(net, tokenizer or words())[0]


def stage_of(room, kind, name, *, net, reference=1, data, tokenizer=None, reward_model=None, **settings):
    """A stage of ours on a copy of their model."""
    tokenizer = open_tokenizer(tokenizer or words())
    if not isinstance(reference, torch.nn.Module):
        reference = net_of(reference)
    task = Task(opened(net), tokenizer, data, reward_model, opened(reference).requires_grad_(False))
    cls = getattr(room, kind)
    return cls(task, cls.settings_class.make(name, settings, {}), seed=0)


def close(found, wanted, tolerance=1e-5):
    torch.testing.assert_close(
        torch.as_tensor(found, dtype=torch.float32),
        torch.as_tensor(wanted, dtype=torch.float32),
        rtol=tolerance,
        atol=tolerance,
    )


def our_gradients(loss, model):
    """By the names that transformers has for the weights."""
    weights = dict(model.named_parameters())
    found = torch.autograd.grad(loss, list(weights.values()), allow_unused=True)
    names = [n.removeprefix("body.").removeprefix("output.").replace("decoder.", "model.") for n in weights]
    names = ["score.weight" if name == "weight" else name for name in names]
    return dict(zip(names, found, strict=True))


def their_gradients(loss, net):
    return dict(
        zip(dict(net.named_parameters()), torch.autograd.grad(loss, list(net.parameters())), strict=True)
    )


def same_gradients(ours, theirs, factor=1.0):
    assert ours.keys() == theirs.keys()
    biggest = 0.0
    for name, gradient in theirs.items():
        close(ours[name], factor * gradient, tolerance=3e-5)
        biggest = max(biggest, gradient.abs().max().item())
    assert biggest > 1e-3, "the gradients must not all be 0"


PROMPTS = ["say fox :", "the owl", "hen sits by the mill ."]


def random_completions(prompts=3, each=4, longest=6, seed=0):
    """Completions of random words, of many lengths; every other one has ended."""
    g = seeded(seed)
    rows = [[5, 9, 6], [7], [4, 4, 11, 10, 8]][:prompts]
    asked = [row for row in rows for _ in range(each)]
    said = [
        torch.randint(4, V, (1 + (3 * i) % longest,), generator=g).tolist() + [EOS] * (i % 2)
        for i in range(len(asked))
    ]
    tokens, mask = right_pad(said, PAD)
    ended = torch.tensor([row[-1] == EOS for row in said])
    return Completions(*left_pad(asked, PAD), tokens, mask, torch.zeros(tokens.shape), ended)


def logp_of(model, completions, temperature=1.0):
    """log π of each token, without a gradient."""
    with torch.no_grad():
        logits = completion_logits(model, completions)
        return token_logp(logits, completions.tokens, temperature, mask=completions.mask)


def with_logp(completions, model, temperature, seed=1, scale=0.6):
    """The same with π_old at a distance from the model, so that some ratios are clipped."""
    logp = logp_of(model, completions, temperature)
    noise = scale * torch.randn(logp.shape, generator=seeded(seed))
    c = completions
    return Completions(c.prompts, c.prompt_mask, c.tokens, c.mask, (logp + noise) * c.mask, c.ended)


def as_theirs(completions, advantages, ref_logp):
    """The batch as GRPOTrainer and RLOOTrainer pass it to their loss."""
    c = completions
    return {
        "prompt_ids": c.prompts,
        "prompt_mask": c.prompt_mask.long(),
        "completion_ids": c.tokens,
        "completion_mask": c.mask.long(),
        "advantages": advantages,
        "old_per_token_logps": c.logp,
        "old_logps": c.logp.sum(dim=1),
        "ref_per_token_logps": ref_logp,
        "num_items_in_batch": c.mask.sum(),
    }


def from_theirs(batch, logp):
    """The batch of their trainers, as Completions."""
    mask, tokens = batch["completion_mask"].bool(), batch["completion_ids"]
    ended = tokens.gather(1, mask.sum(dim=1, keepdim=True) - 1)[:, 0] == EOS
    return Completions(batch["prompt_ids"], batch["prompt_mask"].bool(), tokens, mask, logp, ended)


def some_reward(prompts, completions, **columns):
    """A different number for almost every text; special tokens do not count."""
    said = [[WORDS.index(w) for w in text.split() if WORDS.index(w) > 3] for text in completions]
    return [0.3 * len(row) + sum(0.01 * w * w * (i + 1) for i, w in enumerate(row)) % 1.7 for row in said]
