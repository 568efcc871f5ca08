"""Models of transformers, opened and saved."""

import copy
import io
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
    as_decoder,
    assert_close,
    net_of,
    opened,
    own,
    rough_reward_model,
    scored,
    seeded,
    sizes_of,
    some_completions,
    words,
)

from ppobook.language import hf, pretrained
from ppobook.language.evaluating import compare, evaluate
from ppobook.language.generation import generate
from ppobook.language.opening import open_reference
from ppobook.language.pretrained_tokenizer import build_tokenizer, open_tokenizer
from ppobook.language.rewards import RewardModel
from ppobook.language.tokens import left_pad
from ppobook.language.training import train
from ppobook.language.world import World


def test_what_is_not_installed_is_asked_for(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ValueError, match=r"transformers must be installed: pip install 'ppobook\[hf\]'"):
        hf.open_pretrained(tmp_path)


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


def test_tokens_that_the_model_does_not_have_are_named(transformers):
    tokenizer = words()
    tokenizer.add_special_tokens({"pad_token": "<new>"})
    net = net_of("llama")
    with pytest.raises(ValueError, match=f"must have only the model's {V} tokens, got {V + 1}: resize"):
        hf.open_pretrained(net, tokenizer)
    net.resize_token_embeddings(V + 1)
    assert hf.open_pretrained(net, tokenizer)[0].pad == V


def test_a_reference_with_other_words_is_refused(tmp_path):
    hf.save_pretrained(
        opened(net_of("gpt2")), tmp_path / "new", words(vocabulary=[*WORDS[:4], *WORDS[:3:-1]])
    )
    with pytest.raises(ValueError, match="reference must have the same words as the model, got other words"):
        open_reference(tmp_path / "new", open_tokenizer(words()))


def test_what_is_neither_in_the_config_nor_in_the_weights_is_refused():
    hooked, untied = net_of("gpt2"), net_of("gpt2")
    hooked.lm_head.register_forward_hook(lambda module, given, out: out + torch.arange(V))
    untied.lm_head.weight = torch.nn.Parameter(untied.lm_head.weight.detach().flip(0))
    for net in (hooked, untied):
        with pytest.raises(ValueError, match="as its config and weights say, got a GPT2LM"):
            opened(net)


def test_a_model_whose_trial_fails_is_refused(transformers, monkeypatch):
    """Its forward pass differs from its parts, with positions, or with its cache."""
    gpt2 = transformers.GPT2Model.forward

    def no_positions(self, *args, position_ids=None, **kwargs):
        return gpt2(self, *args, **kwargs)

    def backward_looking(self, input_ids, **kwargs):
        out = gpt2(self, input_ids, **kwargs)
        out.last_hidden_state = out.last_hidden_state + out.last_hidden_state.mean(dim=1, keepdim=True)
        return out

    def forgetful(self, input_ids, past_key_values=None, **kwargs):
        out = gpt2(self, input_ids, past_key_values=past_key_values, **kwargs)
        if past_key_values is not None:
            out.last_hidden_state = out.last_hidden_state.flip(-1)
        return out

    for forward in (no_positions, backward_looking, forgetful):
        monkeypatch.setattr(transformers.GPT2Model, "forward", forward)
        with pytest.raises(ValueError, match=r"with and without padding, .* got a GPT2LM"):
            opened(net_of("gpt2"))


def test_gpt2_in_our_decoder_is_gpt2(transformers):
    net = net_of("gpt2")
    model, decoder = opened(net), as_decoder(net)
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


# --- written, and read by transformers ----------------------------------------------------------------------


def test_transformers_reads_what_was_saved(net, transformers, tmp_path):
    net.generation_config.repetition_penalty = 1.5
    net.generation_config.eos_token_id = [EOS, 6]
    model, tokenizer = hf.open_pretrained(net, words(template=CHAT))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.01
    hf.save_pretrained(model, tmp_path / "new", tokenizer)
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "new").eval()
    assert type(again) is type(net)
    assert again.generation_config.eos_token_id == [EOS, 6]
    assert build_tokenizer(tokenizer.description()).end_tokens == tokenizer.end_tokens == [EOS, 6]
    tokens = torch.tensor(ROWS[2:3])
    assert_close(again(input_ids=tokens).logits, model(tokens))
    assert not torch.equal(again(input_ids=tokens).logits, net(input_ids=tokens).logits)
    assert again.generation_config.repetition_penalty == 1.5
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "new")
    assert theirs("say fox :")["input_ids"] == [4, 8, 5]
    assert theirs.chat_template == CHAT
    with pytest.raises(FileExistsError, match="a new folder"):
        hf.save_pretrained(model, tmp_path / "new")


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


@pytest.mark.parametrize(("pad", "bias"), [("<pad>", True), (None, False)])
def test_a_reward_model_is_a_sequence_classifier(net, transformers, tmp_path, pad, bias):
    reward_model, tokenizer = rough_reward_model(net, words(pad=pad), bias=bias)
    assert not any("output" in name for name, _ in reward_model.body.named_parameters())
    c = some_completions()
    with torch.no_grad():
        rewards = reward_model.rewards(c)
    with pytest.raises(ValueError, match="merge must be True for a reward model"):
        hf.save_pretrained(reward_model, tmp_path / "reward_model", tokenizer, merge=False)
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
    with pytest.raises(ValueError, match="pooling='last' for transformers, got 'sum'"):
        hf.save_pretrained(summed, tmp_path / "sum")


def test_a_sequence_classifier_in_memory_is_a_reward_model(transformers):
    config = transformers.LlamaConfig(**sizes_of("llama", num_labels=1))
    net = transformers.LlamaForSequenceClassification(config).eval()
    reward_model, _ = hf.open_pretrained(net, words())
    c = some_completions(n=1)
    assert_close(reward_model.rewards(c), net(input_ids=c.inputs).logits[0])


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
