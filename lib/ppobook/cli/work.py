"""`ppobook envs`, `work`, `reset` and `progress`."""

from __future__ import annotations

from ppobook.cli.parsing import MaybeFolder, MaybeName, command


@command
def envs() -> None:
    """List environments that can be trained on."""
    from ppobook.envs import list_envs

    print(list_envs().to_string(index=False, na_rep="none"))


@command
def work(folder: str = "work", /) -> None:
    """Copy chapters and exercises into a folder of your own.

    Args:
        folder: the folder; what you wrote there is never changed
    """
    from ppobook.teaching.workspace import sync

    sync(folder)


@command
def reset(name: str, /, *, folder: str = "work") -> None:
    """Start one exercise over. What you wrote goes into a backup.

    Args:
        name: the exercise, as its check names it: pg-loss
        folder: the folder of your copies
    """
    from ppobook.teaching.workspace import reset

    reset(name, folder)


@command
def progress(*, path: MaybeName = None, clear: bool = False, folder: MaybeFolder = None) -> None:
    """Print which exercises are right, which mistakes you met, what is next, and what is left.

    Args:
        path: follow this learning path from now on, as fifteen-hours; off: follow none any more
        clear: forget it all, the times of the drill and the path
        folder: the folder of your copies; found by itself in it and beside it
    """
    from ppobook.teaching import progress
    from ppobook.teaching.desk import desk, find_folder

    if clear and path is not None:
        raise ValueError("--path must be left out with --clear, which forgets the path")
    work = find_folder(folder)
    if not clear:
        print(desk(work, path=path))
    elif progress.clear(work):
        print(f"{work / progress.FILE} is removed: nothing of your checks, drill and path is kept any more.")
    else:
        print(f"There is nothing to forget in {work}.")
