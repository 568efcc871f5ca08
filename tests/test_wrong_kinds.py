"""Arguments of the wrong kind: every public function refuses them, by an error that names the argument.

`CALLS` has a valid call of each. Each of its arguments in turn, those with a default included, is replaced by
each of `KINDS`. `LEGAL` has the kinds that an argument of this name accepts; all others raise. Both are in
tests/helpers/wrong_kinds.py. `test_wrong_kinds_of_methods` is the same for methods.
"""

from importlib import import_module

import gymnasium as gym
import numpy as np
import pytest
import torch
from small_stages import WORLD, decoder, reward_model
from wrong_kinds import public, refused

from ppobook.envs import TabularEnv, chain, make_env
from ppobook.experiments import names
from ppobook.language import (
    Completions,
    DecoderConfig,
    Pairs,
    calibration,
    generate,
    save_model,
)
from ppobook.policies import MLP, CategoricalPolicy, ValueFunction
from ppobook.rollouts import Collector


def generator():
    return torch.Generator().manual_seed(0)


def rand(*shape):
    return torch.rand(shape, generator=generator())


MDP = chain(5)
PROBS = np.full((MDP.n_states, MDP.n_actions), 0.5)
OBSERVATIONS, BOX, DISCRETE = rand(3, 4), gym.spaces.Box(-1, 1, (4,)), gym.spaces.Discrete(2)
POLICY, VALUE = CategoricalPolicy(4, 2, (8,)), ValueFunction(4, (8,))
ENVS = make_env("CartPole-v1", 2, 0)
COLLECTOR = Collector(ENVS, POLICY, seed=0)
ROLLOUT = COLLECTOR.collect(20)
STEPS = {"rewards": rand(4, 5), "values": rand(4, 6), "terminated": torch.zeros(4, 5)}
RATIO = {"logp": -rand(4, 5), "old_logp": -rand(4, 5), "advantages": rand(4, 5)}
PAIR = {"chosen_logp": -rand(4), "rejected_logp": -rand(4)}
REFERENCE = {"ref_chosen_logp": -rand(4), "ref_rejected_logp": -rand(4)}
LENGTHS = {"chosen_lengths": torch.ones(4).long(), "rejected_lengths": torch.ones(4).long()}
MODEL, OTHER, REWARD = decoder().float(), decoder(seed=5).float(), reward_model().float()
WORDS, (PROMPTS, PROMPT_MASK) = WORLD.tokenizer, WORLD.prompt_tokens()
DONE = generate(MODEL, PROMPTS[:4], PROMPT_MASK[:4], 6, generator=generator())
PAIRS = Pairs(DONE, DONE)
SIZES = {"vocab_size": 9, "context": 8, "layers": 1, "width": 8, "heads": 2, "eos": 1, "pad": 0}

