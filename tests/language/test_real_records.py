"""The tasks, rules and measures of the records of a real model, `results/real_*`."""

import sys

import pytest
import torch

from ppobook.experiments import results_folder
from ppobook.language import Completions
from ppobook.language.opening import open_task
from ppobook.language.stage import Task
from ppobook.language.sums import Sums, one_is_right

sys.path.append(str(results_folder()))

import real_common
from real_methods.run import BestOfN


@pytest.mark.parametrize(
    ("text", "ended", "expected"),
    [
        ("Thank you, tea is warm.", True, (1, 1, 1)),
        ("Please! PLEASE! please!", True, (1, 0, 1)),
        ("A teapot pleases me.", True, (0, 1, 1)),  # part of a word: on topic, but not polite
        ("Tea is warm", False, (0, 1, 0)),
        (" ".join(["tea"] * 25), True, (0, 1, 1)),
        (" ".join(["tea"] * 26), True, (0, 1, 0)),
        ("", True, (0, 0, 1)),
    ],
)
def test_points_are_given_for_politeness_topic_and_length(text, ended, expected):
    assert tuple(real_common.points(text, "tea", ended).values()) == expected


def test_a_topic_is_recognized_in_singular_and_plural():
    for text in ("My cat sleeps.", "CATS sleep."):
        assert real_common.points(text, "cats")["on_topic"] == 1
    assert real_common.points("My dog sleeps.", "cats")["on_topic"] == 0


def test_held_out_questions_are_about_other_topics():
    trained, held_out = real_common.questions(seed=1)
    assert (len(trained), len(held_out)) == (120, 30)
    assert not {row["topic"] for row in trained} & {row["topic"] for row in held_out}
    assert trained != real_common.questions(seed=2)[0]
    for row in trained:
        system, user = row["prompt"]
        assert system == {"role": "system", "content": real_common.SYSTEM}
        assert row["topic"] in user["content"]
    asked = [row["prompt"][1]["content"] for row in trained + held_out]
    assert len(set(asked)) == 150
    assert not set(asked) & set(real_common.OTHERS)


def completions_of(rows):
    width = max(map(len, rows))
    tokens = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    mask = torch.arange(width) < torch.tensor([[len(row)] for row in rows])
    prompts = torch.ones(len(rows), 1, dtype=torch.long)
    ended = torch.ones(len(rows), dtype=torch.bool)
    return Completions(prompts, prompts.bool(), tokens, mask, torch.zeros(tokens.shape), ended)


def test_distinct_pairs_are_counted_in_equal_amounts_of_text():
    some = completions_of([[5, 6, 5, 6], [5, 6, 7], [8]])
    # 56 65 56, then 56 67: three different ones of five, two of the first three.
    assert real_common.distinct_pairs(some, 100) == 3 / 5
    assert real_common.distinct_pairs(some, 3) == 2 / 3


@pytest.fixture
def best_of_n():
    sums = Sums(largest=2)
    task = open_task(BestOfN, Task(sums.decoder(), sums.tokenizer, sums.prompts, one_is_right), "cpu")
    settings = BestOfN.settings_class.make(
        "best_of_n", {"batch_size": 16, "group_size": 8, "max_new_tokens": 12, "epochs": 2, "lr": 1e-3}, {}
    )
    return BestOfN(task, settings, seed=0)


def test_best_of_n_trains_on_one_right_answer_of_each_prompt(best_of_n, monkeypatch):
    trained_on = []
    step = best_of_n.minibatch_step
    monkeypatch.setattr(best_of_n, "minibatch_step", lambda kept: trained_on.append(kept) or step(kept))
    metrics = [best_of_n.step(number) for number in range(4)]
    assert 0 < sum(row["kept"] for row in metrics) <= 8
    assert len(trained_on) == sum(2 for row in metrics if row["kept"])
    answers = {row["prompt"]: row["answer"] for row in Sums(largest=2).prompts}
    for kept in trained_on:
        prompts, texts = kept.prompt_texts(best_of_n.tokenizer), kept.texts(best_of_n.tokenizer)
        assert len(set(prompts)) == len(prompts)
        assert one_is_right(prompts, texts, [answers[prompt] for prompt in prompts]) == [1.0] * len(texts)


def test_the_loss_of_best_of_n_is_the_mean_cross_entropy_of_tokens(best_of_n):
    some = completions_of([[5, 6, 5], [6]])
    logits = best_of_n.model(torch.cat([some.prompts, some.tokens], dim=1))[:, :-1].log_softmax(dim=-1)
    logp = logits.gather(-1, some.tokens[..., None])[..., 0]
    expected = -(logp[0].sum() + logp[1, 0]) / 4
    loss, _ = best_of_n.loss(some, best_of_n.forward(some))
    torch.testing.assert_close(loss, expected)
    assert best_of_n.loss_weight(some) == 4
