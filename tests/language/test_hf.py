"""Models of transformers against their own forward pass, their own generate, and our decoder.

Without transformers all but two of these are skipped.
"""

import copy
import importlib.util
import io
import os
import subprocess
import sys
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest
import torch

from ppobook.language import hf
from ppobook.language.generation import generate
from ppobook.language.model import Decoder, Scalar
from ppobook.language.pretrained import Pretrained
from ppobook.language.registry import STAGES, stage_class
from ppobook.language.rewards import RewardModel
from ppobook.language.run import load
from ppobook.language.tokens import Completions, completion_logits, left_pad, right_pad, token_logp
from ppobook.language.training import train
from ppobook.language.world import World

WORDS = [
    "<pad>",
    "<s>",
    "</s>",
    "<unk>",
    *[
        "say",
        ":",
        "the",
        "a",
        "fox",
        "owl",
        "hen",
        "sings",
        "sits",
        "runs",
        "by",
        "barn",
        "lake",
        "mill",
        ".",
    ],
]
V = len(WORDS)
PAD, BOS, EOS = 0, 1, 2
ROWS = [[5, 9, 6, 12], [7], [4, 4, 11, 10, 8, 13, 15], [16, 5]]
CHAT = (
    "{% for m in messages %}{{ m['role'] }} : {{ m['content'] }} </s> {% endfor %}"
    "{% if add_generation_prompt %}assistant : {% endif %}"
)


@pytest.fixture(scope="module")
def transformers():
    module = pytest.importorskip("transformers")
    module.logging.disable_progress_bar()
    return module


@pytest.fixture
def peft(transformers):
    return pytest.importorskip("peft")


