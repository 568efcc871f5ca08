"""A world of three tokens, where all that can be said is listed: whatever is trained, its optimum is known.

π* ∝ π_ref exp(R / β) is what E[R] − β KL(π, π_ref) is largest at. That PPO comes to it stands in
`test_ppo.py`, that DPO's loss on all preferences is least at it in `test_dpo.py`, and that
GRPO's gradient is on average a policy gradient in `test_grpo.py`. Here the other two roads to it are
gone by the real stages: leave-one-out, and online DPO of preferences that are Bradley and Terry's.
"""

import pytest
from three_tokens import far_from_optimum, given

from ppobook.language import grpo, online
from ppobook.language.stage import Task

SAMPLED = {"batch_size": 64, "max_new_tokens": 2, "max_grad_norm": None}


def three_tokens(kind, **settings):
    task = Task(**given())
    task.reference.requires_grad_(False)
    return kind(task, kind.settings_class.make(kind.algorithm, SAMPLED | settings, {}), seed=3)


def trained(made, steps, lr=0.1):
    """With steps that become small, for at the end samples alone would make it stray."""
    for k in range(steps):
        for group in made.optimizer.param_groups:
            group["lr"] = lr * (1 - k / steps) + 1e-3
        made.step(k)
    return made


@pytest.mark.parametrize("beta", [0.4, 1.0])
def test_leave_one_out_comes_to_the_exact_optimum(beta):
    made = three_tokens(grpo.GRPO, variant="rloo", group_size=64, kl_coef=beta)
    before, _ = far_from_optimum(made, beta)
    trained(made, 120)
    after, from_reference = far_from_optimum(made, beta)
    print(
        f"beta {beta}: KL to the optimum {before:.4f} to {after:.5f}, to the reference {from_reference:.4f}"
    )
    assert after < 4e-3 < 0.05 < before


def test_online_dpo_comes_to_the_optimum_of_rewards_in_units_of_its_noise():
    """Bradley and Terry's of R / noise; so β noise stands where β stood."""
    made = three_tokens(online.OnlineDPO, beta=0.5, noise=2.0)
    before, _ = far_from_optimum(made, 1.0)
    trained(made, 200)
    after, from_reference = far_from_optimum(made, 1.0)
    print(f"KL to the optimum {before:.4f} to {after:.5f}, to the reference {from_reference:.4f}")
    assert after < 0.02 < 0.05 < before
