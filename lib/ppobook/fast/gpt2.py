"""GPT-2 of transformers, computed by this library's decoder from GPT-2's own parameters.

The two are the same function. Where a model is small, theirs spends most of its time on its way from one
product of matrices to the next, so `ppobook.language.pretrained` asks here first. Nothing is copied: what is
trained are their parameters, and other models go through their own code.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from ppobook.language.model import Block, Decoder, DecoderConfig, Weights

# By what their config says: the parts in which GPT-2s may differ, and what ours has.
_OURS: dict[str, tuple[Any, ...]] = {
    "activation_function": ("gelu_pytorch_tanh", "gelu_new"),
    "layer_norm_epsilon": (1e-5,),
    "scale_attn_weights": (True,),
    "scale_attn_by_inverse_layer_idx": (False,),
    "add_cross_attention": (False,),
}


class Borrowed(Decoder):
    """Our decoder on the parameters of a GPT-2.

    Parameters
    ----------
    body : transformers.GPT2Model
    head : torch module or None
        From hidden vectors to logits.
    eos, pad : int
    """

    def __init__(self, body: Any, head: nn.Module | None, *, eos: int, pad: int) -> None:
        nn.Module.__init__(self)
        c = body.config
        words = len(body.wte.weight)
        self.config = DecoderConfig(words, c.n_positions, c.n_layer, c.n_embd, c.n_head, eos=eos, pad=pad)
        self.vocab_size, self.context, self.width = words, c.n_positions, c.n_embd
        self.eos, self.pad = eos, pad
        self.wte, self.wpe, self.ln_f, self.output = body.wte, body.wpe, body.ln_f, head
        self.blocks = nn.ModuleList(BorrowedBlock(block, c.n_head) for block in body.h)

    def head(self, hidden: Tensor) -> Tensor:
        """Logits from hidden vectors, [..., width] to [..., V]."""
        assert self.output is not None
        logits: Tensor = self.output(hidden)
        return logits


class BorrowedBlock(Block):
    """A block of ours on the parameters of one of theirs, whose matrices are transposed."""

    def __init__(self, block: Any, heads: int) -> None:
        nn.Module.__init__(self)
        self.heads, self.block = heads, block

    def weights(self) -> Weights:
        """Looked up anew each time: a module may have been given others."""
        b: Any = self.block
        return Weights(
            b.ln_1.weight,
            b.ln_1.bias,
            b.attn.c_attn.weight.t(),
            b.attn.c_attn.bias,
            b.attn.c_proj.weight.t(),
            b.attn.c_proj.bias,
            b.ln_2.weight,
            b.ln_2.bias,
            b.mlp.c_fc.weight.t(),
            b.mlp.c_fc.bias,
            b.mlp.c_proj.weight.t(),
            b.mlp.c_proj.bias,
        )


def borrowed(net: Any, *, eos: int, pad: int) -> Borrowed | None:
    """Our decoder on the parameters of a model of transformers, if it is a GPT-2 of the usual kind.

    Parameters
    ----------
    net : transformers.PreTrainedModel
        A causal model, or the body of one.
    """
    body, config = net.base_model, net.config
    parts = {"GPT2Model": body} if net is body else {"GPT2Model": body, "GPT2LMHeadModel": net}
    for name, part in parts.items():
        kind = type(part)
        # A subclass, or a forward pass that somebody has put there, may do something else.
        if kind.__name__ != name or not kind.forward.__module__.startswith("transformers."):
            return None
    if any(getattr(config, name) not in values for name, values in _OURS.items()):
        return None
    return Borrowed(body, getattr(net, "lm_head", None), eos=eos, pad=pad)
