"""A `Decoder` as GPT-2 of transformers, and back."""

import pytest
import torch
from small_pretrained import EOS, PAD, ROWS, net_of, opened, seeded

from ppobook.language import gpt2
from ppobook.language.generation import generate
from ppobook.language.model import Decoder
from ppobook.language.tokens import left_pad


def test_gpt2_in_our_decoder_is_gpt2(transformers):
    net = net_of("gpt2")
    model, decoder = opened(net), gpt2.to_decoder(net, eos=EOS, pad=PAD)
    assert isinstance(decoder, Decoder)
    tokens, mask = left_pad(ROWS, PAD)
    torch.testing.assert_close(decoder(tokens, mask)[mask], model(tokens, mask)[mask], rtol=1e-5, atol=1e-5)
    mine, theirs = (
        generate(m, tokens, mask, 12, temperature=1.3, top_k=9, top_p=0.9, generator=seeded(3))
        for m in (decoder, model)
    )
    assert torch.equal(mine.tokens, theirs.tokens)
    torch.testing.assert_close(mine.logp, theirs.logp, rtol=1e-5, atol=1e-5)
    there = gpt2.from_decoder(decoder)
    assert torch.equal(there(input_ids=tokens).logits, net(input_ids=tokens).logits)
    for changes, said in (
        ({"activation_function": "relu"}, "'relu'"),
        ({"n_inner": 48}, "48"),
        ({"tie_word_embeddings": False}, "False"),
    ):
        with pytest.raises(ValueError, match=f"model must have .*, got {said}"):
            gpt2.to_decoder(net_of("gpt2", **changes), eos=EOS, pad=PAD)
    with pytest.raises(ValueError, match="model must be a GPT2LMHeadModel, got Llama"):
        gpt2.to_decoder(net_of("llama"), eos=EOS, pad=PAD)
