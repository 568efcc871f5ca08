"""Models of transformers, opened and saved."""

import copy
import io
import re
import subprocess
import sys

import pytest
import torch
from small_pretrained import (
    ASKED,
    CHAT,
    EOS,
    KINDS,
    PAD,
    ROWS,
    WORDS,
    V,
    assert_close,
    net_of,
    opened,
    own,
    rough_reward_model,
    scored,
    sizes_of,
    some_completions,
    words,
)

from ppobook.language import hf, hub, pretrained
from ppobook.language.evaluating import compare, evaluate
from ppobook.language.pretrained_tokenizer import open_tokenizer
from ppobook.language.rewards import RewardModel
from ppobook.language.tokens import left_pad
from ppobook.language.training import train
from ppobook.language.world import World

# --- without transformers -----------------------------------------------------------------------------------


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
    with pytest.raises(TypeError, match=r"model must be a model of transformers, .*, got int"):
        hf.open_pretrained(3)


# --- opening ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_is_opened(folders, kind):
    model, tokenizer = hf.open_pretrained(folders[kind])
    assert (model.eos, model.pad, model.vocab_size, model.context) == (EOS, PAD, V, 40)
    assert (tokenizer.eos, tokenizer.pad, tokenizer.vocab_size) == (EOS, PAD, V)
    same, _ = hf.open_pretrained(str(folders[kind]), folders[kind])
    tokens = torch.tensor(ROWS[2:3])
    assert_close(model(tokens), own(net_of(kind), ROWS[2])[None])
    assert_close(model(tokens), same(tokens))


def test_opening_copies_and_draws_nothing(net):
    before = torch.get_rng_state()
    model = opened(net)
    pretrained.build(model.description())
    again, _ = hf.open_pretrained(model, words())
    assert torch.equal(before, torch.get_rng_state())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    tokens = torch.tensor(ROWS[2:3])
    assert_close(again(tokens), net(input_ids=tokens).logits)
    assert again(tokens).abs().max() > 0.1


def test_a_description_makes_the_model_again(net):
    net.generation_config.temperature = 0.7
    model = opened(net)
    stored = io.BytesIO()
    torch.save({"d": model.description(), "w": model.state_dict()}, stored)
    stored.seek(0)
    read = torch.load(stored, weights_only=True)
    again = pretrained.build(read["d"])
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
    assert pretrained.build(opened(net).description()).decoder.config._attn_implementation == "eager"


def test_a_class_outside_transformers_is_refused(transformers):
    class Mine(transformers.GPT2LMHeadModel):
        pass

    with pytest.raises(ValueError, match="got a Mine that can't be made from its config"):
        opened(Mine(transformers.GPT2Config(**sizes_of("gpt2"))))


def test_a_model_that_is_not_causal_is_refused(transformers, tmp_path):
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 48}
    bert = transformers.BertLMHeadModel(transformers.BertConfig(vocab_size=V, **sizes))
    with pytest.raises(ValueError, match="the model must be a causal transformer, got one without a cache"):
        opened(bert)
    t5 = transformers.T5Config(vocab_size=V, d_model=16, num_layers=1, num_heads=2, d_kv=8, d_ff=16)
    with pytest.raises(ValueError, match="model must be causal, got a t5, an encoder and decoder"):
        opened(transformers.T5ForConditionalGeneration(t5))
    mamba = transformers.MambaConfig(vocab_size=V, hidden_size=16, num_hidden_layers=1, state_size=4)
    with pytest.raises(ValueError, match="causal"):
        opened(transformers.MambaForCausalLM(mamba))
    with pytest.raises(ValueError, match="model must be a causal model, got a GPT2Model, without a head"):
        opened(net_of("gpt2").transformer)
    config = transformers.LlamaConfig(**sizes_of("llama"))
    transformers.LlamaModel(config).save_pretrained(tmp_path / "llama")
    with pytest.raises(ValueError, match=r"all weights of a LlamaForCausalLM, got .* without lm_head.weight"):
        hf.open_pretrained(tmp_path / "llama", words())


