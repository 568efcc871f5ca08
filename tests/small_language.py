"""What tests of the language stages begin from: rough weights, a told reward, a world of three tokens."""

import torch
from torch import nn


class Told:
    """A reward that a function of completions gives."""

    name, module = "told", None

    def __init__(self, function):
        self.function = function

    def __call__(self, completions, columns):
        return self.function(completions)


def rough(model, seed=0, scale=0.15):
    """Weights far from their quiet start."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter += scale * noise.to(parameter.dtype)
    return model


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
