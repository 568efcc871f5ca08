"""The interactive figure of the chapter on DPO, without a browser."""

from __future__ import annotations

import math

import pytest
import torch

from ppobook.preferences import dpo_loss
from ppobook.teaching.figures import pair_moved

REF, KIND = (0.40, 0.30, 0.18, 0.08, 0.03, 0.01), (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("pair", [(1, 0), (3, 5)])
def test_descending_dpo_s_loss_leads_there(shared, pair):
    """Gradient descent on the pair's loss, until it is so far apart, makes the same policy."""
    ref = torch.tensor(REF, dtype=torch.float64)
    kind = torch.tensor(KIND, dtype=torch.float64)
    weights = torch.zeros(1 if shared else 6, dtype=torch.float64, requires_grad=True)
    h = 0.0
    while h < 2:
        logp = (ref.log() + (weights * kind if shared else weights)).log_softmax(0)
        sides = [logp[[y]] for y in pair], [ref[[y]].log() for y in pair]
        h = (logp - ref.log())[pair[0]].item() - (logp - ref.log())[pair[1]].item()
        loss, _ = dpo_loss(*sides[0], *sides[1], 0.3)
        (slope,) = torch.autograd.grad(loss, weights)
        weights = (weights - 0.3 * slope).detach().requires_grad_()
    found = pair_moved(REF, KIND, pair, h, shared=shared)
    assert found.probs == pytest.approx(logp.exp().detach().numpy(), abs=1e-9)
    assert found.chosen - found.rejected == pytest.approx(h)
    assert found.weight == pytest.approx(0.3 * (1 - found.choice))
    assert found.choice == pytest.approx(1 / (1 + math.exp(-0.3 * h)))
