"""The usual mistakes, planted one by one in what all stages of ppobook.language are made of.

PPO, GRPO, DPO and the online loops have tables of their own, in `test_language_ppo.py` and its neighbours.
Here are the rooms under them, the reward models and supervised fine-tuning; and at the end a list that
says where each of the eight mistakes is planted which training on tokens is known for.

Each is made in a copy of the library, by the machinery of `test_planted_bugs.py`, and the named test has to
fail by an assertion. The lines are looked up by their text: where they have been rewritten, the test says so.
"""

import importlib

import pytest
import test_planted_bugs as machinery
from test_planted_bugs import Bug

pytestmark = machinery.pytestmark
run, copied = machinery.run, machinery.copied

TOKENS, MODEL, SAMPLING = "test_language_tokens.py", "test_language_model.py", "test_language_sampling.py"
SFT, REWARD, LOSSES = "test_language_sft.py", "test_language_reward.py", "test_preferences.py"
EVALUATING, DATA, SEQUENCES = (
    "test_language_evaluating.py",
    "test_language_data.py",
    "test_objectives_tokens.py",
)

SHIFT = (
    "    hidden = model.hidden(completions.inputs[:, :-1], completions.input_mask[:, :-1])\n"
    "    return model.head(hidden[:, start:])",
    "    hidden = model.hidden(completions.inputs, completions.input_mask)\n"
    "    return model.head(hidden[:, start + 1 :])",
)
LOGITS = f"{TOKENS}::test_completion_logits_are_those_of_what_was_read_before"
VALUES = f"{TOKENS}::test_completion_values_are_those_of_each_state"
WALK = f"{TOKENS}::test_properties_by_a_walk_along_each_row"
LOOPS = f"{SFT}::test_the_loss_is_the_mean_over_the_tokens_of_the_completions"
SUM = f"{REWARD}::test_a_reward_is_the_sum_over_the_completion_or_its_last_token[sum-True]"
LAST = f"{REWARD}::test_a_reward_is_the_sum_over_the_completion_or_its_last_token[last-True]"
CACHE = f"{MODEL}::test_with_a_cache_as_without"
PADDED = f"{MODEL}::test_it_is_gpt2_written_out"
SLOW = f"{MODEL}::test_generation_is_that_of_a_slow_loop"

