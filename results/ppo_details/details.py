"""PPO with one detail changed at a time: what the three experiments `ppo_details…` share.

The base is the library's preset of each environment, with the same details in all three: advantages are
normalized over each minibatch, rewards scaled, gradients clipped at 0.5, and the learning rate falls to 0.
Each other case differs from it in one thing.
"""

import dataclasses
import math

import torch
from torch import nn

from ppobook import evaluate, train
from ppobook.batches import Shuffle
from ppobook.ppo import PPO

STEPS = {"CartPole-v1": 15_000, "Acrobot-v1": 30_000, "Pendulum-v1": 40_000}
BASE = {"normalize_rewards": True, "lr_final": 0.0, "clip_eps_final": None, "entropy_coef": 0.0}


class TorchInit(PPO):
    """Initial weights as PyTorch's Linear draws them."""

    def networks(self, observation_space, action_space, seed):
        policy, value = super().networks(observation_space, action_space, seed)
        generator = torch.Generator().manual_seed(seed)
        for layer in [*policy.network.modules(), *value.network.modules()]:
            if isinstance(layer, nn.Linear):
                nn.init.kaiming_uniform_(layer.weight, a=math.sqrt(5), generator=generator)
                bound = 1 / math.sqrt(layer.in_features)
                nn.init.uniform_(layer.bias, -bound, bound, generator=generator)
        return policy, value


class LargeLastLayer(PPO):
    """The policy's last layer with gain 1 in place of 0.01."""

    def networks(self, observation_space, action_space, seed):
        policy, value = super().networks(observation_space, action_space, seed)
        with torch.no_grad():
            policy.network.layers[-1].weight.mul_(100)
        return policy, value


class InOrder(Shuffle):
    """No shuffling: the steps in the order of time."""

    def order(self, n):
        return torch.arange(n)


class Unshuffled(PPO):
    """The same minibatches in every epoch."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.shuffle = InOrder(0)


class TruncationIsTheEnd(PPO):
    """After the last step that a time limit allows, the next value counts as 0."""

    def advantages(self, rollout):
        ended = rollout.terminated | rollout.truncated
        never = torch.zeros_like(ended)
        return super().advantages(dataclasses.replace(rollout, terminated=ended, truncated=never))


CASES = {
    "base": (PPO, {}),
    "advantages not normalized": (PPO, {"normalize_advantages": "none"}),
    "advantages over the batch": (PPO, {"normalize_advantages": "batch"}),
    "lambda 1": (PPO, {"lam": 1.0}),
    "value clipping": (PPO, {"value_clip_eps": 0.2}),
    "no gradient clipping": (PPO, {"max_grad_norm": None}),
    "constant learning rate": (PPO, {"lr_final": None}),
    "clip range decays": (PPO, {"clip_eps_final": 1e-3}),
    "entropy bonus 0.01": (PPO, {"entropy_coef": 0.01}),
    "Adam eps 1e-8": (PPO, {"adam_eps": 1e-8}),
    "PyTorch's initial weights": (TorchInit, {}),
    "large last layer": (LargeLastLayer, {}),
    "no shuffling": (Unshuffled, {}),
    "observations normalized": (PPO, {"normalize_observations": True}),
    "rewards not scaled": (PPO, {"normalize_rewards": False}),
    "shared trunk": (PPO, {"shared_trunk": True}),
    "truncation is the end": (TruncationIsTheEnd, {}),
    "one epoch": (PPO, {"epochs": 1}),
    "no clip": (PPO, {"clip_eps": 1e6}),
}


def one(seed: int, env: str, case: str) -> dict:
    learner, changed = CASES[case]
    settings = BASE | changed
    run = train(learner, env=env, seed=seed, total_steps=STEPS[env], progress=False, **settings)
    played = evaluate(run.policy, env, episodes=50, seed=10_000 + seed)
    history = run.history
    return {
        "final": played["mean"],
        "while_learning": history["return_mean"].mean(),
        "largest_kl": history["approx_kl"].max(),
        "explained_variance": history["explained_variance"].tail(5).mean(),
        "value_loss": history["value_loss"].tail(5).mean(),
    }
