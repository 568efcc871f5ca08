"""Arguments of an update of GRPO: completions with log-probabilities from a table of logits."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from .descent import GradientDescent


class Batch:
    """Completions of some prompts by a table of logits, [prompts, columns, words], and who updates it.

    The log-probabilities are nan in the padding.
    """

    __travels__ = True  # with the optimizer, which moves its logits: see `descent`

    def __init__(
        self, logits: np.ndarray, tokens: np.ndarray, mask: np.ndarray, gap: np.ndarray, rate: float
    ) -> None:
        self.logits = torch.tensor(logits, dtype=torch.float32, requires_grad=True)
        self.before = logits.copy()
        self.tokens, self.mask = torch.tensor(tokens), torch.tensor(mask)
        self.prompt = torch.arange(len(tokens)) // (len(tokens) // len(logits))
        self.optimizer = GradientDescent(self.logits, rate)
        self.ref_logp = self.logp().detach() + torch.tensor(gap, dtype=torch.float32)
        self.calls = 0

    def logp(self) -> Tensor:
        every = torch.log_softmax(self.logits, dim=-1)[self.prompt]
        taken = every.gather(-1, self.tokens[..., None])[..., 0]
        return torch.where(self.mask, taken, torch.nan)

    def logp_of(self) -> Tensor:
        """log π of each token under the present weights."""
        self.calls += 1
        return self.logp()

    @property
    def moved(self) -> np.ndarray:
        return np.asarray(self.logits.detach().double().numpy() - self.before)
