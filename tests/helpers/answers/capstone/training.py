"""Answers to stage 5, the loop, and to stage 6."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import nn
from torch.distributions import Categorical

from . import advantages as _gae
from . import collecting as _rollout
from . import updates as _update
from .variants import changes


def networks(size, actions):
    def make(outputs, gain):
        first, second, last = nn.Linear(size, 64), nn.Linear(64, 64), nn.Linear(64, outputs)
        nn.init.orthogonal_(last.weight, gain)
        return nn.Sequential(first, nn.Tanh(), second, nn.Tanh(), last)

    return make(actions, 0.01), make(1, 1.0)


PARTS = {
    "networks": networks,
    "rollout": _rollout.like_cleanrl,
    "gae": _gae.like_cleanrl,
    "update": _update.cleanrl,
}
DEFAULTS = "epochs=6, minibatches=4, clip_eps=0.2, value_coef=0.5, entropy_coef=0.0, max_grad_norm=0.5"
BASE = """
def train(env_id, seed, total_steps, num_envs=32, num_steps=32, lr=2.5e-3, gamma=0.98, lam=0.95, **settings):
    defaults = dict(DEFAULTS)
    np.random.seed(seed)
    torch.manual_seed(seed)
    makers = [lambda: gym.make(env_id) for _ in range(num_envs)]
    envs = SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
    policy, critic = networks(envs.single_observation_space.shape[0], envs.single_action_space.n)
    parameters = list(policy.parameters()) + list(critic.parameters())
    optimizer = torch.optim.Adam(parameters, lr, eps=1e-5)
    obs, _ = envs.reset(seed=seed)
    made, history = 0, []
    while made < total_steps:
        batch, obs = rollout(envs, obs, policy, critic, num_steps)
        made += num_envs * num_steps
        keys = ("rewards", "values", "terminated", "truncated", "final_values")
        parts = [batch[k].bool() if k in keys[2:4] else batch[k] for k in keys]
        batch["advantages"], batch["returns"] = gae(*parts, gamma, lam)
        kl = update(policy, critic, optimizer, batch, **(defaults | settings))
        ended = (parts[2] | parts[3]).sum().item()
        history.append(dict(steps=made, episodes=ended, approx_kl=kl))
    return policy, critic, history