# Calls by module. Settings are in tests/run/test_contract.py and tests/language/test_training.py.
SPOKEN = {"words": ["a", "b"], "old_logp": [-1.0, -2.0], "advantages": [1.0, -1.0]}
SPOKEN["new_logp"] = [[SPOKEN["old_logp"], [-0.9, -2.1]]]
CALLS = {
    "returns": {
        "discounted_returns": {"rewards": rand(4, 5), "gamma": 0.9},
        "n_step_advantages": STEPS | {"n": 2},
        "gae": STEPS,
    },
    "objectives": {
        "policy_gradient_loss": {"logp": -rand(4, 5), "advantages": rand(4, 5)},
        "masked_mean": {"x": rand(4, 5)},
        "surrogate_loss": RATIO,
        "clipped_surrogate_loss": RATIO,
        "kl_penalized_loss": RATIO | {"kl": rand(4, 5), "beta": 0.1},
        "sequence_surrogate_loss": RATIO | {"advantages": rand(4), "clip_eps": 0.2},
        "cispo_loss": RATIO | {"clip_eps_high": 0.2},
        "value_loss": {name: rand(4, 5) for name in ("values", "returns", "old_values")} | {"clip_eps": 0.2},
        "ppo_loss": RATIO
        | {name: rand(4, 5) for name in ("values", "returns", "entropy", "old_values")}
        | {"clip_eps": 0.2, "value_coef": 0.5, "entropy_coef": 0.01, "value_clip_eps": 0.2},
    },
    "divergences": {
        "kl_categorical": {"logits_q": rand(4, 7), "logits_p": rand(4, 7)},
        "kl_gaussian": {name: 0.1 + rand(4, 7) for name in ("mean_q", "std_q", "mean_p", "std_p")},
        **{name: {"logp_q": -rand(4), "logp_p": -rand(4)} for name in ("k1", "k2", "k3")},
    },
    "diagnostics": {
        "normalize": {"advantages": rand(4, 5)},
        "explained_variance": {"values": rand(4, 5), "returns": rand(4, 5)},
        "effective_sample_size": {"log_ratio": rand(4, 5)},
        "ratios": {"log_ratio": rand(4, 5), "advantages": rand(4, 5)},
        "clip_fraction": {"log_ratio": rand(4, 5)},
        "flat_fraction": {"log_ratio": rand(4, 5), "advantages": rand(4, 5)},
        "clip_range": {"clip_eps": 0.2, "clip_eps_high": 0.3},
        "gradient_variance": {"gradients": rand(4, 5)},
    },
    "preferences": {
        "bradley_terry_loss": {"chosen_rewards": rand(4), "rejected_rewards": rand(4)},
        "dpo_loss": PAIR | REFERENCE,
        "ipo_loss": PAIR | REFERENCE,
        "simpo_loss": PAIR | LENGTHS,
        "kto_loss": {
            "logp": -rand(4),
            "ref_logp": -rand(4),
            "desirable": torch.tensor([1, 0, 1, 0]),
            "kl": 0.1,
        },
    },
    "adaptive_kl": {"AdaptiveKLCoefficient": {"value": 0.2, "target": 0.01}},
    "policies": {
        "MLP": {"sizes": [4, 8, 2]},
        "SharedTrunk": {"network": MLP([4, 8, 2])},
        "orthogonal_linear": {"n_in": 3, "n_out": 2, "gain": 1.0},
        "CategoricalPolicy": {"obs_dim": 4, "n_actions": 2, "hidden": (8,)},
        "GaussianPolicy": {"obs_dim": 4, "act_dim": 2, "hidden": (8,)},
        "MultiCategoricalPolicy": {"obs_dim": 4, "nvec": (3, 2), "hidden": (8,)},
        "TabularPolicy": {"n_states": 5, "n_actions": 2},
        "TabularValue": {"n_states": 5},
        "ValueFunction": {"obs_dim": 4, "hidden": (8,)},
        "RunningNorm": {"shape": (4,)},
        "RewardScale": {"num_envs": 2, "gamma": 0.9},
        "Categorical": {"logits": rand(3, 2)},
        "Gaussian": {"mean": rand(3, 2), "std": rand(3, 2)},
        "MultiCategorical": {"logits": rand(3, 5), "nvec": (3, 2)},
        "policy_for": {"observation_space": BOX, "action_space": DISCRETE, "hidden": (8,)},
        "value_for": {"observation_space": BOX, "hidden": (8,)},
        "actor_critic_for": {"observation_space": BOX, "action_space": DISCRETE, "hidden": (8,)},
        "together": {"policy": POLICY, "value": VALUE, "observations": OBSERVATIONS},
    },
    "envs": {
        "TabularMDP": {name: getattr(MDP, name) for name in ("P", "R", "gamma", "start", "terminal")},
        "chain": {},
        "gridworld": {},
        "chain_env": {"length": 5},
        "gridworld_env": {"slip": 0.1},
        "TabularEnv": {"mdp": MDP},
        "make_env": {"env": "ppobook/Chain-v0"},
        "env_maker": {"env": "ppobook/Chain-v0"},
        "env_seeds": {"seed": 0, "num_envs": 2},
        "SameStepVectorEnv": {"makers": [lambda: TabularEnv(MDP)]},
    },
    "rollouts": {"Collector": {"envs": ENVS, "policy": POLICY}},
    "episodes": {
        "critic_values": {"value": VALUE, "rollout": ROLLOUT},
        "collect_episodes": {"collector": COLLECTOR, "at_least": 2},
        "whole_episodes": {"rollout": ROLLOUT, "at_least": 1},
        "episode_starts": {"rollout": ROLLOUT},
    },
    "evaluation": {
        "evaluate": {"policy": POLICY, "env": "CartPole-v1", "episodes": 1},
        "aggregate": {"values": rand(5), "resamples": 10},
    },
    "trpo": {
        "fisher_vector_product": {
            "policy": POLICY,
            "observations": OBSERVATIONS,
            "v": torch.zeros(sum(p.numel() for p in POLICY.parameters())),
        },
        "fisher_matrix": {"policy": POLICY, "observations": OBSERVATIONS},
        "conjugate_gradient": {"matvec": lambda x: x, "b": rand(3)},
        "line_search": {
            "gain": lambda x: (1.0, 0.0),
            "start": torch.zeros(2),
            "step": torch.ones(2),
            "max_kl": 0.01,
        },
    },
    "experiments": {"facts": {"name": names()[0]}, "results": {"name": names()[0]}},
    "language": {
        "World": {},
        "WordTokenizer": {"words": ["a", "b"]},
        "DecoderConfig": SIZES,
        "Decoder": {"config": DecoderConfig(**SIZES)},
        "Scalar": {"body": MODEL},
        "RewardModel": {"body": MODEL},
        "Completions": {name: getattr(DONE, name) for name in Completions.__dataclass_fields__},
        "Pairs": {"chosen": DONE, "rejected": DONE},
        "Prompts": {"tokens": PROMPTS, "mask": PROMPT_MASK},
        "examples_of": {"data": [{"prompt": "fox", "completion": "owl"}], "tokenizer": WORDS},
        "prompts_of": {"data": [{"prompt": "fox"}], "tokenizer": WORDS},
        "pairs_of": {
            "data": [{"prompt": "fox", "chosen": "owl", "rejected": "fox"}],
            "tokenizer": WORDS,
        },
        "labelled_of": {
            "data": [{"prompt": "fox", "completion": "owl", "label": True}],
            "tokenizer": WORDS,
        },
        "left_pad": {"rows": [[1, 2], [3]], "pad": 0},
        "right_pad": {"rows": [[1, 2], [3]], "pad": 0},
        "completion_logits": {"model": MODEL, "completions": DONE},
        "completion_values": {"model": REWARD, "completions": DONE},
        "token_entropy": {"logits": rand(3, 2)},
        "token_logp": {"logits": rand(3, 2), "tokens": torch.tensor([0, 1, 1])},
        "generate": {
            "model": MODEL,
            "prompts": PROMPTS[:2],
            "prompt_mask": PROMPT_MASK[:2],
            "max_new_tokens": 3,
            "generator": generator(),
        },
        "sequence_kl": {"model": MODEL, "reference": OTHER, "completions": DONE},
        "group_advantages": {"rewards": rand(6), "group_size": 2},
        "calibration": {"reward_model": REWARD, "pairs": PAIRS},
        "calibration_error": {"table": calibration(REWARD, PAIRS)},
        "best_of_n_curve": {"scores": rand(3, 4), "ns": [1, 2]},
        "best_of_n_kl": {"n": 2},
        "best_of_n_kl_exact": {"probs": [0.5, 0.5], "rewards": [0.0, 1.0], "n": 2},
        "load_model": {"path": "decoder.pt"},
        "save_model": {"model": MODEL, "path": "decoder.pt"},
    },
    "teaching.figures": {
        "baseline": {},
        "best_baseline": {"probs": [0.5, 0.5], "rewards": [1.0, 2.0]},
        "beta_explorer": {},
        "clip_explorer": {},
        "clip_sample": {"ratio": 1.0, "advantage": 1.0},
        "dpo_pair": {},
        "drawn_film": {"episodes": {"a": [np.eye(4)]}, "ground": np.eye(4), "alt": "a film"},
        "entropy_runs": {"entropy_coef": 0.1, "updates": 2, "seeds": 2},
        "film": {"games": {"a": np.eye(4)}},
        "gae_error": {"mdp": MDP, "probs": PROBS, "critic": np.zeros(MDP.n_states), "lam": 0.5},
        "gae_explorer": {},
        "lag_explorer": {},
        "measured_maps": {},
        "pair_moved": {"ref_probs": [0.5, 0.3, 0.2], "feature": [0.0, 1.0, 2.0], "pair": (1, 0), "h": 0.5},
        "simplex_step": {"method": "trpo"},
        "single_pull": {"probs": [0.5, 0.5], "rewards": [1.0, 2.0], "baseline": 0.0},
        "source": {"module": "baseline"},
        "token_ratios": {"texts": {"a text": SPOKEN}, "steps": [0, 1]},
        "trust_region_step": {},
        "Figure": {"module": "baseline", "state": {}, "alt": "a film", "plain": "a film"},
    },
    "teaching.style": {
        "colour": {"name": "vanilla"},
        "linestyle": {"policy": "new"},
        "mean_interval": {"curves": rand(4, 5)},
    },
}
# Public, and not called here.
EXEMPT = {
    "envs": {
        "EnvMaker": "made by env_maker",
        "Episodes": "a result",
        "Probe": "a result",
        "has_id": "of the library's own",
        "climb": "its own tests pass learners of all kinds",
        "list_envs": "takes nothing",
    },
    "policies": {"Distribution": "abstract", "Policy": "a protocol"},
    "rollouts": {
        **dict.fromkeys(("Rollout", "Episode"), "a result"),
        **dict.fromkeys(("PlainActor", "refuse_unless_it_fits", "refuse_no_policy"), "of the library's own"),
    },
    "episodes": dict.fromkeys(("episode_totals", "mean"), "of the library's own"),
    "divergences": {"at_least_float32": "of the library's own"},
    "diagnostics": {"ratio_means": "of the library's own"},
    "evaluation": {"Estimate": "a result"},
    "trpo": {"TRPO": "made by train", "Found": "a result"},
    "experiments": {
        "names": "takes nothing",
        "results_folder": "takes nothing",
        "record": "starts processes: tests/experiments",
    },
    "language": {
        **dict.fromkeys(("LanguageModel", "Tokenizer"), "a protocol"),
        **dict.fromkeys(("Evaluation", "Run", "Task"), "a result"),
        "Stage": "abstract",
        "variants": "takes nothing",
        **dict.fromkeys(("compare", "evaluate"), "tests/language/test_evaluating.py"),
        **dict.fromkeys(("train", "load", "held_out", "ladder"), "tests/language/test_{training,reward}.py"),
        **dict.fromkeys(("open_pretrained", "save_pretrained"), "tests/language/test_hf.py"),
    },
    "teaching.figures": {
        **dict.fromkeys(("ClipSample", "GaeError", "LossBatch", "PairMoved", "SimplexStep"), "a result"),
        "modules": "takes nothing",
        **dict.fromkeys(("entropy_collapse", "lambda_sweep", "loss_batch", "loss_parts"), "a second a call"),
    },
    "teaching.style": {
        **dict.fromkeys(("settings", "use"), "takes nothing"),
        **dict.fromkeys(("seeds", "label_curves"), "draws"),
    },
}


@pytest.mark.parametrize("room", CALLS)
def test_each_public_name_is_here(room):
    assert public(room) == CALLS[room].keys() | EXEMPT.get(room, {}).keys()


ROWS = [(room, name) for room, calls in CALLS.items() for name in calls]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("kinds")
    save_model(MODEL, path / "decoder.pt")
    return path


@pytest.mark.parametrize(("room", "name"), ROWS)
def test_wrong_kinds(room, name, folder, monkeypatch):
    monkeypatch.chdir(folder)
    function, given = getattr(import_module(f"ppobook.{room}"), name), CALLS[room][name]
    function(**given)
    assert not (wrong := refused(function, given)), "\n".join(wrong)
