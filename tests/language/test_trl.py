"""Every loss of ppobook.language that TRL has too: its own code and ours, on the same tokens and weights.

TRL's trainers are made here on a toy Llama, with texts and a tokenizer of this file, and their own methods
are called; ours get the tokens, masks and log-probabilities that theirs made or were given. The losses agree
within 1e-5, and so do the gradients. Where the two differ on purpose, the difference is computed and tested,
and the docstring of our function says what it is.

A Llama, because how much padding a row has is nothing to it. TRL hands GPT-2 a prompt that is padded on the
left without saying where it begins, and reads it at other positions than ours: the last test of this file.
"""

import copy
import importlib.util
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import pytest
import torch

from ppobook.diagnostics import normalize
from ppobook.language import dpo, grpo, hf, online, ppo, reward, sft
from ppobook.language.data import examples_of, pairs_of
from ppobook.language.rewards import FunctionReward
from ppobook.language.stage import Task
from ppobook.language.tokens import Completions, completion_logits, token_logp
from ppobook.preferences import bradley_terry_loss, dpo_loss

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")

SAID = "say : the a fox owl hen sings sits runs by barn lake mill ."
WORDS = ["<pad>", "<s>", "</s>", "<unk>", *SAID.split()]
V, PAD, BOS, EOS = len(WORDS), 0, 1, 2
SIZES = {
    "llama": {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1}
    | {"intermediate_size": 24, "head_dim": 8, "max_position_embeddings": 40},
    "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 40}
    | {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0},
}

# --- models, words and trainers ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trl():
    module = pytest.importorskip("trl")
    import datasets
    import transformers

    datasets.disable_progress_bars()
    transformers.logging.disable_progress_bar()
    return module


def words(bos="<s>", begins=False):
    """A tokenizer of whole words."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if begins:
        backend.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", BOS)])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="</s>", pad_token="<pad>", bos_token=bos, unk_token="<unk>"
    )


def net_of(seed=0, kind="llama", task="AutoModelForCausalLM", **changes):
    """A model of transformers whose weights are far from their quiet start."""
    import transformers

    ids = {"vocab_size": V, "bos_token_id": BOS, "eos_token_id": EOS, "pad_token_id": PAD}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        config = transformers.AutoConfig.for_model(kind, **ids, **SIZES[kind], **changes)
        net = getattr(transformers, task).from_config(config)
        with torch.no_grad():
            for parameter in net.parameters():
                parameter += 0.15 * torch.randn(parameter.shape)
    return net


@pytest.fixture(scope="module")
def reference_folder(trl, tmp_path_factory):
    """Where TRL's samplers read their reference from: the folder that their model says it came from."""
    folder = tmp_path_factory.mktemp("reference")
    net_of(1).save_pretrained(folder)
    return str(folder)


def plain(folder, **more):
    """What any of TRL's configs is told: on the CPU, in float32, nothing saved or sent."""
    return {"output_dir": str(folder), "use_cpu": True, "bf16": False, "report_to": "none"} | {
        "save_strategy": "no",
        "disable_tqdm": True,
        **more,
    }


def opened(net, tokenizer=None):
    return hf.open_pretrained(net, tokenizer or words())[0]


def stage_of(room, kind, name, *, net, reference=1, data, tokenizer=None, reward_model=None, **settings):
    """A stage of ours on a copy of their model."""
    tokenizer = hf.open_tokenizer(tokenizer or words())
    if not isinstance(reference, torch.nn.Module):
        reference = net_of(reference)
    task = Task(opened(net), tokenizer, data, reward_model, opened(reference).requires_grad_(False))
    cls = getattr(room, kind)
    return cls(task, cls.settings_class.make(name, settings, {}), seed=0)


def close(found, wanted, tolerance=1e-5):
    torch.testing.assert_close(
        torch.as_tensor(found, dtype=torch.float32),
        torch.as_tensor(wanted, dtype=torch.float32),
        rtol=tolerance,
        atol=tolerance,
    )


def our_gradients(loss, model):
    """By the names that transformers has for the weights."""
    weights = dict(model.named_parameters())
    found = torch.autograd.grad(loss, list(weights.values()), allow_unused=True)
    names = [n.removeprefix("body.").removeprefix("output.").replace("decoder.", "model.") for n in weights]
    names = ["score.weight" if name == "weight" else name for name in names]
    return dict(zip(names, found, strict=True))


