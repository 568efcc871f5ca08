"""Minutes of a chapter's main road, counted from its text.

    python tools/minutes.py [NAME…] [--counts]

prints them by section: NAME is a number (02), a file's name or a path; without one, all chapters. `--counts`
adds what they were counted from. The counting is that of `ppobook.teaching.minutes`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "lib"))

from ppobook.teaching.minutes import (  # noqa: E402
    DEEPER,
    HIDDEN,
    WEIGHTS,
    Chapter,
    Counts,
    about,
    count,
    said,
)
from ppobook.teaching.tags import read  # noqa: E402

__all__ = ["DEEPER", "HIDDEN", "WEIGHTS", "Chapter", "Counts", "about", "count", "said", "table"]


def table(name: str, chapter: Chapter, counts: bool) -> str:
    """A chapter's minutes, a section a line."""
    lines = [f"{name}: {chapter.minutes:.1f} minutes, and {chapter.deeper:.1f} in Deeper boxes"]
    for section in chapter.sections:
        road, deeper = section.road, section.deeper.minutes
        line = f"  {road.minutes:5.1f}  {section.title or '(before the first section)'}"
        if counts:
            line = f"{line:58} " + "  ".join(f"{getattr(road, kind):4} {kind}" for kind in WEIGHTS)
        lines.append(line + (f"   (+ {deeper:.1f})" if deeper else ""))
    for number, (stop, before) in enumerate(zip(chapter.sittings, [0.0, *chapter.sittings], strict=False), 1):
        lines.append(
            f"  place to stop {number}: after {stop:.1f} minutes, {stop - before:.1f} since the last"
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Print the minutes of the chapters that the command line names."""
    parser = argparse.ArgumentParser(prog="minutes", description="Minutes of a chapter's main road.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="02, 02_name or a path; all, if left out")
    parser.add_argument("--counts", action="store_true", help="show what they were counted from")
    options = parser.parse_args(arguments)
    known = sorted((ROOT / "chapters").glob("*.md"))
    chosen = []
    for name in options.names or [path.stem for path in known]:
        found = [p for p in known if p.stem == Path(name).stem or p.stem.startswith(f"{name}_")]
        found = found or [Path(name)]
        if not found[0].is_file():
            print(f"{name!r} is no chapter; there are {', '.join(p.stem for p in known)}.", file=sys.stderr)
            return 2
        chosen += found
    for path in chosen:
        print(table(path.stem, count(read(path)["cells"]), options.counts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
