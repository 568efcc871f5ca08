"""The policy-gradient loss against sums written out, and against the gradient it stands for."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ppobook.objectives import policy_gradient_loss


def slow_loss(logp, advantages, mask, reduction, denominator):
    """One entry after another, in Python numbers."""
    rows = []
    for row_logp, row_adv, row_mask in zip(
        logp.reshape(-1, logp.shape[-1]).tolist(),
        advantages.reshape(-1, logp.shape[-1]).tolist(),
        mask.reshape(-1, logp.shape[-1]).tolist(),
        strict=True,
    ):
        rows.append([-p * a for p, a, m in zip(row_logp, row_adv, row_mask, strict=True) if m])
    everything = [x for row in rows for x in row]
    if reduction == "token":
        return sum(everything) / len(everything)
    if reduction == "sequence":
        return sum(sum(row) / len(row) for row in rows) / len(rows)
    return sum(everything) / denominator


@settings(deadline=None, max_examples=80)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([(4,), (3, 4), (2, 3, 5)]),
    st.sampled_from(["token", "sequence", "constant"]),
    st.booleans(),
)
def test_loss_is_the_sum_written_out(seed, shape, reduction, masked):
    rng = np.random.default_rng(seed)
    logp, advantages = rng.normal(size=(2, *shape))
    mask = np.ones(shape, dtype=bool)
    if masked:
        mask = rng.random(shape) < 0.6
        mask[..., 0] = True
    denominator = 7.5 if reduction == "constant" else None
    # What is masked out must not be read: it may be anything.
    padded = [torch.tensor(np.where(mask, x, np.nan)) for x in (logp, advantages)]
    found = policy_gradient_loss(
        *padded, mask=torch.tensor(mask) if masked else None, reduction=reduction, denominator=denominator
    )
    assert found.shape == ()
    wanted = slow_loss(logp, advantages, mask, reduction, denominator)
    torch.testing.assert_close(found.item(), wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("reduction", ["token", "sequence", "constant"])
def test_gradient_by_finite_differences(reduction):
    generator = torch.Generator().manual_seed(0)
    logp, advantages = torch.randn(2, 3, 4, dtype=torch.float64, generator=generator).unbind()
    mask = torch.rand(3, 4, generator=generator) < 0.6
    mask[:, 0] = True
    denominator = 5.0 if reduction == "constant" else None

    def loss(x):
        return policy_gradient_loss(x, advantages, mask=mask, reduction=reduction, denominator=denominator)

    x = logp.clone().requires_grad_()
    assert torch.autograd.gradcheck(loss, (x,))
    loss(x).backward()
    assert (x.grad[~mask] == 0).all()


def test_padding_that_is_not_a_number_does_not_reach_the_gradient():
    logp = torch.tensor([-1.0, torch.nan, -torch.inf], requires_grad=True)
    advantages = torch.tensor([2.0, torch.nan, torch.inf])
    loss = policy_gradient_loss(logp, advantages, mask=torch.tensor([1, 0, 0]))
    loss.backward()
    assert loss.item() == 2.0
    assert logp.grad.tolist() == [-2.0, 0.0, 0.0]


def test_its_gradient_is_the_policy_gradient():
    """Every action of a bandit once, weighted with its probability: minus the exact gradient of E[reward]."""
    logits = torch.tensor([0.2, -0.4, 1.0], dtype=torch.float64, requires_grad=True)
    reward = torch.tensor([3.0, -1.0, 0.5], dtype=torch.float64)
    (exact,) = torch.autograd.grad(logits.softmax(0) @ reward, logits)
    for baseline in (0.0, 10.0):
        weights = logits.softmax(0).detach() * (reward - baseline)
        loss = policy_gradient_loss(logits.log_softmax(0), weights, reduction="constant", denominator=1.0)
        (found,) = torch.autograd.grad(loss, logits)
        torch.testing.assert_close(found, -exact, rtol=1e-9, atol=1e-9)


def test_sign():
    """A step downhill makes a good action more probable, a bad one less."""
    for advantage in (1.0, -1.0):
        logits = torch.zeros(2, requires_grad=True)
        policy_gradient_loss(logits.log_softmax(0)[:1], torch.tensor([advantage])).backward()
        with torch.no_grad():
            after = (logits - 0.1 * logits.grad).softmax(0)[0]
        assert (after > 0.5) == (advantage > 0)


def test_advantages_are_detached_and_logp_rules_the_dtype():
    logp = torch.full((3,), -1.0, requires_grad=True)
    advantages = torch.ones(3, dtype=torch.float64, requires_grad=True)
    loss = policy_gradient_loss(logp, advantages)
    assert loss.dtype == torch.float32
    loss.backward()
    assert logp.grad is not None
    assert advantages.grad is None


def test_finite_numbers_whose_sum_overflows_are_welcome():
    logp = torch.tensor([-3e38, -3e38], requires_grad=True)
    loss = policy_gradient_loss(logp, torch.tensor([1e-30, 1e-30]))
    assert loss.item() == pytest.approx(3e8)


def test_reductions_differ_where_sequences_do():
    """Two sequences of 1 and 3 tokens, all with loss 1 and 0: by token 1/4, by sequence 1/2."""
    logp = torch.tensor([[-1.0, -9.0, -9.0], [0.0, 0.0, 0.0]])
    mask = torch.tensor([[1, 0, 0], [1, 1, 1]])
    by = {
        reduction: policy_gradient_loss(
            logp, torch.ones(2, 3), mask=mask, reduction=reduction, denominator=denominator
        ).item()
        for reduction, denominator in [("token", None), ("sequence", None), ("constant", 10)]
    }
    assert by == pytest.approx({"token": 0.25, "sequence": 0.5, "constant": 0.1})


ONE = torch.ones(2, 3)


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ({"advantages": torch.ones(2, 1)}, ValueError, r"advantages has shape \(2, 1\); \(2, 3\) is wanted"),
        ({"advantages": ONE * torch.nan}, ValueError, r"advantages is nan at index \(0, 0\); finite"),
        ({"logp": ONE * torch.inf}, ValueError, r"logp is inf at index \(0, 0\); finite numbers are wanted"),
        ({"logp": torch.ones(0), "advantages": torch.ones(0)}, ValueError, r"logp is empty \(shape \(0,\)\)"),
        ({"logp": ONE.numpy()}, TypeError, "logp is of type ndarray; a torch tensor is wanted"),
        (
            {"advantages": ONE.long()},
            TypeError,
            "advantages has dtype torch.int64; a floating dtype is wanted",
        ),
        ({"mask": torch.ones(3)}, ValueError, r"mask has shape \(3,\); \(2, 3\) is wanted"),
        ({"mask": torch.zeros(2, 3)}, ValueError, "mask is 0 everywhere; at least one entry that counts"),
        ({"mask": 2 * ONE}, ValueError, r"mask is 2 at index \(0, 0\); bool or 0/1 is wanted"),
        ({"mask": ONE.numpy()}, TypeError, "mask is a NumPy array and logp is a torch tensor"),
        ({"reduction": "mean"}, ValueError, "reduction is 'mean'; one of 'token', 'sequence', 'constant'"),
        ({"reduction": "tokens"}, ValueError, "reduction is 'tokens'; did you mean 'token'?"),
        ({"reduction": None}, ValueError, "reduction is None"),
        ({"reduction": "constant"}, ValueError, "denominator is None; reduction='constant' wants the number"),
        ({"reduction": "constant", "denominator": 0}, ValueError, "denominator is 0; a number above 0"),
        ({"reduction": "constant", "denominator": "8"}, TypeError, "denominator is '8'; a number above 0"),
        ({"denominator": 6}, ValueError, "denominator is 6 with reduction='token'; it belongs to"),
        (
            {"reduction": "sequence", "mask": torch.tensor([[1, 1, 1], [0, 0, 0]])},
            ValueError,
            "mask is 0 in all of row 1; under reduction='sequence' each sequence needs at least one token",
        ),
        (
            {
                "logp": torch.tensor(1.0),
                "advantages": torch.tensor(1.0),
                "mask": torch.tensor(True),
                "reduction": "sequence",
            },
            ValueError,
            "mask is a single number; an array whose last axis is the tokens of a sequence is wanted",
        ),
    ],
)
def test_refuses(arguments, error, sentence):
    with pytest.raises(error, match=sentence):
        policy_gradient_loss(**{"logp": ONE, "advantages": ONE} | arguments)
