"""Tasks, rules, runs and measures that the experiments with a real language model share.

The model is SmolLM2-135M-Instruct with adapters of LoRA; each run takes one core.

**Sums.** "What is 7 + 5?": right if the last number of the answer is right. No held-out sum is trained on,
nor its mirror image, 5 + 7.

**Short answers.** Questions about everyday things, with the request to answer in one short sentence. An
answer gets a point for being polite, a point for being on topic and a point for being short (`points`).

**Elsewhere.** The effect of training on everything else: the log-probability of the original model's answers
to questions of other kinds (`Elsewhere`).
"""

import itertools
import random
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ppobook.experiments import results_folder
from ppobook.language import Completions, Pairs, generate, open_pretrained, prompts_of
from ppobook.language.data import take_rows
from ppobook.language.opening import open_task
from ppobook.language.reward import pooled_rewards
from ppobook.language.stage import Stage, Task
from ppobook.language.sums import answer_is_right
from ppobook.language.tokens import completion_logits, token_logp
from ppobook.language.training import STAGES

sys.path.append(str(results_folder()))  # where the other experiments are

from language_chain.shared import followed as looking

MODEL = str(results_folder().parent / "runs" / "smollm2")  # made by `make real`
LORA = {"r": 16, "alpha": 32}
KEPT = results_folder().parent / "_build" / "real"  # delete after a change of the library or of a task
ROWS = 32  # completions that are generated or read side by side

Record = dict[str, Any]


def chat(question: str, system: str | None = None) -> list[dict[str, str]]:
    """A question as a conversation. Without a system message the chat template writes the model's own."""
    begin = [] if system is None else [{"role": "system", "content": system}]
    return [*begin, {"role": "user", "content": question}]


def learner_of(stage: str | type[Stage], data: Any, seed: int, reward: Any = None, **settings: Any) -> Stage:
    """A learner that starts from the model, with adapters that change nothing yet."""
    torch.set_num_threads(1)
    kind = stage if isinstance(stage, type) else STAGES.find(stage)
    made = kind.settings_class.make(kind.algorithm, settings, {})
    task = open_task(kind, Task(MODEL, None, data, reward), "cpu", seed, {"lora": LORA})
    return kind(task, made, seed=seed)