def test_a_model_whose_trial_fails_is_refused(transformers, monkeypatch):
    """Its forward pass differs from its parts, with positions, or with its cache."""
    gpt2 = transformers.GPT2Model.forward

    def no_positions(self, *args, position_ids=None, **kwargs):
        return gpt2(self, *args, **kwargs)

    monkeypatch.setattr(transformers.GPT2Model, "forward", no_positions)
    with pytest.raises(
        ValueError, match=r"got a GPT2LMHeadModel that differs (after padding|token by token)"
    ):
        opened(net_of("gpt2"))

    def backward_looking(self, input_ids, **kwargs):
        out = gpt2(self, input_ids, **kwargs)
        out.last_hidden_state = out.last_hidden_state + out.last_hidden_state.mean(dim=1, keepdim=True)
        return out

    monkeypatch.setattr(transformers.GPT2Model, "forward", backward_looking)
    with pytest.raises(ValueError, match="that differs"):
        opened(net_of("gpt2"))

    def forgetful(self, input_ids, past_key_values=None, **kwargs):
        out = gpt2(self, input_ids, past_key_values=past_key_values, **kwargs)
        if past_key_values is not None:
            out.last_hidden_state = out.last_hidden_state.flip(-1)
        return out

    monkeypatch.setattr(transformers.GPT2Model, "forward", forgetful)
    with pytest.raises(ValueError, match="that differs token by token"):
        opened(net_of("gpt2"))
    monkeypatch.setattr(transformers.GPT2Model, "forward", gpt2)
    lm = transformers.GPT2LMHeadModel.forward

    def louder(self, input_ids=None, **kwargs):
        out = lm(self, input_ids, **kwargs)
        out.logits = out.logits * (1.0 if input_ids is None else 2.0)
        return out

    monkeypatch.setattr(transformers.GPT2LMHeadModel, "forward", louder)
    with pytest.raises(ValueError, match="that differs when body and head are computed apart"):
        opened(net_of("gpt2"))


NO_MODEL = "model must be a model of transformers, the folder of one, or its name on the hub, got"


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (
            lambda: hf.open_pretrained(net_of("gpt2")),
            ValueError,
            "tokenizer must be passed with a model in mem",
        ),
        (
            lambda: hf.open_pretrained("no/such"),
            ValueError,
            f"{NO_MODEL} 'no/such', where there is no folder",
        ),
        (lambda: opened(torch.nn.Linear(2, 2)), TypeError, f"{NO_MODEL} Linear"),
        (
            lambda: hf.open_pretrained(net_of("gpt2"), 3),
            TypeError,
            "tokenizer must be .*, got int, which has",
        ),
        (
            lambda: opened(net_of("gpt2", vocab_size=17)),
            ValueError,
            "at most the 17 tokens of the model, got 19",
        ),
        (lambda: opened(net_of("gpt2"), dtype="float16"), ValueError, "dtype must be .*, got 'float16'"),
        (
            lambda: opened(net_of("gpt2"), dtype="bfloat17"),
            ValueError,
            "got 'bfloat17'. Did you mean 'bfloat16'",
        ),
        (
            lambda: opened(net_of("gpt2"))(torch.tensor([[3, 99]])),
            ValueError,
            r"in \[0, 18\], got ids from 3 to 99",
        ),
        (lambda: opened(net_of("gpt2"))(torch.zeros(1, 3)), TypeError, r"must be a tensor of torch\.int64"),
        (
            lambda: opened(net_of("gpt2"))(torch.ones(1, 3).long(), torch.ones(2, 3)),
            ValueError,
            "mask must have",
        ),
    ],
)
def test_bad_arguments(transformers, call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()


@pytest.mark.parametrize(
    ("outcome", "stored", "found"),
    [
        (None, False, False),
        ("EntryNotFoundError", False, False),
        (
            "RepositoryNotFoundError",
            True,
            "'no/such', where there is no folder, and which the hub does not have",
        ),
        (ConnectionError("no network"), True, True),
        (ConnectionError("no network"), False, "and the hub cannot be reached (ConnectionError: no network)"),
    ],
)
def test_the_hub_is_asked_once_and_aloud(transformers, monkeypatch, capsys, outcome, stored, found):
    import huggingface_hub
    from huggingface_hub import constants, errors

    asked = []

    def metadata(url, timeout):
        asked.append(url)
        if isinstance(outcome, str):
            kind = getattr(errors, outcome)
            raise kind.__new__(kind)
        if outcome is not None:
            raise outcome

    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", metadata)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hub, "_is_stored", lambda name: stored)
    hub.only_stored.cache_clear()
    if isinstance(found, str):
        with pytest.raises(LookupError, match=re.escape(found)):
            hub.only_stored("no/such")
    else:
        assert [hub.only_stored("no/such") for _ in range(2)] == [found, found]
    hub.only_stored.cache_clear()
    assert len(asked) == 1
    assert capsys.readouterr().err == f"asking {constants.ENDPOINT} for 'no/such'\n"


def test_a_damaged_folder(transformers, tmp_path):
    net = net_of("gpt2")
    with pytest.raises(ValueError, match="tokenizer must be a folder with a tokenizer's files"):
        hf.open_pretrained(net, tmp_path)
    net.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"tokenizer must be given with .*, which has none"):
        hf.open_pretrained(tmp_path)
    with pytest.raises(ValueError, match=rf"{NO_MODEL} '.*', a file: pass its folder, '"):
        hf.open_pretrained(tmp_path / "config.json")
    (tmp_path / "lora").mkdir()
    (tmp_path / "lora" / "adapter_config.json").write_text("{}")
    with pytest.raises(ValueError, match=rf"{NO_MODEL} '.*lora', an adapter: merge it into its model by"):
        hf.open_pretrained(tmp_path / "lora")
    net.lm_head.weight.data[3] = torch.nan
    with pytest.raises(ValueError, match="must have finite weights, got a GPT2LMHeadModel whose logits are"):
        opened(net)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-500])
    with pytest.raises(ValueError, match=NO_MODEL):
        hf.open_pretrained(tmp_path)


