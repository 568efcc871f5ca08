"""The decoder against GPT-2 written out in loops; padding; gradients; initial weights."""

import math

import numpy as np
import pytest
import torch
from small_language import EOS, PAD, rough_decoder

from ppobook.language.model import Decoder, DecoderConfig, Scalar
from ppobook.language.tokens import token_logp

CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def decoder(**given):
    return rough_decoder(**{"vocab_size": 11, "heads": 3, "scale": 0.3} | given)


def padded(rows, columns, seed=0, junk=None):
    """Rows of ids with padding at random columns, which holds `junk`."""
    rng = np.random.default_rng(seed)
    tokens = torch.tensor(rng.integers(0, 11, (len(rows), columns)))
    tokens = tokens if junk is None else torch.full_like(tokens, junk)
    mask = torch.zeros(len(rows), columns, dtype=torch.bool)
    for b, row in enumerate(rows):
        places = np.sort(rng.choice(columns, len(row), replace=False))
        tokens[b, places], mask[b, places] = torch.tensor(row), True
    return tokens, mask


ROWS = [[5, 3, 1, 7, 2], [4], [10, 9, 8, 0, 6, 5, 4], [2, 2, 2]]


# --- the model -----------------------------------------------------------------------------------------


def norm_by_hand(x, weight, bias):
    mean = sum(x) / len(x)
    var = sum((a - mean) ** 2 for a in x) / len(x)
    return [(a - mean) / math.sqrt(var + 1e-5) * w + b for a, w, b in zip(x, weight, bias, strict=True)]


def linear_by_hand(x, weight, bias):
    return [sum(a * w for a, w in zip(x, row, strict=True)) + b for row, b in zip(weight, bias, strict=True)]


def gpt2_by_hand(model, ids):
    """Logits after each of some ids, one number at a time."""
    w = {name: tensor.double().tolist() for name, tensor in model.state_dict().items()}
    heads = model.config.heads
    depth = model.width // heads
    stream = [
        [a + b for a, b in zip(w["wte.weight"][i], w["wpe.weight"][place], strict=True)]
        for place, i in enumerate(ids)
    ]
    for layer in range(model.config.layers):

        def of(name, x, layer=layer, by=linear_by_hand):
            return by(x, w[f"blocks.{layer}.{name}.weight"], w[f"blocks.{layer}.{name}.bias"])

        qkv = [of("qkv", of("ln_1", x, by=norm_by_hand)) for x in stream]
        for i, x in enumerate(stream.copy()):
            seen = []
            for h in range(heads):
                at = [
                    range(part * model.width + h * depth, part * model.width + (h + 1) * depth)
                    for part in range(3)
                ]
                scores = [
                    sum(qkv[i][q] * qkv[j][k] for q, k in zip(at[0], at[1], strict=True)) / math.sqrt(depth)
                    for j in range(i + 1)
                ]
                weights = [math.exp(s) for s in scores]
                for v in at[2]:
                    seen.append(sum(a * qkv[j][v] for j, a in enumerate(weights)) / sum(weights))
            x = [a + b for a, b in zip(x, of("proj", seen), strict=True)]
            inner = [
                0.5 * u * (1 + math.tanh(math.sqrt(2 / math.pi) * (u + 0.044715 * u**3)))
                for u in of("up", of("ln_2", x, by=norm_by_hand))
            ]
            stream[i] = [a + b for a, b in zip(x, of("down", inner), strict=True)]
    last = [norm_by_hand(x, w["ln_f.weight"], w["ln_f.bias"]) for x in stream]
    words = w["wte.weight"]
    logits = [linear_by_hand(x, words, [0.0] * len(words)) for x in last]
    return torch.tensor(logits, dtype=torch.float64)


def test_it_is_gpt2_written_out():
    """Wherever padding stands, and whatever it holds."""
    model = decoder()
    tokens, mask = padded(ROWS, 12, junk=-100)
    logits = model(tokens, mask)
    assert logits.shape == (4, 12, 11)
    assert logits.isfinite().all()
    for b, row in enumerate(ROWS):
        expected = gpt2_by_hand(model, row)
        scale = expected.abs().max().item()
        torch.testing.assert_close(logits[b][mask[b]] / scale, expected / scale, **CLOSE)
        torch.testing.assert_close(model(torch.tensor([row]))[0] / scale, expected / scale, **CLOSE)


