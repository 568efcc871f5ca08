"""Chapter 3: what the clip, and the minimum in it, buy when a batch is used more and more often, on CartPole.

"no clip" climbs the plain surrogate; "clip, no min" climbs the mean of clip(r) A, which has no gradient
wherever a ratio is outside, on the wrong side too.
"""

from ppobook import evaluate, train
from ppobook.experiments import record
from ppobook.objectives import value_loss
from ppobook.policies import together
from ppobook.ppo import PPO

EPS = 0.2
COMMON = {
    "num_envs": 8,
    "num_steps": 128,
    "num_minibatches": 8,
    "lr": 1e-3,
    "gamma": 0.99,
    "lam": 0.95,
    "value_coef": 1.0,
    "entropy_coef": 0.0,
}
SETTINGS = [
    *({"case": "clip", "epochs": epochs} for epochs in (1, 10, 30)),
    *({"case": "no clip", "epochs": epochs} for epochs in (1, 10, 30)),
    {"case": "clip, no min", "epochs": 10},
]
KEPT = ["update", "steps", "return_mean", "entropy", "clip_fraction", "flat_fraction", "approx_kl", "final"]


class Plain(PPO):
    """PPO as the settings say, whatever the environment."""

    presets = {}  # noqa: RUF012


class NoMin(Plain):
    """The clipped term alone."""

    def loss(self, batch):
        now, values = together(self.policy, self.value, batch.observations)
        ratio = (now.logp(batch.actions) - batch.old_logp).exp()
        policy = -(ratio.clamp(1 - EPS, 1 + EPS) * batch.advantages).mean()
        outside = ((ratio - 1).abs() > EPS).float().mean()
        both = {"clip_fraction": outside, "flat_fraction": outside}
        return policy + value_loss(values, batch.returns), both


def one(seed: int, case: str, epochs: int) -> list[dict]:
    run = train(
        NoMin if case == "clip, no min" else Plain,
        env="CartPole-v1",
        seed=seed,
        total_steps=30_000,
        epochs=epochs,
        clip_eps=1e6 if case == "no clip" else EPS,
        progress=False,
        **COMMON,
    )
    final = evaluate(run.policy, "CartPole-v1", episodes=100, seed=10_000 + seed)
    return run.history.assign(final=final["mean"])[KEPT].to_dict("records")


if __name__ == "__main__":
    record(
        "clip_epochs",
        one,
        SETTINGS,
        seeds=range(100, 110),
        workers=1,
        digits=4,
        note="Everything but clip, epochs and learning rate is as in clip_compare; every seed reported.",
    )