def test_a_model_may_have_more_tokens_than_its_tokenizer(transformers):
    assert opened(net_of("gpt2", vocab_size=V + 5)).vocab_size == V + 5


# --- written, and read by transformers ----------------------------------------------------------------------


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
    assert_close(again(input_ids=tokens).logits, model(tokens))
    assert not torch.equal(again(input_ids=tokens).logits, net(input_ids=tokens).logits)
    assert again.generation_config.repetition_penalty == 1.5
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "new")
    assert theirs("say fox :")["input_ids"] == [4, 8, 5]
    assert theirs.chat_template == CHAT
    with pytest.raises(FileExistsError, match="a new folder"):
        hf.save_pretrained(model, tmp_path / "new")
    with pytest.raises(TypeError, match=r"model must be .*, got a Linear"):
        hf.save_pretrained(torch.nn.Linear(2, 2), tmp_path / "other")
    with pytest.raises(ValueError, match="merge must be True for a model without LoRA"):
        hf.save_pretrained(model, tmp_path / "other", merge=False)
    with pytest.raises(OSError, match="must be the folder of a run, got a folder that does not exist"):
        hf.save_pretrained(str(tmp_path / "nowhere"), tmp_path / "other")


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
    with pytest.raises(TypeError, match="got a RewardModel of a Decoder"):
        hf.save_pretrained(reward_model, tmp_path / "reward_model")


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
        with pytest.raises(
            ValueError, match="tokenizer must be passed, to give the reward model a padding token"
        ):
            hf.save_pretrained(reward_model, tmp_path / "other")


def test_a_sequence_classifier_in_memory_is_a_reward_model(transformers):
    config = transformers.LlamaConfig(**sizes_of("llama", num_labels=1))
    net = transformers.LlamaForSequenceClassification(config).eval()
    reward_model, _ = hf.open_pretrained(net, words())
    c = some_completions(n=1)
    assert_close(reward_model.rewards(c), net(input_ids=c.inputs).logits[0])
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
    with pytest.raises(ValueError, match="reward must have the vocabulary of the policy"):
        train("grpo", folders["gpt2"], **how | {"tokenizer": words(vocabulary=[*WORDS[:-1], "!"])})
    with pytest.raises(ValueError, match="reward must be a sequence classifier with one label"):
        train("grpo", folders["gpt2"], **how | {"reward": folders["gpt2"]})


def test_folders_of_transformers_are_evaluated(folders, tmp_path):
    policy = folders["gpt2"]
    reward_model, tokenizer = rough_reward_model(net_of("llama"), words(pad=None))
    hf.save_pretrained(reward_model, tmp_path / "reward_model", tokenizer)
    how = {"n": 8, "max_new_tokens": 4, "tokenizer": open_tokenizer(words(pad=None))}
    found = evaluate(policy, ASKED, reward_model=tmp_path / "reward_model", reference=str(policy), **how)
    model, _ = hf.open_pretrained(policy)
    same = evaluate(model, ASKED, reward_model=reward_model, reference=model, **how)
    assert found.numbers == pytest.approx(same.numbers)
    assert found.numbers["kl_reference"] == 0
    assert compare({"a": str(policy)}, ASKED, **how).loc["a", "length"] == found.numbers["length"]
    with pytest.raises(ValueError, match="reward_model must be a sequence classifier with one label"):
        evaluate(policy, ASKED, reward_model=policy, **how)
    with pytest.raises(ValueError, match="policy must be a language model, got a reward model"):
        evaluate(tmp_path / "reward_model", ASKED, **how)


def test_the_reward_model_of_a_checkpoint_has_no_head(transformers):
    from ppobook.language.serialization import build, describe

    reward_model, _ = rough_reward_model(net_of("llama"), words())
    again = build(describe(reward_model))
    again.load_state_dict(reward_model.state_dict())
    c = some_completions()
    assert torch.equal(again.rewards(c), reward_model.rewards(c))