""".replace("DEFAULTS", DEFAULTS)
but = changes(BASE, **PARTS)
patient = changes(BASE, **PARTS | {"rollout": _rollout.Buffer()})  # takes no final_obs for no end


class Trainer:
    """An object with everything in its attributes; environments by a loop of makers, seeds as a list."""

    def __call__(
        self, env_id, seed, total_steps, num_envs=32, num_steps=32, lr=2.5e-3, gamma=0.98, lam=0.95, **more
    ):
        torch.manual_seed(1000 + seed)
        self.envs = SyncVectorEnv(
            [self.maker(env_id) for _ in range(num_envs)], autoreset_mode=AutoresetMode.SAME_STEP
        )
        seeds = [int(x) for x in np.random.SeedSequence(seed).generate_state(num_envs)]
        self.obs = self.envs.reset(seed=seeds)[0]
        self.policy, self.critic = networks(self.obs.shape[-1], int(self.envs.single_action_space.n))
        self.nets = nn.ModuleList([self.policy, self.critic])
        self.optimizer = torch.optim.Adam(self.nets.parameters(), lr=lr, eps=1e-5)
        self.more = eval(f"dict({DEFAULTS})") | more
        updates = total_steps // (num_envs * num_steps)
        self.history = [self.update(k, num_envs * num_steps, num_steps, gamma, lam) for k in range(updates)]
        return self.policy, self.critic, self.history

    @staticmethod
    def maker(env_id):
        return lambda: gym.make(env_id)

    def update(self, k, size, steps, gamma, lam):
        batch, self.obs = _rollout.Buffer()(self.envs, self.obs, self.policy, self.critic, steps)
        ends = batch["terminated"], batch["truncated"]
        a, g = _gae.Estimator()(batch["rewards"], batch["values"], *ends, batch["final_values"], gamma, lam)
        batch |= {"advantages": a, "returns": g}
        kl = _update.Updater()(self.policy, self.critic, self.optimizer, batch, **self.more)
        return {"steps": (k + 1) * size, "episodes": int((ends[0] | ends[1]).sum()), "approx_kl": kl}


def functional(
    env_id, seed, total_steps, num_envs=8, num_steps=128, lr=1e-3, gamma=0.99, lam=0.95, **settings
):
    torch.random.manual_seed(seed)
    mode = {"autoreset_mode": AutoresetMode.SAME_STEP}
    envs = gym.make_vec(env_id, num_envs, vectorization_mode="sync", vector_kwargs=mode)
    nets = networks(envs.single_observation_space.shape[0], envs.single_action_space.n)
    optimizer = torch.optim.Adam([{"params": net.parameters()} for net in nets], lr=lr, eps=1e-5)

    def go_on(obs, made, history):
        if made >= total_steps:
            return history
        batch, obs = _rollout.RIGHT["capstone-rollout"][2](envs, obs, *nets, num_steps)
        flags = batch["terminated"], batch["truncated"]
        found = _gae.functional(batch["rewards"], batch["values"], *flags, batch["final_values"], gamma, lam)
        batch = {**batch, **dict(zip(("advantages", "returns"), found, strict=True))}
        kl = _update.RIGHT["capstone-update"][2](
            *nets, optimizer, batch, **(eval(f"dict({DEFAULTS})") | settings)
        )
        made += num_envs * num_steps
        row = {"steps": made, "episodes": (flags[0] | flags[1]).sum(), "approx_kl": kl}
        return go_on(obs, made, [*history, row])

    return *nets, go_on(envs.reset(seed=seed)[0], 0, [])


MAKE = "optimizer = torch.optim.Adam(parameters, lr, eps=1e-5)"
LOOK = "        batch, obs = rollout"
EVALUATE = """
def evaluate(policy, env_id, episodes, seed):
    torch.manual_seed(seed)
    env = gym.make(env_id)
    found = []
    for k in range(episodes):
        obs, _ = env.reset(seed=seed if k == 0 else None)
        rewards = []
        while True:
            with torch.no_grad():
                p = policy(torch.tensor(obs)).softmax(-1)
            obs, r, terminated, truncated, _ = env.step(int(torch.multinomial(p, 1)))
            rewards.append(r)
            if terminated or truncated:
                break
        found.append(sum(rewards))
    return np.array(found)
"""
look = changes(EVALUATE)


def seeded_each(policy, env_id, episodes, seed):
    env, rng = gym.make(env_id), np.random.default_rng(seed)

    def play(k):
        obs, over, total = env.reset(seed=seed * 1000 + k)[0], False, 0.0
        while not over:
            p = policy(torch.as_tensor(obs).float()[None]).softmax(-1)[0].detach().double().numpy()
            obs, reward, *ends, _ = env.step(rng.choice(len(p), p=p / p.sum()))
            total, over = total + reward, any(ends)
        return total

    return np.array([play(k) for k in range(episodes)])


TWO_OPTIMIZERS = """
    class Both:
        def zero_grad(self):
            [one.zero_grad() for one in optimizers]

        def step(self):
            [one.step() for one in optimizers]

    optimizer = Both()
