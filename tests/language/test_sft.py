"""Supervised fine-tuning against a loop over single tokens, and against the entropy of its corpus."""

import math

import pytest
import torch
from bands import seeds
from small_language import completions, rough_decoder

from ppobook.language.generation import generate
from ppobook.language.sft import SFT, next_token_loss
from ppobook.language.stage import Task
from ppobook.language.training import train
from ppobook.language.world import World

SIZES = {"nouns": 2, "places": 2, "verbs": 2, "adjectives": 1, "clauses": [1.0], "max_new_tokens": 16}
WORLD = World(**SIZES)
QUICK = {"layers": 1, "width": 16, "heads": 2, "batch_size": 8, "progress": False}


def made(task=None, *, seed=0, **settings):
    """The stage, without the loop."""
    small = {"examples": 30, "layers": 1, "width": 8, "heads": 2}
    given = SFT.settings_class.make("sft", small | settings, {})
    return SFT(task or Task(None, WORLD.tokenizer, WORLD), given, seed=seed)


# ------------------------------------------------------------------------------------------------- the loss


def slow_loss(model, examples):
    """Nats of every token of every completion, one at a time, each row alone and without padding."""
    nats, right = [], []
    for b in range(len(examples)):
        read = examples.prompts[b][examples.prompt_mask[b]].tolist()
        for token in examples.tokens[b][examples.mask[b]].tolist():
            logits = model(torch.tensor([read]))[0, -1]
            chance = (logits - logits.max()).exp()
            nats.append(-torch.log(chance[token] / chance.sum()))
            right.append(float(logits.argmax() == token))
            read.append(token)
    return sum(nats) / len(nats), sum(right) / len(right)


def gradients(loss, model):
    return torch.autograd.grad(loss, list(model.parameters()))


def test_the_loss_is_the_mean_over_the_tokens_of_the_completions():
    model, examples = rough_decoder(), completions()
    loss, accuracy = next_token_loss(model, examples)
    expected, share = slow_loss(model, examples)
    torch.testing.assert_close(loss, expected, rtol=1e-9, atol=1e-9)
    assert accuracy.item() == pytest.approx(share)
    for mine, other in zip(gradients(loss, model), gradients(expected, model), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-11)
    assert not accuracy.requires_grad


# ------------------------------------------------------------------------------------------------ the stage


def test_one_update_is_a_step_of_adamw_down_the_loss_of_its_batch():
    stage = made(batch_size=5, lr=0.01, max_grad_norm=0.3)
    stage.model.double()
    stage.optimizer = stage.optimizer_of(stage.model)
    before = {name: p.detach().clone() for name, p in stage.model.named_parameters()}
    batch = stage.examples.select(stage.batch_rows(2))
    loss, accuracy = slow_loss(stage.model, batch)
    slopes = gradients(loss, stage.model)
    norm = math.sqrt(sum(slope.square().sum().item() for slope in slopes))
    metrics = stage.step(2)
    assert metrics["loss"] == pytest.approx(loss.item(), rel=1e-9)
    assert metrics["accuracy"] == pytest.approx(accuracy)
    assert metrics["grad_norm"] == pytest.approx(norm, rel=1e-9)
    assert metrics["tokens"] == batch.lengths.sum()
    assert norm > 0.3
    for (name, p), slope in zip(stage.model.named_parameters(), slopes, strict=True):
        # Adam's first step: the gradient over its own size.
        short = slope * 0.3 / (norm + 1e-6)
        expected = before[name] - 0.01 * short / (short.abs() + 1e-8)
        torch.testing.assert_close(p.detach(), expected, rtol=1e-9, atol=1e-10)


def test_examples_of_a_world_end_and_those_held_out_are_others():
    stage = made(examples=50, eval_examples=20)
    assert (len(stage.examples), len(stage.held_out)) == (50, 20)
    for examples in (stage.examples, stage.held_out):
        assert examples.ended.all()
        assert (examples.tokens.gather(1, examples.last[:, None]) == WORLD.tokenizer.eos).all()
        assert (WORLD.gold_parts(examples)["errors"] == 0).all()
    first, second = (x.texts(WORLD.tokenizer)[:20] for x in (stage.examples, stage.held_out))
    assert first != second
    assert made(examples=50).examples.texts(WORLD.tokenizer)[:20] == first
    assert made(examples=50, seed=1).examples.texts(WORLD.tokenizer)[:20] != first
    assert made(eval_examples=0).held_out is None


@pytest.mark.parametrize("batch_size", [7, 64])
def test_the_loss_held_out_is_that_of_all_its_tokens_after_the_update(batch_size):
    stage = made(eval_every=3, eval_examples=20, batch_size=batch_size)
    metrics = [stage.step(number) for number in range(6)]
    assert [number for number, row in enumerate(metrics) if "eval_loss" in row] == [2, 5]
    loss, accuracy = slow_loss(stage.model, stage.held_out)
    assert metrics[-1]["eval_loss"] == pytest.approx(loss.item(), rel=1e-5)
    assert metrics[-1]["eval_accuracy"] == pytest.approx(accuracy)


def test_a_model_that_is_there_is_gone_on_with():
    base = train("sft", data=WORLD, updates=3, examples=30, **QUICK)
    more = train("sft", base, updates=1, lr=1e-9, warmup=0, progress=False)
    for name, weight in more.model.state_dict().items():
        torch.testing.assert_close(weight, base.model.state_dict()[name], rtol=0, atol=2e-9)


# ------------------------------------------------------------------------------------------- what it learns


def whole(world, model, draws):
    """Return the shares of a model's texts that have ended and that have no error."""
    prompts, mask = (x.repeat(draws, 1) for x in world.prompt_tokens())
    drawn = generate(model, prompts, mask, world.max_new_tokens, generator=torch.Generator().manual_seed(0))
    parts = world.gold_parts(drawn)
    return drawn.ended.float().mean().item(), (parts["errors"] == 0).float().mean().item(), drawn


@pytest.mark.learning
def test_the_world_of_the_book_is_learned_by_default(band):
    world, golds, ended, correct = World(), [], [], []
    for seed in seeds(3):
        run = train("sft", data=world, seed=seed, progress=False)
        found = whole(world, run.model, 30)
        golds.append(world.gold(found[2]).mean().item())
        ended.append(found[0])
        correct.append(found[1])
    band(golds, at_least=0.2, at_most=1.0, of="gold")  # settled: 0.60, 0.06
    band(ended, at_least=0.9, of="ended")  # 0.99, 0.01
    band(correct, at_least=0.8, of="grammar")  # 0.95, 0.01