def words(eos="</s>", pad="<pad>", bos="<s>", template=None, begins=False, vocabulary=WORDS):
    """A tokenizer of whole words."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.WordLevel({w: i for i, w in enumerate(vocabulary)}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if begins:
        backend.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", BOS)])
    made = PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token=eos, pad_token=pad, bos_token=bos, unk_token="<unk>"
    )
    made.chat_template = template
    return made


def sizes_of(kind, **changes):
    if kind == "gpt2":
        sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 40}
        return {"vocab_size": V, **sizes, "bos_token_id": BOS, "eos_token_id": EOS, **changes}
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    more = {"num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 40}
    ids = {"bos_token_id": BOS, "eos_token_id": EOS, "pad_token_id": PAD}
    return {"vocab_size": V, **sizes, **more, **ids, **changes}


def net_of(kind, seed=0, scale=0.15, **changes):
    """A model of transformers whose weights are far from their quiet start."""
    from transformers import AutoConfig, AutoModelForCausalLM

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **sizes_of(kind, **changes)))
        with torch.no_grad():
            for parameter in net.parameters():
                parameter += scale * torch.randn(parameter.shape)
    return net.eval()


KINDS = ["gpt2", "llama"]


@pytest.fixture(params=KINDS)
def net(request, transformers):
    return net_of(request.param)


@pytest.fixture(scope="module")
def folders(transformers, tmp_path_factory):
    """One model a folder, as a user has them."""
    made = {}
    for kind in KINDS:
        made[kind] = tmp_path_factory.mktemp(kind)
        net_of(kind).save_pretrained(made[kind])
        words().save_pretrained(made[kind])
    return made


def said(mine, theirs):
    """The same, but for rounding: where GPT-2 is computed by our blocks, they add up in another order."""
    tolerance = 1e-9 if theirs.dtype == torch.float64 else 1e-5
    torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance)


def opened(net, **how):
    return hf.open_pretrained(net, words(), **how)[0]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def own(net, row):
    """What transformers makes of a row alone, without padding."""
    return net(input_ids=torch.tensor([row])).logits[0]


def some_completions(n=6, prompt=3, length=5, seed=0):
    """Completions of random words; every other one has ended."""
    g = seeded(seed)
    prompts = [torch.randint(4, V, (1 + i % prompt,), generator=g).tolist() for i in range(n)]
    rows = [torch.randint(4, V, (1 + (3 * i) % length,), generator=g).tolist() for i in range(n)]
    rows = [[*row, EOS] if i % 2 else row for i, row in enumerate(rows)]
    tokens, mask = right_pad(rows, PAD)
    ended = torch.arange(n) % 2 == 1
    return Completions(*left_pad(prompts, PAD), tokens, mask, torch.zeros(tokens.shape), ended)


# --- without transformers --------------------------------------------------------------------------------


def test_nothing_is_imported_before_it_is_used():
    code = "import sys, ppobook.language, ppobook.language.hf, ppobook.language.training\n"
    code += "print({'transformers', 'peft', 'tokenizers', 'datasets'} & set(sys.modules))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "set()"


def test_what_is_not_installed_is_asked_for(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ValueError, match=r"transformers must be installed: pip install 'ppobook\[hf\]'"):
        hf.open_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"pip install 'ppobook\[hf\]'"):
        train("sft", str(tmp_path), [{"text": "a"}])
    with pytest.raises(TypeError, match="model is of type int"):
        hf.open_pretrained(3)


# --- the forward pass --------------------------------------------------------------------------------------


def scattered(rows, columns, seed=0, junk=None):
    """Rows of ids with gaps at random places among them, where junk stands."""
    g = seeded(seed)
    tokens = torch.randint(0, V, (len(rows), columns), generator=g)
    tokens = tokens if junk is None else torch.full_like(tokens, junk)
    mask = torch.zeros(len(rows), columns, dtype=torch.bool)
    for b, row in enumerate(rows):
        places = torch.randperm(columns, generator=g)[: len(row)].sort().values
        tokens[b, places], mask[b, places] = torch.tensor(row), True
    return tokens, mask


PADDINGS = {
    "left": lambda: left_pad(ROWS, PAD),
    "right": lambda: right_pad(ROWS, PAD),
    "anywhere": lambda: scattered(ROWS, 11),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("padding", PADDINGS)
def test_logits_are_the_models_own(net, padding, dtype):
    net = net.to(dtype)
    model = opened(net)
    tokens, mask = PADDINGS[padding]()
    logits = model(tokens, mask)
    assert logits.dtype == dtype
    close = {"rtol": 1e-5, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-9}
    for b, row in enumerate(ROWS):
        torch.testing.assert_close(logits[b][mask[b]], own(net, row), **close)
    whole = torch.tensor(ROWS[2:3])
    said(model(whole), net(input_ids=whole).logits)
    said(model(whole, torch.ones_like(whole)), net(input_ids=whole).logits)


def test_what_stands_at_padding_changes_nothing(net):
    model = opened(net).requires_grad_(True)
    _, mask = scattered(ROWS, 11)
    results = []
    for junk in (PAD, 7, V + 80):  # an id that is none of the vocabulary's too
        tokens, mask = scattered(ROWS, 11, junk=junk)
        logits = model(tokens, mask)
        assert logits.isfinite().all()
        model.zero_grad()
        logits[mask].square().sum().backward()
        results.append([logits[mask], *(p.grad.clone() for p in model.parameters())])
    for other in results[1:]:
        assert all(map(torch.equal, results[0], other))
    assert all(g.isfinite().all() for g in results[0])


def test_rows_longer_than_the_context_by_padding_alone(net):
    model = opened(net)
    for pad in (left_pad, right_pad):
        tokens, mask = pad([list(range(4, 14)), [5] * 40], PAD)
        far = [torch.nn.functional.pad(x, (3, 3)) for x in (tokens, mask)]
        torch.testing.assert_close(
            model(*far)[:, 3:-3][mask], model(tokens, mask)[mask], rtol=1e-5, atol=1e-5
        )
    with pytest.raises(ValueError, match="at most context = 40 tokens a row, got 41"):
        model(torch.full((1, 41), 5))
    with pytest.raises(ValueError, match="at most context = 40 tokens a row, got 39 and room = 2"):
        model.start_cache(torch.full((1, 39), 5), None, 2)


def test_head_takes_hidden_vectors_of_any_shape(net):
    model = opened(net)
    tokens, mask = left_pad(ROWS, PAD)
    hidden = model.hidden(tokens, mask)
    assert hidden.shape == (*tokens.shape, model.width) == (*tokens.shape, 32)
    logits = model(tokens, mask)
    assert logits.shape == (*tokens.shape, model.vocab_size)
    torch.testing.assert_close(model.head(hidden[:, -1]), logits[:, -1], rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(model.head(hidden[1, 2]), logits[1, 2], rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(model.head(hidden[:, 2:5]), logits[:, 2:5], rtol=1e-6, atol=1e-6)


SPECIAL = {
    "gemma2": {"final_logit_softcapping": 0.5, "query_pre_attn_scalar": 8, "sliding_window": 3},
    "granite": {"logits_scaling": 3.0, "embedding_multiplier": 2.0},
    "mistral": {"sliding_window": 3},
    "mixtral": {"num_local_experts": 3},
}


@pytest.mark.parametrize("kind", SPECIAL)
def test_what_other_models_do_to_logits_and_windows_is_kept(transformers, kind):
    net = net_of(kind, **SPECIAL[kind])
    model = opened(net)
    tokens, mask = left_pad(ROWS, PAD)
    logits = model(tokens, mask)
    for b, row in enumerate(ROWS):
        torch.testing.assert_close(logits[b][mask[b]], own(net, row), rtol=1e-5, atol=1e-5)
    c = generate(model, tokens, mask, 8, temperature=0)
    again = completion_logits(model, c)
    torch.testing.assert_close(token_logp(again, c.tokens, mask=c.mask), c.logp, rtol=1e-5, atol=1e-5)


def test_there_is_no_dropout(transformers):
    changes = {"resid_pdrop": 0.5, "embd_pdrop": 0.5, "attn_pdrop": 0.5}
    net = net_of("gpt2", **changes)
    model = opened(net)
    tokens = torch.tensor(ROWS[2:3])
    critic = Scalar(model).train()
    assert model.train() is model
    assert not any(module.training for module in model.decoder.modules())
    assert not any(module.training for module in critic.body.decoder.modules())
    assert torch.equal(model(tokens), model(tokens))
    said(model(tokens), own(net.eval(), ROWS[2])[None])
    assert model.decoder.config.resid_pdrop == 0.5  # nothing of it is lost to whoever loads it again


# --- the cache, and generation ---------------------------------------------------------------------------


@pytest.mark.parametrize("padded", [True, False])
def test_token_by_token_is_all_at_once(net, padded):
    model = opened(net)
    full = torch.randint(4, V, (4, 12), generator=seeded())
    mask = torch.ones_like(full, dtype=torch.bool)
    if padded:
        mask[1, :3], mask[2, :4], mask[3, 0] = False, False, False
    at_once = model(full, mask)
    logits, cache = model.start_cache(full[:, :5], mask[:, :5] if padded else None, 7)
    for t in range(5, 12):
        torch.testing.assert_close(logits, at_once[:, t - 1], rtol=1e-5, atol=1e-5)
        logits = model.step(full[:, t], cache)
    torch.testing.assert_close(logits, at_once[:, -1], rtol=1e-5, atol=1e-5)
    logits += 1  # a caller may write to them
    with pytest.raises(ValueError, match="room for another token, got all 12 in use"):
        model.step(full[:, 0], cache)


def test_greedy_generation_is_transformers_own(net, transformers):
    model = opened(net)
    prompts, mask = left_pad(ROWS, PAD)
    # A word that some rows come to and others do not, and no row at once.
    free = generate(model, prompts, mask, 14, temperature=0).tokens.tolist()
    model.eos = next(w for w in range(4, V) if 0 < sum(w in row[2:] for row in free) < len(free))
    mine = generate(model, prompts, mask, 14, temperature=0)
    theirs = net.generate(
        input_ids=prompts,
        attention_mask=mask.long(),
        max_new_tokens=14,
        do_sample=False,
        pad_token_id=PAD,
        eos_token_id=model.eos,
    )[:, prompts.shape[1] :]
    assert 0 < mine.ended.sum() < len(prompts)
    assert torch.equal(mine.tokens, theirs)
    logp = token_logp(completion_logits(model, mine), mine.tokens, mask=mine.mask)
    torch.testing.assert_close(mine.logp, logp, rtol=1e-5, atol=1e-5)


def test_gpt2_in_our_decoder_is_gpt2(transformers):
    net = net_of("gpt2")
    model, decoder = opened(net), hf.to_decoder(net, eos=EOS, pad=PAD)
    assert isinstance(decoder, Decoder)
    tokens, mask = left_pad(ROWS, PAD)
    torch.testing.assert_close(decoder(tokens, mask)[mask], model(tokens, mask)[mask], rtol=1e-5, atol=1e-5)
    mine, theirs = (
        generate(m, tokens, mask, 12, temperature=1.3, top_k=9, top_p=0.9, generator=seeded(3))
        for m in (decoder, model)
    )
    assert torch.equal(mine.tokens, theirs.tokens)
    torch.testing.assert_close(mine.logp, theirs.logp, rtol=1e-5, atol=1e-5)
    there = hf.from_decoder(decoder)
    assert torch.equal(there(input_ids=tokens).logits, net(input_ids=tokens).logits)
    for changes, said in (
        ({"activation_function": "relu"}, "activation_function='relu'"),
        ({"n_inner": 48}, "n_inner=48"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings=False"),
    ):
        with pytest.raises(ValueError, match=f"model has {said}"):
            hf.to_decoder(net_of("gpt2", **changes), eos=EOS, pad=PAD)
    with pytest.raises(ValueError, match="a GPT2LMHeadModel is wanted"):
        hf.to_decoder(net_of("llama"), eos=EOS, pad=PAD)


# --- opening ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_is_opened(folders, kind):
    model, tokenizer = hf.open_pretrained(folders[kind])
    assert (model.eos, model.pad, model.vocab_size, model.context) == (EOS, PAD, V, 40)
    assert (tokenizer.eos, tokenizer.pad, tokenizer.vocab_size) == (EOS, PAD, V)
    same, _ = hf.open_pretrained(str(folders[kind]), folders[kind])
    tokens = torch.tensor(ROWS[2:3])
    said(model(tokens), own(net_of(kind), ROWS[2])[None])
    said(model(tokens), same(tokens))


def test_opening_copies_and_draws_nothing(net):
    before = torch.get_rng_state()
    model = opened(net)
    hf.build(model.description())
    again, _ = hf.open_pretrained(model, words())
    assert torch.equal(before, torch.get_rng_state())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    tokens = torch.tensor(ROWS[2:3])
    said(again(tokens), net(input_ids=tokens).logits)
    assert again(tokens).abs().max() > 0.1


def test_a_description_makes_the_model_again(net):
    net.generation_config.temperature = 0.7
    model = opened(net)
    stored = io.BytesIO()
    torch.save({"d": model.description(), "w": model.state_dict()}, stored)
    stored.seek(0)
    read = torch.load(stored, weights_only=True)
    again = hf.build(read["d"])
    again.load_state_dict(read["w"])
    assert again.description() == model.description()
    assert again.output.generation_config.temperature == 0.7
    tokens, mask = left_pad(ROWS, PAD)
    assert torch.equal(again(tokens, mask), model(tokens, mask))
    copied = copy.deepcopy(model)
    assert torch.equal(copied(tokens, mask), model(tokens, mask))
    assert not {p.data_ptr() for p in copied.parameters()} & {p.data_ptr() for p in model.parameters()}


def test_attention_that_was_asked_for_is_kept(transformers):
    net = net_of("llama")
    net.set_attn_implementation("eager")
    assert hf.build(opened(net).description()).decoder.config._attn_implementation == "eager"


def test_a_class_of_somebody_elses_is_refused(transformers):
    class Mine(transformers.GPT2LMHeadModel):
        pass

    with pytest.raises(ValueError, match="model is a Mine that cannot be made again"):
        opened(Mine(transformers.GPT2Config(**sizes_of("gpt2"))))


def test_what_is_no_causal_model_is_refused(transformers, tmp_path):
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 48}
    bert = transformers.BertLMHeadModel(transformers.BertConfig(vocab_size=V, **sizes))
    with pytest.raises(ValueError, match="without a cache of keys and values"):
        opened(bert)
    t5 = transformers.T5Config(vocab_size=V, d_model=16, num_layers=1, num_heads=2, d_kv=8, d_ff=16)
    with pytest.raises(ValueError, match="model is a t5, of an encoder and a decoder"):
        opened(transformers.T5ForConditionalGeneration(t5))
    mamba = transformers.MambaConfig(vocab_size=V, hidden_size=16, num_hidden_layers=1, state_size=4)
    with pytest.raises(ValueError, match="a causal"):
        opened(transformers.MambaForCausalLM(mamba))
    body = net_of("gpt2").transformer
    with pytest.raises(ValueError, match="GPT2Model, without a head"):
        opened(body)
    body.save_pretrained(tmp_path)
    words().save_pretrained(tmp_path)
    config = transformers.LlamaConfig(**sizes_of("llama"))
    transformers.LlamaModel(config).save_pretrained(tmp_path / "llama")
    with pytest.raises(ValueError, match=r"lacks weights of a LlamaForCausalLM \(lm_head.weight"):
        hf.open_pretrained(tmp_path / "llama", words())
    with pytest.raises(TypeError, match="model is of type Linear"):
        opened(torch.nn.Linear(2, 2))


def test_a_model_that_breaks_a_promise_is_refused(transformers, monkeypatch):
    """One whose forward pass does something else than its parts, to positions, or to its cache."""
    gpt2 = transformers.GPT2Model.forward

    def no_positions(self, *args, position_ids=None, **kwargs):
        return gpt2(self, *args, **kwargs)

    monkeypatch.setattr(transformers.GPT2Model, "forward", no_positions)
    with pytest.raises(ValueError, match=r"says something else (after padding|token by token)"):
        opened(net_of("gpt2"))

    def backward_looking(self, input_ids, **kwargs):
        out = gpt2(self, input_ids, **kwargs)
        out.last_hidden_state = out.last_hidden_state + out.last_hidden_state.mean(dim=1, keepdim=True)
        return out

    monkeypatch.setattr(transformers.GPT2Model, "forward", backward_looking)
    with pytest.raises(ValueError, match="says something else"):
        opened(net_of("gpt2"))

    def forgetful(self, input_ids, past_key_values=None, **kwargs):
        out = gpt2(self, input_ids, past_key_values=past_key_values, **kwargs)
        if past_key_values is not None:
            out.last_hidden_state = out.last_hidden_state.flip(-1)
        return out

    monkeypatch.setattr(transformers.GPT2Model, "forward", forgetful)
    with pytest.raises(ValueError, match="says something else token by token"):
        opened(net_of("gpt2"))
    monkeypatch.setattr(transformers.GPT2Model, "forward", gpt2)
    lm = transformers.GPT2LMHeadModel.forward

    def louder(self, input_ids=None, **kwargs):
        out = lm(self, input_ids, **kwargs)
        out.logits = out.logits * (1.0 if input_ids is None else 2.0)
        return out

    monkeypatch.setattr(transformers.GPT2LMHeadModel, "forward", louder)
    with pytest.raises(ValueError, match="says something else when body and head are taken apart"):
        opened(net_of("gpt2"))


def test_doors(transformers, folders, tmp_path):
    net = net_of("gpt2")
    with pytest.raises(ValueError, match="tokenizer is None; with a model in memory"):
        hf.open_pretrained(net)
    with pytest.raises(ValueError, match="model is 'no/such', which is no folder here, and which transf"):
        hf.open_pretrained("no/such")
    net.save_pretrained(tmp_path / "half")
    weights = tmp_path / "half" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-500])
    with pytest.raises(ValueError, match="half', which transformers cannot read"):
        hf.open_pretrained(tmp_path / "half")
    with pytest.raises(ValueError, match="cannot be read by transformers"):
        hf.open_pretrained(net, tmp_path)
    with pytest.raises(TypeError, match="tokenizer is of type int, which has no vocab_size"):
        hf.open_pretrained(net, 3)
    with pytest.raises(ValueError, match=r"tokenizer has ids up to 18, and the model has 17 words"):
        opened(net_of("gpt2", vocab_size=17))
    with pytest.raises(ValueError, match="dtype must be .*, got 'float16'"):
        opened(net, dtype="float16")
    with pytest.raises(ValueError, match="dtype must be .*, got 'bfloat17'. Did you mean 'bfloat16'"):
        hf.open_pretrained(folders["gpt2"], dtype="bfloat17")
    model = opened(net)
    with pytest.raises(ValueError, match=r"must be in \[0, 18\], got ids from 3 to 99"):
        model(torch.tensor([[3, 99]]))
    with pytest.raises(TypeError, match=r"torch\.int64 is wanted"):
        model(torch.zeros(1, 3))
    with pytest.raises(ValueError, match="mask"):
        model(torch.zeros(1, 3, dtype=torch.int64), torch.ones(2, 3))
    larger = opened(net_of("gpt2", vocab_size=V + 5))
    assert larger.vocab_size == V + 5


# --- the tokenizer ---------------------------------------------------------------------------------------


def test_text_and_back(transformers):
    tokenizer = hf.open_tokenizer(words())
    ids = tokenizer.encode("say fox :")
    assert ids == [4, 8, 5]
    assert tokenizer.bos is None
    assert tokenizer.decode([PAD, PAD, *ids, EOS]) == "say fox : </s>"
    assert not hasattr(tokenizer, "apply_chat_template")
    begun = hf.open_tokenizer(words(begins=True))
    assert begun.bos == BOS
    assert begun.encode("say fox :") == [BOS, 4, 8, 5]
    assert begun.decode([BOS, 4, 8, 5]) == "say fox :"
    with pytest.raises(TypeError, match="text is 3"):
        tokenizer.encode(3)


def test_a_pad_that_is_missing_is_the_end(transformers):
    tokenizer = hf.open_tokenizer(words(pad=None))
    assert tokenizer.pad == tokenizer.eos == EOS
    assert tokenizer.decode([4, 8, EOS]) == "say fox </s>"
    with pytest.raises(ValueError, match="tokenizer has no end of sequence"):
        hf.open_tokenizer(words(eos=None))


def test_chat_templates(transformers):
    tokenizer = hf.open_tokenizer(words(template=CHAT))
    asked = [{"role": "say", "content": "fox"}]
    ids = tokenizer.apply_chat_template(asked, tokenize=True, add_generation_prompt=False)
    assert list(ids["input_ids"]) == [4, 5, 8, EOS]


@pytest.mark.parametrize("how", [{}, {"begins": True, "template": CHAT}, {"pad": None}])
def test_a_tokenizer_is_made_again_from_its_description(transformers, how):
    tokenizer = hf.open_tokenizer(words(**how))
    stored = io.BytesIO()
    torch.save(tokenizer.description(), stored)
    stored.seek(0)
    again = hf.build_tokenizer(torch.load(stored, weights_only=True))
    for name in ("vocab_size", "eos", "pad", "bos"):
        assert getattr(again, name) == getattr(tokenizer, name)
    assert again.encode("say fox : the hen") == tokenizer.encode("say fox : the hen")
    assert again.tokenizer.chat_template == tokenizer.tokenizer.chat_template


def test_a_strangers_tokenizer_writes_nowhere_else(transformers, tmp_path):
    for name in ("../out.json", str(tmp_path / "out.json"), "a/../../out.json"):
        with pytest.raises(ValueError, match="one inside its folder is wanted"):
            hf.build_tokenizer({"kind": "transformers", "files": {name: "{}"}})
    assert not (tmp_path / "out.json").exists()


# --- written, and read by transformers -------------------------------------------------------------------


def test_transformers_reads_what_was_saved(net, transformers, tmp_path):
    net.generation_config.repetition_penalty = 1.5
    model, tokenizer = hf.open_pretrained(net, words(template=CHAT))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.01
    hf.save_pretrained(model, tmp_path / "new", tokenizer)
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "new").eval()
    assert type(again) is type(net)
    tokens = torch.tensor(ROWS[2:3])
    said(again(input_ids=tokens).logits, model(tokens))
    assert not torch.equal(again(input_ids=tokens).logits, net(input_ids=tokens).logits)
    assert again.generation_config.repetition_penalty == 1.5
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "new")
    assert theirs("say fox :")["input_ids"] == [4, 8, 5]
    assert theirs.chat_template == CHAT
    with pytest.raises(FileExistsError, match="a new folder"):
        hf.save_pretrained(model, tmp_path / "new")
    with pytest.raises(TypeError, match="model is a Linear"):
        hf.save_pretrained(torch.nn.Linear(2, 2), tmp_path / "other")
    with pytest.raises(ValueError, match="merge is False"):
        hf.save_pretrained(model, tmp_path / "other", merge=False)


def test_a_world_goes_to_transformers(transformers, tmp_path):
    world = World(nouns=2, places=2, max_new_tokens=12)
    sizes = {"layers": 1, "width": 16, "heads": 2}
    run = train("sft", data=world, updates=3, examples=40, progress=False, **sizes)
    hf.save_pretrained(run, tmp_path / "gpt2")
    net = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "gpt2").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "gpt2")
    prompt = world.prompts[1]
    assert tokenizer(prompt)["input_ids"] == world.tokenizer.encode(prompt)
    assert (tokenizer.eos_token_id, tokenizer.pad_token_id) == (world.tokenizer.eos, world.tokenizer.pad)
    ids = torch.tensor([world.tokenizer.encode(prompt)])
    torch.testing.assert_close(net(input_ids=ids).logits, run.model(ids), rtol=1e-5, atol=1e-5)
    # And back, where its words are those of the World.
    few = {"updates": 1, "batch_size": 8, "group_size": 4, "progress": False}
    tuned = train("grpo", tmp_path / "gpt2", world, reward="gold", **few)
    assert tuned.tokenizer.words == world.tokenizer.words
    reward_model = train("reward", run, updates=1, pairs=20, eval_pairs=0, progress=False)
    with pytest.raises(TypeError, match="model is a RewardModel of a Decoder"):
        hf.save_pretrained(reward_model, tmp_path / "reward_model")


def rough_reward_model(net, tokenizer, **how):
    model, tokenizer = hf.open_pretrained(net, tokenizer)
    reward_model = RewardModel(model, "last", **how)
    with torch.no_grad():
        for parameter in reward_model.output.parameters():
            parameter.normal_(generator=seeded(5))
        reward_model.zero.fill_(0.375)
    return reward_model, tokenizer


def scored(transformers, folder, completions, pad, left):
    """What transformers says of completions, padded in its own way."""
    net = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    c = completions
    rows = [i[m].tolist() for i, m in zip(c.inputs, c.input_mask, strict=True)]
    tokens, mask = (left_pad if left else right_pad)(rows, pad)
    assert net.config.num_labels == 1
    with torch.no_grad():
        return net(input_ids=tokens, attention_mask=mask.long()).logits.squeeze(1), net.config


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("pad", ["<pad>", None])
def test_a_reward_model_is_a_sequence_classifier(net, transformers, tmp_path, pad, bias):
    reward_model, tokenizer = rough_reward_model(net, words(pad=pad), bias=bias)
    assert not any("output" in name for name, _ in reward_model.body.named_parameters())
    c = some_completions()
    with torch.no_grad():
        rewards = reward_model.rewards(c)
    hf.save_pretrained(reward_model, tmp_path / "reward_model", tokenizer)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "reward_model")
    assert theirs.pad_token_id not in (None, EOS)
    assert theirs.padding_side == "right"
    for left in (True, False) if net.config.model_type == "llama" else (False,):
        logits, config = scored(transformers, tmp_path / "reward_model", c, theirs.pad_token_id, left)
        torch.testing.assert_close(logits - config.reward_zero, rewards, rtol=1e-5, atol=1e-5)
    again, _ = hf.open_pretrained(tmp_path / "reward_model")
    assert isinstance(again, RewardModel)
    assert again.pooling == "last"
    with torch.no_grad():
        torch.testing.assert_close(again.rewards(c), rewards, rtol=1e-5, atol=1e-5)
    summed = RewardModel(reward_model.body, "sum")
    with pytest.raises(ValueError, match="pooling='sum'"):
        hf.save_pretrained(summed, tmp_path / "sum")
    if pad is None:
        with pytest.raises(ValueError, match="tokenizer is None"):
            hf.save_pretrained(reward_model, tmp_path / "other")


def test_a_sequence_classifier_in_memory_is_a_reward_model(transformers):
    config = transformers.LlamaConfig(**sizes_of("llama", num_labels=1))
    net = transformers.LlamaForSequenceClassification(config).eval()
    reward_model, _ = hf.open_pretrained(net, words())
    c = some_completions(n=1)
    said(reward_model.rewards(c), net(input_ids=c.inputs).logits[0])
    two = transformers.LlamaConfig(**sizes_of("llama", num_labels=2))
    with pytest.raises(ValueError, match="num_labels=1"):
        opened(transformers.LlamaForSequenceClassification(two))
    with pytest.raises(ValueError, match="the model must have a head"):
        reward_model.body(c.inputs)


def test_a_sequence_classifier_rewards_a_policy(transformers, folders, tmp_path):
    reward_model, tokenizer = rough_reward_model(net_of("llama"), words(pad=None))
    hf.save_pretrained(reward_model, tmp_path / "reward_model", tokenizer)
    how = {
        "data": ASKED,
        "reward": tmp_path / "reward_model",
        "tokenizer": words(pad=None),
        "max_new_tokens": 4,
    }
    run = train("grpo", folders["gpt2"], updates=1, batch_size=8, group_size=4, progress=False, **how)
    assert run.history["reward"][0] != 0
    with pytest.raises(ValueError, match="which has other words than the model"):
        train("grpo", folders["gpt2"], **how | {"tokenizer": words(vocabulary=[*WORDS[:-1], "!"])})
    with pytest.raises(ValueError, match="a language model; a model that classifies"):
        train("grpo", folders["gpt2"], **how | {"reward": folders["gpt2"]})


def test_the_reward_model_of_a_checkpoint_has_no_head(transformers):
    from ppobook.language.describing import build, describe

    reward_model, _ = rough_reward_model(net_of("llama"), words())
    again = build(describe(reward_model))
    again.load_state_dict(reward_model.state_dict())
    c = some_completions()
    assert torch.equal(again.rewards(c), reward_model.rewards(c))


# --- LoRA ------------------------------------------------------------------------------------------------


def roughen(model, seed=1, scale=0.2):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += scale * torch.randn(parameter.shape, generator=seeded(seed), dtype=parameter.dtype)
    return model


def test_adapters_change_nothing_at_first_and_only_they_are_trained(net, peft):
    before = torch.get_rng_state()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = opened(net, lora={"r": 3, "alpha": 6})
    assert torch.equal(before, torch.get_rng_state())
    tokens = torch.tensor(ROWS[2:3])
    said(model(tokens), net(input_ids=tokens).logits)
    matrices = [p for name, p in net.base_model.named_parameters() if p.ndim == 2 and "e.weight" not in name]
    assert sum(p.numel() for p in model.parameters()) == sum(
        3 * sum(p.shape) for p in matrices if 32 in p.shape
    ) - (3 * sum(net.get_input_embeddings().weight.shape) if net.config.model_type == "llama" else 0)
    assert all("lora_" in name for name, _ in model.named_parameters())
    other = opened(net, lora={"r": 3, "alpha": 6}, seed=1)
    assert not all(map(torch.equal, model.parameters(), other.parameters()))


def test_what_is_frozen_stays_whatever_is_asked(net, peft):
    model = opened(net, lora={"r": 2})
    frozen = {name: x.clone() for name, x in model.named_buffers()}
    critic = Scalar(model).requires_grad_(True)
    optimizer = torch.optim.SGD([*model.requires_grad_(True).parameters(), *critic.parameters()], lr=1.0)
    tokens, mask = left_pad(ROWS, PAD)
    for _ in range(2):  # B is 0 in the first, and there is no gradient for A
        optimizer.zero_grad()
        (model(tokens, mask).square().mean() + (critic(tokens, mask) - 1).square().mean()).backward()
        optimizer.step()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())
    assert all(torch.equal(x, frozen[name]) for name, x in model.named_buffers())
    assert not torch.equal(model(tokens, mask), opened(net)(tokens, mask))


def test_copies_share_what_is_frozen(net, peft):
    model = roughen(opened(net, lora={"r": 2}))
    reference = copy.deepcopy(model)
    critic = Scalar(model)
    places = {x.data_ptr() for x in model.buffers()}
    for other in (reference, critic.body):
        assert {x.data_ptr() for x in other.buffers()} <= places
        assert not {p.data_ptr() for p in other.parameters()} & {p.data_ptr() for p in model.parameters()}
    tokens = torch.tensor(ROWS[2:3])
    expected = model(tokens)
    roughen(model)
    assert torch.equal(reference(tokens), expected)
    assert not torch.equal(model(tokens), expected)
    stored = io.BytesIO()
    torch.save([model.state_dict(), reference.state_dict(), critic.state_dict()], stored)
    alone = io.BytesIO()
    torch.save(model.state_dict(), alone)
    trained = 4 * sum(p.numel() for p in model.parameters())
    overhead = 2 * 90_000  # names and places of some hundred tensors
    assert len(stored.getvalue()) < len(alone.getvalue()) + 2 * trained + overhead
    # From a checkpoint, each comes back with a base of its own.
    again = hf.build(reference.description())
    again.load_state_dict(reference.state_dict())
    assert {x.data_ptr() for x in again.buffers()}.isdisjoint(places)
    again.share(model)
    assert {x.data_ptr() for x in again.buffers()} <= places
    assert torch.equal(again(tokens), expected)


def test_tied_words_stay_tied_on_the_way_to_a_device(transformers, peft):
    model = opened(net_of("gpt2"), lora={"r": 2})
    moved = model.to(torch.float64)
    assert moved.output.lm_head.weight is moved.decoder.wte.weight
    assert moved.decoder.wte.weight.dtype == torch.float64


def test_merged_is_base_and_adapters(net, peft):
    model = roughen(opened(net, lora={"r": 3, "alpha": 6}))
    state, weights = model.state_dict(), model.merged().state_dict()
    name = "decoder.h.1.mlp.c_fc" if net.config.model_type == "gpt2" else "decoder.layers.1.mlp.up_proj"
    a, b = (state[f"{name}.lora_{x}.default.weight"] for x in "AB")
    added = (b @ a) * (6 / 3)
    if net.config.model_type == "gpt2":
        added = added.T
    torch.testing.assert_close(
        weights[f"{name}.weight"], state[f"{name}.base_layer.weight"] + added, rtol=1e-5, atol=1e-6
    )
    merged = model.merged()
    assert merged.lora is None
    assert all(p.requires_grad for p in merged.parameters())
    tokens, mask = left_pad(ROWS, PAD)
    # Not at padding, of which each code makes something else.
    torch.testing.assert_close(merged(tokens, mask)[mask], model(tokens, mask)[mask], rtol=1e-4, atol=1e-4)
    roughen(merged)  # it has a base of its own
    assert torch.equal(model.state_dict()[f"{name}.base_layer.weight"], state[f"{name}.base_layer.weight"])


def test_adapters_are_written_merged_or_alone(net, transformers, peft, tmp_path):
    model, tokenizer = hf.open_pretrained(net, words(), lora={"r": 3, "alpha": 5, "use_rslora": True})
    roughen(model)
    tokens = torch.tensor(ROWS[2:3])
    hf.save_pretrained(model, tmp_path / "merged", tokenizer)
    whole = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "merged").eval()
    said(whole(input_ids=tokens).logits, model.merged()(tokens))
    torch.testing.assert_close(whole(input_ids=tokens).logits, model(tokens), rtol=1e-4, atol=1e-4)
    hf.save_pretrained(model, tmp_path / "adapters", merge=False)
    assert sorted(path.name for path in (tmp_path / "adapters").iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of a Conv1D, which peft sees to
        theirs = peft.PeftModel.from_pretrained(copy.deepcopy(net), tmp_path / "adapters").eval()
    torch.testing.assert_close(theirs(input_ids=tokens).logits, model(tokens), rtol=1e-5, atol=1e-5)
    with pytest.raises(TypeError, match=r"PeftModel.*; after merge_and_unload\(\)"):
        opened(theirs)
    with pytest.raises(ValueError, match="has adapters of peft in it"):
        opened(theirs.base_model.model)
    merged = theirs.merge_and_unload()
    torch.testing.assert_close(opened(merged)(tokens), model(tokens), rtol=1e-4, atol=1e-4)


def test_doors_of_lora(transformers, peft, monkeypatch):
    net = net_of("llama")
    for lora, kind, said in (
        ({"rank": 8}, ValueError, "each setting of lora must be .*, got 'rank'"),
        ({"r": 0}, ValueError, r"lora\['r'\] must be an integer of at least 1, got 0"),
        (8, TypeError, "lora must be a dict .*, got 8"),
        ({"target_modules": 3}, TypeError, r"lora\['target_modules'\] must be .*, got 3"),
        ({"target_modules": ["nothing"]}, ValueError, "lora must fit the model, got"),
        ({"use_rslora": 1}, TypeError, "use_rslora"),
    ):
        with pytest.raises(kind, match=said):
            opened(net, lora=lora)
    model = opened(net, lora={"target_modules": ["q_proj", "v_proj"]})
    assert {name.split(".")[-4] for name, _ in model.named_parameters()} == {"q_proj", "v_proj"}
    with pytest.raises(ValueError, match="lora must be None for a model with adapters"):
        hf.open_pretrained(model, words(), lora={})
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ValueError, match=r"peft must be installed: pip install 'ppobook\[hf\]'"):
        opened(net, lora={})


def test_a_reward_model_with_adapters(transformers, peft, tmp_path):
    model, tokenizer = hf.open_pretrained(net_of("llama"), words(), lora={"r": 2})
    reward_model = roughen(RewardModel(model, "last", bias=False))
    assert len([p for p in reward_model.parameters() if p.requires_grad]) == 2 * 14 + 1
    c = some_completions()
    hf.save_pretrained(reward_model, tmp_path / "reward_model", tokenizer)
    logits, _ = scored(transformers, tmp_path / "reward_model", c, PAD, left=False)
    torch.testing.assert_close(logits, reward_model.rewards(c), rtol=1e-4, atol=1e-4)


# --- half precision --------------------------------------------------------------------------------------


@pytest.mark.parametrize("lora", [None, {"r": 4}])
def test_half_precision_is_for_products_only(folders, lora, peft):
    model, _ = hf.open_pretrained(folders["llama"], dtype="bfloat16", lora=lora)
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    base = model.decoder.embed_tokens.weight
    assert base.dtype == (torch.float32 if lora is None else torch.bfloat16)
    tokens, mask = left_pad(ROWS, PAD)
    exact = own(net_of("llama"), ROWS[2])
    logits = model(tokens, mask)
    assert logits.dtype == torch.bfloat16
    assert 0 < (logits[2].float() - exact).abs().max() < 0.1
    hidden = model.hidden(tokens, mask)
    assert hidden.dtype == torch.float32
    c = generate(model, tokens, mask, 6, generator=seeded())
    assert c.logp.dtype == torch.float32
    critic = Scalar(model)
    (token_logp(completion_logits(model, c), c.tokens).sum() + critic(tokens, mask).sum()).backward()
    assert {p.grad.dtype for p in model.parameters()} == {torch.float32}
    again = hf.build(model.description())
    again.load_state_dict(model.state_dict())
    assert torch.equal(again(tokens, mask), logits)
    assert again.decoder.embed_tokens.weight.dtype == base.dtype


def test_precision_may_be_changed_later(transformers, peft):
    """Adapters on a float32 base that then are trained in bfloat16: the base stays as it is."""
    model = roughen(opened(net_of("llama"), lora={"r": 2}))
    half, _ = hf.open_pretrained(model, words(), dtype="bfloat16")
    assert half.kept == torch.float32
    again = hf.build(half.description())
    again.load_state_dict(half.state_dict())
    tokens, mask = left_pad(ROWS, PAD)
    assert torch.equal(again(tokens, mask), half(tokens, mask))
    assert again(tokens).dtype == torch.bfloat16
    assert again.description() == half.description()
    assert opened(net_of("llama"), lora={}, dtype="bfloat16").merged().kept == torch.float32


def test_a_half_precise_folder_is_trained_in_float32(transformers, tmp_path):
    net = net_of("gpt2").to(torch.bfloat16)
    net.save_pretrained(tmp_path)
    for given in (net, tmp_path):
        model = opened(given)
        assert {p.dtype for p in model.parameters()} == {torch.float32}
        assert model.dtype == "float32"
        torch.testing.assert_close(
            model(torch.tensor(ROWS[2:3]))[0], own(copy.deepcopy(net).float(), ROWS[2]), rtol=1e-5, atol=1e-5
        )


# --- stages ----------------------------------------------------------------------------------------------

NOUNS, VERBS, PLACES = ("fox", "owl", "hen"), ("sings", "sits", "runs"), ("barn", "lake")
TEXTS = [
    {"prompt": f"say {n} :", "completion": f" the {n} {v} by the {p} ."}
    for n in NOUNS
    for v in VERBS
    for p in PLACES
]
PAIRS = [
    {"prompt": row["prompt"], "chosen": row["completion"], "rejected": " a " + "by " * (2 + i % 3)}
    for i, row in enumerate(TEXTS)
]
ASKED = [{"prompt": f"say {n} :", "kind": n} for n in NOUNS]


def short_and_animal(prompts, completions, kind):
    """A reward of one's own: few words, and the noun among them."""
    assert all(k in p for k, p in zip(kind, prompts, strict=True))
    return [
        float(k in text.split()) - 0.1 * len(text.split()) for k, text in zip(kind, completions, strict=True)
    ]


