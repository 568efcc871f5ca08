"""The decoder against GPT-2 written out in loops; cache and padding; generation against a slow loop."""

import itertools
import math
import pickle
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats
from spoiling import spoil
from torch.nn import functional as F  # noqa: N812

from ppobook.language import model as room
from ppobook.language.model import (
    Decoder,
    DecoderConfig,
    Scalar,
    draw,
    gelu,
    generate,
    load_model,
    restrict,
    save_model,
)
from ppobook.language.tokens import completion_logits, left_pad, token_logp

EOS, PAD = 1, 0
CLOSE = {torch.float64: {"rtol": 1e-9, "atol": 1e-9}, torch.float32: {"rtol": 1e-5, "atol": 1e-5}}
DTYPES = [torch.float64, torch.float32]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def rough_decoder(dtype=torch.float64, seed=0, scale=0.3, **sizes):
    """A decoder whose weights are far from their quiet start, where attention is all but even."""
    given = {"vocab_size": 11, "context": 16, "width": 12, "layers": 2, "heads": 3} | sizes
    model = Decoder(DecoderConfig(**given, eos=EOS, pad=PAD)).double()
    generator = seeded(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += scale * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return model.to(dtype)


def padded(rows, columns, seed=0, junk=None):
    """Rows of ids with gaps at random places among them, where junk stands."""
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


@pytest.mark.parametrize("dtype", DTYPES)
def test_it_is_gpt2_written_out(dtype):
    """Wherever padding stands, and whatever stands there."""
    model = rough_decoder(dtype)
    tokens, mask = padded(ROWS, 12, junk=-100)
    logits = model(tokens, mask)
    assert logits.shape == (4, 12, 11)
    assert logits.dtype == dtype
    assert logits.isfinite().all()
    for b, row in enumerate(ROWS):
        expected = gpt2_by_hand(model, row).to(dtype)
        scale = expected.abs().max().item()
        torch.testing.assert_close(logits[b][mask[b]] / scale, expected / scale, **CLOSE[dtype])
        torch.testing.assert_close(model(torch.tensor([row]))[0] / scale, expected / scale, **CLOSE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", [7, 9, 16, 20])
def test_padding_changes_nothing(dtype, columns):
    """No number and no gradient, by where it stands or what it holds; 20 columns are over the context."""
    model = rough_decoder(dtype)

    def summed_squares(tokens, mask):
        logits = model(tokens, mask)[mask]
        return logits, torch.autograd.grad((logits**2).sum(), list(model.parameters()))

    logits, gradients = summed_squares(*padded(ROWS, columns, junk=PAD))
    plain = [summed_squares(torch.tensor([row]), torch.ones(1, len(row), dtype=torch.bool)) for row in ROWS]
    torch.testing.assert_close(logits, torch.cat([alone for alone, _ in plain]), **CLOSE[dtype])
    for found, *each in zip(gradients, *(gradient for _, gradient in plain), strict=True):
        scale = sum(each).abs().max()
        torch.testing.assert_close(found / scale, sum(each) / scale, **CLOSE[dtype])
    for junk in (10, EOS, 11, -1, 2**62):
        same, others = summed_squares(*padded(ROWS, columns, junk=junk))
        assert torch.equal(same, logits)
        assert all(torch.equal(a, b) for a, b in zip(gradients, others, strict=True))


def test_a_word_that_is_nan_at_padding_reaches_nothing():
    """Its row of the table is NaN, and so would all be that it touches."""
    model, word = rough_decoder(), 6
    rows = [row for row in ROWS if word not in row]
    tokens, mask = padded(rows, 9, junk=word)
    expected = model.hidden(tokens, mask)[mask]
    with torch.no_grad():
        model.wte.weight[word] = math.nan
    found = model.hidden(tokens, mask)[mask]
    assert torch.equal(found, expected)
    gradients = torch.autograd.grad(found.sum(), list(model.parameters()))
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_a_row_of_padding_only_is_finite():
    model = rough_decoder()
    mask = torch.tensor([[False] * 4, [True, True, False, False]])
    assert (room._bias(mask.flip(1), model.wte.weight) == 0).any(dim=-1).all()
    logits = model(torch.full((2, 4), 3), mask)
    assert logits.isfinite().all()
    assert all(g.isfinite().all() for g in torch.autograd.grad(logits.sum(), list(model.parameters())))


def test_a_mask_may_be_numbers():
    model = rough_decoder()
    tokens, mask = padded(ROWS, 9)
    prompts, prompt_mask = left_pad(ROWS, PAD)
    expected = generate(model, prompts, prompt_mask, 5, generator=seeded())
    first, _ = model.start_cache(prompts, prompt_mask, 0)
    for kind in (torch.int64, torch.float32, "numpy"):
        same, prompt_same = (x.numpy() if kind == "numpy" else x.to(kind) for x in (mask, prompt_mask))
        assert torch.equal(model(tokens, same), model(tokens, mask))
        assert torch.equal(model.start_cache(prompts, prompt_same, 0)[0], first)
        assert torch.equal(
            generate(model, prompts, prompt_same, 5, generator=seeded()).tokens, expected.tokens
        )


def test_no_token_sees_the_next():
    model, tokens = rough_decoder(), torch.randint(11, (3, 8), generator=seeded())
    before = model(tokens)
    for t in range(1, 8):
        changed = tokens.clone()
        changed[:, t:] = (changed[:, t:] + 5) % 11
        after = model(changed)
        torch.testing.assert_close(after[:, :t], before[:, :t], rtol=1e-12, atol=1e-12)
        assert (after[:, t] - before[:, t]).abs().min() > 1e-6


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


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_gradients_one_sequence_at_a_time():
    """What torch.func.vmap makes of them, for who measures how much they differ."""
    model, tokens = rough_decoder(), torch.randint(11, (3, 6), generator=seeded())

    def loss(weights, row):
        logits = torch.func.functional_call(model, weights, (row[None, :-1],))
        return token_logp(logits[0], row[1:]).sum()

    weights = dict(model.named_parameters())
    found = torch.func.vmap(torch.func.grad(loss), (None, 0))(weights, tokens)
    for b, row in enumerate(tokens):
        alone = torch.autograd.grad(loss(weights, row), list(weights.values()))
        for name, gradient in zip(weights, alone, strict=True):
            torch.testing.assert_close(found[name][b], gradient, rtol=1e-9, atol=1e-9)


def test_gradients_are_those_of_differences():
    model = rough_decoder(width=6, heads=2)
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
    same, other = Decoder(config, seed=3), Decoder(config, seed=4)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), same.parameters(), strict=True))
    assert not torch.equal(model.wte.weight, other.wte.weight)
    generator = seeded(3)
    assert torch.equal(Decoder(config, seed=generator).wte.weight, model.wte.weight)
    assert not torch.equal(Decoder(config, seed=generator).wte.weight, model.wte.weight)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"vocab_size": 0}, "vocab_size is 0; a whole number of at least 1"),
        ({"context": 0}, "context is 0; a whole number of at least 1"),
        ({"layers": 0}, "layers is 0; a whole number of at least 1"),
        ({"heads": 5}, "width is 64 and heads is 5; a multiple of heads is wanted"),
        ({"eos": 11}, "eos is 11; a whole number of at least 0 and at most 10"),
        ({"pad": -1}, "pad is -1; a whole number of at least 0 and at most 10"),
    ],
)
def test_sizes_have_doors(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        DecoderConfig(**{"vocab_size": 11, "eos": EOS, "pad": PAD} | change)


@pytest.mark.parametrize("ask", ["forward", "hidden", "start_cache"])
@pytest.mark.parametrize(
    ("tokens", "mask", "error", "sentence"),
    [
        ([[1, 2]], None, TypeError, "tokens is of type list; a torch tensor is wanted"),
        (torch.ones(2, 3), None, TypeError, "tokens has dtype torch.float32; torch.int64 is wanted"),
        (torch.ones(3).long(), None, ValueError, r"tokens has shape \(3,\); one row of tokens a sequence"),
        (torch.ones(2, 0).long(), None, ValueError, "tokens is empty"),
        (torch.full((2, 3), 11), None, ValueError, "tokens holds ids from 11 to 11; 0 to 10 are wanted"),
        (torch.full((2, 3), -1), None, ValueError, "tokens holds ids from -1 to -1; 0 to 10 are wanted"),
        (torch.ones(2, 17).long(), None, ValueError, "a row of 17 tokens; at most context = 16 are wanted"),
        (torch.ones(2, 18).long(), torch.ones(2, 18), ValueError, "tokens has a row of 18 tokens; at most"),
        (torch.ones(2, 3).long(), torch.ones(2, 2), ValueError, r"mask has shape \(2, 2\); \(2, 3\)"),
        (torch.ones(2, 3).long(), torch.full((2, 3), 0.5), ValueError, r"mask is 0.5 at index \(0, 0\)"),
    ],
)
def test_the_model_has_doors(ask, tokens, mask, error, sentence):
    model = rough_decoder()
    arguments = (tokens, mask, 0) if ask == "start_cache" else (tokens, mask)
    with pytest.raises(error, match=sentence):
        getattr(model, ask)(*arguments)


# --- the cache -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lengths", [(3, 3, 3), (3, 1, 2)])
def test_with_a_cache_as_without(dtype, lengths):
    model, generator = rough_decoder(dtype), seeded()
    prompts, mask = left_pad([torch.randint(2, 11, (n,), generator=generator).tolist() for n in lengths], PAD)
    news = torch.randint(11, (3, 13), generator=generator)
    whole = torch.cat([prompts, news], dim=1)
    whole_mask = torch.cat([mask, torch.ones(3, 13, dtype=torch.bool)], dim=1)
    expected = model(whole, whole_mask)[:, 2:]
    for given in (mask, None) if lengths == (3, 3, 3) else (mask,):
        logits, cache = model.start_cache(prompts, given, 13)
        memory = [layer.data_ptr() for layer in cache.layers]
        found = [logits] + [model.step(news[:, t], cache) for t in range(13)]
        torch.testing.assert_close(torch.stack(found, dim=1), expected, **CLOSE[dtype])
        assert [layer.data_ptr() for layer in cache.layers] == memory
        with pytest.raises(ValueError, match="the cache has room for 16 columns, and all of them are filled"):
            model.step(news[:, 0], cache)


def test_no_token_is_read_twice(monkeypatch):
    model, read = rough_decoder(layers=1), []
    transform = room.transform
    monkeypatch.setattr(room, "transform", lambda x, *rest: (read.append(x.shape[1]), transform(x, *rest))[1])
    model.eos = 11
    generate(model, torch.full((2, 5), 3), None, 8, generator=seeded())
    assert read == [5] + [1] * 7


def test_a_cache_wants_its_room_in_the_context():
    model, prompts = rough_decoder(), torch.full((2, 6), 3)
    with pytest.raises(ValueError, match="a row of 6 tokens and room is 11; together at most context = 16"):
        model.start_cache(prompts, None, 11)
    mask = torch.tensor([[False] * 3 + [True] * 3] * 2)
    model.start_cache(prompts, mask, 13)


def test_logits_of_a_step_are_the_callers():
    """To write to, say to forbid a word; they carry no gradient."""
    model = rough_decoder()
    logits, cache = model.start_cache(torch.full((2, 6), 3), None, 3)
    for given in (logits, model.step(torch.tensor([3, 4]), cache)):
        assert not given.requires_grad
        given[:, PAD] = -math.inf
        weight = torch.ones(2, 11, dtype=torch.float64, requires_grad=True)
        (weight * given.clamp(min=-1)).sum().backward()


# --- generation ----------------------------------------------------------------------------------------


def supported(p, top_k, top_p):
    """The words that may be drawn, of a list of probabilities."""
    ranked = sorted(range(len(p)), key=lambda i: -p[i])[:top_k]
    total, kept, mass = sum(p[i] for i in ranked), [], 0.0
    for i in ranked:
        if top_p is not None and mass >= top_p:
            break
        kept.append(i)
        mass += p[i] / total
    return kept


def generate_slowly(model, prompts, limit, temperature, top_k, top_p, generator):
    """One row after the other, one token after the other, everything read anew each time."""
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
    model = rough_decoder(dtype, scale=0.2)
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
    model = rough_decoder(scale=0.2)
    c = generate(model, *left_pad(PROMPTS, PAD), 9, **settings, generator=seeded(2))
    again = token_logp(completion_logits(model, c), c.tokens, settings.get("temperature") or 1.0, mask=c.mask)
    torch.testing.assert_close(again, c.logp, rtol=1e-9, atol=1e-9)


def test_half_precision_is_not_kept():
    """A model may be in bfloat16; the log-probabilities of what it draws have more digits than that."""
    model = rough_decoder(torch.bfloat16, scale=0.2)
    c = generate(model, *left_pad(PROMPTS, PAD), 9, generator=seeded(2))
    assert c.logp.dtype == torch.float32
    logits = completion_logits(model, c)
    assert logits.dtype == torch.bfloat16
    exact = token_logp(logits.double(), c.tokens, mask=c.mask)
    assert (exact - c.logp).abs().mean() < 0.03
    assert len(c.logp[c.mask].unique()) > 0.9 * len(exact[c.mask].unique())


def test_a_row_that_has_ended_samples_nothing_more():
    model = rough_decoder(scale=0.2)
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
    """Neither by what they are, nor by when they end; and the generator ends where it always does."""
    model, prompts = rough_decoder(scale=0.2), torch.randint(2, 11, (8, 3), generator=seeded(5))
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
    model = rough_decoder()
    model.eos = generate(model, torch.full((3, 2), 3), None, 1, temperature=0).tokens[0, 0].item()
    c = generate(model, torch.full((3, 2), 3), None, 10, temperature=0)
    assert c.tokens.tolist() == [[model.eos]] * 3
    assert c.ended.all()


def test_greedy_needs_no_generator_and_top_1_is_greedy():
    model = rough_decoder()
    greedy = generate(model, *left_pad(PROMPTS, PAD), 9, temperature=0)
    only = generate(model, *left_pad(PROMPTS, PAD), 9, top_k=1, generator=seeded())
    tiny = generate(model, *left_pad(PROMPTS, PAD), 9, top_p=1e-9, generator=seeded())
    assert torch.equal(greedy.tokens, only.tokens)
    assert torch.equal(greedy.tokens, tiny.tokens)
    assert torch.equal(greedy.logp, only.logp)


def test_the_generator_decides():
    model, state = rough_decoder(), torch.random.get_rng_state()
    drawn = [generate(model, *left_pad(PROMPTS, PAD), 9, generator=seeded(s)).tokens for s in (1, 1, 2)]
    assert torch.equal(drawn[0], drawn[1])
    assert drawn[0].shape != drawn[2].shape or not torch.equal(drawn[0], drawn[2])
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("name", [name for name in SETTINGS if name != "greedy"])
def test_frequencies_are_the_probabilities(name):
    """Of all completions of two tokens, by a chi-square test on 20,000 of them."""
    settings = SETTINGS[name]
    model, n = rough_decoder(vocab_size=6, scale=0.25), 20_000
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
        found[pair] += 1  # a KeyError here is a word outside of the support
    rare = [pair for pair, p in expected.items() if p * n < 5]
    pooled = [pair for pair in expected if pair not in rare]
    counts = [found[pair] for pair in pooled] + [sum(found[pair] for pair in rare)] * bool(rare)
    wanted = [expected[pair] for pair in pooled] + [sum(expected[pair] for pair in rare)] * bool(rare)
    assert len(counts) >= 4
    assert stats.chisquare(counts, [p * n for p in wanted]).pvalue > 1e-3


LOG_P = torch.tensor([[0.05, 0.4, 0.1, 0.25, 0.2]], dtype=torch.float64).log()


def test_support_by_hand():
    def support(top_k=None, top_p=None, logits=LOG_P):
        left = restrict(logits, top_k, top_p)
        kept = left > -math.inf
        assert torch.equal(left[kept], logits[kept])
        return kept.nonzero()[:, 1].tolist()

    assert support() == support(top_p=1) == support(top_p=1.0) == support(top_k=5) == support(top_k=99)
    assert support() == [0, 1, 2, 3, 4]
    assert support(top_k=1) == [1]
    assert support(top_k=3) == [1, 3, 4]
    assert support(top_p=0.39) == [1]
    assert support(top_p=0.41) == [1, 3]
    assert support(top_p=0.64) == [1, 3]
    assert support(top_p=0.66) == [1, 3, 4]
    assert support(top_p=0.951) == [0, 1, 2, 3, 4]
    # Of the three that top_k leaves, the first has 0.4 / 0.85 = 0.47, the first two 0.76.
    assert support(top_k=3, top_p=0.45) == [1]
    assert support(top_k=3, top_p=0.48) == [1, 3]
    assert support(top_k=3, top_p=0.77) == [1, 3, 4]
    # What is reached exactly is enough; and of words alike, no more than were asked for.
    even = torch.zeros(1, 4)
    assert len(support(top_p=0.5, logits=even)) == 2
    assert len(support(top_k=2, logits=even)) == 2


def test_rows_have_their_own_support():
    p = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.45, 0.45]])
    assert (restrict(p.log(), top_p=0.6) > -math.inf).tolist() == [[True, False, False], [False, True, True]]


