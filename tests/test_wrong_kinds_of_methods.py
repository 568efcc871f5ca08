"""Arguments of the wrong kind to methods: as `test_wrong_kinds`, for the public methods of public classes.

`OBJECTS` has an object of each class, `CALLS` a valid call of each of its methods with arguments. What is in
neither is in `EXEMPT` or `UNCALLED`, with a reason.
"""

import inspect
from importlib import import_module

import numpy as np
import pytest
import torch
from small_stages import WORLD, decoder, reward_model
from wrong_kinds import KINDS, public, refused

from ppobook import train
from ppobook.adaptive_kl import AdaptiveKLCoefficient
from ppobook.batches import Batch, Shuffle
from ppobook.envs import PROBES, SameStepVectorEnv, TabularEnv, chain, env_maker, make_env
from ppobook.language import Evaluation, Pairs, Prompts, Scalar, generate
from ppobook.language import train as train_stage
from ppobook.language.data import Batches
from ppobook.language.sft import SFT
from ppobook.language.stage import Task
from ppobook.objectives import masked_mean
from ppobook.policies import (
    MLP,
    Categorical,
    CategoricalPolicy,
    Gaussian,
    GaussianPolicy,
    MultiCategorical,
    MultiCategoricalPolicy,
    RewardScale,
    RunningNorm,
    SharedTrunk,
    TabularPolicy,
    TabularValue,
    ValueFunction,
)
from ppobook.ppo import PPO
from ppobook.rollouts import Collector
from ppobook.settings import PPOSettings, TRPOSettings, VanillaSettings
from ppobook.teaching.figures._parts import loss_batch
from ppobook.trpo import TRPO
from ppobook.vanilla import Vanilla

ROOMS = [
    *(
        "adaptive_kl",
        "actor_critic",
        "batches",
        "envs",
        "episodes",
        "evaluation",
        "language",
        "language.data",
    ),
    *("learner", "policies", "ppo", "rollouts", "teaching.figures", "training", "trpo", "vanilla"),
]


def generator():
    return torch.Generator().manual_seed(0)


def rand(*shape):
    return torch.rand(shape, generator=generator())


MDP = chain(5)
PROBS = np.full((MDP.n_states, MDP.n_actions), 0.5)
OBSERVATIONS, STATES = rand(3, 4), torch.tensor([1, 2, 3])
CHOICES, VECTORS, SEVERAL = torch.tensor([0, 1, 1]), rand(3, 2), torch.tensor([[0, 1], [1, 0], [2, 1]])
LOGITS, MEANS = rand(3, 2), rand(3, 2)
NETWORK = MLP([4, 8, 2])
ENVS = make_env("CartPole-v1", 2, 0)
SPACES = ENVS.single_observation_space, ENVS.single_action_space
POLICY = CategoricalPolicy(4, 2, (8,))
COLLECTOR = Collector(ENVS, POLICY, seed=0)
ROLLOUT = COLLECTOR.collect(20)
BATCH = Batch.of(ROLLOUT, rand(2, 20), rand(2, 20), rand(2, 20))
SMALL = {"num_envs": 2, "num_steps": 20}
CRITIC = VanillaSettings(**SMALL, baseline="value")
MODEL, REWARD = decoder().float(), reward_model().float()
WORDS, (PROMPTS, PROMPT_MASK) = WORLD.tokenizer, WORLD.prompt_tokens()
DONE = generate(MODEL, PROMPTS[:4], PROMPT_MASK[:4], 6, generator=generator())
TOKENS = {"tokens": DONE.inputs, "mask": DONE.input_mask}
LOSSES = loss_batch()
STAGE = SFT(Task(decoder().float(), WORDS, WORLD), SFT.settings_class())
GIVEN = {"env": "CartPole-v1", "total_steps": 40, "progress": False, "num_minibatches": 2, **SMALL}


class Started:
    """A vector environment whose steps follow a reset."""

    def __new__(cls):
        envs = SameStepVectorEnv([lambda: TabularEnv(MDP)])
        envs.reset(seed=0)
        return envs


