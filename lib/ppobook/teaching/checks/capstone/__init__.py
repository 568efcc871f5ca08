"""Checks of the capstone: PPO from a blank file, in stages that are checked one by one.

The stages are those of four chapters, so a hint sends to the chapter that explained its part. What an answer
is called with are Gymnasium's environments that write down what happens in them, and networks so small that
the numbers can be followed.
"""

from __future__ import annotations

from .. import Chapter

CLIPPED = Chapter(3, "The clipped surrogate (PPO-clip)", {"sec-eps-kl": "What ε says about the KL"})
GAE = Chapter(
    4,
    "Generalized advantage estimation (GAE)",
    {
        "sec-gae-ends": "Three ways to stop",
        "sec-gae-lambda": "GAE: the average of all n-step advantages",
        "sec-gae-td": "The TD error",
    },
)
WHOLE = Chapter(
    5,
    "The whole of PPO",
    {
        "sec-ppo-three-parts": "A loss in three parts",
        "sec-ppo-value-loss": "The value loss, and clipping it",
        "sec-ppo-entropy": "The entropy bonus",
        "sec-ppo-loop": "The loop",
        "sec-ppo-details": "One detail at a time",
    },
    also=(CLIPPED, GAE),
)
PRACTICE = Chapter(
    6,
    "PPO in practice",
    {
        "sec-practice-probes": "A ladder of probe environments",
        "sec-practice-reporting": "How to report",
        "sec-practice-gauges": "What each gauge says: a table for debugging",
    },
)
