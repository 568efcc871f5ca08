"""The cache against reading all tokens again, and `generate` against a slow loop."""

import itertools
import math

import pytest
import torch
from small_language import EOS, PAD, rough_decoder

from ppobook.language.generation import draw, generate
from ppobook.language.tokens import left_pad

CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def decoder(**given):
    return rough_decoder(**{"vocab_size": 11, "heads": 3, "scale": 0.3} | given)


# --- the cache -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("lengths", [(3, 3, 3), (3, 1, 2)])
def test_with_a_cache_as_without(lengths):
    model, generator = decoder(), seeded()
    prompts, mask = left_pad([torch.randint(2, 11, (n,), generator=generator).tolist() for n in lengths], PAD)
    news = torch.randint(11, (3, 13), generator=generator)
    whole = torch.cat([prompts, news], dim=1)
    whole_mask = torch.cat([mask, torch.ones(3, 13, dtype=torch.bool)], dim=1)
    expected = model(whole, whole_mask)[:, 2:]
    for given in (mask, None) if lengths == (3, 3, 3) else (mask,):
        logits, cache = model.start_cache(prompts, given, 13)
        memory = [layer.memory.data_ptr() for layer in cache.layers]
        found = [logits] + [model.step(news[:, t], cache) for t in range(13)]
        torch.testing.assert_close(torch.stack(found, dim=1), expected, **CLOSE)
        assert [layer.memory.data_ptr() for layer in cache.layers] == memory
        with pytest.raises(ValueError, match="the cache must have room for another token, got all 16 in use"):
            model.step(news[:, 0], cache)


# --- generation ----------------------------------------------------------------------------------------


def supported(p, top_k, top_p):
    """The tokens that may be sampled, of a list of probabilities."""
    ranked = sorted(range(len(p)), key=lambda i: -p[i])[:top_k]
    total, kept, mass = sum(p[i] for i in ranked), [], 0.0
    for i in ranked:
        if top_p is not None and mass >= top_p:
            break
        kept.append(i)
        mass += p[i] / total
    return kept


def generate_slowly(model, prompts, limit, temperature, top_k, top_p, generator):
    """Row by row and token by token, without a cache."""
    uniform = torch.rand(len(prompts), limit, generator=generator, dtype=torch.float64)
    for row, us in zip(prompts, uniform.tolist(), strict=True):
        answer, logp = [], []
        for u in us:
            with torch.no_grad():
                logits = model(torch.tensor([[*row, *answer]]))[0, -1]
            z = [x / (temperature or 1.0) for x in logits.tolist()]
            weights = [math.exp(x - max(z)) for x in z]
            p = [w / math.fsum(weights) for w in weights]
            keep = supported(p, top_k, top_p)
            if temperature == 0:
                token = p.index(max(p))
            else:
                mass = math.fsum(p[i] for i in keep)
                edges = itertools.accumulate(p[i] / mass if i in keep else 0.0 for i in range(len(p)))
                token = next(i for i, edge in enumerate(edges) if u < edge)
            answer.append(token)
            logp.append(math.log(p[token]))
            if token == model.eos:
                break
        yield answer, logp


PROMPTS = [[5, 3, 7], [4], [10, 9], [2, 2, 2], [6, 3]] * 6
SETTINGS = {
    "plain": {},
    "hot": {"temperature": 2.0},
    "cold": {"temperature": 0.5},
    "greedy": {"temperature": 0},
    "top_k": {"top_k": 3},
    "top_p": {"top_p": 0.6},
    "all": {"temperature": 1.4, "top_k": 6, "top_p": 0.8},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_generation_is_that_of_a_slow_loop(settings):
    model = decoder(scale=0.2)
    prompts, mask = left_pad(PROMPTS, PAD)
    c = generate(model, prompts, mask, 9, **settings, generator=seeded(2))
    given = {"temperature": 1.0, "top_k": None, "top_p": None} | settings
    slow = list(generate_slowly(model, PROMPTS, 9, **given, generator=seeded(2)))
    lengths = [len(answer) for answer, _ in slow]
    assert c.tokens.shape[1] == max(lengths)
    assert c.lengths.tolist() == lengths
    for b, (answer, logp) in enumerate(slow):
        n = len(answer)
        assert c.tokens[b].tolist() == answer + [PAD] * (max(lengths) - n)
        torch.testing.assert_close(c.logp[b, :n], torch.tensor(logp, dtype=torch.float64), **CLOSE)
        assert (c.logp[b, n:] == 0).all()
        assert bool(c.ended[b]) == (answer[-1] == EOS)
    assert torch.equal(c.prompts, prompts)
    assert torch.equal(c.prompt_mask, mask)
    assert not c.logp.requires_grad
    if settings.get("temperature") != 0:
        assert 0 < c.ended.sum() < len(c)  # both kinds of ending are in the test


def test_draw_lays_probabilities_end_to_end():
    p = torch.tensor([0.0, 0.25, 0.0, 0.5, 0.25, 0.0], dtype=torch.float64).log()
    u = torch.tensor([0.0, 0.2499, 0.25, 0.7499, 0.75, 1 - 2.0**-53], dtype=torch.float64)
    assert draw(p.expand(6, -1), u).tolist() == [1, 1, 3, 3, 4, 4]
    assert draw(p.float().expand(6, -1), u).tolist() == [1, 1, 3, 3, 4, 4]
    # A uniform distribution over a vocabulary as large as GPT-2's.
    places = torch.tensor([0, 1, 25_000, 50_255, 50_256])
    u = (places + 0.5).double() / 50_257
    assert draw(torch.zeros(5, 50_257), u).tolist() == places.tolist()


def test_prompts_may_be_wide_where_they_are_padding():
    """Only tokens count against the context; padding is not read."""
    model = decoder()
    row = torch.tensor([[3, 5, 6]])
    wide = torch.cat([torch.full((1, 40), -100), row], dim=1)
    found = generate(model, wide, torch.arange(43)[None] >= 40, 13, generator=seeded())
    plain = generate(model, row, None, 13, generator=seeded())
    assert torch.equal(found.tokens, plain.tokens)
    torch.testing.assert_close(found.logp, plain.logp, rtol=1e-9, atol=1e-9)
    assert (found.prompts[:, :40] == PAD).all()


def test_a_model_that_has_diverged_is_refused():
    model = decoder()
    with torch.no_grad():
        model.ln_f.bias += math.nan
    for settings in ({}, {"temperature": 0}, {"top_p": 0.5}, {"top_k": 2}):
        with pytest.raises(FloatingPointError, match="the model's logits must be finite"):
            generate(model, torch.full((2, 3), 4), None, 4, **settings, generator=seeded())
