"""Every loss of ppobook.language that TRL has too: its own code and ours, on the same tokens and weights.

TRL's trainers are made here on a toy Llama, with texts and a tokenizer of this file, and their own methods
are called; ours get the tokens, masks and log-probabilities that theirs made or were given. The losses agree
within 1e-5, and so do the gradients. Where the two differ on purpose, the difference is computed and tested,
and the docstring of our function says what it is.

A Llama, because how much padding a row has is nothing to it. TRL hands GPT-2 a prompt that is padded on the
left without saying where it begins, and reads it at other positions than ours: the last test of this file.
"""

import copy

import pytest
import torch
from small_pretrained import words
from small_trl import (
    PROMPTS,
    as_theirs,
    close,
    from_theirs,
    logp_of,
    net_of,
    opened,
    our_gradients,
    plain,
    random_completions,
    same_gradients,
    seeded,
    some_reward,
    stage_of,
    their_gradients,
    with_logp,
)

from ppobook.diagnostics import normalize
from ppobook.language import grpo, online, ppo
from ppobook.language.pretrained_tokenizer import open_tokenizer
from ppobook.language.rewards import FunctionReward
from ppobook.language.tokens import completion_logits, token_logp

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")

# --- GRPO ---------------------------------------------------------------------------------------------------


TEMPERATURE = 0.7

# Our settings, and TRL's.
GRPOS = {
    "grpo": ({"kl_coef": 0.0}, {"loss_type": "grpo"}),
    "grpo, with KL": ({"kl_coef": 0.3}, {"loss_type": "grpo", "beta": 0.3}),
    "grpo, with KL times the ratio": (
        {"kl_coef": 0.3, "kl_weighted": True},
        {"loss_type": "grpo", "beta": 0.3, "use_bias_correction_kl": True},
    ),
    "a mean over tokens": ({"reduction": "token", "kl_coef": 0.2}, {"loss_type": "bnpo", "beta": 0.2}),
    "dr_grpo": ({"variant": "dr_grpo"}, {"loss_type": "dr_grpo"}),
    "dapo": ({"variant": "dapo"}, {"loss_type": "dapo", "epsilon": 0.2, "epsilon_high": 0.28}),
    "gspo, wide, with KL": (
        {"variant": "gspo", "clip_eps": 0.2, "clip_eps_high": 0.3, "kl_coef": 0.2},
        {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 0.2, "epsilon_high": 0.3}
        | {"beta": 0.2},
    ),
    "cispo": ({"variant": "cispo"}, {"loss_type": "cispo", "epsilon_high": 5.0}),
}
LONGEST = 8


def their_sampler(trl, kind, folder, out, *, net=None, group=4, rows=12, reward=some_reward, **config):
    """A GRPOTrainer or RLOOTrainer, as far as its first step."""
    net = net or net_of()
    net.config._name_or_path = folder
    import datasets

    settings = {"temperature": TEMPERATURE, "max_completion_length": LONGEST, "num_generations": group}
    if kind == "GRPO":  # as in its paper; TRL's default is True
        settings["use_bias_correction_kl"] = False
    args = getattr(trl, f"{kind}Config")(
        **plain(out, per_device_train_batch_size=rows, steps_per_generation=1, **settings | config)
    )
    trainer = getattr(trl, f"{kind}Trainer")(
        model=net,
        reward_funcs=reward,
        args=args,
        train_dataset=datasets.Dataset.from_list([{"prompt": prompt} for prompt in PROMPTS]),
        processing_class=words(),
    )
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = 1  # as it is in training, before the first step
    return trainer


def our_sampler(room, kind, name, **settings):
    reward_model = FunctionReward(some_reward, open_tokenizer(words()))
    given = {"batch_size": 12, "temperature": TEMPERATURE, "max_new_tokens": LONGEST} | settings
    data = [{"prompt": prompt} for prompt in PROMPTS]
    return stage_of(room, kind, name, net=net_of(), data=data, reward_model=reward_model, **given)


def their_samples(theirs, ours):
    """A batch that TRL has sampled and judged; and its completions, with log-probabilities of ours."""
    with torch.random.fork_rng():
        torch.manual_seed(5)
        batch = theirs._generate_and_score_completions([{"prompt": p} for p in PROMPTS for _ in range(4)])
    blank = from_theirs(batch, torch.zeros(batch["completion_mask"].shape))
    return batch, from_theirs(batch, logp_of(ours.model, blank, TEMPERATURE))