"""
RESET_IS_DROPPED = """
        after, _ = env.reset(seed=seed if k == 0 else None)
        obs = after if k == 0 else obs"""


def side_by_side(policy, env_id, episodes, seed):
    """The first episodes to end, of eight environments."""
    torch.manual_seed(seed)
    mode = AutoresetMode.SAME_STEP
    envs = SyncVectorEnv([lambda: gym.make(env_id) for _ in range(8)], autoreset_mode=mode)
    obs, _ = envs.reset(seed=seed)
    totals, found = np.zeros(8), []
    while len(found) < episodes:
        with torch.no_grad():
            actions = torch.multinomial(policy(torch.tensor(obs)).softmax(-1), 1)[:, 0]
        obs, rewards, terminated, truncated, _ = envs.step(actions.numpy())
        totals += rewards
        for i in np.flatnonzero(terminated | truncated):
            found.append(totals[i])
            totals[i] = 0
    return np.array(found[:episodes])


def a_new_one_each(policy, env_id, episodes, seed):
    """A new environment for each episode."""
    found = np.zeros(episodes, dtype=np.float32)
    torch.manual_seed(seed)
    for k in range(episodes):
        env = gym.make(env_id)
        obs, _ = env.reset(seed=seed + 1_000 * k)
        done = False
        while not done:
            action = Categorical(logits=policy(torch.from_numpy(obs)).detach()).sample()
            obs, reward, terminated, truncated, _ = env.step(int(action))
            found[k] += reward
            done = terminated or truncated
        env.close()
    return found


class Controller(nn.Module):
    """On CartPole, the way in which the pole leans and falls; in a probe, the exact answer."""

    def __init__(self, env_id, scale=10.0):
        super().__init__()
        self.env_id, self.scale = env_id, scale

    def forward(self, x):
        if self.env_id == "CartPole-v1":
            push = x[..., 2] + 0.5 * x[..., 3] + 0.02 * x[..., 0] + 0.05 * x[..., 1]
            return self.scale * torch.stack([-push, push], -1) * 10
        if self.env_id.endswith(("Action-v0", "Both-v0")):
            right = (x[..., 0] >= 0).float()
            return self.scale * torch.stack([1 - right, right], -1)
        return torch.zeros(*x.shape[:-1], 1)


class Oracle(nn.Module):
    """The value of a probe's observation, in a last axis of its own."""

    def __init__(self, env_id, gamma):
        super().__init__()
        self.env_id, self.gamma = env_id, gamma

    def forward(self, x):
        if "Constant" in self.env_id:
            return torch.ones_like(x[..., :1])
        if "Discount" in self.env_id:
            return x[..., :1] + self.gamma * (1 - x[..., :1])
        return x[..., :1]


class Fixed(nn.Module):
    """The same outputs everywhere."""

    def __init__(self, *outputs):
        super().__init__()
        self.outputs = torch.tensor(outputs)

    def forward(self, x):
        return self.outputs.expand(*x.shape[:-1], len(self.outputs))


def learned(policy=None, critic=None, on=""):
    """A learner whose networks are those of a master, but for the environments whose id holds `on`."""

    def learn(env_id, seed, total_steps, gamma):
        nets = [Controller(env_id, 10.0 + seed), Oracle(env_id, gamma)]
        if on in env_id:
            nets = [
                other(env_id, seed) if other else net
                for other, net in zip((policy, critic), nets, strict=True)
            ]
        return tuple(nets)

    return learn


def says(*outputs):
    return lambda env_id, seed: Fixed(*outputs)


class Blind(Controller):
    def forward(self, x):
        return super().forward(torch.zeros_like(x))


class Backwards(Controller):
    def forward(self, x):
        return -super().forward(x)