BUGS = [
    # --- tokens: what every stage reads of its model
    Bug("shift by one token", "language/tokens.py", *SHIFT, LOGITS),
    Bug("shift by one token", "language/tokens.py", *SHIFT, LOOPS),
    Bug(
        "shift by one token",
        "language/tokens.py",
        "completions.input_mask)[:, start:]",
        "completions.input_mask)[:, start - 1 : -1]",
        VALUES,
    ),
    Bug(
        "mask forgotten",
        "language/tokens.py",
        "hidden = model.hidden(completions.inputs[:, :-1], completions.input_mask[:, :-1])",
        "hidden = model.hidden(completions.inputs[:, :-1])",
        LOGITS,
    ),
    Bug(
        "mask forgotten",
        "language/tokens.py",
        "return logp if mask is None else logp.masked_fill(~mask, 0.0)",
        "return logp",
        f"{TOKENS}::test_what_is_masked_is_not_read",
    ),
    Bug(
        "terminal reward at the wrong token",
        "language/tokens.py",
        "return self.lengths - 1\n",
        "return self.lengths - 1 - self.ended.long()\n",
        WALK,
    ),
    Bug(
        "terminated and truncated exchanged",
        "language/tokens.py",
        "return self._at_last & self.ended[:, None]",
        "return self._at_last & ~self.ended[:, None]",
        WALK,
    ),
    Bug(
        "temperature forgotten",
        "language/tokens.py",
        "return logits if temperature == 1 else logits / temperature",
        "return logits",
        f"{TOKENS}::test_logp_and_entropy_written_out",
    ),
    Bug(
        "rows mixed up",
        "language/tokens.py",
        'logp=widest("logp", left=False)',
        'logp=widest("logp", left=True)',
        f"{TOKENS}::test_join_says_the_same_of_each_row",
    ),
    # --- model: forward, cache, generation
    Bug(
        "mask forgotten",
        "language/model.py",
        "allowed = (past & mask[:, None, :]) | itself",
        "allowed = (past & torch.ones_like(mask)[:, None, :]) | itself",
        PADDED,
    ),
    Bug(
        "positions counted from the padding",
        "language/model.py",
        "positions = (mask.cumsum(dim=1) - 1).clamp_(min=0)",
        "positions = torch.arange(length, device=device)[None]",
        PADDED,
    ),
    Bug(
        "a token sees the next",
        "language/model.py",
        "causal = bias is None and length > 1",
        "causal = False",
        f"{MODEL}::test_no_token_sees_the_next",
    ),
    Bug(
        "mask forgotten",
        "language/model.py",
        "self.padding[:, 0, 0, : self.start].masked_fill_(~real, -math.inf)",
        "pass",
        CACHE,
    ),
    Bug(
        "shift by one token",
        "language/model.py",
        "torch.arange(1, room + 1, device=last.device)",
        "torch.arange(room, device=last.device)",
        CACHE,
    ),
    Bug(
        "old log-probs of another distribution",
        "language/model.py",
        "logp.append(log_probs.gather(-1, drawn[:, None]))",
        "logp.append(restrict(log_probs, top_k, top_p).log_softmax(-1).gather(-1, drawn[:, None]))",
        SLOW,
    ),
    Bug(
        "old log-probs of another distribution",
        "language/model.py",
        "log_probs = (logits / (temperature or 1.0)).log_softmax(dim=-1)",
        "log_probs = logits.log_softmax(dim=-1)",
        SLOW,
    ),
    Bug(
        "the end not counted",
        "language/model.py",
        "        mask.append(alive)\n",
        "        mask.append(alive & (drawn != model.eos))\n",
        SLOW,
    ),
    Bug(
        "a row goes on after its end",
        "language/model.py",
        "alive = alive & (drawn != model.eos)",
        "alive = alive & (drawn != model.pad)",
        SLOW,
    ),
    Bug(
        "the critic moves the policy",
        "language/model.py",
        'body.headless() if hasattr(body, "headless") else copy.deepcopy(body)',
        "body",
        f"{MODEL}::test_scalar_has_weights_of_its_own",
    ),
    # --- supervised fine-tuning
    Bug(
        "mask forgotten",
        "language/sft.py",
        "(masked_mean(x, mask=completions.mask) for x in each.values())",
        "(x.mean() for x in each.values())",
        LOOPS,
    ),
    Bug(
        "the end not learned",
        "language/sft.py",
        "masked_fill(~completions.mask, -100)",
        "masked_fill(~completions.mask | completions.terminated, -100)",
        LOOPS,
    ),
    Bug(
        "the prompt's tokens learned",
        "language/data.py",
        "self._ended(name, self._whole(record, name, text)) for name, text in completions.items()",
        "self._ended(name, begun + self._whole(record, name, text)) for name, text in completions.items()",
        f"{DATA}::test_a_corpus_comes_back_as_it_was",
    ),
    # --- reward models, and their losses
    Bug(
        "mask forgotten",
        "language/rewards.py",
        "[:, 1:].masked_fill(~completions.mask, 0.0)",
        "[:, 1:].cumsum(dim=1)",
        SUM,
    ),
    Bug(
        "shift by one token",
        "language/rewards.py",
        "completion_values(self, completions)[:, 1:].masked_fill(",
        "completion_values(self, completions)[:, :-1].masked_fill(",
        SUM,
    ),
    Bug(
        "shift by one token",
        "language/rewards.py",
        "completion_values(self, completions)[:, 1:].masked_fill(",
        "completion_values(self, completions)[:, :-1].masked_fill(",
        LAST,
    ),
    Bug(
        "the prompt's tokens counted",
        "language/rewards.py",
        "            return numbers.sum(dim=1)",
        "            return self(completions.inputs, completions.input_mask).sum(dim=1)",
        SUM,
    ),
    Bug(
        "terminal reward at the wrong token",
        "language/rewards.py",
        "numbers.gather(1, completions.last[:, None]).squeeze(1)",
        "numbers[:, -1]",
        LAST,
    ),
    Bug(
        "rewards of others",
        "language/rewards.py",
        "return self.pooled(completions) - self.zero",
        "return self.pooled(completions) + self.zero",
        f"{REWARD}::test_rewards_are_centred_on_what_was_learned_from",
    ),
    Bug(
        "chosen and rejected exchanged",
        "language/reward.py",
        "reward_model.pooled(Completions.join([pairs.chosen, pairs.rejected])).chunk(2)",
        "reward_model.pooled(Completions.join([pairs.rejected, pairs.chosen])).chunk(2)",
        f"{REWARD}::test_both_sides_in_one_pass_are_each_side_alone",
    ),
    Bug(
        "chosen and rejected exchanged",
        "preferences.py",
        "-logsigmoid(chosen - rejected - sum(margins, apart)).mean()",
        "-logsigmoid(rejected - chosen - sum(margins, apart)).mean()",
        f"{LOSSES}::test_bradley_terry_is_the_probability_of_the_choices",
    ),
    Bug(
        "margin with the wrong sign",
        "preferences.py",
        "-logsigmoid(chosen - rejected - sum(margins, apart)).mean()",
        "-logsigmoid(chosen - rejected + sum(margins, apart)).mean()",
        f"{LOSSES}::test_bradley_terry_is_the_probability_of_the_choices",
    ),
    Bug(
        "KL sign",
        "preferences.py",
        "chosen_reward, rejected_reward = beta * (chosen - ref_chosen), beta * (rejected - ref_rejected)",
        "chosen_reward, rejected_reward = beta * (chosen + ref_chosen), beta * (rejected + ref_rejected)",
        f"{LOSSES}::test_dpo_is_the_sum_written_out",
    ),
    Bug(
        "reference updated",
        "preferences.py",
        'x.detach() if name.startswith("ref_") else x',
        "x",
        f"{LOSSES}::test_no_gradient_goes_into_the_reference_or_kl",
    ),
    Bug(
        "a sum in the place of a mean",
        "preferences.py",
        'beta * chosen / _lengths("chosen_lengths", chosen_lengths, chosen)',
        "beta * chosen",
        f"{LOSSES}::test_simpo_is_the_sum_written_out",
    ),
    Bug(
        "z below 0",
        "preferences.py",
        "return kl.detach().mean().clamp(min=0).to(logp.dtype)",
        "return kl.detach().mean().to(logp.dtype)",
        f"{LOSSES}::test_the_point_of_reference_is_a_mean_that_is_no_less_than_0",
    ),
    # --- sampling: the KL, and what is sampled
    Bug(
        "KL sign",
        "language/sampling.py",
        "kl: Tensor = estimate(logp, ref_logp)",
        "kl: Tensor = estimate(ref_logp, logp)",
        f"{SAMPLING}::test_values_of_the_estimates",
    ),
    Bug(
        "mask forgotten",
        "language/sampling.py",
        "logp, ref_logp = (torch.where(mask, x, 0.0) for x in (logp, ref_logp))",
        "logp, ref_logp = logp.nan_to_num(0.0), ref_logp.nan_to_num(1.0)",
        f"{SAMPLING}::test_the_estimates_leave_padding_alone",
    ),
    Bug(
        "old log-probs with a gradient",
        "language/sampling.py",
        "logp - old_logp.detach()",
        "logp - old_logp",
        f"{SAMPLING}::test_the_old_policy_is_data",
    ),
    Bug(
        "KL sign",
        "language/sampling.py",
        "log_ratio = (completions.logp - ref_logp).sum(dim=1)",
        "log_ratio = (ref_logp - completions.logp).sum(dim=1)",
        f"{SAMPLING}::test_the_row_of_the_history",
    ),
    Bug(
        "the same prompts again",
        "language/sampling.py",
        "Batches(len(self.prompts), n, self.seed).rows(number)",
        "Batches(len(self.prompts), n, self.seed).rows(0)",
        f"{SAMPLING}::test_each_prompt_is_drawn_once_before_any_is_drawn_again",
    ),
    Bug(
        "a penalty for those that ended",
        "language/sampling.py",
        "self.settings.missing_eos_penalty * (~completions.ended)",
        "self.settings.missing_eos_penalty * completions.ended",
        f"{SAMPLING}::test_a_penalty_is_taken_off_what_was_cut",
    ),
    # --- data: groups, and the end of a text
    Bug(
        "group mixed up",
        "language/data.py",
        "columns = {name: [x for x in column for _ in range(k)] for name, column in self.columns.items()}",
        "columns = {name: [*column] * k for name, column in self.columns.items()}",
        f"{DATA}::test_other_columns_go_with_their_prompts",
    ),
    Bug(
        "the end not learned",
        "language/data.py",
        "return [*ids, eos]",
        "return ids",
        f"{SFT}::test_examples_of_a_world_end_and_those_held_out_are_others",
    ),
    # --- losses of sequences
    Bug(
        "mask forgotten",
        "objectives.py",
        "tokens = logp.shape[-1] if keep is None else keep.sum(dim=-1).clamp(min=1)",
        "tokens = logp.shape[-1]",
        f"{SEQUENCES}::test_gspo_is_the_sum_written_out",
    ),
    Bug(
        "a weight with a gradient",
        "objectives.py",
        "weight = (logp.detach() - old_logp).exp().clamp(low, high)",
        "weight = (logp - old_logp).exp().clamp(low, high)",
        f"{SEQUENCES}::test_the_gradient_of_cispo_is_that_of_the_policy_gradient_with_a_bounded_weight",
    ),
    # --- what is measured
    Bug(
        "KL sign",
        "language/evaluating.py",
        "each = kl_categorical(mine, other)",
        "each = kl_categorical(other, mine)",
        f"{EVALUATING}::test_the_kl_of_steps_averages_to_the_kl_of_whole_completions",
    ),
    Bug(
        "mask forgotten",
        "language/evaluating.py",
        "return torch.where(completions.mask, each, 0.0).sum(dim=1)",
        "return each.sum(dim=1)",
        f"{EVALUATING}::test_the_kl_to_itself_is_zero_and_padding_has_none",
    ),
    Bug(
        "the worst of n",
        "language/best_of_n.py",
        "best = rewards.argmax(dim=1)",
        "best = rewards.argmin(dim=1)",
        f"{EVALUATING}::test_the_best_of_n_is_the_best_of_those_that_were_drawn",
    ),
    Bug(
        "group mixed up",
        "language/best_of_n.py",
        "rewards = reward(drawn, many.columns).view(len(prompts), n)",
        "rewards = reward(drawn, many.columns).view(n, len(prompts)).T",
        f"{EVALUATING}::test_the_best_of_n_is_the_best_of_those_that_were_drawn",
    ),
    Bug(
        "ties forgotten",
        "language/best_of_n.py",
        "_, level = np.unique(r, return_inverse=True)",
        "level = r.argsort().argsort()",
        f"{EVALUATING}::test_the_exact_kl_is_that_of_all_ways_to_draw",
    ),
]