def their_gradients(loss, net):
    return dict(
        zip(dict(net.named_parameters()), torch.autograd.grad(loss, list(net.parameters())), strict=True)
    )


def same_gradients(ours, theirs, factor=1.0):
    assert ours.keys() == theirs.keys()
    biggest = 0.0
    for name, gradient in theirs.items():
        close(ours[name], factor * gradient)
        biggest = max(biggest, gradient.abs().max().item())
    assert biggest > 1e-3, "there is nothing to be compared"


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


# --- completions that both are given -------------------------------------------------------------------

PROMPTS = ["say fox :", "the owl", "hen sits by the mill ."]


def random_completions(prompts=3, each=4, longest=6, seed=0):
    """Completions of random words, of many lengths; every other one has ended."""
    g = seeded(seed)
    rows = [[5, 9, 6], [7], [4, 4, 11, 10, 8]][:prompts]
    asked = [row for row in rows for _ in range(each)]
    said = [
        torch.randint(4, V, (1 + (3 * i) % longest,), generator=g).tolist() + [EOS] * (i % 2)
        for i in range(len(asked))
    ]
    wide, long = max(map(len, asked)), max(map(len, said))
    prompt = torch.tensor([[PAD] * (wide - len(row)) + row for row in asked])
    prompt_mask = torch.tensor([[False] * (wide - len(row)) + [True] * len(row) for row in asked])
    tokens = torch.tensor([row + [PAD] * (long - len(row)) for row in said])
    mask = torch.tensor([[True] * len(row) + [False] * (long - len(row)) for row in said])
    ended = torch.tensor([row[-1] == EOS for row in said])
    return Completions(prompt, prompt_mask, tokens, mask, torch.zeros(tokens.shape), ended)


def with_logp(completions, model, temperature, seed=1, scale=0.6):
    """The same, whose π_old is some way off the model that is trained, so that clips have something to do."""
    with torch.no_grad():
        logp = token_logp(
            completion_logits(model, completions), completions.tokens, temperature, mask=completions.mask
        )
    noise = scale * torch.randn(logp.shape, generator=seeded(seed))
    c = completions
    return Completions(c.prompts, c.prompt_mask, c.tokens, c.mask, (logp + noise) * c.mask, c.ended)


def as_theirs(completions, advantages, ref_logp):
    """The batch as GRPOTrainer and RLOOTrainer pass it to their loss."""
    c = completions
    return {
        "prompt_ids": c.prompts,
        "prompt_mask": c.prompt_mask.long(),
        "completion_ids": c.tokens,
        "completion_mask": c.mask.long(),
        "advantages": advantages,
        "old_per_token_logps": c.logp,
        "old_logps": c.logp.sum(dim=1),
        "ref_per_token_logps": ref_logp,
        "num_items_in_batch": c.mask.sum(),
    }


def from_theirs(batch, logp):
    """What their trainers made, as Completions."""
    mask, tokens = batch["completion_mask"].bool(), batch["completion_ids"]
    ended = tokens.gather(1, mask.sum(dim=1, keepdim=True) - 1)[:, 0] == EOS
    return Completions(batch["prompt_ids"], batch["prompt_mask"].bool(), tokens, mask, logp, ended)


def some_reward(prompts, completions, **columns):
    """A number for a text that hardly another one has; special tokens do not count."""
    said = [[WORDS.index(w) for w in text.split() if WORDS.index(w) > 3] for text in completions]
    return [0.3 * len(row) + sum(0.01 * w * w * (i + 1) for i, w in enumerate(row)) % 1.7 for row in said]


# --- GRPO ----------------------------------------------------------------------------------------------

TEMPERATURE = 0.7