def test_draw_lays_probabilities_end_to_end():
    p = torch.tensor([0.0, 0.25, 0.0, 0.5, 0.25, 0.0], dtype=torch.float64).log()
    u = torch.tensor([0.0, 0.2499, 0.25, 0.7499, 0.75, 1 - 2.0**-53], dtype=torch.float64)
    assert draw(p.expand(6, -1), u).tolist() == [1, 1, 3, 3, 4, 4]
    assert draw(p.float().expand(6, -1), u).tolist() == [1, 1, 3, 3, 4, 4]
    # A vocabulary as large as GPT-2's, of words alike: each has its share of [0, 1).
    places = torch.tensor([0, 1, 25_000, 50_255, 50_256])
    u = (places + 0.5).double() / 50_257
    assert draw(torch.zeros(5, 50_257), u).tolist() == places.tolist()


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({"prompts": torch.ones(2, 3)}, TypeError, "prompts has dtype torch.float32; torch.int64 is wanted"),
        ({"prompts": torch.ones(3).long()}, ValueError, r"prompts has shape \(3,\); one row of tokens"),
        ({"prompts": torch.ones(0, 3).long()}, ValueError, r"prompts is empty \(shape \(0, 3\)\)"),
        ({"prompts": torch.full((2, 3), 11)}, ValueError, "prompts holds ids from 11 to 11; 0 to 10"),
        ({"prompts": torch.full((2, 3), -100)}, ValueError, "prompts holds ids from -100 to -100; 0 to 10"),
        ({"prompts": torch.ones(2, 17).long()}, ValueError, "prompts has a row of 17 tokens and max_new_tok"),
        ({"max_new_tokens": 14}, ValueError, "a row of 3 tokens and max_new_tokens is 14; together at most"),
        ({"max_new_tokens": 0}, ValueError, "max_new_tokens is 0; a whole number of at least 1"),
        ({"max_new_tokens": 2.5}, TypeError, "max_new_tokens is 2.5; a whole number"),
        ({"prompt_mask": torch.ones(2, 2)}, ValueError, r"prompt_mask has shape \(2, 2\); \(2, 3\)"),
        (
            {"prompt_mask": torch.tensor([[1, 1, 1], [0, 0, 0]])},
            ValueError,
            "prompt_mask is False in all of row 1; at least one token a row is wanted",
        ),
        (
            {"prompt_mask": torch.tensor([[1, 1, 1], [1, 1, 0]])},
            ValueError,
            "prompt_mask has padding in row 1 that is not on its left",
        ),
        ({"temperature": -1}, ValueError, "temperature is -1; a number of at least 0 is wanted"),
        ({"temperature": math.nan}, ValueError, "temperature is nan; a number of at least 0"),
        ({"temperature": "1"}, TypeError, "temperature is '1'; a number of at least 0"),
        ({"top_k": 0}, ValueError, "top_k is 0; a whole number of at least 1"),
        ({"top_k": 0.5}, TypeError, "top_k is 0.5; a whole number of at least 1"),
        ({"top_p": 0}, ValueError, "top_p is 0; a number above 0 and at most 1 is wanted"),
        ({"top_p": 1.1}, ValueError, "top_p is 1.1; a number above 0 and at most 1 is wanted"),
        ({"generator": None}, TypeError, "generator is None; a torch.Generator to draw from is wanted"),
        ({"generator": 3}, TypeError, "generator is 3; a torch.Generator to draw from is wanted"),
    ],
)
def test_generation_has_doors(change, error, sentence):
    given = {
        "prompts": torch.full((2, 3), 4),
        "prompt_mask": None,
        "max_new_tokens": 4,
        "generator": seeded(),
    }
    with pytest.raises(error, match=sentence):
        generate(rough_decoder(), **given | change)


