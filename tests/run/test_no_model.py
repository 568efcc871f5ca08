"""What is no model is refused by a message that says what is one."""

import pytest
import torch
from small_stages import WORLD

from ppobook.language import evaluate, train

OTHERS = "a run, its folder, a Decoder, a model of transformers, "


@pytest.mark.parametrize("model", [torch.nn.Linear(2, 2), torch.nn.Linear, {}], ids=repr)
def test_what_else_a_model_may_be_is_said(model):
    with pytest.raises(TypeError, match=f"^model must be {OTHERS}"):
        train("sft", model, WORLD, progress=False)


def test_it_is_said_of_a_policy_too():
    with pytest.raises(TypeError, match=f"^policy must be {OTHERS}"):
        evaluate(torch.nn.Linear(2, 2), WORLD)
