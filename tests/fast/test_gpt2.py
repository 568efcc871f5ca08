"""The fast form of a GPT-2, a `Decoder` on its parameters, against transformers' own code."""

import copy
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest
import torch

transformers = pytest.importorskip("transformers")

from ppobook.fast import choose  # noqa: E402
from ppobook.language.generation import generate  # noqa: E402
from ppobook.language.hf import open_pretrained  # noqa: E402
from ppobook.language.model import Scalar  # noqa: E402
from ppobook.language.pretrained import Pretrained  # noqa: E402
from ppobook.language.tokens import WordTokenizer, left_pad  # noqa: E402

EOS, PAD, V = 2, 0, 23
ROWS = [[5, 9, 6, 12], [7], [4, 4, 11, 10, 8, 13, 15]]


def gpt2(kind=None, **changes):
    sizes = {"vocab_size": V, "n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 30}
    with torch.random.fork_rng():
        torch.manual_seed(3)
        net = (kind or transformers.GPT2LMHeadModel)(transformers.GPT2Config(**sizes, **changes))
        with torch.no_grad():
            for parameter in net.parameters():
                parameter += 0.2 * torch.randn(parameter.shape)
    return net.double().eval()


def both(**changes):
    """The same weights: by our blocks, and by their own code."""
    models = [Pretrained(gpt2(**changes), eos=EOS, pad=PAD, dtype="float64") for _ in range(2)]
    for model, fast in zip(models, (True, False), strict=True):
        choose.language_model(model, fast)
        assert (model.as_decoder is not None) == fast
        assert (choose.generation(model) is model) != fast
    return models


def close(mine, theirs):
    torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "changes", [{}, {"tie_word_embeddings": False}, {"activation_function": "gelu_pytorch_tanh"}], ids=str
)
def test_logits_and_gradients_are_those_of_their_own_code(changes):
    tokens, mask = left_pad(ROWS, PAD)
    weight = torch.randn(*tokens.shape, V, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    gradients = []
    for model in both(**changes):
        logits = model(tokens, mask)[mask]
        (logits * weight[mask]).sum().backward()
        gradients.append((logits, {name: p.grad for name, p in model.named_parameters()}))
    (mine, ours), (own, theirs) = gradients
    close(mine, own)
    assert ours.keys() == theirs.keys()
    for name in theirs:
        close(ours[name], theirs[name])


def test_what_is_sampled_is_the_same():
    tokens, mask = left_pad(ROWS, PAD)
    one, other = (generate(m, tokens, mask, 9, generator=torch.Generator().manual_seed(4)) for m in both())
    assert torch.equal(one.tokens, other.tokens)
    torch.testing.assert_close(one.logp, other.logp, rtol=1e-6, atol=1e-6)


def test_nothing_is_copied_and_nothing_is_listed_twice():
    ours, theirs = both()
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    assert len(list(ours.parameters())) == len(list(theirs.parameters()))
    tokens = torch.tensor(ROWS[2:])
    changed = {name: x + 0.1 for name, x in theirs.state_dict().items()}
    for model in (ours, theirs):
        model.load_state_dict(changed, assign=True)
    close(ours(tokens), theirs(tokens))


def test_a_copy_computes_with_its_own_parameters():
    ours, _ = both()
    tokens = torch.tensor(ROWS[2:])
    before = ours(tokens)
    copied, critic = copy.deepcopy(ours), Scalar(ours)
    with torch.no_grad():
        for parameter in (*copied.parameters(), *critic.body.parameters()):
            parameter.mul_(1.5)
    assert torch.equal(ours(tokens), before)
    assert not torch.allclose(copied(tokens), before)
    assert not torch.allclose(critic.body.hidden(tokens), ours.hidden(tokens))


OTHERS = {
    "activation_function": "relu",
    "layer_norm_epsilon": 1e-3,
    "scale_attn_by_inverse_layer_idx": True,
    "scale_attn_weights": False,
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_function_is_computed_by_its_own_code(name):
    net, tokens = gpt2(**{name: OTHERS[name]}), torch.tensor(ROWS[2:])
    expected = net(input_ids=tokens).logits
    model = Pretrained(net, eos=EOS, pad=PAD, dtype="float64")
    assert model.as_decoder is None
    close(model(tokens), expected)


def test_a_wider_hidden_layer_is_no_other_function():
    net, tokens = gpt2(n_inner=40), torch.tensor(ROWS[2:])
    expected = net(input_ids=tokens).logits
    model = Pretrained(net, eos=EOS, pad=PAD, dtype="float64")
    assert model.as_decoder is not None
    close(model(tokens), expected)


class Mine(transformers.GPT2LMHeadModel):
    """Somebody's own."""

    def forward(self, *args, **kwargs):
        out = super().forward(*args, **kwargs)
        out.logits = 2 * out.logits
        return out


def test_a_subclass_or_another_forward_pass_is_not_opened(monkeypatch, tmp_path):
    """Either would be computed by our blocks, as its config says; opening a model tries it."""
    tokenizer = WordTokenizer([f"w{i}" for i in range(V - 2)])
    with pytest.raises(ValueError, match="model"):
        open_pretrained(gpt2(Mine), tokenizer)
    assert open_pretrained(gpt2(), tokenizer)[0].as_decoder is not None
    original = transformers.GPT2Model.forward

    def shifted(self, *args, **kwargs):
        out = original(self, *args, **kwargs)
        out.last_hidden_state = out.last_hidden_state + 1
        return out

    monkeypatch.setattr(transformers.GPT2Model, "forward", shifted)
    with pytest.raises(ValueError, match="model"):
        open_pretrained(gpt2(), tokenizer)


def test_half_precision_is_computed_by_its_own_code():
    model = Pretrained(gpt2().float(), eos=EOS, pad=PAD)
    assert model.as_decoder is not None
    model.dtype = "bfloat16"
    assert model.as_decoder is None
