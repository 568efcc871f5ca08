"""GPT-2 of transformers, computed by `Decoder` and its blocks on GPT-2's own parameters.

The plain form is transformers' own forward pass and cache, through `ppobook.language.pretrained`. The two are
the same function; in a small model theirs spends most of its time between the products of matrices. Nothing
is copied: the parameters that are trained are theirs.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from ppobook.fast import decoding
from ppobook.language.model import Block, Decoder, DecoderConfig

# The values of a GPT2Config for which it is the function that `Decoder` computes.
OURS: dict[str, tuple[Any, ...]] = {
    "model_type": ("gpt2",),
    "activation_function": ("gelu_pytorch_tanh", "gelu_new"),
    "layer_norm_epsilon": (1e-5,),
    "scale_attn_weights": (True,),
    "scale_attn_by_inverse_layer_idx": (False,),
    "add_cross_attention": (False,),
}


def use(model: Any, fast: bool) -> None:
    """Let a `Pretrained` compute as a `Decoder` if its config is that of a GPT-2, or by its own code."""
    known = all(getattr(model.config, name, None) in values for name, values in OURS.items())
    model.set_decoder(GPT2Decoder(model) if fast and known else None)


class GPT2Decoder(Decoder):
    """A `Decoder` on the parameters of a GPT-2.

    Parameters
    ----------
    model : Pretrained
    """

    def __init__(self, model: Any) -> None:
        nn.Module.__init__(self)
        c, body = model.config, model.decoder
        self.vocab_size, self.context, self.width = len(body.wte.weight), c.n_positions, c.n_embd
        self.eos, self.pad = model.eos, model.pad
        self.config = DecoderConfig(
            self.vocab_size, self.context, c.n_layer, c.n_embd, c.n_head, eos=model.eos, pad=model.pad
        )
        self.wte, self.wpe, self.ln_f = body.wte, body.wpe, body.ln_f
        self.blocks = nn.ModuleList(GPT2Block(block, c.n_head) for block in body.h)
        self.output = getattr(model.output, "lm_head", None)
        decoding.use(self, True)

    def head(self, hidden: Tensor) -> Tensor:
        """Logits from final hidden states, [..., width] to [..., V]."""
        assert self.output is not None
        logits: Tensor = self.output(hidden)
        return logits


class GPT2Block(Block):
    """A `Block` on the parameters of one of GPT-2."""

    def __init__(self, block: Any, heads: int) -> None:
        nn.Module.__init__(self)
        self.heads = heads
        self.ln_1, self.ln_2 = block.ln_1, block.ln_2
        self.qkv, self.proj = Transposed(block.attn.c_attn), Transposed(block.attn.c_proj)
        self.up, self.down = Transposed(block.mlp.c_fc), Transposed(block.mlp.c_proj)


class Transposed(nn.Module):
    """transformers' Conv1D as a linear layer, whose weight is its transposed."""

    def __init__(self, conv: Any) -> None:
        super().__init__()
        self.conv = conv

    @property
    def weight(self) -> Tensor:
        weight: Tensor = self.conv.weight
        return weight.t()

    @property
    def bias(self) -> Tensor:
        bias: Tensor = self.conv.bias
        return bias

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)