RIGHT = {
    "capstone-loop": [but(), Trainer(), functional],
    "capstone-evaluate": [look(), seeded_each, a_new_one_each],
    "capstone-learning": [learned(), learned(lambda env_id, seed: Controller(env_id, 4.0 + 0.1 * seed))],
}
WRONG = {
    "capstone-loop": {
        "no environment is played": but("gym.make(env_id)", "gym.make('CartPole-v1')"),
        "another number of environments": but("range(num_envs)]", "range(8)]"),
        "resets are taken for steps": [
            patient(", autoreset_mode=AutoresetMode.SAME_STEP", ""),
            patient("AutoresetMode.SAME_STEP", "AutoresetMode.NEXT_STEP"),
        ],
        "final_obs is not there": but("AutoresetMode.SAME_STEP", "AutoresetMode.NEXT_STEP"),
        "one rollout more or less": [
            but("while made < total_steps", "while made <= total_steps"),
            but("made, history = 0, []", "made, history = num_envs * num_steps, []"),
        ],
        "total_steps counts something else": but(
            "while made < total_steps", "while made < total_steps * num_envs"
        ),
        "the environments are reset for every rollout": but(
            LOOK, "        if made:\n            obs, _ = envs.reset()\n" + LOOK
        ),
        "the environments are reset again": but(
            LOOK, "        if made == num_envs * num_steps:\n            obs, _ = envs.reset()\n" + LOOK
        ),
        "the environments have no seed": but("envs.reset(seed=seed)", "envs.reset()"),
        "all environments have the same seed": but(
            "envs.reset(seed=seed)", "envs.reset(seed=[seed] * num_envs)"
        ),
        "the seed does not reach the environments": but("envs.reset(seed=seed)", "envs.reset(seed=0)"),
        "a seed at every reset": but(
            "gym.make(env_id) for",
            "Seeded(gym.make(env_id)) for",
            "    defaults =",
            "    class Seeded(gym.Wrapper):\n        def reset(self, *, seed=None, options=None):\n"
            "            self.last = seed if seed is not None else self.last\n"
            "            return self.env.reset(seed=self.last, options=options)\n    defaults =",
        ),
        "nothing is trained": but("kl = update(", "kl = 0.0 #"),
        "a new optimizer for every update": but("        kl = ", "        " + MAKE + "\n        kl = "),
        "more than one optimizer": but(
            "    obs, _ =",
            TWO_OPTIMIZERS + "    obs, _ =",
            MAKE,
            "optimizers = [torch.optim.Adam(net.parameters(), lr) for net in (policy, critic)]",
        ),
        "a setting does not reach the update": [
            but("(defaults | settings)", f"(defaults | settings | {{'{name}': {value}}})")
            for name, value in (
                ("clip_eps", 0.2),
                ("value_coef", 0.5),
                ("entropy_coef", 0.0),
                ("max_grad_norm", 0.5),
            )
        ],
        "episodes stand in another row": but(
            "    return policy,",
            "    history[0]['episodes'] += history[-1]['episodes']\n    history[-1]['episodes'] = 0\n"
            "    return policy,",
        ),
        "approx_kl is always the same": but("approx_kl=kl", "approx_kl=0.0"),
        "the policy is in no optimizer": [
            but("list(policy.parameters()) + ", ""),
            but(
                "return policy, critic, history",
                "import copy\n    return copy.deepcopy(policy), critic, history",
            ),
        ],
        "the critic is in no optimizer": but(" + list(critic.parameters())", ""),
        "settings do not reach the update": but("defaults | settings", "defaults"),
        "num_steps is not used": [
            but("policy, critic, num_steps)", "policy, critic, 8)"),
            but("made, history =", "num_steps = 8\n    made, history ="),
        ],
        "lr is not used": but("Adam(parameters, lr", "Adam(parameters, 3e-4"),
        "another optimizer than Adam": [
            but("optim.Adam(parameters, lr, eps=1e-5)", "optim.SGD(parameters, lr)"),
            but("optim.Adam(", "optim.AdamW("),
        ],
        "Adam's eps is another": but(", lr, eps=1e-5)", ", lr)"),
        "torch is seeded anew in every update": but(LOOK, "        torch.manual_seed(seed)\n" + LOOK),
        "the critic learns the advantages": [
            but('batch["advantages"], batch["returns"] =', 'batch["returns"], batch["advantages"] ='),
            but("        kl =", '        batch["returns"] = batch["advantages"]\n        kl ='),
        ],
        "the policy learns from the returns": but(
            "        kl =", '        batch["advantages"] = batch["returns"]\n        kl ='
        ),
        "the next rollout begins with old observations": but("batch, obs = rollout(", "batch, _ = rollout("),
        "gamma and lam are exchanged": but("gae(*parts, gamma, lam)", "gae(*parts, lam, gamma)"),
        "gamma does not reach stage 2": but("gae(*parts, gamma, lam)", "gae(*parts, 0.99, lam)"),
        "lam does not reach stage 2": but("gae(*parts, gamma, lam)", "gae(*parts, gamma, 0.95)"),
        "the same seed gives another run": [
            but("    torch.manual_seed(seed)\n", ""),
            but(
                "    torch.manual_seed(seed)\n",
                "",
                "    obs, _ =",
                "    torch.manual_seed(seed)\n    obs, _ =",
            ),
        ],
        "another seed gives the same run": but(
            "torch.manual_seed(seed)", "torch.manual_seed(0)", "random.seed(seed)", "random.seed(0)"
        ),
        "not one row an update": but(
            "        history.append(",
            "        if made % 2:\n            continue\n        if not history: history.append(",
        ),
        "steps are those of one environment": but("steps=made", "steps=made // num_envs"),
        "steps before the rollout, not after": but("steps=made", "steps=made - num_envs * num_steps"),
        "episodes are counted over and over": but(
            "episodes=ended", "episodes=ended + sum(row['episodes'] for row in history[-1:])"
        ),
        "only terminated episodes are counted": but("(parts[2] | parts[3])", "parts[2]"),
        "only truncated episodes are counted": but("(parts[2] | parts[3])", "parts[3]"),
    },
    "capstone-evaluate": {
        "no episode is played": look(
            "gym.make(env_id)", "gym.make('CartPole-v1')", "policy(torch.tensor(obs))", "torch.zeros(2)"
        ),
        "the likeliest action, not a drawn one": look("torch.multinomial(p, 1)", "p.argmax()"),
        "actions without the policy": look("torch.multinomial(p, 1)", "torch.randint(2, (1,))"),
        "the last reward is left out": look(
            "            rewards.append(r)\n",
            "",
            "                break\n",
            "                break\n            rewards.append(r)\n",
        ),
        "returns are discounted": look("sum(rewards)", "sum(0.99**k * r for k, r in enumerate(rewards))"),
        "truncated episodes are left out": look(
            "for k in range(episodes)",
            "for k in range(10 * episodes)",
            "        found.append",
            "        if terminated and len(found) < episodes: found.append",
        ),
        "episodes side by side, the first to end": side_by_side,
        "the returns add up": look(
            "        rewards = []\n", "", "    found = []", "    found, rewards = [], []"
        ),
        "lengths, not returns": look("sum(rewards)", "len(rewards)"),
        "every episode has the same seed": look("seed=seed if k == 0 else None", "seed=seed"),
        "the environment has no seed": look("seed=seed if k == 0 else None", ""),
        "the seed does nothing": look("seed=seed if k == 0", "seed=0 if k == 0"),
        "the environment's seed is another each time": look(
            "seed=seed if k == 0 else None", "seed=np.random.randint(2**31)"
        ),
        "every episode begins with the same action": look(
            "        rewards = []", "        torch.manual_seed(seed)\n        rewards = []"
        ),
        "the policy is asked about something else": [
            look("obs, r, terminated", "after, r, terminated"),
            look("obs, _ = env.reset(seed=seed if k == 0 else None)", RESET_IS_DROPPED),
        ],
        "chance is not seeded": look("    torch.manual_seed(seed)\n", ""),
    },
    "capstone-learning": {
        "rung 1: what follows an end is counted": learned(critic=says(2.0), on="Constant"),
        "rung 1: the value of a constant": learned(critic=says(0.0), on="Constant"),
        "rung 2: a value that depends on the observation": learned(critic=says(0.0), on="Observation"),
        "rung 3: another γ is used": learned(critic=says(1.0), on="Discount"),
        "rung 3: what comes later is not seen": learned(
            critic=lambda env_id, seed: Oracle("", 0), on="Discount"
        ),
        "rung 3: a reward one step later": learned(critic=says(0.7), on="Discount"),
        "rung 4: the worse action is learned": learned(lambda e, s: Backwards(e), on="Action"),
        "rung 4: no action is learned": learned(says(0.0, 0.0), on="Action"),
        "rung 5: observation and action together": learned(lambda e, s: Blind(e), on="Both"),
        "the seed changes nothing": learned(lambda e, s: Controller(e), on="CartPole"),
        "CartPole is not learned at all": learned(says(0.0, 0.0), on="CartPole"),
        "one seed learns, and another does not": learned(
            lambda e, s: Fixed(0.0, 0.0) if s == 12 else Controller(e, s), on="CartPole"
        ),
    },
}
UNNAMED = {
    "capstone-loop": [
        but("episodes=ended", "episodes=ended + 1"),
        but("steps=made", "steps=made + 1"),
        but("approx_kl=kl", "approx_kl=-kl"),
    ],
    "capstone-evaluate": [
        look("sum(rewards)", "sum(rewards) + 1"),
        look("sum(rewards)", "max(rewards)"),
        look("torch.multinomial(p, 1)", "torch.multinomial((3 * p).softmax(-1), 1)"),
    ],
    "capstone-learning": [learned(lambda e, s: Controller(e, 0.08 + 0.001 * s), on="CartPole")],
}
