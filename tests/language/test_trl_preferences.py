"""Losses of SFT, reward models and the DPO family against TRL's, as in `test_trl.py`."""

import pytest
import torch
from small_pretrained import words
from small_trl import (
    close,
    net_of,
    opened,
    our_gradients,
    plain,
    same_gradients,
    stage_of,
    their_gradients,
)

from ppobook.language import dpo, reward, sft
from ppobook.language.data import examples_of, pairs_of
from ppobook.language.pretrained_tokenizer import open_tokenizer
from ppobook.preferences import bradley_terry_loss

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")

# --- SFT ----------------------------------------------------------------------------------------------------


TEXTS = [
    {"prompt": "say fox :", "completion": " the fox sings ."},
    {"prompt": "owl", "completion": " sits by the lake and"},
    {"prompt": "the hen runs by", "completion": " a"},
]


@pytest.mark.parametrize("kind", ["prompt and completion", "text"])
def test_supervised_fine_tuning_from_the_texts_on(trl, tmp_path, kind):
    """Their collator's batch and ours. A text alone begins from the token that a tokenizer puts before it."""
    import datasets

    tokenizer = words(begins=kind == "text")
    rows = TEXTS if kind != "text" else [{"text": row["prompt"] + row["completion"]} for row in TEXTS]
    net = net_of()
    theirs = trl.SFTTrainer(
        model=net,
        args=trl.SFTConfig(**plain(tmp_path)),
        train_dataset=datasets.Dataset.from_list(rows),
        processing_class=tokenizer,
    )
    batch = theirs.data_collator([theirs.train_dataset[i] for i in range(3)])
    loss = theirs.compute_loss(theirs.model, batch)
    ours = opened(net_of(), tokenizer)
    examples = examples_of(rows, open_tokenizer(tokenizer))
    mine, accuracy = sft.next_token_loss(ours, examples)
    assert int(examples.mask.sum()) == int((batch["labels"][:, 1:] != -100).sum()) >= 12
    close(mine, loss)
    close(accuracy, theirs._metrics["train"]["mean_token_accuracy"][-1])
    same_gradients(our_gradients(mine, ours), their_gradients(loss, theirs.model))


# --- reward model -------------------------------------------------------------------------------------------


PAIRS = [
    {"prompt": "say fox :", "chosen": " the fox sings .", "rejected": " the owl"},
    {"prompt": "owl", "chosen": " sits", "rejected": " sits by the lake runs runs"},
    {"prompt": "the hen runs by", "chosen": " a barn .", "rejected": " a mill the"},
    {"prompt": "say owl :", "chosen": " the owl", "rejected": " the owl sings by the mill"},
]


@pytest.mark.parametrize("margins", [None, [0.0, 1.5, 0.2, 3.0]], ids=["plain", "margin"])
def test_a_model_of_rewards_from_the_texts_on(trl, tmp_path, margins):
    import datasets

    net = net_of(task="AutoModelForSequenceClassification", num_labels=1)
    rows = PAIRS if margins is None else [{**row, "margin": m} for row, m in zip(PAIRS, margins, strict=True)]
    reward_model = opened(net)
    theirs = trl.RewardTrainer(
        model=net,
        args=trl.RewardConfig(**plain(tmp_path)),
        train_dataset=datasets.Dataset.from_list(rows),
        processing_class=words(),
    )
    batch = theirs.data_collator([theirs.train_dataset[i] for i in range(4)])
    assert ("margin" in batch) is (margins is not None)
    loss = theirs.compute_loss(theirs.model, batch)
    chosen, rejected = reward.rewards_of(reward_model, pairs_of(PAIRS, open_tokenizer(words())))
    mine = bradley_terry_loss(chosen, rejected, 0.0 if margins is None else torch.tensor(margins))
    close(mine, loss)
    same_gradients(our_gradients(mine, reward_model), their_gradients(loss, theirs.model))
    close((chosen - rejected).mean().detach(), theirs._metrics["train"]["margin"][-1])


# --- DPO and its family -------------------------------------------------------------------------------------


def their_dpo(trl, folder, **config):
    import datasets

    net = net_of()
    trainer = trl.DPOTrainer(
        model=net,
        ref_model=net_of(1),
        args=trl.DPOConfig(**plain(folder, **config)),
        train_dataset=datasets.Dataset.from_list(PAIRS),
        processing_class=words(),
    )
    trainer.model.train()
    return trainer, trainer.data_collator([trainer.train_dataset[i] for i in range(4)])


def our_dpo(**settings):
    return stage_of(dpo, "DPO", "dpo", net=net_of(), data=PAIRS, eval_pairs=0, **settings)


def test_dpo_from_the_texts_on(trl, tmp_path):
    theirs, batch = their_dpo(trl, tmp_path, beta=0.3, loss_type="sigmoid")
    ours = our_dpo(beta=0.3)
    loss = theirs._compute_loss(theirs.model, batch, return_outputs=False)
    mine, metrics = ours.loss(ours.batch(ours.pairs, torch.arange(4)))
    close(mine, loss)
    same_gradients(our_gradients(mine, ours.model), their_gradients(loss, theirs.model))
    said = {name: values[-1] for name, values in theirs._metrics["train"].items()}
    close(metrics["chosen_reward"], said["rewards/chosen"])
    close(metrics["rejected_reward"], said["rewards/rejected"])
    close(metrics["margin"], said["rewards/margins"])
    close(metrics["accuracy"], said["rewards/accuracies"])  # no tie among them
    close(metrics["chosen_logp"], said["logps/chosen"])
    close(metrics["rejected_logp"], said["logps/rejected"])


