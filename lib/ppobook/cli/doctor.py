"""`ppobook doctor`."""

from __future__ import annotations

import textwrap

from ppobook.cli.options import Run, command
from ppobook.validation import counted


@command
def doctor(folder: Run, /) -> None:
    """Find what goes wrong in a run.

    It reads the run's history for the usual failures, and prints the updates and numbers that show one, its
    usual causes and what to try; and for which of them the history is too short. The exit code is 0, whatever
    is found.

    Args:
        folder: the run
    """
    from gymnasium import spaces

    from ppobook.analysis.doctor import examine, too_short
    from ppobook.run.registry import short_name
    from ppobook.training import read_record

    record = read_record(folder)
    config, updates = record.config, len(record.history)
    what = f"{short_name(config['algorithm'])} on {config['env']}"
    print(f"{what}, seed {config['seed']}, {counted(updates, 'update')}")
    if not updates:
        print("too short to say anything")
        return
    done, total = int(record.history["steps"].iloc[-1]), config["total_steps"]
    if done < total:
        print(f"not at its end: {done:,} of {counted(total, 'step')}")
    actions = record.action_space
    dims = spaces.flatdim(actions) if isinstance(actions, spaces.Box) else 0
    findings = examine(record.history, config, action_dims=dims)
    for found in findings:
        print(f"\n{found.name}")
        _print({"seen:": found.evidence, "causes:": found.causes, "try:": found.remedy})
    short = too_short(record.history)
    if short:
        print("\ntoo short to say")
        _print({f"{name}:": lack for name, lack in short.items()})
    if not findings:
        print(f"{'otherwise ' if short else ''}nothing found")


def _print(parts: dict[str, str]) -> None:
    """Print named texts, in columns."""
    width = max(map(len, parts)) + 1
    for head, text in parts.items():
        print(
            textwrap.fill(
                text,
                100,
                initial_indent=f"  {head:<{width}}",
                subsequent_indent=" " * (width + 2),
                break_long_words=False,
            )
        )