OBJECTS = {
    "AdaptiveKLCoefficient": AdaptiveKLCoefficient(0.2, 0.01),
    "Batch": BATCH,
    "Batches": Batches(10, 3, 0),
    "Shuffle": Shuffle(0),
    "EnvMaker": env_maker("CartPole-v1"),
    "Probe": PROBES[0],
    "TabularMDP": MDP,
    "SameStepVectorEnv": Started(),
    "TabularEnv": TabularEnv(MDP),
    "Completions": DONE,
    "Decoder": MODEL,
    "Evaluation": Evaluation({}, DONE, DONE.prompt_texts(WORDS), DONE.texts(WORDS), None, None),
    "Pairs": Pairs(DONE, DONE),
    "Prompts": Prompts(PROMPTS, PROMPT_MASK),
    "RewardModel": REWARD,
    "Run": train("ppo", **GIVEN),
    "language.Run": train_stage("sft", data=WORLD, updates=1, batch_size=2, progress=False),
    "Scalar": Scalar(MODEL),
    "Stage": STAGE,
    "WordTokenizer": WORDS,
    "World": WORLD,
    "PPO": PPO(*SPACES, PPOSettings(**SMALL, num_minibatches=2)),
    "TRPO": TRPO(*SPACES, TRPOSettings(**SMALL)),
    "Vanilla": Vanilla(*SPACES, CRITIC),
    "MLP": NETWORK,
    "SharedTrunk": SharedTrunk(NETWORK),
    "CategoricalPolicy": POLICY,
    "GaussianPolicy": GaussianPolicy(4, 2, (8,)),
    "MultiCategoricalPolicy": MultiCategoricalPolicy(4, (3, 2), (8,)),
    "TabularPolicy": TabularPolicy(5, 2),
    "TabularValue": TabularValue(5),
    "ValueFunction": ValueFunction(4, (8,)),
    "RunningNorm": RunningNorm((4,)),
    "RewardScale": RewardScale(2, 0.9),
    "Categorical": Categorical(LOGITS),
    "Gaussian": Gaussian(MEANS, torch.ones(2)),
    "MultiCategorical": MultiCategorical(rand(3, 5), (3, 2)),
    "Collector": COLLECTOR,
    "Rollout": ROLLOUT,
    "LossBatch": LOSSES,
}

AT = {"observations": OBSERVATIONS}
NOISE = {"noise": {"generator": None}, "sample": {"generator": None}}
LEARNER = {
    "collect": {"collector": COLLECTOR},
    "used": {"rollout": ROLLOUT},
    "networks": {"observation_space": SPACES[0], "action_space": SPACES[1], "seed": 0},
}
ACTOR_CRITIC = {
    **LEARNER,
    "advantages": {"rollout": ROLLOUT},
    "estimate": {"rollout": ROLLOUT},
    "after_update": {"batch": BATCH},
    "update_normalizer": {"rollout": ROLLOUT},
    "update": {"rollout": ROLLOUT},
}


def policy_calls(actions, outputs, **observations):
    calls = {name: observations for name in ("distribution", "entropy", "forward", "mode", "outputs")}
    return calls | {
        "sample": observations,
        "logp": {**observations, "actions": actions},
        "in_bounds": {"actions": actions},
        "distribution_of": {"outputs": outputs},
    }