@pytest.mark.parametrize("columns", [7, 20])
def test_padding_changes_nothing(columns):
    """Neither logits nor gradients, wherever it stands, whatever it holds; 20 columns exceed the context."""
    model = decoder()

    def summed_squares(tokens, mask):
        logits = model(tokens, mask)[mask]
        return logits, torch.autograd.grad((logits**2).sum(), list(model.parameters()))

    logits, gradients = summed_squares(*padded(ROWS, columns, junk=PAD))
    plain = [summed_squares(torch.tensor([row]), torch.ones(1, len(row), dtype=torch.bool)) for row in ROWS]
    torch.testing.assert_close(logits, torch.cat([alone for alone, _ in plain]), **CLOSE)
    for found, *each in zip(gradients, *(gradient for _, gradient in plain), strict=True):
        scale = sum(each).abs().max()
        torch.testing.assert_close(found / scale, sum(each) / scale, **CLOSE)
    for junk in (EOS, -1, 2**62):
        same, others = summed_squares(*padded(ROWS, columns, junk=junk))
        assert torch.equal(same, logits)
        assert all(torch.equal(a, b) for a, b in zip(gradients, others, strict=True))


def test_gradients_are_those_of_finite_differences():
    model = decoder(width=6, heads=2)
    tokens, mask = padded(ROWS, 9)
    names, weights = zip(*model.named_parameters(), strict=True)

    def loss(*given):
        logits = torch.func.functional_call(model, dict(zip(names, given, strict=True)), (tokens, mask))
        return token_logp(logits[:, :-1], tokens[:, 1:], mask=mask[:, 1:] & mask[:, :-1]).sum()

    assert torch.autograd.gradcheck(loss, weights, fast_mode=True)


def test_first_weights():
    config = DecoderConfig(500, context=300, layers=3, width=96, heads=4, eos=EOS, pad=PAD)
    state = torch.random.get_rng_state()
    model = Decoder(config, seed=3)
    assert torch.equal(torch.random.get_rng_state(), state)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert (parameter == 0).all()
        elif "ln" in name:
            assert (parameter == 1).all()
        else:
            std = 0.02 / math.sqrt(6) if name.endswith(("proj.weight", "down.weight")) else 0.02
            assert parameter.mean().item() == pytest.approx(0, abs=5 * std / math.sqrt(parameter.numel()))
            assert parameter.std().item() == pytest.approx(std, rel=5 / math.sqrt(2 * parameter.numel()))
    # As many as GPT-2 of these sizes has; the words stand in one table for both ends.
    w = config.width
    assert sum(p.numel() for p in model.parameters()) == (500 + 300) * w + 3 * (12 * w * w + 13 * w) + 2 * w
    assert torch.equal(Decoder(config, seed=seeded(3)).wte.weight, model.wte.weight)


# --- the scalar head ------------------------------------------------------------------------------------


def test_scalar_is_a_linear_map_of_the_hidden_states():
    body = decoder()
    scalar = Scalar(body)
    tokens, mask = padded(ROWS, 9)
    assert (scalar(tokens, mask) == 0).all()
    with torch.no_grad():
        for parameter in scalar.output.parameters():
            parameter += torch.randn(parameter.shape, generator=seeded(4), dtype=torch.float64)
    found = scalar(tokens, mask)
    weight, constant = scalar.output.weight[0], scalar.output.bias
    expected = (body.hidden(tokens, mask) * weight).sum(dim=-1) + constant
    torch.testing.assert_close(found[mask], expected[mask], rtol=1e-9, atol=1e-9)
    assert (found[~mask] == 0).all()
    torch.testing.assert_close(scalar(tokens[:1]), (body.hidden(tokens[:1]) * weight).sum(dim=-1) + constant)
    assert found.dtype == torch.float64
