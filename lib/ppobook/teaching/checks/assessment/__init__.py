"""Checks of the final assessment: five tasks that look back on chapters 3, 5, 6 and 8.

Nothing here is trained. An answer is called with tables of logits, rows of numbers and small landscapes, so
chosen that each mistake gives numbers that no other gives.
"""

from __future__ import annotations

from .. import Chapter

CLIPPED = Chapter(
    3,
    "The clipped surrogate (PPO-clip)",
    {
        "sec-four-cases": "Four cases: good or bad, up or down",
        "sec-knee": "Two meanings of “clipped”",
        "sec-short-ppo": "PPO in fifty lines",
        "sec-lower-bound": "The clipped surrogate is never above the plain one",
    },
)
GAE = Chapter(
    4,
    "Generalized advantage estimation (GAE)",
    {"sec-gae-ends": "Three ways to stop", "sec-gae-lambda": "GAE: the average of all n-step advantages"},
)
WHOLE = Chapter(
    5,
    "The whole of PPO",
    {"sec-ppo-entropy": "The entropy bonus", "sec-ppo-loop": "The loop"},
    also=(CLIPPED, GAE),
)
PRACTICE = Chapter(
    6,
    "PPO in practice",
    {
        "sec-practice-tuning": "An order in which to tune",
        "sec-practice-reporting": "How to report",
    },
)
GRPO = Chapter(
    8, "GRPO: learning without a critic", {"sec-grpo-measured": "PPO against GRPO"}, also=(PRACTICE,)
)
