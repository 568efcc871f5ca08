"""Words, padding, completions, and the shift by one between what was read and what was predicted."""

import itertools
import math

import pytest
import torch
from small_language import EOS, PAD, completions, rough_decoder

from ppobook.language.model import Scalar
from ppobook.language.tokens import (
    Completions,
    WordTokenizer,
    completion_logits,
    completion_values,
    left_pad,
    right_pad,
    token_entropy,
    token_logp,
)

WORDS = ["tell", "fox", "owl", "barn", ":", "sings", "."]


# --- words and ids -------------------------------------------------------------------------------------


def test_a_text_comes_back_from_its_ids():
    tokenizer = WordTokenizer(WORDS)
    ids = tokenizer.encode("tell  fox barn : \n sings . <eos>")
    assert ids == [2, 3, 5, 6, 7, 8, EOS]
    assert tokenizer.decode(ids) == "tell fox barn : sings . <eos>"
    assert tokenizer.decode([PAD, PAD, 3, PAD]) == "fox"
    assert tokenizer.encode("") == []
    assert tokenizer.decode(torch.tensor([2, 3])) == "tell fox"
    assert tokenizer.vocab_size == 9
    assert len({*itertools.chain(*map(tokenizer.encode, tokenizer.words))}) == 9


# --- completions ---------------------------------------------------------------------------------------


def test_properties_by_a_walk_along_each_row():
    c = completions()
    assert c.inputs.tolist() == [
        [PAD, 3, 4, 4, 7, EOS, PAD],
        [PAD, PAD, 5, 2, 5, 6, 8],
        [2, 3, 6, EOS, PAD, PAD, PAD],
    ]
    assert torch.equal(c.input_mask, c.inputs != PAD)
    assert c.lengths.tolist() == [3, 4, 1]
    assert c.last.tolist() == [2, 3, 0]
    rows, columns = c.tokens.shape
    for b in range(rows):
        for t in range(columns):
            here = bool(c.mask[b, t])
            last = here and not (t + 1 < columns and c.mask[b, t + 1])
            assert bool(c.terminated[b, t]) == (here and c.tokens[b, t].item() == EOS)
            assert bool(c.truncated[b, t]) == (last and c.tokens[b, t].item() != EOS)
    assert torch.equal((c.terminated | c.truncated).sum(dim=1), torch.ones(rows))
    assert len(c) == rows


def fields_of(c):
    return (c.prompts, c.prompt_mask, c.tokens, c.mask, c.logp, c.ended)


def equal(a, b):
    return all(
        torch.equal(x, y) and x.dtype == y.dtype for x, y in zip(fields_of(a), fields_of(b), strict=True)
    )


def test_select_takes_rows_of_everything():
    c = completions()
    for index in ([2, 0], torch.tensor([2, 0]), torch.tensor([2, 0], dtype=torch.int32)):
        found = c.select(index)
        for whole, part in zip(fields_of(c), fields_of(found), strict=True):
            assert torch.equal(part, torch.stack([whole[2], whole[0]]))
    assert equal(c.select([True, False, True]), c.select([0, 2]))
    assert equal(c.select(slice(1, 3)), c.select([1, 2]))
    with pytest.raises(IndexError):
        c.select([3])


def test_join_says_the_same_of_each_row():
    narrow = completions([[5], [6]], [[EOS], [7]])
    wide = completions()
    joined = Completions.join([narrow, wide, narrow])
    assert joined.prompts.shape == (7, 3)
    assert joined.tokens.shape == (7, 4)
    tokenizer = WordTokenizer(WORDS)
    for name in ("texts", "prompt_texts"):
        each = [getattr(c, name)(tokenizer) for c in (narrow, wide, narrow)]
        assert getattr(joined, name)(tokenizer) == list(itertools.chain(*each))
    for name in ("lengths", "last", "ended"):
        each = [getattr(c, name) for c in (narrow, wide, narrow)]
        assert torch.equal(getattr(joined, name), torch.cat(each))
    assert torch.equal(joined.logp[2:5], wide.logp)
    assert joined.logp.sum() == 2 * narrow.logp.sum() + wide.logp.sum()
    assert (joined.logp[~joined.mask] == 0).all()
    assert equal(Completions.join([wide.select([i]) for i in range(3)]), wide)


def test_texts_are_read_without_padding():
    tokenizer = WordTokenizer(WORDS)
    c = completions()
    assert c.texts(tokenizer) == ["owl sings", "tell barn : .", ""]
    assert c.texts(tokenizer, eos=True) == ["owl sings <eos>", "tell barn : .", "<eos>"]
    assert c.prompt_texts(tokenizer) == ["fox owl", "barn", "tell fox :"]


def test_an_end_that_is_also_the_padding_is_told_apart():
    """Tokenizers of others often have one id for both."""
    prompts, prompt_mask = left_pad([[5], [4, 5]], EOS)
    tokens, mask = right_pad([[4, EOS], [6, 6, 6]], EOS)
    c = Completions(prompts, prompt_mask, tokens, mask, torch.zeros(2, 3), torch.tensor([True, False]))
    assert c.lengths.tolist() == [2, 3]
    assert c.terminated.tolist() == [[False, True, False], [False] * 3]


