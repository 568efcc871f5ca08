"""Small models, completions and rewards for the tests of ppobook.language."""

import torch
from torch import nn

from ppobook.language.model import Decoder, DecoderConfig
from ppobook.language.tokens import Completions, WordTokenizer, left_pad, right_pad

EOS, PAD = WordTokenizer.eos, WordTokenizer.pad


class ScriptedReward:
    """A reward that a function of completions gives."""

    name, module = "scripted", None

    def __init__(self, function):
        self.function = function

    def __call__(self, completions, columns):
        return self.function(completions)


def rough(model, seed=0, scale=0.15):
    """Add noise to the weights, far larger than their initialization."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter += scale * noise.to(parameter.dtype)
    return model


def rough_decoder(vocab_size=9, seed=0, scale=0.4, dtype=torch.float64, **sizes):
    """A decoder with weights far from their initialization, where attention is nearly uniform."""
    given = {"context": 16, "width": 12} | sizes
    model = Decoder(DecoderConfig(vocab_size, **given, eos=EOS, pad=PAD)).double()
    return rough(model, seed, scale).to(dtype)


def completions(prompts=((3, 4), (5,), (2, 3, 6)), answers=((4, 7, EOS), (2, 5, 6, 8), (EOS,))):
    """From lists of ids; one that does not end in eos is truncated."""
    left, left_mask = left_pad(prompts, PAD)
    right, right_mask = right_pad(answers, PAD)
    ended = torch.tensor([answer[-1] == EOS for answer in answers])
    logp = -torch.arange(1.0, right.numel() + 1).view(right.shape) * right_mask
    return Completions(left, left_mask, right, right_mask, logp, ended)


class Table(nn.Module):
    """A policy of completions of up to two tokens: logits for the start, and for what follows each token."""

    vocab_size, eos, pad, context, width = 3, 1, 0, 3, 4

    def __init__(self, probabilities):
        super().__init__()
        self.logits = nn.Parameter(torch.tensor(probabilities, dtype=torch.float64).log())

    def hidden(self, ids, mask=None):
        mask = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask
        state = torch.where(mask.cumsum(1) == 1, 0, 1 + ids.masked_fill(~mask, 0))
        return nn.functional.one_hot(state, 4).double()

    def head(self, hidden):
        return hidden @ self.logits

    def forward(self, ids, mask=None):
        return self.head(self.hidden(ids, mask))

    @torch.no_grad()
    def start_cache(self, ids, mask, room):
        return self.logits[:1].expand(len(ids), -1).clone(), None

    @torch.no_grad()
    def step(self, ids, cache):
        return self.logits[1 + ids]


# All completions of that world.
EVERY = [[1], *([first, second] for first in (0, 2) for second in (0, 1, 2))]


def timeless(history):
    return history.drop(columns=[name for name in history.columns if name.startswith("seconds")])


def same(a, b):
    """Return True if two parts of checkpoints are the same to the bit."""
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


def same_run(a, b):
    assert timeless(a.history).equals(timeless(b.history))
    assert same(a.model.state_dict(), b.model.state_dict())
    one, other = (run._checkpoint.state for run in (a, b))
    assert same(one["stage"], other["stage"])
    for part in ("architecture", "tokenizer", "config"):
        assert one[part] == other[part]