# Our settings, and TRL's.
GRPOS = {
    "grpo": ({"kl_coef": 0.0}, {"loss_type": "grpo"}),
    "grpo, with KL": ({"kl_coef": 0.3}, {"loss_type": "grpo", "beta": 0.3}),
    "grpo, with KL times the ratio": (
        {"kl_coef": 0.3, "kl_weighted": True},
        {"loss_type": "grpo", "beta": 0.3, "use_bias_correction_kl": True},
    ),
    "two bounds": (
        {"clip_eps": 0.1, "clip_eps_high": 0.4, "kl_coef": 0.0},
        {"loss_type": "grpo", "epsilon": 0.1, "epsilon_high": 0.4},
    ),
    "a mean over tokens": ({"reduction": "token", "kl_coef": 0.2}, {"loss_type": "bnpo", "beta": 0.2}),
    "dr_grpo": ({"variant": "dr_grpo"}, {"loss_type": "dr_grpo"}),
    "dr_grpo, with KL": ({"variant": "dr_grpo", "kl_coef": 0.2}, {"loss_type": "dr_grpo", "beta": 0.2}),
    "dapo": ({"variant": "dapo"}, {"loss_type": "dapo", "epsilon": 0.2, "epsilon_high": 0.28}),
    "gspo": (
        {"variant": "gspo"},
        {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 3e-4, "epsilon_high": 4e-4},
    ),
    "gspo, wide, with KL": (
        {"variant": "gspo", "clip_eps": 0.2, "clip_eps_high": 0.3, "kl_coef": 0.2},
        {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 0.2, "epsilon_high": 0.3}
        | {"beta": 0.2},
    ),
    "cispo": ({"variant": "cispo"}, {"loss_type": "cispo", "epsilon_high": 5.0}),
    "cispo, narrow": (
        {"variant": "cispo", "clip_eps_high": 0.3},
        {"loss_type": "cispo", "epsilon_high": 1.3},
    ),
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
    reward_model = FunctionReward(some_reward, hf.open_tokenizer(words()))
    given = {"batch_size": 12, "temperature": TEMPERATURE, "max_new_tokens": LONGEST} | settings
    data = [{"prompt": prompt} for prompt in PROMPTS]
    return stage_of(room, kind, name, net=net_of(), data=data, reward_model=reward_model, **given)


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
    mine, told = ours.loss(experience)
    close(mine, loss)
    same_gradients(our_gradients(mine, ours.model), their_gradients(loss, theirs.model))

    said = {name: values[-1] for name, values in theirs._metrics["train"].items()}
    close(told["entropy"], said["entropy"])
    if "clip_ratio/region_mean" in said:  # where the gradient is gone; our clip_fraction counts both signs
        close(told["flat_fraction"], said["clip_ratio/region_mean"])
        assert said["clip_ratio/region_mean"] > 0
    if "cispo" in case:
        assert said["cispo_clip_ratio"] > 0
    if "kl" in said and "times the ratio" not in case:
        d = (
            token_logp(completion_logits(ours.model, completions), completions.tokens, TEMPERATURE) - ref_logp
        )[completions.mask].detach()
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
    with torch.random.fork_rng():
        torch.manual_seed(5)
        batch = theirs._generate_and_score_completions(
            [{"prompt": prompt} for prompt in PROMPTS for _ in range(4)]
        )
    completions = from_theirs(batch, torch.zeros(batch["completion_mask"].shape))
    assert 0 < completions.ended.sum() < 12
    with torch.no_grad():
        old = token_logp(
            completion_logits(ours.model, completions),
            completions.tokens,
            TEMPERATURE,
            mask=completions.mask,
        )
    close(old, batch["old_per_token_logps"])
    completions = from_theirs(batch, old)
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


def test_a_reward_function_reads_what_was_said_and_in_trl_no_special_token(trl, reference_folder, tmp_path):
    read = []

    def noted(prompts, completions, **columns):
        read.append(completions)
        return some_reward(prompts, completions)

    theirs = their_sampler(trl, "GRPO", reference_folder, tmp_path, reward=noted)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        batch = theirs._generate_and_score_completions([{"prompt": p} for p in PROMPTS for _ in range(4)])
    completions = from_theirs(batch, torch.zeros(batch["completion_mask"].shape))
    texts = completions.texts(hf.open_tokenizer(words()))
    assert any("<unk>" in text for text in texts)
    assert not any("</s>" in text for text in texts)
    assert [" ".join(w for w in text.split() if w[0] != "<") for text in texts] == read[0]


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


# --- RLOO ----------------------------------------------------------------------------------------------


def test_rloo_from_the_texts_on(trl, reference_folder, tmp_path):
    """The same advantages, KL and all; and in RLOO's single step, where all ratios are 1, the same gradient.

    The losses are no measure of anything, and differ: TRL's is minus the mean of the advantages, ours weighs
    each by the number of its tokens, for each of them has a ratio of its own.
    """
    theirs = their_sampler(trl, "RLOO", reference_folder, tmp_path, beta=0.3)
    ours = our_sampler(grpo, "GRPO", "grpo", group_size=4, variant="rloo", kl_coef=0.3)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        batch = theirs._generate_and_score_completions(
            [{"prompt": prompt} for prompt in PROMPTS for _ in range(4)]
        )
    completions = from_theirs(batch, torch.zeros(batch["completion_mask"].shape))
    with torch.no_grad():
        logits = completion_logits(ours.model, completions)
        old = token_logp(logits, completions.tokens, TEMPERATURE, mask=completions.mask)
    completions = from_theirs(batch, old)
    close(old.sum(dim=1), batch["old_logps"])
    ref_logp = ours.reference_logp(completions)
    advantages = ours.advantages(completions, ours.score(completions, {}), ref_logp)
    close(advantages, batch["advantages"][:, None] * completions.mask)

    loss = theirs._compute_loss(theirs.model, batch)
    mine, _ = ours.loss(grpo.Experience(completions, ref_logp, advantages))
    same_gradients(our_gradients(mine, ours.model), their_gradients(loss, theirs.model))
    close(loss, -batch["advantages"].mean())
    close(mine, -(batch["advantages"] * completions.lengths).mean())


# --- PPO -----------------------------------------------------------------------------------------------


def test_trl_has_no_ppo_any_more(trl):
    """What GRPOTrainer has of PPO can be compared: the clip of each token, each with an advantage."""
    assert importlib.util.find_spec("trl.experimental.ppo") is None
    assert not hasattr(trl, "PPOTrainer")


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
    mine, told = ours.loss(ppo.Experience(completions, ref_logp, advantages, nothing, nothing))
    close(mine, loss)
    same_gradients(our_gradients(mine, ours.model), their_gradients(loss, theirs.model))
    close(told["flat_fraction"], theirs._metrics["train"]["clip_ratio/region_mean"][-1])


# --- SFT -----------------------------------------------------------------------------------------------

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
    examples = examples_of(rows, hf.open_tokenizer(tokenizer))
    mine, accuracy = sft.next_token_loss(ours, examples)
    assert int(examples.mask.sum()) == int((batch["labels"][:, 1:] != -100).sum()) >= 12
    close(mine, loss)
    close(accuracy, theirs._metrics["train"]["mean_token_accuracy"][-1])
    same_gradients(our_gradients(mine, ours), their_gradients(loss, theirs.model))


# --- reward model --------------------------------------------------------------------------------------

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
    chosen, rejected = reward.rewards_of(reward_model, pairs_of(PAIRS, hf.open_tokenizer(words())))
    mine = bradley_terry_loss(chosen, rejected, None if margins is None else torch.tensor(margins))
    close(mine, loss)
    same_gradients(our_gradients(mine, reward_model), their_gradients(loss, theirs.model))
    close((chosen - rejected).mean().detach(), theirs._metrics["train"]["margin"][-1])


# --- DPO and its family --------------------------------------------------------------------------------


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
    mine, told = ours.loss(ours.batch(ours.pairs, torch.arange(4)))
    close(mine, loss)
    same_gradients(our_gradients(mine, ours.model), their_gradients(loss, theirs.model))
    said = {name: values[-1] for name, values in theirs._metrics["train"].items()}
    close(told["chosen_reward"], said["rewards/chosen"])
    close(told["rejected_reward"], said["rewards/rejected"])
    close(told["margin"], said["rewards/margins"])
    close(told["accuracy"], said["rewards/accuracies"])  # no tie among them
    close(told["chosen_logp"], said["logps/chosen"])
    close(told["rejected_logp"], said["logps/rejected"])


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


def test_trls_robust_loss_is_two_of_ours(trl, tmp_path):
    """(1 − ε) DPO − ε DPO of the exchanged pairs, over 1 − 2 ε; our smoothing is a mixture of the two."""
    smoothing = 0.2
    theirs, batch = their_dpo(trl, tmp_path, beta=0.3, loss_type="robust", label_smoothing=smoothing)
    ours = our_dpo(beta=0.3, label_smoothing=smoothing)
    loss = theirs._compute_loss(theirs.model, batch, return_outputs=False)
    chosen, rejected = (dpo.sequence_logp(ours.model, s) for s in (ours.pairs.chosen, ours.pairs.rejected))
    ref_chosen, ref_rejected = ours.ref_logp.unbind(1)
    right, _ = dpo_loss(chosen, rejected, ref_chosen, ref_rejected, 0.3)
    wrong, _ = dpo_loss(rejected, chosen, ref_rejected, ref_chosen, 0.3)
    close(((1 - smoothing) * right - smoothing * wrong) / (1 - 2 * smoothing), loss)
    mine, _ = ours.loss(ours.batch(ours.pairs, torch.arange(4)))
    close(mine, (1 - smoothing) * right + smoothing * wrong)


def test_smoothed_dpo_is_trls_aot_of_a_single_pair(trl, tmp_path):
    """Of one pair there is nothing to sort, and what is left is this loss."""
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


@pytest.mark.parametrize("reference", [1, 7])
@pytest.mark.parametrize("weights", [(1.0, 1.0), (0.5, 1.3)])
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
    mine, told = ours.loss(ours.batch(ours.pairs, torch.arange(5)))
    close(mine, loss)
    same_gradients(our_gradients(mine, ours.model), their_gradients(loss, theirs.model))
    said = {name: values[-1] for name, values in theirs._metrics["train"].items()}
    close(told["kl"], said["kl"])
    assert (said["kl"] > 0) is (reference == 7)
    close(told["chosen_reward"], said["rewards/chosen"])
    close(told["margin"], said["rewards/margins"])


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
    mine, told = ours.loss(ours.batch(ours.pairs, torch.arange(4)))
    close(mine, loss)
    same_gradients(our_gradients(mine, ours.model), their_gradients(loss, theirs.model))
    close(told["margin"], theirs._stored_metrics["train"]["rewards/margins"][-1])


def test_smoothed_dpo_without_a_reference_is_trls_cpo(cpo, tmp_path):
    """A reference of one number for everything is none."""
    import datasets

    theirs = cpo.CPOTrainer(
        model=net_of(),
        args=cpo.CPOConfig(**plain(tmp_path, loss_type="sigmoid", beta=0.3, label_smoothing=0.15)),
        train_dataset=datasets.Dataset.from_list(PAIRS),
        processing_class=words(bos=None),
    )
    chosen, rejected = -6 + 3 * torch.randn(2, 9, generator=seeded())
    losses, chosen_rewards, rejected_rewards = theirs.cpo_loss(chosen, rejected)
    nothing = torch.zeros(9)
    mine, told = dpo_loss(chosen, rejected, nothing, nothing, 0.3, label_smoothing=0.15)
    close(mine, losses.mean())
    close(told["margin"], (chosen_rewards - rejected_rewards).mean())


# --- online DPO ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("loss", ["dpo", "ipo"])
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

    mine, told = mine_at(1.0)
    close(mine, said)
    theirs_moved = {name: p.grad for name, p in theirs.model.named_parameters()}
    same_gradients(our_gradients(mine, ours.model), theirs_moved)
    close(told["margin"], theirs.stats["rewards/margins"][-1])
    if temperature != 1.0:
        assert abs(mine_at(temperature)[0].item() - said.item()) > 1e-4


# --- positions -----------------------------------------------------------------------------------------


def test_gpt2_is_read_from_its_first_token_and_by_trl_from_the_padding(trl, tmp_path):
    """In a row without padding the two agree; a prompt that is padded on the left, TRL reads further on."""
    folder = tmp_path / "gpt2"
    net_of(1, "gpt2").save_pretrained(folder)
    theirs = their_sampler(trl, "GRPO", str(folder), tmp_path / "out", net=net_of(0, "gpt2"), temperature=1.0)
    ours = opened(net_of(0, "gpt2"))
    completions = random_completions()
    with torch.no_grad():
        mine = token_logp(completion_logits(ours, completions), completions.tokens, mask=completions.mask)
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
