"""`ppobook doctor`."""

from __future__ import annotations

import textwrap

from ppobook.cli.options import Run, command
from ppobook.validation import counted


@command
def doctor(folder: Run, /) -> None:
    """Find what goes wrong in a run.

    It reads the run's history for the usual failures, and prints the updates and numbers that show one, its
    usual causes and what to try. The exit code is 0, whatever is found.

    Args:
        folder: the run
    """
    from gymnasium import spaces

    from ppobook.analysis.doctor import examine
    from ppobook.run.registry import short_name
    from ppobook.training import read_record

    record = read_record(folder)
    config, updates = record.config, len(record.history)
    what = f"{short_name(config['algorithm'])} on {config['env']}"
    print(f"{what}, seed {config['seed']}, {counted(updates, 'update')}")
    actions = record.action_space
    dims = spaces.flatdim(actions) if isinstance(actions, spaces.Box) else 0
    findings = examine(record.history, config, action_dims=dims) if updates else []
    for found in findings:
        print(f"\n{found.name}")
        for head, text in (("seen:", found.evidence), ("causes:", found.causes), ("try:", found.remedy)):
            print(
                textwrap.fill(
                    text,
                    100,
                    initial_indent=f"  {head:<8}",
                    subsequent_indent=" " * 10,
                    break_long_words=False,
                )
            )
    if not findings:
        print("nothing found")