# The eight, and where each is planted: by what the table of that room calls it.
OWN = {"ppo": "test_language_ppo", "grpo": "test_language_grpo", "dpo": "test_language_dpo"}
OWN |= {"online": "test_language_online"}
EIGHT = {
    "mask forgotten": {
        **dict.fromkeys(OWN, "mask forgotten"),
        **dict.fromkeys(("tokens", "model", "sft", "rewards", "sampling", "evaluating"), "mask forgotten"),
    },
    "shift by one token": {
        **dict.fromkeys(OWN, "shift by one token"),
        **dict.fromkeys(("tokens", "model", "rewards"), "shift by one token"),
    },
    "KL sign": {
        **dict.fromkeys(("ppo", "grpo", "sampling", "preferences", "evaluating"), "KL sign"),
    },
    "reference updated": {
        **dict.fromkeys(("ppo", "grpo", "preferences"), "reference updated"),
        "dpo": "reference trained",
        "online": "the policy as reference",
    },
    "advantage over the prompt's tokens": {
        "ppo": "advantage over the prompt's tokens",
        "grpo": "the prompt's mask",
        "dpo": "the prompt's tokens counted",
        "rewards": "the prompt's tokens counted",
        "data": "the prompt's tokens learned",
    },
    "terminal reward at the wrong token": {
        **dict.fromkeys(("ppo", "tokens", "rewards"), "terminal reward at the wrong token"),
    },
    "group mixed up": {
        **dict.fromkeys(("grpo", "online", "data", "best_of_n"), "group mixed up"),
    },
    "old log-probs recomputed": {
        "ppo": "old log-probs recomputed after the update",
        **dict.fromkeys(("grpo", "online"), "old log-probs recomputed"),
        "model": "old log-probs of another distribution",
        "sampling": "old log-probs with a gradient",
    },
}


def test_without_a_bug_the_tests_pass(run, copied):
    code, output = run(copied, sorted({bug.test for bug in BUGS}))
    assert code == 0, output


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: f"{bug.pitfall}, {bug.file}")
def test_a_bug_is_found(bug, run, copied):
    machinery.test_a_bug_is_found(bug, run, copied)


@pytest.mark.parametrize("mistake", EIGHT)
def test_each_of_the_eight_is_planted_wherever_it_could_be_made(mistake):
    for room, called in EIGHT[mistake].items():
        if room in OWN:
            planted = {bug.mistake for bug in importlib.import_module(OWN[room]).BUGS}
        else:
            planted = {bug.pitfall for bug in BUGS if bug.file.endswith(f"{room}.py")}
        assert called in planted, f"{room}: {called}"