SAMPLED = {"data": ASKED, "reward": short_and_animal, "max_new_tokens": 4, "batch_size": 8}
# What each stage is given. One that is not here is not tried.
GIVEN = {
    "sft": {"data": TEXTS, "batch_size": 6},
    "reward": {"data": PAIRS, "batch_size": 6, "pooling": "last"},
    "ppo": SAMPLED,
    "grpo": SAMPLED | {"group_size": 4},
    "dpo": {"data": PAIRS, "batch_size": 6},
    "online_dpo": SAMPLED,
}
PRESENT = [name for name in GIVEN if importlib.util.find_spec(STAGES[name].partition(":")[0])]


def trained(stage, model, updates=2, **changes):
    how = {**GIVEN[stage], "lr": 2e-3, "seed": 3, "progress": False}
    if "warmup" in stage_class(stage).settings_class.__dataclass_fields__:
        how["warmup"] = 0
    return train(stage, model, updates=updates, **{**how, **changes})


def same_weights(a, b):
    one, other = a.state_dict(), b.state_dict()
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("stage", PRESENT)
@pytest.mark.parametrize("lora", [None, {"r": 2}])
def test_a_stage_from_a_folder(folders, transformers, tmp_path, stage, lora, request):
    if lora is not None:
        request.getfixturevalue("peft")
    folder = folders["llama" if lora is None else "gpt2"]
    begun, _ = hf.open_pretrained(folder, lora=lora)
    how = {"lora": lora, "checkpoint_every": 1}
    run = trained(stage, folder, updates=2, out=tmp_path / "run", **how)
    assert len(run.history) == 2
    assert run.history["grad_norm"].gt(0).all()
    assert run.config.get("lora") == lora
    body = run.model.body if stage == "reward" else run.model
    weights, before = body.state_dict(), begun.state_dict()
    moved = [name for name in weights if not torch.equal(weights[name], before[name])]
    assert moved
    if lora is not None:
        assert all("lora_" in name for name in moved)

    # Broken off after one of the two: to the bit the same.
    trained(stage, folder, updates=1, out=tmp_path / "part", **how)
    again = {name: GIVEN[stage][name] for name in ("data", "reward") if name in GIVEN[stage]}
    resumed = train(resume=tmp_path / "part", updates=2, progress=False, **again)
    assert same_weights(resumed.model, run.model)
    loaded = load(tmp_path / "run")
    assert same_weights(loaded.model, run.model)
    assert loaded.tokenizer.encode("say fox :") == [4, 8, 5]

    hf.save_pretrained(loaded, tmp_path / "saved")
    assert transformers.AutoTokenizer.from_pretrained(tmp_path / "saved").eos_token_id == EOS
    if stage == "reward":
        c = some_completions()
        logits, config = scored(transformers, tmp_path / "saved", c, PAD, left=False)
        torch.testing.assert_close(logits - config.reward_zero, run.model.rewards(c), rtol=1e-4, atol=1e-4)
    else:
        theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "saved").eval()
        expected = run.model if lora is None else run.model.merged()
        tokens = torch.tensor(ROWS[2:3])
        said(theirs(input_ids=tokens).logits, expected(tokens))