@pytest.mark.parametrize("case", GRPOS)
def test_grpo_and_its_variants(trl, reference_folder, tmp_path, case):
    settings, config = GRPOS[case]
    theirs = their_sampler(trl, "GRPO", reference_folder, tmp_path, **config)
    ours = our_sampler(grpo, "GRPO", "grpo", group_size=4, **settings)
    far = 1.5 if settings.get("variant") == "cispo" else 0.6
    completions = with_logp(random_completions(), ours.model, TEMPERATURE, scale=far)
    ref_logp = ours.reference_logp(completions)
    advantages = torch.randn(len(completions), generator=seeded(2))

    loss = theirs._compute_loss(theirs.model, as_theirs(completions, advantages, ref_logp))
    experience = grpo.Experience(
        completions, ref_logp, advantages[:, None].expand(completions.mask.shape) * completions.mask
    )
    mine, metrics = ours.loss(experience)
    close(mine, loss)
    same_gradients(our_gradients(mine, ours.model), their_gradients(loss, theirs.model))

    said = {name: values[-1] for name, values in theirs._metrics["train"].items()}
    close(metrics["entropy"], said["entropy"])
    if "clip_ratio/region_mean" in said:  # where the gradient is gone; our clip_fraction counts both signs
        close(metrics["flat_fraction"], said["clip_ratio/region_mean"])
        assert said["clip_ratio/region_mean"] > 0
    if "cispo" in case:
        assert said["cispo_clip_ratio"] > 0
    if "kl" in said and "times the ratio" not in case:
        d = (logp_of(ours.model, completions, TEMPERATURE) - ref_logp)[completions.mask]
        close(((-d).exp() - 1 + d).mean(), said["kl"])


def test_a_sequences_kl_is_weighted_by_the_ratio_of_its_tokens_and_in_trl_by_its_own(
    trl, reference_folder, tmp_path
):
    """With GSPO's ratio, use_bias_correction_kl is not kl_weighted."""
    config = {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 0.2, "beta": 0.3}
    theirs = their_sampler(trl, "GRPO", reference_folder, tmp_path, use_bias_correction_kl=True, **config)
    ours = our_sampler(
        grpo, "GRPO", "grpo", group_size=4, variant="gspo", clip_eps=0.2, kl_coef=0.3, kl_weighted=True
    )
    completions = with_logp(random_completions(), ours.model, TEMPERATURE)
    ref_logp = ours.reference_logp(completions)
    nothing = torch.zeros(len(completions))
    loss = theirs._compute_loss(theirs.model, as_theirs(completions, nothing, ref_logp))
    mine, _ = ours.loss(grpo.Experience(completions, ref_logp, torch.zeros(completions.mask.shape)))
    assert abs(mine.item() - loss.item()) > 1e-3

    mask = completions.mask
    logp = token_logp(completion_logits(ours.model, completions), completions.tokens, TEMPERATURE, mask=mask)
    d = torch.where(mask, logp - ref_logp, 0.0)
    k3, log_ratio = (-d).exp() - 1 + d, logp - completions.logp
    weight = {"token": log_ratio.exp(), "sequence": (log_ratio.sum(1) / mask.sum(1)).exp()[:, None]}
    by = {name: (0.3 * w * k3 * mask).sum(1).div(mask.sum(1)).mean() for name, w in weight.items()}
    close(mine, by["token"])
    close(loss, by["sequence"])


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_a_whole_update_of_grpo_from_the_texts_on(trl, reference_folder, tmp_path, scale):
    """TRL samples and has its texts judged; ours takes the tokens, and comes to the same loss by itself."""
    config = {"loss_type": "grpo", "beta": 0.3, "scale_rewards": scale, "num_iterations": 2}
    theirs = their_sampler(trl, "GRPO", reference_folder, tmp_path, **config)
    ours = our_sampler(grpo, "GRPO", "grpo", group_size=4, kl_coef=0.3, scale=scale)
    batch, completions = their_samples(theirs, ours)
    assert 0 < completions.ended.sum() < 12
    close(completions.logp, batch["old_per_token_logps"])
    ref_logp = ours.reference_logp(completions)
    close(ref_logp, batch["ref_per_token_logps"])

    rewards = ours.score(completions, {})
    assert rewards.unique().numel() > 8
    advantages = ours.advantages(completions, rewards, ref_logp)
    close(advantages, batch["advantages"][:, None] * completions.mask)
    with torch.no_grad():
        for net in (theirs.model, ours.model):  # somewhere between two steps of the update
            for parameter, noise in zip(net.parameters(), net_of(9).parameters(), strict=True):
                parameter += 0.05 * noise
    loss = theirs._compute_loss(theirs.model, batch)
    mine, _ = ours.loss(grpo.Experience(completions, ref_logp, advantages))
    close(mine, loss)
    same_gradients(our_gradients(mine, ours.model), their_gradients(loss, theirs.model))


