"""Minutes of each chapter's main road, counted from its text by `ppobook.teaching.minutes`.

    python tools/minutes.py [NUMBER…]

prints them by section; without a number (02), of all chapters.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "lib"))

from ppobook.teaching.minutes import Chapter, count  # noqa: E402
from ppobook.teaching.tags import read  # noqa: E402


def table(name: str, chapter: Chapter) -> str:
    """A chapter's minutes, a section a line."""
    lines = [f"{name}: {chapter.minutes:.1f} minutes, and {chapter.deeper:.1f} in Deeper boxes"]
    for section in chapter.sections:
        deeper = f"   (+ {section.deeper.minutes:.1f})" if section.deeper.minutes else ""
        lines.append(
            f"  {section.road.minutes:5.1f}  {section.title or '(before the first section)'}{deeper}"
        )
    lines += [f"  a place to stop after {stop:.1f} minutes" for stop in chapter.sittings]
    return "\n".join(lines)


if __name__ == "__main__":
    for number in sys.argv[1:] or [""]:
        for path in sorted((ROOT / "chapters").glob(f"{number}*.md")):
            print(table(path.stem, count(read(path)["cells"])))
