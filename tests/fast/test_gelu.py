"""The fast form of GELU is torch's, with its first and second derivatives."""

import torch
from torch.nn import functional as F  # noqa: N812

from ppobook.fast.gelu import gelu


def test_gelu_is_torchs():
    x = torch.linspace(-12, 12, 4001, dtype=torch.float64)
    torch.testing.assert_close(gelu(x), F.gelu(x, approximate="tanh"), rtol=1e-12, atol=1e-14)
    for dtype in (torch.float32, torch.bfloat16):
        few = x.to(dtype)
        torch.testing.assert_close(gelu(few), F.gelu(few, approximate="tanh"), rtol=1e-5, atol=1e-6)
    mine, its = x.clone().requires_grad_(), x.clone().requires_grad_()
    gelu(mine).cos().sum().backward()
    F.gelu(its, approximate="tanh").cos().sum().backward()
    torch.testing.assert_close(mine.grad, its.grad, rtol=1e-12, atol=1e-14)
    assert torch.autograd.gradcheck(gelu, x[::200].clone().requires_grad_())
    far = torch.tensor([-1e4, 1e4], requires_grad=True)
    gelu(far).sum().backward()
    assert gelu(far).tolist() == [0, 1e4]
    assert far.grad.tolist() == [0, 1]
    assert torch.autograd.gradgradcheck(gelu, x[::200].clone().requires_grad_())