def test_prompts_may_be_wide_where_they_are_padding():
    """Only tokens count against the context; and what stands at padding is not read."""
    model = rough_decoder()
    row = torch.tensor([[3, 5, 6]])
    wide = torch.cat([torch.full((1, 40), -100), row], dim=1)
    found = generate(model, wide, torch.arange(43)[None] >= 40, 13, generator=seeded())
    plain = generate(model, row, None, 13, generator=seeded())
    assert torch.equal(found.tokens, plain.tokens)
    torch.testing.assert_close(found.logp, plain.logp, rtol=1e-9, atol=1e-9)
    assert (found.prompts[:, :40] == PAD).all()


def test_a_model_that_has_diverged_is_refused():
    model = rough_decoder()
    with torch.no_grad():
        model.ln_f.bias += math.nan
    for settings in ({}, {"temperature": 0}, {"top_p": 0.5}, {"top_k": 2}):
        with pytest.raises(FloatingPointError, match="the model's logits are not finite"):
            generate(model, torch.full((2, 3), 4), None, 4, **settings, generator=seeded())


class Bigram(torch.nn.Module):
    """A reader's own model: what comes next depends on the last word only, so nothing needs a cache."""

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


# --- one number a token --------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [True, False])
def test_scalar_is_a_linear_map_of_what_the_body_says(bias):
    body = rough_decoder()
    scalar = Scalar(body, bias=bias)
    tokens, mask = padded(ROWS, 9)
    assert (scalar(tokens, mask) == 0).all()
    with torch.no_grad():
        for parameter in scalar.output.parameters():
            parameter += torch.randn(parameter.shape, generator=seeded(4), dtype=torch.float64)
    found = scalar(tokens, mask)
    weight, constant = scalar.output.weight[0], scalar.output.bias if bias else 0.0
    expected = (body.hidden(tokens, mask) * weight).sum(dim=-1) + constant
    torch.testing.assert_close(found[mask], expected[mask], rtol=1e-9, atol=1e-9)
    assert (found[~mask] == 0).all()
    torch.testing.assert_close(scalar(tokens[:1]), (body.hidden(tokens[:1]) * weight).sum(dim=-1) + constant)
    assert found.dtype == torch.float64


