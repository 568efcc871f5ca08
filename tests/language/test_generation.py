"""The cache against reading all tokens again, and `generate` against a slow loop."""

import itertools
import math
from types import SimpleNamespace

import pytest
import torch
from scipy import stats
from small_language import EOS, PAD, rough_decoder
from torch.nn import functional as F  # noqa: N812

from ppobook.language.generation import draw, generate, restrict
from ppobook.language.model import Block, Scalar
from ppobook.language.tokens import completion_logits, left_pad, token_logp

CLOSE = {torch.float64: {"rtol": 1e-9, "atol": 1e-9}, torch.float32: {"rtol": 1e-5, "atol": 1e-5}}
DTYPES = [torch.float64, torch.float32]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def decoder(**given):
    return rough_decoder(**{"vocab_size": 11, "heads": 3, "scale": 0.3} | given)


# --- the cache -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lengths", [(3, 3, 3), (3, 1, 2)])
def test_with_a_cache_as_without(dtype, lengths):
    model, generator = decoder(dtype=dtype), seeded()
    prompts, mask = left_pad([torch.randint(2, 11, (n,), generator=generator).tolist() for n in lengths], PAD)
    news = torch.randint(11, (3, 13), generator=generator)
    whole = torch.cat([prompts, news], dim=1)
    whole_mask = torch.cat([mask, torch.ones(3, 13, dtype=torch.bool)], dim=1)
    expected = model(whole, whole_mask)[:, 2:]
    form = model
    for given in (mask, None) if lengths == (3, 3, 3) else (mask,):
        logits, cache = form.start_cache(prompts, given, 13)
        memory = [layer.memory.data_ptr() for layer in cache.layers]
        found = [logits] + [form.step(news[:, t], cache) for t in range(13)]
        torch.testing.assert_close(torch.stack(found, dim=1), expected, **CLOSE[dtype])
        assert [layer.memory.data_ptr() for layer in cache.layers] == memory
        with pytest.raises(ValueError, match="the cache must have room for another token, got all 16 in use"):
            form.step(news[:, 0], cache)


def test_no_token_is_read_twice(monkeypatch):
    model, read = decoder(layers=1), []
    plain = Block.attention
    monkeypatch.setattr(Block, "attention", lambda *x: (read.append(x[1].shape[1]), plain(*x))[1])
    model.eos = 11
    generate(model, torch.full((2, 5), 3), None, 8, generator=seeded())
    assert read == [5] + [1] * 7


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
@pytest.mark.parametrize("dtype", DTYPES)
def test_generation_is_that_of_a_slow_loop(settings, dtype):
    model = decoder(dtype=dtype, scale=0.2)
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
        torch.testing.assert_close(c.logp[b, :n], torch.tensor(logp, dtype=dtype), **CLOSE[dtype])
        assert (c.logp[b, n:] == 0).all()
        assert bool(c.ended[b]) == (answer[-1] == EOS)
    assert torch.equal(c.prompts, prompts)
    assert torch.equal(c.prompt_mask, mask)
    assert not c.logp.requires_grad
    if settings.get("temperature") != 0:
        assert 0 < c.ended.sum() < len(c)  # both kinds of ending are in the test


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_logp_is_the_models_own(settings):
    """At its temperature, before top_k and top_p: the ratio of a first gradient step is 1."""
    model = decoder(scale=0.2)
    c = generate(model, *left_pad(PROMPTS, PAD), 9, **settings, generator=seeded(2))
    again = token_logp(completion_logits(model, c), c.tokens, settings.get("temperature") or 1.0, mask=c.mask)
    torch.testing.assert_close(again, c.logp, rtol=1e-9, atol=1e-9)


def test_a_row_that_has_ended_samples_nothing_more():
    model = decoder(scale=0.2)
    with torch.no_grad():
        model.wte.weight[EOS] *= 2.0
    c = generate(model, torch.full((200, 2), 3), None, 12, generator=seeded())
    assert 20 < c.ended.sum() < 200
    is_eos = c.tokens == EOS
    assert torch.equal((is_eos & c.mask).sum(dim=1), c.ended.long())
    for row, mask, logp, ended in zip(c.tokens, c.mask, c.logp, c.ended, strict=True):
        n = row.tolist().index(EOS) + 1 if ended else len(row)
        assert mask.tolist() == [True] * n + [False] * (len(row) - n)
        assert (row[n:] == PAD).all()
        assert (logp[:n] < 0).all()
        assert (logp[n:] == 0).all()


def test_rows_do_not_disturb_each_other():
    """Neither by their tokens nor by when they end; and the generator always ends in the same state."""
    model, prompts = decoder(scale=0.2), torch.randint(2, 11, (8, 3), generator=seeded(5))
    states = []

    def first_row(prompts, eos):
        model.eos, generator = eos, seeded(1)
        c = generate(model, prompts, None, 10, generator=generator)
        states.append(generator.get_state())
        return c.tokens[0][c.mask[0]].tolist()

    other = prompts.clone()
    other[1:] = 7
    expected = first_row(prompts, eos=11)
    assert len(expected) == 10
    assert first_row(other, eos=11) == expected
    assert first_row(prompts, eos=expected[4]) == expected[: expected.index(expected[4]) + 1]
    assert all(torch.equal(states[0], state) for state in states)


