"""`Pretrained` against the model's own forward pass and generation; LoRA and half precision."""

import copy
import warnings

import pytest
import torch
from small_pretrained import (
    EOS,
    PAD,
    PADDINGS,
    ROWS,
    V,
    assert_close,
    net_of,
    opened,
    own,
    roughen,
    scattered,
    seeded,
    words,
)

from ppobook.language import hf, pretrained
from ppobook.language.generation import generate
from ppobook.language.model import Scalar
from ppobook.language.pretrained import Pretrained
from ppobook.language.tokens import completion_logits, left_pad, token_logp

# --- the forward pass ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("padding", PADDINGS)
def test_logits_are_the_models_own(net, padding):
    net = net.double()
    model = opened(net)
    tokens, mask = PADDINGS[padding]()
    logits = model(tokens, mask)
    assert logits.dtype == torch.float64
    for b, row in enumerate(ROWS):
        assert_close(logits[b][mask[b]], own(net, row))
    whole = torch.tensor(ROWS[2:3])
    assert_close(model(whole), net(input_ids=whole).logits)
    assert_close(model(whole, torch.ones_like(whole)), net(input_ids=whole).logits)


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


SPECIAL = {
    "gemma2": {"final_logit_softcapping": 0.5, "query_pre_attn_scalar": 8, "sliding_window": 3},
    "granite": {"logits_scaling": 3.0, "embedding_multiplier": 2.0},
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
    assert_close(model(tokens), own(net.eval(), ROWS[2])[None])
    assert model.decoder.config.resid_pdrop == 0.5  # nothing of it is lost to whoever loads it again


# --- the cache, and generation ------------------------------------------------------------------------------


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


def test_greedy_generation_is_transformers_own(net, transformers):
    model = opened(net)
    prompts, mask = left_pad(ROWS, PAD)
    # A word that some rows come to and others do not, and no row at once.
    free = generate(model, prompts, mask, 14, temperature=0).tokens.tolist()
    end = next(w for w in range(4, V) if 0 < sum(w in row[2:] for row in free) < len(free))
    net.generation_config.eos_token_id = [end, EOS]  # as of models with an end of turn
    model = opened(net)
    assert model.end_tokens == [EOS, end]
    mine = generate(model, prompts, mask, 14, temperature=0)
    theirs = net.generate(
        input_ids=prompts,
        attention_mask=mask.long(),
        max_new_tokens=14,
        do_sample=False,
        pad_token_id=PAD,
        eos_token_id=model.end_tokens,
    )[:, prompts.shape[1] :]
    assert 0 < mine.ended.sum() < len(prompts)
    assert torch.equal(mine.tokens, theirs)
    logp = token_logp(completion_logits(model, mine), mine.tokens, mask=mine.mask)
    torch.testing.assert_close(mine.logp, logp, rtol=1e-5, atol=1e-5)
    again = pretrained.build(model.description())
    assert again.end_tokens == model.end_tokens


def test_the_window_of_longrope_is_the_one_before_its_positions_change(transformers):
    rope = {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [4.0] * 4}
    sizes = {"vocab_size": V, "hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2}
    config = transformers.Phi3Config(
        **sizes, num_hidden_layers=1, pad_token_id=PAD, rope_parameters=rope | {"rope_theta": 1e4},
        max_position_embeddings=64, original_max_position_embeddings=16,
    )  # fmt: skip
    assert Pretrained(transformers.Phi3ForCausalLM(config), eos=EOS, pad=PAD).context == 16


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("kind", ["gpt2", "llama", "gemma2"])
def test_what_rows_share_is_read_once_and_changes_nothing(transformers, monkeypatch, kind, padded):
    model = opened(net_of(kind, **SPECIAL.get(kind, {}))).requires_grad_(True)
    three = [[5, 9, 6, 12, 7, 8], [5, 9, 6, 12, 11] + [4] * (not padded), [9, 6, 12, 11, 8, 7]]
    prompts, prompt_mask = left_pad([row for row in three for _ in range(4)], PAD)
    ends = torch.randint(4, V, (12, 5), generator=seeded())
    tokens = torch.cat([prompts, ends], dim=1)
    mask = torch.cat([prompt_mask, torch.arange(5) < 1 + torch.arange(12)[:, None] % 5], dim=1)

    read = []
    decode = model._decode
    monkeypatch.setattr(model, "_decode", lambda tokens, **how: read.append(tokens) or decode(tokens, **how))

    def results():
        model.zero_grad()
        read.clear()
        logits = model(tokens, mask)[mask]
        logits.square().mean().backward()
        first, cache = model.start_cache(prompts, prompt_mask, 1)
        then = model.step(ends[:, 0], cache)
        gradients = [p.grad.clone() for p in model.parameters()]
        return sum(x.numel() for x in read), [logits, first, then, *gradients]

    count, shared = results()
    model.shares = False
    full, alone = results()
    assert 2 * count <= full
    for mine, other in zip(shared, alone, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-5)


def test_a_recurrent_model_reads_each_row_by_itself(transformers):
    assert not pretrained.Pretrained(net_of("mamba", state_size=4), eos=EOS, pad=PAD).shares


# --- LoRA ---------------------------------------------------------------------------------------------------


def test_adapters_change_nothing_at_first_and_only_they_are_trained(net, peft):
    before = torch.get_rng_state()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = opened(net, lora={"r": 3, "alpha": 6})
    assert torch.equal(before, torch.get_rng_state())
    tokens = torch.tensor(ROWS[2:3])
    assert_close(model(tokens), net(input_ids=tokens).logits)
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
    # From a checkpoint, each comes back with a base of its own.
    again = pretrained.build(reference.description())
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


def test_adapters_are_written_merged_or_alone(net, transformers, peft, tmp_path):
    model, tokenizer = hf.open_pretrained(net, words(), lora={"r": 3, "alpha": 5, "use_rslora": True})
    roughen(model)
    tokens = torch.tensor(ROWS[2:3])
    hf.save_pretrained(model, tmp_path / "merged", tokenizer)
    whole = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "merged").eval()
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
    for adapted in (theirs, theirs.base_model.model):
        with pytest.raises(ValueError, match=r"no adapters of peft: pass merge_and_unload\(\)"):
            opened(adapted)
    with pytest.raises(ValueError, match=r"model must be whole, got adapters: peft\.Auto"):
        hf.open_pretrained(tmp_path / "adapters", words())
    merged = theirs.merge_and_unload()
    torch.testing.assert_close(opened(merged)(tokens), model(tokens), rtol=1e-4, atol=1e-4)


def test_adapters_of_some_layers(transformers, peft):
    model = opened(net_of("llama"), lora={"target_modules": ["q_proj", "v_proj"]})
    assert {name.split(".")[-4] for name, _ in model.named_parameters()} == {"q_proj", "v_proj"}
    for name in ("lm_head", "embed_tokens", "proj"):
        with pytest.raises(ValueError, match=f"target_modules of lora must be .* of the body, got '{name}'"):
            opened(net_of("llama"), lora={"target_modules": ["q_proj", name]})
    with pytest.raises(ValueError, match=r"each setting of lora must be .*, got 'modules_to_save'"):
        opened(net_of("llama"), lora={"modules_to_save": ["lm_head"]})
    with pytest.raises(ValueError, match="lora must be None for a model with adapters"):
        hf.open_pretrained(model, words(), lora={})