def test_scalar_has_weights_of_its_own():
    body = rough_decoder()
    scalar = Scalar(body)
    before = [p.clone() for p in body.parameters()]
    optimizer = torch.optim.SGD(scalar.parameters(), lr=0.1)
    tokens, mask = padded(ROWS, 9)
    for _ in range(2):  # the new output is 0 at first, and lets nothing through to the body
        optimizer.zero_grad()
        ((scalar(tokens, mask) - 1) ** 2)[mask].sum().backward()
        optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(body.parameters(), before, strict=True))
    assert not torch.equal(scalar.body.wte.weight, body.wte.weight)
    with pytest.raises(TypeError, match="bias is 'no'; True or False is wanted"):
        Scalar(body, bias="no")


# --- on disk -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_model_comes_back_from_its_file(tmp_path, dtype):
    model, (tokens, mask) = rough_decoder(dtype), padded(ROWS, 9)
    save_model(model, tmp_path / "model.pt")
    found = load_model(tmp_path / "model.pt")
    assert isinstance(found, Decoder)
    assert found.config == model.config
    assert torch.equal(found(tokens, mask), model(tokens, mask))
    for bias in (True, False):
        critic = Scalar(model, bias=bias)
        with torch.no_grad():
            critic.output.weight += 1
        save_model(critic, str(tmp_path / "critic.pt"))
        found = load_model(str(tmp_path / "critic.pt"))
        assert isinstance(found, Scalar)
        assert (found.output.bias is not None) == bias
        assert torch.equal(found(tokens, mask), critic(tokens, mask))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["critic.pt", "model.pt"]