@pytest.mark.parametrize("stage", PRESENT)
def test_a_stage_does_to_gpt2_what_it_does_to_our_decoder(transformers, stage):
    """The same weights behind the adapter and in our decoder: the same completions, losses and steps."""
    net = net_of("gpt2", scale=0.05)
    tokenizer = hf.open_tokenizer(words())
    theirs = trained(stage, net, tokenizer=tokenizer)
    ours = trained(stage, hf.to_decoder(net, eos=EOS, pad=PAD), tokenizer=tokenizer)
    # In DPO's first batch nothing is told apart yet, and rounding decides on which side it falls.
    unmeant = ("seconds", "accuracy") if stage == "dpo" else "seconds"
    for name in [name for name in ours.history.columns if not name.startswith(unmeant)]:
        assert theirs.history[name].tolist() == pytest.approx(
            ours.history[name].tolist(), rel=2e-3, abs=1e-4
        ), name
    tokens, mask = left_pad(ROWS, PAD)
    if stage != "reward":
        torch.testing.assert_close(
            theirs.model(tokens, mask)[mask], ours.model(tokens, mask)[mask], rtol=1e-2, atol=2e-3
        )


def test_how_a_model_is_trained_may_be_said_to_train(folders, peft):
    run = trained("sft", folders["llama"], updates=1, lora={"r": 2}, dtype="bfloat16")
    assert run.config["lora"] == {"r": 2}
    assert run.config["dtype"] == run.model.dtype == "bfloat16"
    assert run.model.decoder.embed_tokens.weight.dtype == torch.bfloat16
    whole = trained("sft", folders["llama"], updates=1)
    begun = trained("sft", whole, updates=1, lora={"r": 2})
    assert begun.model.lora["r"] == 2
    assert not same_weights(begun.model, trained("sft", whole, updates=1, lora={"r": 2}, seed=4).model)
    with pytest.raises(ValueError, match="lora must be None for a model with adapters"):
        trained("sft", begun, lora={"r": 2})
    world = World(nouns=2, places=2, max_new_tokens=12)
    fresh = train("sft", data=world, updates=1, examples=20, width=8, heads=2, layers=1, progress=False)
    with pytest.raises(ValueError, match="lora was given, and is for models of transformers"):
        train("grpo", fresh, reward="gold", lora={"r": 2}, progress=False)
    with pytest.raises(ValueError, match="model is None"):
        train("sft", data=world, lora={"r": 2}, progress=False)


