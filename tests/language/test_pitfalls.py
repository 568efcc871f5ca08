"""The mistakes that implementations make on tokens, planted one by one: slow updates find each.

The slow updates of GRPO and PPO go text by text and token by token, on rows without padding, and use no
function of the library. A step of the stage has to end with their weights. Each pitfall changes one thing
that the step calls, as an edit of somebody would, and then the weights must differ.
"""

import copy
import math

import pytest
import torch
from language_stages import gold, grpo, log_probs, ppo, rows_of, token_log_probs
from torch.nn.utils import clip_grad_norm_

from ppobook.language import grpo as grpo_file
from ppobook.language import on_policy
from ppobook.language import ppo as ppo_file

ALIKE = {"num_minibatches": 2, "epochs": 2, "lr": 0.01, "clip_eps": 0.1, "temperature": 0.8}
GRPO = {**ALIKE, "kl_coef": 0.2, "kl_estimator": "k3", "kl_in": "loss", "batch_size": 12}
PPO = {**ALIKE, "kl_coef": 0.2, "kl_estimator": "k1", "entropy_coef": 0.05, "value_coef": 0.6, "lam": 0.9}


def weights_of(*modules):
    return torch.cat([w.detach().flatten() for module in modules for w in module.parameters()])


def clipped(logp, old_logp, advantage, eps):
    ratio = (logp - old_logp).exp()
    return torch.minimum(ratio * advantage, ratio.clamp(1 - eps, 1 + eps) * advantage)


def steps(parts, loss_of, modules, settings):
    """Two epochs of Adam on the loss of each part, by rows."""
    weights = [w for module in modules for w in module.parameters()]
    optimizer = torch.optim.Adam(weights, settings.lr)
    for rows in parts:
        optimizer.zero_grad()
        loss_of(rows).backward()
        clip_grad_norm_(weights, settings.max_grad_norm or math.inf)
        optimizer.step()
    return weights_of(*modules)