class Bomb:
    def __reduce__(self):
        return print, ("this ran",)


def test_a_file_that_holds_no_model_is_refused(tmp_path, capsys):
    path = tmp_path / "model.pt"
    with pytest.raises(
        FileNotFoundError, match="where there is no file; one that save_model wrote is wanted"
    ):
        load_model(path)
    contents = [b"", b"no model", pickle.dumps(Bomb(), protocol=2)]
    for content in contents:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"which holds no model .*; what save_model wrote is wanted"):
            load_model(path)
    for content in ({"config": 3}, [1, 2], torch.zeros(2), Bomb()):
        torch.save(content, path)
        with pytest.raises(ValueError, match="which holds no model"):
            load_model(path)
    assert "this ran" not in capsys.readouterr().out
    save_model(rough_decoder(), path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="which holds no model"):
        load_model(path)
    path.write_bytes(whole)
    spoil(path)
    with pytest.raises(ValueError, match=r"which holds no model .* is not what was written"):
        load_model(path)
    with pytest.raises(TypeError, match="model is of type Bigram; a Decoder, or a Scalar on one, is wanted"):
        save_model(Bigram(), path)


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    model = rough_decoder()
    save_model(model, tmp_path / "model.pt")

    def half(content, path):
        path.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(torch, "save", half)
    with pytest.raises(OSError, match="disk full"):
        save_model(rough_decoder(seed=1), tmp_path / "model.pt")
    monkeypatch.undo()
    assert torch.equal(load_model(tmp_path / "model.pt").wte.weight, model.wte.weight)


# --- the package ---------------------------------------------------------------------------------------


def test_importing_the_package_brings_in_little():
    code = (
        "import sys, ppobook.language as l;"
        "print([m for m in ('torch', 'transformers') if m in sys.modules]);"
        "l.generate; print([m for m in ('transformers', 'gymnasium', 'pandas') if m in sys.modules]);"
        "print(all(getattr(l, name) is not None and name in dir(l) for name in l.__all__))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["[]", "[]", "True"]
    import ppobook.language

    with pytest.raises(AttributeError, match="no attribute 'generated'"):
        _ = ppobook.language.generated