def followed(learner: Stage, look: Callable[[Any], Record], updates: int, every: int) -> list[Record]:
    """Train, and look before the first update and after every so many; elsewhere at both ends only.

    The columns are those of `language_chain/shared.py`, and `reward`, the mean since the last look.
    """
    elsewhere = Elsewhere(learner.model, learner.tokenizer)
    before = elsewhere(learner.model)
    rows: list[Record] = looking(learner, look, looks=updates // every, updates=updates, averaged=("reward",))
    rows[0] |= before
    rows[-1] |= elsewhere(learner.model)
    return rows


def answers_of(
    model: Any,
    tokenizer: Any,
    records: Sequence[Record],
    length: int,
    n: int = 1,
    temperature: float = 1.0,
    seed: int = 0,
) -> Completions:
    """n completions of each prompt, those of one prompt side by side; greedy ones at temperature 0."""
    prompts = prompts_of([{"prompt": row["prompt"]} for row in records], tokenizer).repeat(n)
    generator = torch.Generator().manual_seed(seed) if temperature else None
    how: Any = {"temperature": temperature, "generator": generator, "at_once": ROWS}
    return generate(model, prompts.tokens, prompts.mask, length, **how)


def logp_of(model: Any, completions: Completions, temperature: float = 1.0) -> torch.Tensor:
    """log π of each token, [B, T], 0 at padding; read in parts and without gradient."""
    found = torch.zeros_like(completions.logp)
    for rows in torch.arange(len(completions)).split(ROWS):
        some = take_rows(completions, rows)
        with torch.no_grad():
            logits = completion_logits(model, some)
        found[rows, : some.tokens.shape[1]] = token_logp(logits, some.tokens, temperature, mask=some.mask)
    return found


# -------------------------------------------------------------------------------------------------- sums


def chain_sums(seed: int, held_out: int = 20) -> tuple[list[Record], list[Record]]:
    """Sums and differences of two or three numbers below ten, by reasoning-gym: to train on, and held out."""
    import reasoning_gym  # pip install reasoning-gym

    rows = reasoning_gym.create_dataset("chain_sum", size=600, seed=seed, max_terms=3, max_digits=1)
    made = {row["question"]: int(row["answer"]) for row in rows}
    records = [{"prompt": chat(question), "answer": answer} for question, answer in made.items()]
    return records[held_out:], records[:held_out]


class SumsLook:
    """Measures of a policy on held-out sums.

    greedy and sampled, the shares of right answers, with four samples of each sum; kl, to the original model,
    estimated by the samples' log-ratios; length, of a sample, in tokens; ended, the share of samples that
    end; texts, a greedy and a sampled answer to each of three sums.
    """

    def __init__(self, learner: Stage, held_out: Sequence[Record], length: int) -> None:
        self.base, self.tokenizer = learner.reference, learner.tokenizer
        self.held_out, self.length = held_out, length

    def __call__(self, model: Any) -> Record:
        how = (model, self.tokenizer, self.held_out, self.length)
        greedy, sampled = answers_of(*how, temperature=0), answers_of(*how, n=4)
        greedy_texts, texts = greedy.texts(self.tokenizer), sampled.texts(self.tokenizer)
        answers = [row["answer"] for row in self.held_out]
        questions = [row["prompt"][-1]["content"] for row in self.held_out]
        return {
            "greedy": _mean(answer_is_right([], greedy_texts, answers)),
            "sampled": _mean(answer_is_right([], texts, [answer for answer in answers for _ in range(4)])),
            "kl": (sampled.logp - logp_of(self.base, sampled)).sum(dim=1).mean().item(),
            "length": sampled.lengths.float().mean().item(),
            "ended": sampled.ended.float().mean().item(),
            "texts": [[questions[i], greedy_texts[i], texts[4 * i]] for i in range(3)],
        }


# ------------------------------------------------------------------------------------------ short answers


SYSTEM = "Answer in one short sentence."
QUESTIONS = (
    "Tell me about {}.",
    "Why do people like {}?",
    "Give me a tip about {}.",
    "What should a beginner know about {}?",
    "Can you help me with {}?",
)
TOPICS = (
    *("tea", "coffee", "bread", "soup", "cheese", "apples", "honey", "gardens", "bicycles", "trains"),
    *("boats", "bridges", "rain", "snow", "winter", "summer", "cats", "dogs", "birds", "horses"),
    *("music", "books", "painting", "chess", "sleep", "walking", "swimming", "camping"),
    *("birthdays", "neighbors"),
)
POLITE = re.compile(r"\b(please|thank|thanks|welcome|glad|happy|sorry)\b", re.IGNORECASE)
MOST_WORDS = 25
ANSWER_TOKENS, TEMPERATURE = 40, 0.7
REWARD = {"pooling": "last", "updates": 60, "batch_size": 8, "lr": 2e-4, "eval_every": 30, "eval_pairs": 60}


def questions(seed: int, held_out: int = 6) -> tuple[list[Record], list[Record]]:
    """Every question about every topic: to train on, and those about topics that are held out."""
    topics = random.Random(seed).sample(TOPICS, len(TOPICS))
    rows = [[question_of(form, topic) for topic in topics] for form in QUESTIONS]
    return [x for row in rows for x in row[held_out:]], [x for row in rows for x in row[:held_out]]


def question_of(form: str, topic: str) -> Record:
    return {"prompt": chat(form.format(topic), SYSTEM), "topic": topic}


def points(text: str, topic: str, ended: bool = True) -> dict[str, int]:
    """A point for each thing that people want of an answer.

    polite: one of the words please, thank, thanks, welcome, glad, happy, sorry; on_topic: the word of the
    topic, in singular or plural; short: at most 25 words, and an end.
    """
    return {
        "polite": int(bool(POLITE.search(text))),
        "on_topic": int(topic.removesuffix("s").lower() in text.lower()),
        "short": int(ended and len(text.split()) <= MOST_WORDS),
    }


def points_of(completions: Completions, tokenizer: Any, topics: Sequence[str]) -> list[dict[str, int]]:
    """The points of each completion."""
    texts, ended = completions.texts(tokenizer), completions.ended.tolist()
    return [points(*row) for row in zip(texts, topics, ended, strict=True)]


def own_pairs(seed: int) -> Pairs:
    """Pairs of answers by the original model to the questions to train on: read, or made and kept."""
    path = KEPT / str(seed) / "pairs.pt"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(pairs_about(questions(seed)[0], seed), path)
    pairs: Pairs = torch.load(path, weights_only=False)
    return pairs


def pairs_about(records: Sequence[Record], seed: int, answers: int = 8) -> Pairs:
    """Pairs of answers by the original model, the one with more points chosen.

    The answers to a question are compared in a ring, each with the next; pairs with equal points are left
    out.
    """
    model, tokenizer = open_pretrained(MODEL)
    how: Any = {"n": answers, "temperature": TEMPERATURE, "seed": seed}
    sampled = answers_of(model, tokenizer, records, ANSWER_TOKENS, **how)
    topics = [row["topic"] for row in records for _ in range(answers)]
    each = points_of(sampled, tokenizer, topics)
    total = torch.tensor([sum(x.values()) for x in each])
    first = torch.arange(len(total))
    second = first.view(-1, answers).roll(-1, dims=1).view(-1)
    better = total[first] > total[second]
    chosen, rejected = torch.where(better, first, second), torch.where(better, second, first)
    unequal = total[first] != total[second]
    return Pairs(sampled.select(chosen[unequal]), sampled.select(rejected[unequal]))


def reward_model_of(seed: int) -> tuple[Any, Record]:
    """The reward model of a seed, read, or trained and kept; the number of its pairs, and its accuracy.

    eval_accuracy is that on held-out pairs, most of which share an answer with a training pair, new_accuracy
    that on pairs about topics that are held out. The rewards have mean 0 and standard deviation 1 over
    answers of the original model to held-out questions, so that β is in standard deviations per nat.
    """
    path = KEPT / str(seed) / "reward.pt"
    if not path.exists():
        learner = learner_of("reward", own_pairs(seed), seed, **REWARD)
        facts: Record = {"pairs": len(learner.pairs)}
        for number in range(REWARD["updates"]):
            learner.set_lr(number)
            facts |= {k: float(x) for k, x in learner.step(number).items() if k == "eval_accuracy"}
        reward_model = learner.model.eval().requires_grad_(False)
        held_out, how = questions(seed)[1], {"n": 2, "temperature": TEMPERATURE, "seed": seed}
        new = pairs_about(held_out, seed + 1000)
        chosen, rejected = (pooled_rewards(reward_model, x, ROWS) for x in (new.chosen, new.rejected))
        facts |= {"new_pairs": len(new), "new_accuracy": (chosen > rejected).float().mean().item()}
        original, tokenizer = open_pretrained(MODEL)
        sampled = answers_of(original, tokenizer, held_out, ANSWER_TOKENS, **how)
        rewards = pooled_rewards(reward_model, sampled, ROWS)
        reward_model.output.weight /= rewards.std()  # there is no bias
        reward_model.zero.copy_(rewards.mean() / rewards.std())
        torch.save((reward_model, facts), path)
    found: tuple[Any, Record] = torch.load(path, weights_only=False)
    return found


class AnswersLook:
    """Measures of a policy on questions about topics that are held out, two samples of each.

    proxy, the reward model's reward, if there is one; points, and their parts polite, on_topic and short;
    words; length, in tokens; ended; distinct_2, the share of distinct pairs of neighboring tokens in the
    first 400 tokens; kl, to the original model, estimated by log-ratios; plain, the original model's mean
    log-probability of a token; texts, an answer to each of four questions.
    """

    def __init__(self, learner: Stage, held_out: Sequence[Record], base: Any, proxy: Any = None) -> None:
        self.base, self.proxy, self.tokenizer, self.held_out = base, proxy, learner.tokenizer, held_out

    def __call__(self, model: Any) -> Record:
        how: Any = {"n": 2, "temperature": TEMPERATURE}
        sampled = answers_of(model, self.tokenizer, self.held_out, ANSWER_TOKENS, **how)
        texts, mask = sampled.texts(self.tokenizer), sampled.mask
        topics = [row["topic"] for row in self.held_out for _ in range(2)]
        each = points_of(sampled, self.tokenizer, topics)
        parts = {name: _mean([x[name] for x in each]) for name in each[0]}
        base_logp = logp_of(self.base, sampled, TEMPERATURE)
        row = {"points": sum(parts.values()), **parts}
        if self.proxy is not None:
            row["proxy"] = (pooled_rewards(self.proxy, sampled, ROWS) - self.proxy.zero).mean().item()
        every = [2 * i for i in range(0, len(self.held_out), len(self.held_out) // 4)][:4]
        return row | {
            "words": _mean([len(text.split()) for text in texts]),
            "length": sampled.lengths.float().mean().item(),
            "ended": sampled.ended.float().mean().item(),
            "distinct_2": distinct_pairs(sampled, 400),
            "kl": (sampled.logp - base_logp).sum(dim=1).mean().item(),
            "plain": base_logp[mask].mean().item(),
            "texts": [[self.held_out[i // 2]["prompt"][-1]["content"], texts[i]] for i in every],
        }


def distinct_pairs(completions: Completions, tokens: int) -> float:
    """The share of distinct pairs of neighboring tokens in the first so many tokens."""
    pairs: list[tuple[int, int]] = []
    for row, length in zip(completions.tokens.tolist(), completions.lengths.tolist(), strict=True):
        pairs += itertools.pairwise(row[:length])
    return len(set(pairs[:tokens])) / len(pairs[:tokens])


# ------------------------------------------------------------------------------------------------ elsewhere


OTHERS = (
    "What is the capital of France?",
    "How many days are in a leap year?",
    "Name three fruits that are red.",
    "Why is the sky blue?",
    "What does a doctor do?",
    "How do plants make food?",
    "Write a short poem about the sea.",
    "What is the opposite of hot?",
    "Who wrote Romeo and Juliet?",
    "How do I boil an egg?",
    "What is a good name for a black cat?",
    "Explain what a computer is to a child.",
    "What should I pack for a trip to the beach?",
    "How does a bicycle stay upright?",
    "Translate 'good morning' into Spanish.",
    "Give me a recipe for pancakes.",
    "What is the largest planet?",
    "How can I fall asleep faster?",
    "Write a polite email that declines a meeting.",
    "What is the difference between a lake and a sea?",
    "Tell me a fun fact about elephants.",
    "How do I remove a coffee stain?",
    "What is democracy?",
    "Suggest a title for a story about a lost key.",
)
OTHER_TOKENS = 24


class Elsewhere:
    """The effect of training on answers to other questions.

    A policy reads answers to `OTHERS` by the original model. elsewhere_greedy and elsewhere_sampled are its
    mean log-probabilities of a token in the original model's greedy and in its sampled answers. By how much
    the second falls is an estimate of KL(original, policy) per token.
    """

    def __init__(self, base: Any, tokenizer: Any) -> None:
        records = [{"prompt": chat(question)} for question in OTHERS]
        self.greedy, self.sampled = (
            answers_of(base, tokenizer, records, OTHER_TOKENS, temperature=x) for x in (0, 1)
        )

    def __call__(self, model: Any) -> Record:
        both = {"elsewhere_greedy": self.greedy, "elsewhere_sampled": self.sampled}
        return {name: logp_of(model, x)[x.mask].mean().item() for name, x in both.items()}


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)
