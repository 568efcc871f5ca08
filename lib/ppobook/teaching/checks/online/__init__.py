"""Checks of chapter 10's exercises, online loops and stability.

Who wrote a text, who scored it, and when: the probes are small loops with numbers that differ wherever two
policies, two texts or two rounds could be mixed up.
"""

from __future__ import annotations

from .. import Chapter

CHAPTER = Chapter(
    10,
    "Online loops and stability",
    {
        "sec-online-loops": "Four loops, side by side",
        "sec-online-refresh": "A reward model refreshed from the policy's own samples",
        "sec-online-lag": "A sampler that lags behind",
        "sec-online-ess": "Deeper: how stale is stale?",
        "sec-online-lag-measured": "Lags from 0 to 16, over ten seeds",
        "sec-online-dpo": "DPO on the policy's own pairs",
        "sec-online-checklist": "A stability checklist",
    },
)