def test_a_run_has_one_base_when_resumed_too(folders, tmp_path, peft, monkeypatch):
    kind, places = stage_class("ppo"), []
    step = kind.step

    def looked(self, number):
        nets = [getattr(net, "body", net) for net in self.modules().values()]
        places.append([{x.data_ptr() for x in net.buffers()} for net in nets])
        return step(self, number)

    monkeypatch.setattr(kind, "step", looked)
    trained("ppo", folders["llama"], updates=1, lora={"r": 2}, out=tmp_path / "run")
    again = {name: GIVEN["ppo"][name] for name in ("data", "reward")}
    with pytest.raises(ValueError, match="lora was given, and a resumed run has its own"):
        train(resume=tmp_path / "run", updates=2, lora={"r": 2}, **again)
    train(resume=tmp_path / "run", updates=2, progress=False, **again)
    assert len(places) == 2
    for model, *others in places:
        assert len(others) == 2  # the reference and the critic
        assert all(other <= model for other in others)


def test_the_reference_of_adapters_is_the_model_as_it_began(folders, peft):
    """Not the base: what was learned by supervision is in the adapters, and part of the reference."""
    model, tokenizer = hf.open_pretrained(folders["llama"], lora={"r": 2})
    base = trained("sft", model, tokenizer=tokenizer)
    run = trained("grpo", base, updates=1, kl_coef=0.5)
    # In the first batch the policy is the reference. Were that the base, there would be a KL.
    assert run.history["kl_reference"][0] == pytest.approx(0, abs=1e-5)
    assert isinstance(run.model, Pretrained)
    assert run.model.lora is not None