def test_a_group_that_agrees_has_advantage_zero_and_in_trl_a_rounding_over_eps(
    trl, reference_folder, tmp_path
):
    rewards = [3.1] * 3 + [5.7] * 3 + [100.3] * 3
    theirs = their_sampler(
        trl,
        "GRPO",
        reference_folder,
        tmp_path,
        group=3,
        rows=9,
        reward=lambda prompts, completions, **columns: rewards,
    )
    batch = theirs._generate_and_score_completions([{"prompt": p} for p in PROMPTS for _ in range(3)])
    assert 0.01 < batch["advantages"].abs().max() < 0.2
    assert not grpo.group_advantages(torch.tensor(rewards), 3).any()


def test_trls_dapo_divides_by_the_tokens_of_the_whole_batch_and_ours_by_those_of_the_minibatch(
    trl, reference_folder, tmp_path
):
    theirs = their_sampler(
        trl, "GRPO", reference_folder, tmp_path, loss_type="dapo", epsilon=0.2, epsilon_high=0.28
    )
    ours = our_sampler(grpo, "GRPO", "grpo", group_size=4, variant="dapo")
    completions = with_logp(random_completions(), ours.model, TEMPERATURE)
    advantages = torch.randn(12, generator=seeded(2))
    ref_logp = ours.reference_logp(completions)
    theirs.args.steps_per_generation, theirs.current_gradient_accumulation_steps = 2, 1
    whole = completions.mask.sum()
    for rows in (slice(0, 4), slice(4, 12)):
        part = completions.select(rows)
        batch = as_theirs(part, advantages[rows], ref_logp[rows]) | {"num_items_in_batch": whole}
        loss = theirs._compute_loss(theirs.model, batch)
        mine, _ = ours.loss(
            grpo.Experience(part, ref_logp[rows], advantages[rows][:, None].expand(part.mask.shape))
        )
        assert abs(mine.item() - loss.item()) > 1e-3
        close(mine * part.mask.sum() / (whole / 2), loss)


# --- RLOO ---------------------------------------------------------------------------------------------------


def test_rloo_from_the_texts_on(trl, reference_folder, tmp_path):
    """The same advantages, KL and all; and in RLOO's single step, where all ratios are 1, the same gradient.

    The losses are no measure of anything, and differ: TRL's is minus the mean of the advantages, ours weighs
    each by the number of its tokens, for each of them has a ratio of its own.
    """
    theirs = their_sampler(trl, "RLOO", reference_folder, tmp_path, beta=0.3)
    ours = our_sampler(grpo, "GRPO", "grpo", group_size=4, variant="rloo", kl_coef=0.3)
    batch, completions = their_samples(theirs, ours)
    close(completions.logp.sum(dim=1), batch["old_logps"])
    ref_logp = ours.reference_logp(completions)
    advantages = ours.advantages(completions, ours.score(completions, {}), ref_logp)
    close(advantages, batch["advantages"][:, None] * completions.mask)

    loss = theirs._compute_loss(theirs.model, batch)
    mine, _ = ours.loss(grpo.Experience(completions, ref_logp, advantages))
    same_gradients(our_gradients(mine, ours.model), their_gradients(loss, theirs.model))
    close(loss, -batch["advantages"].mean())
    close(mine, -(batch["advantages"] * completions.lengths).mean())


# --- PPO ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes", [{}, {"clip_eps_high": 0.3}, {"kl_in": "loss", "kl_estimator": "k3"}], ids=str
)
def test_the_policys_loss_of_ppo(trl, reference_folder, tmp_path, changes):
    """Their loss takes an advantage for each token, where a subclass has one."""
    config = {"epsilon_high": changes["clip_eps_high"]} if "clip_eps_high" in changes else {}
    config |= {"beta": 0.2, "use_bias_correction_kl": True} if "kl_in" in changes else {}
    theirs = their_sampler(trl, "GRPO", reference_folder, tmp_path, loss_type="bnpo", **config)
    ours = our_sampler(ppo, "PPO", "ppo", kl_coef=0.2, value_coef=0.0, **changes)
    completions = with_logp(random_completions(), ours.model, TEMPERATURE)
    mask, ref_logp = completions.mask, ours.reference_logp(completions)
    advantages = normalize(torch.randn(mask.shape, generator=seeded(2)), mask)
    loss = theirs._compute_loss(theirs.model, as_theirs(completions, advantages, ref_logp))
    nothing = torch.zeros(mask.shape)
    mine, metrics = ours.loss(ppo.Experience(completions, ref_logp, advantages, nothing, nothing))
    close(mine, loss)
    same_gradients(our_gradients(mine, ours.model), their_gradients(loss, theirs.model))
    close(metrics["flat_fraction"], theirs._metrics["train"]["clip_ratio/region_mean"][-1])