# --- the shift by one ----------------------------------------------------------------------------------


def walk(c):
    """Each row's real tokens: (row, prompt, answer), without any padding."""
    for b in range(len(c)):
        yield b, c.prompts[b][c.prompt_mask[b]], c.tokens[b][c.mask[b]]


def test_completion_logits_are_those_of_what_was_read_before():
    model, c = rough_decoder(), completions()
    found = completion_logits(model, c)
    assert found.shape == (3, 4, 9)
    for b, prompt, answer in walk(c):
        for t in range(len(answer)):
            read = torch.cat([prompt, answer[:t]])[None]
            torch.testing.assert_close(found[b, t], model(read)[0, -1], rtol=1e-9, atol=1e-9)


def test_completion_values_are_those_of_each_state():
    body, c = rough_decoder(), completions()
    critic = Scalar(body)
    with torch.no_grad():
        critic.output.weight += torch.linspace(-1, 1, 12, dtype=torch.float64)
        critic.output.bias += 0.7
    found = completion_values(critic, c)
    assert found.shape == (3, 5)
    for b, prompt, answer in walk(c):
        for t in range(len(answer) + 1):
            read = torch.cat([prompt, answer[:t]])[None]
            torch.testing.assert_close(found[b, t], critic(read)[0, -1], rtol=1e-9, atol=1e-9)
        assert (found[b, len(answer) + 1 :] == 0).all()


def test_probabilities_of_all_completions_sum_to_one():
    """Every way to end within three tokens, and every way to be cut there."""
    model = rough_decoder(vocab_size=4)
    answers = [
        list(answer)
        for n in (1, 2, 3)
        for answer in itertools.product(range(4), repeat=n)
        if EOS not in answer[:-1] and (answer[-1] == EOS or n == 3)
    ]
    c = completions([[2, 3]] * len(answers), answers)
    logp = token_logp(completion_logits(model, c), c.tokens, mask=c.mask).sum(dim=1)
    assert logp.exp().sum().item() == pytest.approx(1, abs=1e-12)
    ahead = model(c.inputs, c.input_mask)[:, 2:]  # what a forgotten shift would read
    assert token_logp(ahead, c.tokens, mask=c.mask).sum(dim=1).exp().sum().item() != pytest.approx(
        1, abs=0.01
    )


def test_padding_of_completions_changes_nothing():
    """Neither the log-probabilities of real tokens nor their gradients; whatever stands there, NaN too."""
    model, c = rough_decoder(), completions()

    def logp_and_gradient(prompts, tokens):
        changed = Completions(prompts, c.prompt_mask, tokens, c.mask, c.logp, c.ended)
        logp = token_logp(completion_logits(model, changed), tokens, mask=c.mask)
        return logp, torch.autograd.grad(logp.sum(), list(model.parameters()))

    logp, gradients = logp_and_gradient(c.prompts, c.tokens)
    assert all(g.isfinite().all() for g in gradients)
    for junk in (8, EOS, -100, 10**9):
        found, others = logp_and_gradient(
            c.prompts.masked_fill(~c.prompt_mask, junk), c.tokens.masked_fill(~c.mask, junk)
        )
        assert torch.equal(found, logp)
        assert all(torch.equal(a, b) for a, b in zip(gradients, others, strict=True))


# --- log-probabilities and entropies -------------------------------------------------------------------


def some_logits(dtype=torch.float64):
    generator = torch.Generator().manual_seed(3)
    logits = 3 * torch.randn(2, 5, 7, generator=generator, dtype=torch.float64)
    return logits.to(dtype), torch.randint(7, (2, 5), generator=generator)


@pytest.mark.parametrize("temperature", [1, 2.5])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-5)])
def test_logp_and_entropy_written_out(temperature, dtype, tolerance):
    logits, tokens = some_logits(dtype)
    logp, entropy = token_logp(logits, tokens, temperature), token_entropy(logits, temperature)
    assert logp.dtype == entropy.dtype == dtype
    for b, t in itertools.product(range(2), range(5)):
        weights = [math.exp(z / temperature) for z in logits[b, t].tolist()]
        p = [w / math.fsum(weights) for w in weights]
        assert logp[b, t].item() == pytest.approx(math.log(p[tokens[b, t]]), rel=tolerance, abs=tolerance)
        exact = -math.fsum(x * math.log(x) for x in p)
        assert entropy[b, t].item() == pytest.approx(exact, rel=tolerance, abs=tolerance)


def test_what_is_masked_is_not_read():
    logits, tokens = some_logits()
    mask = torch.tensor([[1, 1, 0, 1, 0], [0, 1, 1, 1, 0]]).bool()
    whole = token_logp(logits, tokens, 0.7)
    bad = logits.masked_fill(~mask[..., None], math.nan).requires_grad_()
    found = token_logp(bad, tokens.masked_fill(~mask, -100), 0.7, mask=mask)
    assert torch.equal(found, whole * mask)
    (gradient,) = torch.autograd.grad(found.sum(), bad)
    assert gradient.isfinite().all()
    assert (gradient[~mask] == 0).all()
