"""The check of the second task: six samples by hand."""

from __future__ import annotations

import numpy as np

from .. import Answer, Findings, Property, Stop, as_array, close, either, numbers, recognise, words
from . import CLIPPED as CHAPTER

RATIOS = np.array([0.6, 1.1, 1.3, 0.6, 0.9, 1.4])
WORTH = np.array([2.0, 1.0, 1.0, -1.0, -2.0, -3.0])
ENTRIES = ("slopes", "clip_fraction", "flat_fraction", "plain", "clipped")


@CHAPTER.check("final-by-hand", section="sec-four-cases")
def final_by_hand(answer: Answer) -> Findings:
    given = answer()
    if not isinstance(given, list | tuple) or len(given) != len(ENTRIES):
        raise Stop("returned", "wrong type", f"wanted the slopes and four numbers, got {words(given)}.")
    for name, entry in zip(ENTRIES, given, strict=True):
        if any(part is ... for part in (entry if isinstance(entry, list | tuple) else [entry])):
            raise Stop("returned", "an entry is still empty", f"“{name}” still has an empty entry.")
    slopes = as_array(given[0], (6,), "“slopes”")
    clip, flat, plain, clipped = (
        float(as_array(entry, (), f"“{name}”")) for name, entry in zip(ENTRIES[1:], given[1:], strict=True)
    )
    r, a, box = RATIOS, WORTH, RATIOS.clip(0.8, 1.2)
    done = ((a > 0) & (r > 1.2)) | ((a < 0) & (r < 0.8))
    outside = np.abs(r - 1) > 0.2
    yield from recognise(
        slopes,
        {
            "every sample outside is flat": np.where(outside, 0, a),
            "no sample is flat": a,
            "the flat samples are exchanged with those that push": np.where(done, a, 0),
            "the larger product is followed": np.where(outside & ~done, 0, a),
            "whatever is above is flat": np.where(r > 1.2, 0, a),
            "the slope is taken times the ratio": either(np.where(done, 0, r * a), r * a),
        },
    )
    right = close(slopes, np.where(done, 0, a), 1e-2)
    yield Property("the slopes of all six samples", right, f"they are {numbers(slopes)}")
    yield from recognise(
        [clip, flat],
        {
            "the two fractions are exchanged": [1 / 3, 2 / 3],
            "numbers of samples, not shares": [4.0, 2.0],
            "flat is every sample outside": [2 / 3, 2 / 3],
        },
        tolerance=1e-2,
        clip=clip,
        flat=flat,
    )
    right = close([clip, flat], [2 / 3, 1 / 3], 1e-2)
    yield Property("the two fractions", right, f"they are {numbers([clip, flat])}")
    least, most = np.minimum(r * a, box * a), np.maximum(r * a, box * a)
    yield from recognise(
        [plain, clipped],
        {
            "sums, not means": [(r * a).sum(), least.sum()],
            "the clipped one is above the plain one": either(
                [(r * a).mean(), most.mean()], [least.mean(), (r * a).mean()]
            ),
            "without the minimum": [(r * a).mean(), (box * a).mean()],
            "the minimum is taken of the ratios": [(r * a).mean(), (np.minimum(r, box) * a).mean()],
            "flat samples count for nothing": [(r * a).mean(), np.where(done, 0, r * a).mean()],
        },
        tolerance=1e-2,
        plain=plain,
        clipped=clipped,
    )
    right = close([plain, clipped], [(r * a).mean(), least.mean()], 1e-2)
    yield Property("both surrogates", right, f"they are {numbers([plain, clipped])}")