# --- online DPO ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("loss", "temperature"), [("dpo", 0.7), ("ipo", 1.0)])
def test_online_dpo_from_the_texts_on(trl, tmp_path, loss, temperature):
    """A step of theirs, samples, judgement, gradient and all; ours is given the tokens that theirs sampled.

    TRL draws at a temperature and reads log-probabilities at 1; ours reads them at the temperature as well.
    """
    import datasets
    from trl.experimental.online_dpo import OnlineDPOConfig, OnlineDPOTrainer

    kind = {"dpo": "sigmoid", "ipo": "ipo"}[loss]
    theirs = OnlineDPOTrainer(
        model=net_of(),
        ref_model=net_of(1),
        reward_funcs=some_reward,
        args=OnlineDPOConfig(
            **plain(tmp_path, per_device_train_batch_size=3, max_length=40, max_new_tokens=LONGEST),
            beta=0.3,
            loss_type=kind,
            temperature=temperature,
        ),
        train_dataset=datasets.Dataset.from_list([{"prompt": prompt} for prompt in PROMPTS]),
        processing_class=words(),
    )
    sampled, generate = [], theirs._generate

    def noted(*given):
        sampled.append(generate(*given))
        return sampled[-1]

    theirs._generate = noted
    with torch.random.fork_rng():
        torch.manual_seed(3)
        said = theirs.training_step(theirs.model, {"prompt": list(PROMPTS)})
    prompts, prompt_mask, tokens, mask, _ = sampled[0]

    ours = our_sampler(
        online, "OnlineDPO", "online_dpo", batch_size=6, loss=loss, beta=0.3, temperature=temperature
    )
    batch = {"prompt_ids": prompts, "prompt_mask": prompt_mask, "completion_ids": tokens}
    first_then_second = from_theirs(batch | {"completion_mask": mask}, torch.zeros(tokens.shape))
    completions = first_then_second.select([0, 3, 1, 4, 2, 5])  # side by side
    ours.sample = lambda prompts: completions

    def mine_at(temperature):
        at = copy.copy(ours)
        at.settings = type(ours.settings).make(
            "online_dpo", {"loss": loss, "beta": 0.3, "temperature": temperature, "batch_size": 6}, {}
        )
        pairs, row = at.make_pairs(0)
        assert row["tied"] == 0
        return at.loss(pairs)

    mine, metrics = mine_at(1.0)
    close(mine, said)
    theirs_moved = {name: p.grad for name, p in theirs.model.named_parameters()}
    same_gradients(our_gradients(mine, ours.model), theirs_moved)
    close(metrics["margin"], theirs.stats["rewards/margins"][-1])
    if temperature != 1.0:
        assert abs(mine_at(temperature)[0].item() - said.item()) > 1e-4


# --- positions ----------------------------------------------------------------------------------------------


def test_gpt2_is_read_from_its_first_token_and_by_trl_from_the_padding(trl, tmp_path):
    """In a row without padding the two agree; a prompt that is padded on the left, TRL reads further on."""
    folder = tmp_path / "gpt2"
    net_of(1, "gpt2").save_pretrained(folder)
    theirs = their_sampler(trl, "GRPO", str(folder), tmp_path / "out", net=net_of(0, "gpt2"), temperature=1.0)
    ours = opened(net_of(0, "gpt2"))
    completions = random_completions()
    with torch.no_grad():
        mine = logp_of(ours, completions)
        said, *_ = theirs._get_per_token_logps_and_entropies(
            theirs.model,
            completions.inputs,
            completions.input_mask.long(),
            completions.tokens.shape[1],
        )
    padded = ~completions.prompt_mask.all(dim=1)
    assert 0 < padded.sum() < len(padded)
    close(said[~padded], mine[~padded])
    assert (said - mine)[padded & (completions.lengths > 1)].abs().amax(dim=1).min() > 1e-2