def test_it_stops_when_all_have_ended():
    model = decoder()
    model.eos = generate(model, torch.full((3, 2), 3), None, 1, temperature=0).tokens[0, 0].item()
    c = generate(model, torch.full((3, 2), 3), None, 10, temperature=0)
    assert c.tokens.tolist() == [[model.eos]] * 3
    assert c.ended.all()


def test_greedy_needs_no_generator_and_top_1_is_greedy():
    model = decoder()
    greedy = generate(model, *left_pad(PROMPTS, PAD), 9, temperature=0)
    only = generate(model, *left_pad(PROMPTS, PAD), 9, top_k=1, generator=seeded())
    tiny = generate(model, *left_pad(PROMPTS, PAD), 9, top_p=1e-9, generator=seeded())
    assert torch.equal(greedy.tokens, only.tokens)
    assert torch.equal(greedy.tokens, tiny.tokens)
    assert torch.equal(greedy.logp, only.logp)


def test_the_generator_decides():
    model, state = decoder(), torch.random.get_rng_state()
    drawn = [generate(model, *left_pad(PROMPTS, PAD), 9, generator=seeded(s)).tokens for s in (1, 1, 2)]
    assert torch.equal(drawn[0], drawn[1])
    assert drawn[0].shape != drawn[2].shape or not torch.equal(drawn[0], drawn[2])
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("name", [name for name in SETTINGS if name != "greedy"])
def test_frequencies_are_the_probabilities(name):
    """Of all completions of two tokens, by a chi-square test on 20,000 of them."""
    settings = SETTINGS[name]
    model, n = decoder(vocab_size=6, scale=0.25), 20_000
    temperature = settings.get("temperature", 1.0)
    limits = settings.get("top_k"), settings.get("top_p")

    def probabilities(*ids):
        with torch.no_grad():
            p = (model(torch.tensor([ids]))[0, -1] / temperature).softmax(dim=-1).tolist()
        keep = supported(p, *limits)
        return {i: p[i] / math.fsum(p[k] for k in keep) for i in keep}

    expected = {}
    for first, p in probabilities(4, 2).items():
        for second, q in {PAD: 1.0}.items() if first == EOS else probabilities(4, 2, first).items():
            expected[first, second] = p * q
    assert sum(expected.values()) == pytest.approx(1)
    c = generate(model, torch.tensor([[4, 2]]).expand(n, 2), None, 2, **settings, generator=seeded(11))
    found = dict.fromkeys(expected, 0)
    for pair in map(tuple, c.tokens.tolist()):
        found[pair] += 1  # a KeyError here is a token outside of the support
    rare = [pair for pair, p in expected.items() if p * n < 5]
    pooled = [pair for pair in expected if pair not in rare]
    counts = [found[pair] for pair in pooled] + [sum(found[pair] for pair in rare)] * bool(rare)
    wanted = [expected[pair] for pair in pooled] + [sum(expected[pair] for pair in rare)] * bool(rare)
    assert len(counts) >= 4
    assert stats.chisquare(counts, [p * n for p in wanted]).pvalue > 1e-3


def test_rows_have_their_own_support():
    p = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.45, 0.45]])
    assert (restrict(p.log(), top_p=0.6) > -math.inf).tolist() == [[True, False, False], [False, True, True]]


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


class Bigram(torch.nn.Module):
    """A user's model, whose logits depend on the last token only: it needs no cache."""

    vocab_size, eos, pad, context, width = 4, EOS, PAD, 10, 4

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(4, 4, generator=seeded(1), dtype=torch.float64))

    def hidden(self, tokens, mask=None):
        return F.one_hot(tokens, 4).to(self.table.dtype)

    def head(self, hidden):
        return hidden @ self.table

    def forward(self, tokens, mask=None):
        return self.head(self.hidden(tokens, mask))

    def start_cache(self, tokens, mask, room):
        return self(tokens)[:, -1], SimpleNamespace()

    def step(self, tokens, cache):
        return self(tokens[:, None])[:, -1]


def test_any_model_will_do():
    model = Bigram()
    c = generate(model, torch.tensor([[2], [3]]), None, 6, generator=seeded())
    for b in range(2):
        before = c.prompts[b, -1]
        for t in range(int(c.lengths[b])):
            exact = model.table[before].log_softmax(dim=-1)[c.tokens[b, t]]
            assert c.logp[b, t].item() == pytest.approx(exact.item(), abs=1e-12)
            before = c.tokens[b, t]
    critic = Scalar(model)
    assert critic(c.inputs, c.input_mask).shape == c.inputs.shape
