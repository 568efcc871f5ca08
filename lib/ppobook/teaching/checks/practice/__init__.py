"""Checks of chapter 6's exercises, PPO in practice: settings of another library, alarms, and fair reports.

Each probe is a handful of numbers. Where a number must be known exactly it comes from counting: every pair,
every split, every update one at a time.
"""

from __future__ import annotations

from .. import Chapter

CHAPTER = Chapter(
    6,
    "PPO in practice",
    {
        "sec-practice-first": "Which gauge sees it first",
        "sec-practice-peers": "Beside another library",
        "sec-practice-reporting": "How to report",
        "sec-practice-tuning": "An order in which to tune",
    },
)