def test_ipo_is_trls_on_means_over_tokens(trl, tmp_path):
    """Ours has the paper's sums; with means in their place it is TRL's."""
    from ppobook.preferences import ipo_loss

    theirs, batch = their_dpo(trl, tmp_path, beta=0.3, loss_type="ipo")
    ours = our_dpo(loss="ipo", beta=0.3)
    loss = theirs._compute_loss(theirs.model, batch, return_outputs=False)
    sides = (ours.pairs.chosen, ours.pairs.rejected)
    logp = [dpo.sequence_logp(ours.model, side) / side.lengths for side in sides]
    ref_logp = [x / side.lengths for x, side in zip(ours.ref_logp.unbind(1), sides, strict=True)]
    mine, _ = ipo_loss(*logp, *ref_logp, 0.3)
    close(mine, loss)
    same_gradients(our_gradients(mine, ours.model), their_gradients(loss, theirs.model))
    on_sums, _ = ours.loss(ours.batch(ours.pairs, torch.arange(4)))
    assert abs(on_sums.item() - loss.item()) > 1e-2


def test_smoothed_dpo_is_trls_aot_of_a_single_pair(trl, tmp_path):
    """With one pair there is nothing to sort, so only this loss is left."""
    theirs, _ = their_dpo(trl, tmp_path, beta=0.3, loss_type="aot", label_smoothing=0.2)
    ours = our_dpo(beta=0.3, label_smoothing=0.2)
    for row in range(4):
        batch = theirs.data_collator([theirs.train_dataset[row]])
        loss = theirs._compute_loss(theirs.model, batch, return_outputs=False)
        mine, _ = ours.loss(ours.batch(ours.pairs, torch.tensor([row])))
        close(mine, loss)


# No prompt stands twice: TRL's completions then go one prompt on, and ours one back.
LABELLED = [
    {"prompt": "say fox :", "completion": " the fox sings .", "label": True},
    {"prompt": "owl", "completion": " sits by the lake runs", "label": False},
    {"prompt": "the hen runs by", "completion": " a", "label": True},
    {"prompt": "say owl :", "completion": " the owl sings by the mill", "label": True},
    {"prompt": "hen", "completion": " . .", "label": False},
]


@pytest.mark.parametrize(("reference", "weights"), [(1, (1.0, 1.0)), (7, (0.5, 1.3))])
def test_kto_from_the_texts_on(trl, tmp_path, weights, reference):
    """TRL gives each prompt the completion before its own; in reverse it is the one after it, as ours.

    z is held at 0 or above: with one of the references it is above, with the other it is held.
    """
    import datasets

    good, bad = weights
    theirs = trl.KTOTrainer(
        model=net_of(),
        ref_model=net_of(reference),
        args=trl.KTOConfig(
            **plain(tmp_path, per_device_train_batch_size=5, beta=0.3),
            desirable_weight=good,
            undesirable_weight=bad,
        ),
        train_dataset=datasets.Dataset.from_list(LABELLED[::-1]),
        processing_class=words(),
    )
    theirs.model.train()
    batch = theirs.data_collator([theirs.train_dataset[i] for i in range(5)])
    loss = theirs._compute_loss(theirs.model, batch, return_outputs=False)
    ours = stage_of(
        dpo,
        "DPO",
        "dpo",
        net=net_of(),
        reference=reference,
        data=LABELLED,
        loss="kto",
        beta=0.3,
        desirable_weight=good,
        undesirable_weight=bad,
    )
    mine, metrics = ours.loss(ours.batch(ours.pairs, torch.arange(5)))
    close(mine, loss)
    same_gradients(our_gradients(mine, ours.model), their_gradients(loss, theirs.model))
    said = {name: values[-1] for name, values in theirs._metrics["train"].items()}
    close(metrics["kl"], said["kl"])
    assert (said["kl"] > 0) is (reference == 7)
    close(metrics["chosen_reward"], said["rewards/chosen"])
    close(metrics["margin"], said["rewards/margins"])


@pytest.fixture(scope="module")
def cpo(trl):
    """TRL's CPO, in whose trainer SimPO is."""
    from trl.experimental import cpo

    return cpo


def test_simpo_from_the_texts_on(cpo, tmp_path):
    """It would put a first token before each prompt, where the tokenizer has one."""
    import datasets

    theirs = cpo.CPOTrainer(
        model=net_of(),
        args=cpo.CPOConfig(
            **plain(tmp_path, loss_type="simpo", cpo_alpha=0.0, beta=2.0, simpo_gamma=0.7, max_length=40)
        ),
        train_dataset=datasets.Dataset.from_list(PAIRS),
        processing_class=words(bos=None),
    )
    batch = theirs.data_collator([theirs.train_dataset[i] for i in range(4)])
    loss = theirs.compute_loss(theirs.model, batch)
    ours = our_dpo(loss="simpo", beta=2.0, gamma=0.7)
    mine, metrics = ours.loss(ours.batch(ours.pairs, torch.arange(4)))
    close(mine, loss)
    same_gradients(our_gradients(mine, ours.model), their_gradients(loss, theirs.model))
    close(metrics["margin"], theirs._stored_metrics["train"]["rewards/margins"][-1])