def slow_grpo(made):
    s, model = made.settings, copy.deepcopy(made.model)
    experience, _ = made.make_experience(0)
    texts = rows_of(experience.completions)
    rewards = gold(experience.completions).tolist()
    advantages = []
    for i in range(len(texts)):
        group = rewards[i // s.group_size * s.group_size :][: s.group_size]
        mean = sum(group) / len(group)
        std = math.sqrt(sum((r - mean) ** 2 for r in group) / (len(group) - 1))
        advantages.append((rewards[i] - mean) / (std + 1e-4))
    with torch.no_grad():
        old = [token_log_probs(model, *text, s.temperature) for text in texts]
        ref = [token_log_probs(made.reference, *text, s.temperature) for text in texts]

    def loss_of(rows):
        total = 0.0
        for i in rows:
            logp = token_log_probs(model, *texts[i], s.temperature)
            far = ref[i] - logp
            token = clipped(logp, old[i], advantages[i], s.clip_eps) - s.kl_coef * (far.exp() - 1 - far)
            total = total - token.mean() / len(rows)
        return total

    def parts():
        for _ in range(s.epochs):
            order = torch.randperm(len(texts) // s.group_size, generator=made.generator)
            for groups in order.tensor_split(s.num_minibatches):
                yield [g * s.group_size + j for g in groups.tolist() for j in range(s.group_size)]

    return steps(parts(), loss_of, [model], s)


def slow_ppo(made):
    s, model, critic = made.settings, copy.deepcopy(made.model), copy.deepcopy(made.critic)
    experience, _ = made.make_experience(0)
    texts = rows_of(experience.completions)
    rewards = gold(experience.completions).tolist()

    def values(prompt, said):
        return critic(torch.tensor([prompt + said]))[0][len(prompt) - 1 : -1]

    with torch.no_grad():
        old = [token_log_probs(model, *text, s.temperature) for text in texts]
        ref = [token_log_probs(made.reference, *text, s.temperature) for text in texts]
        v = [values(*text).tolist() for text in texts]
    advantages, targets = [], []
    for i in range(len(texts)):
        pay = [-s.kl_coef * (a - b).item() for a, b in zip(old[i], ref[i], strict=True)]
        pay[-1] += rewards[i]
        following, column = 0.0, []
        for t in reversed(range(len(pay))):
            after = v[i][t + 1] if t + 1 < len(pay) else 0.0
            following = pay[t] + s.gamma * after - v[i][t] + s.gamma * s.lam * following
            column.insert(0, following)
        advantages.append(column)
        targets.append([a + b for a, b in zip(column, v[i], strict=True)])
    every = [a for column in advantages for a in column]
    mean = sum(every) / len(every)
    std = math.sqrt(sum((a - mean) ** 2 for a in every) / len(every))

    def loss_of(rows):
        total, tokens = 0.0, sum(len(advantages[i]) for i in rows)
        for i in rows:
            prompt, said = texts[i]
            log_p = log_probs(model, prompt, said, s.temperature)[: len(said)]
            logp = torch.stack([row[y] for row, y in zip(log_p, said, strict=True)])
            a = (torch.tensor(advantages[i], dtype=torch.float64) - mean) / (std + 1e-8)
            error = (values(prompt, said) - torch.tensor(targets[i], dtype=torch.float64)) ** 2 / 2
            entropy = -(log_p.exp() * log_p).sum(-1)
            token = -clipped(logp, old[i], a, s.clip_eps) + s.value_coef * error - s.entropy_coef * entropy
            total = total + token.sum() / tokens
        return total

    def parts():
        for _ in range(s.epochs):
            order = torch.randperm(len(texts), generator=made.generator)
            yield from (rows.tolist() for rows in order.tensor_split(s.num_minibatches))

    return steps(parts(), loss_of, [model, critic], s)


def make(name):
    return grpo(**GRPO) if name == "grpo" else ppo(**PPO)


def stepped(name):
    made = make(name)
    made.step(0)
    return weights_of(made.model) if name == "grpo" else weights_of(made.model, made.critic)


@pytest.fixture(scope="module")
def wanted():
    return {"grpo": slow_grpo(make("grpo")), "ppo": slow_ppo(make("ppo"))}


@pytest.mark.parametrize("name", ["grpo", "ppo"])
def test_a_step_is_the_papers(name, wanted):
    torch.testing.assert_close(stepped(name), wanted[name], rtol=1e-6, atol=1e-7)


# --- what goes wrong --------------------------------------------------------------------------------------


def changed(function, change):
    """A function called with other arguments."""

    def wrong(*given, **settings):
        return function(*change(*given), **settings)

    return wrong


def all_count(function):
    return lambda *given, mask=None, **settings: function(*given, **settings)


GROUP, CLIP, KL = grpo_file.group_advantages, grpo_file.clipped_surrogate_loss, on_policy.kl_estimate
SCORE = on_policy.Sampling.score
GAE, LOSS = ppo_file.gae, ppo_file.ppo_loss


def rolled(self, completions, columns):
    return SCORE(self, completions, columns).roll(1)


PITFALLS = {
    "grpo": {
        "rewards of others": (on_policy.Sampling, "score", rolled),
        "groups mixed up": (
            grpo_file,
            "group_advantages",
            changed(GROUP, lambda rewards, size: (rewards.view(-1, size).T.reshape(-1), size)),
        ),
        "advantage sign": (grpo_file, "group_advantages", lambda *x, **how: -GROUP(*x, **how)),
        "KL exchanged": (grpo_file, "kl_estimate", changed(KL, lambda e, p, q, *w: (e, q, p, *w))),
        "the policy as reference": (
            on_policy.Sampling,
            "reference_logp",
            lambda self, c: self.compute_logp(self.model, c),
        ),
        "padding counted": (grpo_file, "clipped_surrogate_loss", all_count(CLIP)),
        "old log-probs recomputed": (
            grpo_file,
            "clipped_surrogate_loss",
            changed(CLIP, lambda logp, old, *rest: (logp, logp.detach(), *rest)),
        ),
        "clip missing": (
            grpo_file,
            "clipped_surrogate_loss",
            changed(CLIP, lambda logp, old, a, eps: (logp, old, a, 0.999)),
        ),
        "shift by one token": (
            grpo_file,
            "completion_logits",
            lambda model, c: _LOGITS(model, c).roll(1, dims=1),
        ),
        "temperature forgotten": (
            grpo_file,
            "token_logp_and_entropy",
            lambda logits, tokens, temperature, mask, **how: _LOGP(logits, tokens, 1.0, mask, **how),
        ),
    },
    "ppo": {
        "KL exchanged": (ppo_file, "kl_estimate", changed(KL, lambda e, p, q, *w: (e, q, p, *w))),
        "reward at the wrong token": (
            ppo_file.PPO,
            "token_rewards",
            lambda self, c, r, ref: _REWARDS(self, c, r, ref).roll(-1, dims=1),
        ),
        "the end not terminal": (
            ppo_file,
            "gae",
            changed(GAE, lambda r, v, done, cut, final: (r, v, done & False, cut & False, final)),
        ),
        "padding counted": (ppo_file, "ppo_loss", all_count(LOSS)),
        "entropy sign": (
            ppo_file,
            "ppo_loss",
            changed(LOSS, lambda logp, old, a, v, r, h: (logp, old, a, v, r, -h)),
        ),
        "values shifted by one token": (
            ppo_file,
            "completion_values",
            lambda critic, c: _VALUES(critic, c).roll(1, dims=1),
        ),
    },
}
_LOGITS, _LOGP = grpo_file.completion_logits, grpo_file.token_logp_and_entropy
_REWARDS, _VALUES = ppo_file.PPO.token_rewards, ppo_file.completion_values


@pytest.mark.parametrize(("name", "pitfall"), [(name, x) for name in PITFALLS for x in PITFALLS[name]])
def test_a_pitfall_is_found(name, pitfall, wanted, monkeypatch):
    monkeypatch.setattr(*PITFALLS[name][pitfall])
    found = stepped(name)
    assert found.isfinite().all()
    with pytest.raises(AssertionError):
        torch.testing.assert_close(found, wanted[name], rtol=1e-3, atol=1e-4)