def test_a_world_may_have_a_model_of_theirs(transformers):
    world = World(nouns=2, places=2, max_new_tokens=12)
    sizes = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 24}
    ids = {"bos_token_id": None, "eos_token_id": world.tokenizer.eos, "pad_token_id": world.tokenizer.pad}
    net = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=world.tokenizer.vocab_size, **sizes, **ids)
    )
    run = train(
        "sft", net, world, tokenizer=world.tokenizer, updates=2, examples=40, batch_size=20, progress=False
    )
    assert isinstance(run.model, Pretrained)
    assert run.tokenizer is world.tokenizer
    tuned = train("grpo", run, reward="gold", updates=1, batch_size=8, group_size=4, progress=False)
    assert "gold" in tuned.history


def test_our_decoder_may_have_a_tokenizer_of_theirs(transformers, folders):
    decoder = hf.to_decoder(net_of("gpt2"), eos=EOS, pad=PAD)
    for tokenizer in (words(), str(folders["gpt2"])):
        run = trained("sft", decoder, updates=1, tokenizer=tokenizer)
        assert run.tokenizer.encode("say fox :") == [4, 8, 5]


def test_a_dataset_of_conversations(transformers, folders):
    datasets = pytest.importorskip("datasets")
    said = [
        {"messages": [{"role": "say", "content": n}, {"role": "the", "content": f"{n} sings"}]} for n in NOUNS
    ]
    data = datasets.Dataset.from_list(said)
    run = train(
        "sft", folders["llama"], data, tokenizer=words(template=CHAT), updates=1, batch_size=3, progress=False
    )
    # say : fox </s> the : fox sings </s>, and the first of them is read only
    assert run.history["tokens"][0] == 3 * 8
