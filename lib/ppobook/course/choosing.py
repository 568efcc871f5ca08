"""Choose the cells of a master that a pack of some exercises needs, with all that these cells use."""

from __future__ import annotations

from collections.abc import Sequence

from ppobook.course.sets import ExerciseSet
from ppobook.course.sources import names
from ppobook.teaching.tags import Cell, Exercise, part


def choose(exercise_set: ExerciseSet, chosen: Sequence[Exercise]) -> list[int]:
    """The cells, by index: the introduction, the chosen exercises, and given cells elsewhere that these need.

    It refuses a choice in which an exercise uses what is written in one that is not chosen.
    """
    cells = exercise_set.notebook["cells"]
    owner = {i: one for one in exercise_set.exercises for i in range(one.start, one.stop)}
    first = min(owner, default=len(cells))
    labels = {one.label for one in chosen}
    if len(labels) == len(exercise_set.exercises):
        return list(range(len(cells)))
    kept = {i for i in range(len(cells)) if i < first or (i in owner and owner[i].label in labels)}
    sections = _sections(cells, owner, first)
    code = (i for i, cell in enumerate(cells) if cell["cell_type"] == "code")
    found = {i: known for i in code if (known := names(cells[i]["source"]))}
    # Each with the exercise for whose sake it is looked at.
    waiting = [(i, owner[i].label if i in owner else "the introduction") for i in sorted(kept)]
    while waiting:
        i, sake = waiting.pop()
        for name in sorted(found[i].used - found[i].defined) if i in found else ():
            made = next((j for j in range(i - 1, -1, -1) if j in found and name in found[j].defined), None)
            if made is None or made in kept:
                continue
            other = owner.get(made)
            if other is not None and part(cells[made]) is not None:
                why = f"for {sake!r} uses {name}, which is written there"
                raise ValueError(f"exercises must hold {other.label!r} as well, {why}")
            # Alone out of another exercise; with its text where it stands in a section between exercises.
            run = [made] if other else next(r for r in sections if made in r)
            waiting += [(j, sake) for j in run if j not in kept]
            kept.update(run)
    return sorted(kept)


def _sections(cells: Sequence[Cell], owner: dict[int, Exercise], first: int) -> list[list[int]]:
    """The runs of cells between exercises that belong to none."""
    runs: list[list[int]] = []
    for i in range(first, len(cells)):
        if i not in owner:
            if runs and runs[-1][-1] == i - 1:
                runs[-1].append(i)
            else:
                runs.append([i])
    return runs
