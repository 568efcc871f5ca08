"""The check of chapter 6's clinic: ten broken runs, and twenty names of what may be wrong with them."""

from __future__ import annotations

from .. import Chapter

CHAPTER = Chapter(
    6,
    "PPO in practice",
    {
        "sec-practice-clinic": "The clinic",
        "sec-practice-gauges": "What each gauge says: a table for debugging",
    },
)
