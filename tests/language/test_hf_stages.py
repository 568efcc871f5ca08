"""All stages on models of transformers."""

import pytest
import torch
from small_pretrained import (
    ASKED,
    EOS,
    PAD,
    ROWS,
    scored,
    some_completions,
)

from ppobook.language import hf
from ppobook.language.generation import generate
from ppobook.language.pretrained import Pretrained
from ppobook.language.registry import stage_class
from ppobook.language.run import load
from ppobook.language.training import train

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


def short_and_animal(prompts, completions, kind):
    """A reward of one's own: few words, and the noun among them."""
    assert all(k in p for k, p in zip(kind, prompts, strict=True))
    return [
        float(k in text.split()) - 0.1 * len(text.split()) for k, text in zip(kind, completions, strict=True)
    ]


SAMPLED = {"data": ASKED, "reward": short_and_animal, "max_new_tokens": 4, "batch_size": 8}
# What each stage is given.
GIVEN = {
    "sft": {"data": TEXTS, "batch_size": 6},
    "reward": {"data": PAIRS, "batch_size": 6, "pooling": "last"},
    "ppo": SAMPLED,
    "grpo": SAMPLED | {"group_size": 4},
    "dpo": {"data": PAIRS, "batch_size": 6},
    "online_dpo": SAMPLED,
}


def trained(stage, model, updates=2, **changes):
    how = {**GIVEN[stage], "lr": 2e-3, "seed": 3, "progress": False}
    if "warmup" in stage_class(stage).settings_class.__dataclass_fields__:
        how["warmup"] = 0
    return train(stage, model, updates=updates, **{**how, **changes})


def same_weights(a, b):
    one, other = a.state_dict(), b.state_dict()
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    ("stage", "lora"), [*((stage, None) for stage in GIVEN), ("reward", {"r": 2}), ("grpo", {"r": 2})]
)
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
        tokens = torch.tensor(ROWS[2:3])
        expected, tolerance = run.model(tokens), 1e-5 if lora is None else 1e-4
        torch.testing.assert_close(theirs(input_ids=tokens).logits, expected, rtol=tolerance, atol=tolerance)


def test_how_a_model_is_trained_may_be_said_to_train(folders, peft):
    run = trained("sft", folders["llama"], updates=1, lora={"r": 2}, dtype="bfloat16")
    assert run.config["lora"] == {"r": 2}
    assert run.config["dtype"] == run.model.dtype == "bfloat16"
    assert run.model.decoder.embed_tokens.weight.dtype == torch.bfloat16
    whole = trained("sft", folders["llama"], updates=1)
    begun = trained("sft", whole, updates=1, lora={"r": 2})
    assert begun.model.lora["r"] == 2
    assert not same_weights(begun.model, trained("sft", whole, updates=1, lora={"r": 2}, seed=4).model)


def test_the_reference_of_adapters_is_the_model_as_it_began(folders, peft):
    """Not the base: what was learned by supervision is in the adapters, and part of the reference."""
    model, tokenizer = hf.open_pretrained(folders["llama"], lora={"r": 2})
    base = trained("sft", model, tokenizer=tokenizer)
    run = trained("grpo", base, updates=1, kl_coef=0.5)
    # In the first batch the policy is the reference. Were that the base, there would be a KL.
    assert run.history["kl_reference"][0] == pytest.approx(0, abs=1e-5)
    assert isinstance(run.model, Pretrained)
    assert run.model.lora is not None


# --- memory: activations that are computed again, rows that are generated side by side


@pytest.mark.parametrize(("stage", "lora"), [("sft", None), ("grpo", {"r": 2})])
def test_gradient_checkpointing_changes_rounding_only(folders, peft, stage, lora):
    once, again = (
        trained(stage, folders["llama"], lora=lora, gradient_checkpointing=flag) for flag in (False, True)
    )
    assert again.config["gradient_checkpointing"]
    weights = again.model.state_dict()
    for name, x in once.model.state_dict().items():
        torch.testing.assert_close(x, weights[name], rtol=1e-4, atol=1e-5)


def test_rows_that_are_generated_side_by_side(folders, monkeypatch):
    widths = []

    def counted(model, prompts, *given, **how):
        widths.append(len(prompts))
        return generate(model, prompts, *given, **how)

    monkeypatch.setattr("ppobook.language.on_policy.generate", counted)
    one = trained("ppo", folders["llama"], updates=1, micro_batch_size=2)
    assert set(widths) == {2}
    widths.clear()
    other = trained("ppo", folders["llama"], updates=1, micro_batch_size=2, generation_rows=8)
    assert set(widths) == {8}
    assert one.history["reward"].tolist() == other.history["reward"].tolist()