CALLS = {
    "AdaptiveKLCoefficient": {"update": {"kl": 0.1, "samples": 3}},
    "Batch": {
        "minibatches": {"count": 2, "shuffle": Shuffle(0)},
        "of": {"rollout": ROLLOUT, **{name: rand(2, 20) for name in ("advantages", "returns", "values")}},
    },
    "Batches": {"rows": {"k": 1}},
    "Shuffle": {"order": {"n": 5}},
    "EnvMaker": {"make": {"num_envs": 2}},
    "Probe": {"mdp": {"gamma": 0.9}, "values": {"gamma": 0.9}},
    "TabularMDP": {
        name: {"probs": PROBS}
        for name in ("advantages", "objective", "policy_value", "q_values", "state_occupancy")
    }
    | {"policy_gradient": {"logits": PROBS}, "sample_episodes": {"probs": PROBS, "episodes": 2}},
    "SameStepVectorEnv": {"step": {"actions": np.array([1])}},
    "TabularEnv": {"reset": {}, "step": {"action": 1}},
    "Completions": {
        "join": {"parts": [DONE, DONE]},
        "prompt_texts": {"tokenizer": WORDS},
        "select": {"index": [0, 1]},
        "texts": {"tokenizer": WORDS},
    },
    "Decoder": {
        "embed": TOKENS,
        "forward": TOKENS,
        "head": {"hidden": rand(2, 8)},
        "hidden": TOKENS,
        "init_weights": {"seed": 0},
        "start_cache": {"tokens": PROMPTS, "mask": PROMPT_MASK, "room": 3},
    },
    "Evaluation": {"samples": {"n": 2}},
    "Pairs": {"select": {"index": [0, 1]}},
    "Prompts": {"repeat": {"k": 2}, "select": {"index": [0, 1]}},
    "RewardModel": {"forward": TOKENS, "pooled": {"completions": DONE}, "rewards": {"completions": DONE}},
    "Run": {"save": {"folder": "run"}},
    "language.Run": {"save": {"folder": "run"}, "stage_state": {"name": "model"}},
    "Scalar": {"forward": TOKENS},
    "Stage": {
        **{name: {"number": 0} for name in ("batch_rows", "set_lr", "step")},
        "gradient_step": {"loss": masked_mean(STAGE.forward(DONE)["loss"], mask=DONE.mask)},
        "learn": {
            "rows": torch.tensor([0, 1]),
            "select": STAGE.examples.select,
            "forward": STAGE.forward,
            "loss": STAGE.loss,
        },
        "map_batches": {"function": REWARD.rewards, "completions": DONE},
        "map_rows": {"n": 4, "function": len},
        "micro_batch": {"most": 3},
    },
    "WordTokenizer": {"decode": {"ids": [2, 3]}, "encode": {"text": "fox"}},
    "World": {
        "corpus": {"n": 2},
        "gold": {"completions": DONE},
        "gold_parts": {"completions": DONE},
        "prefer": {"first": DONE, "second": DONE},
        "prompt_tokens": {},
        "read": {"prompt": WORLD.prompts[0], "completion": "the"},
    },
    "PPO": {
        **ACTOR_CRITIC,
        "gradient_step": {"minibatch": BATCH},
        "loss": {"batch": BATCH},
        "validated_loss": {"minibatch": BATCH},
    },
    "TRPO": {
        **ACTOR_CRITIC,
        "critic_step": {"minibatch": BATCH},
        "fit": {"batch": BATCH},
        "improve": {"batch": BATCH},
    },
    "Vanilla": {**LEARNER, "update": {"rollout": ROLLOUT}, "weigh": {"rollout": ROLLOUT}},
    "MLP": {"forward": AT},
    "SharedTrunk": {"forward": AT, "shares": {"network": NETWORK}},
    "CategoricalPolicy": policy_calls(CHOICES, LOGITS, **AT) | {"logits": AT, "probs": AT},
    "GaussianPolicy": policy_calls(VECTORS, MEANS, **AT) | {"mean_std": AT},
    "MultiCategoricalPolicy": policy_calls(SEVERAL, rand(3, 5), **AT) | {"logits": AT, "probs": AT},
    "TabularPolicy": policy_calls(CHOICES, LOGITS, observations=STATES)
    | {name: {"observations": STATES} for name in ("logits", "probs")},
    "TabularValue": {"forward": {"observations": STATES}},
    "ValueFunction": {"forward": AT},
    "RunningNorm": {"forward": AT, "update": {"batch": OBSERVATIONS}},
    "RewardScale": {"forward": {"rewards": rand(2, 5), "ended": torch.zeros(2, 5)}},
    "Categorical": NOISE
    | {"act": {"noise": LOGITS}, "logp": {"actions": CHOICES}, "kl": {"other": Categorical(LOGITS)}},
    "Gaussian": NOISE
    | {
        "act": {"noise": MEANS},
        "logp": {"actions": VECTORS},
        "kl": {"other": Gaussian(MEANS, torch.ones(2))},
    },
    "MultiCategorical": NOISE
    | {
        "act": {"noise": rand(3, 5)},
        "logp": {"actions": SEVERAL},
        "kl": {"other": MultiCategorical(rand(3, 5), (3, 2))},
    },
    "Collector": {"collect": {"steps": 2}, "reset": {"seed": 0}, "step": {"actions": torch.tensor([0, 1])}},
    "Rollout": {"join": {"parts": [ROLLOUT, ROLLOUT]}},
    "LossBatch": {
        "loss": {"clip_eps": 0.2, "value_coef": 0.5, "entropy_coef": 0.01},
        "pull": {"loss": LOSSES.loss(0.2, 0.5, 0.01)[0]},
    },
}
# By class and method, or method alone: kinds that are accepted, of some arguments.
LEGAL = {
    "AdaptiveKLCoefficient.update": {"kl": "-1 1.5 inf int64"},
    "TabularMDP.sample_episodes": {"max_steps": "int64"},
    "TabularMDP.policy_gradient": {"logits": ""},
    "Decoder.embed": {"mask": "None"},
    "Decoder.start_cache": {"mask": "None"},
    "WordTokenizer.decode": {"ids": "[] ints {}"},
    "select": {"index": "ints"},
    "save": {"folder": "text path"},
    "learn": {"rows": "ints"},
    "logp": {"actions": "ints"},
    "RewardScale.forward": {"rewards": ""},
    **{f"Tabular{kind}": {"observations": "int64 ints", "actions": "ints"} for kind in ("Value", "Policy")},
}
# Other names by which a message may call an argument.
CALLED = {
    "step": ["action", "k"],
    "batch_rows": ["k"],
    "learn": ["index"],
    **{name: ["batch"] for name in ("gradient_step", "validated_loss")},
    "read": ["text"],
    "distribution_of": ["logits"],
}
# Arguments that a method must take and does not read.
UNREAD = {
    "TabularEnv.reset": ["options"],  # as Gymnasium calls it
    **{f"{kind}.used": ["rollout"] for kind in ("PPO", "TRPO", "Vanilla")},
    **{f"{kind}Policy.in_bounds": ["actions"] for kind in ("Categorical", "MultiCategorical", "Tabular")},
}
# Methods that are not called here.
UNCALLED = {
    **dict.fromkeys(("load_state_dict", "go_back", "restore"), "take what state_dict returned"),
    **dict.fromkeys(("of", "title", "validate_minibatches"), "of the library's own"),
    "optimizer_of": "takes any number of modules",
    "scheduled": "takes settings",
    "approx_kl": "takes what loss returned, which has been validated",
    "Decoder.step": "the innermost loop of generate",
}
# Classes without an object here, of those with methods that take arguments.
EXEMPT = {
    **dict.fromkeys(("LanguageModel", "Policy", "Tokenizer"), "a protocol"),
    "PlainActor": "of the library's own",
}


def methods(kind):
    """The public methods of a class that are the library's and take arguments."""
    found = {}
    for name in dir(kind):
        method = getattr(kind, name)
        own = str(getattr(method, "__module__", "")).startswith("ppobook.")
        if name[0] != "_" and own and inspect.isroutine(method):
            found[name] = [x for x in inspect.signature(method).parameters if x != "self"]
    return {name for name, taken in found.items() if taken}


def classes():
    for room in ROOMS:
        module = import_module(f"ppobook.{room}")
        yield from (x for name in public(room) if inspect.isclass(x := getattr(module, name)))


def test_each_public_method_is_here():
    for kind in classes():
        if kind.__name__ in EXEMPT:
            continue
        names = [name for name, x in OBJECTS.items() if isinstance(x, kind)]
        for method in methods(kind):
            called = any(method in CALLS[name] for name in names)
            listed = UNCALLED.keys() & {method, *(f"{name}.{method}" for name in names)}
            assert called or listed, f"{kind.__name__}.{method}"


ROWS = [(name, method) for name, calls in CALLS.items() for method in calls]


@pytest.mark.parametrize(("name", "method"), ROWS)
def test_wrong_kinds(name, method, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call, given, full = getattr(OBJECTS[name], method), CALLS[name][method], f"{name}.{method}"
    call(**given)
    legal = LEGAL.get(name, {}) | LEGAL.get(method, {}) | LEGAL.get(full, {})
    legal |= dict.fromkeys(UNREAD.get(full, ()), " ".join(KINDS))
    assert not (wrong := refused(call, given, legal, CALLED.get(method, ()))), "\n".join(wrong)
