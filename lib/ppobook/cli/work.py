"""`ppobook envs`, `work`, `reset` and `progress`."""

from __future__ import annotations

from ppobook.cli.options import MaybeFolder, command


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
def progress(*, clear: bool = False, folder: MaybeFolder = None) -> None:
    """Print which exercises are right, which mistakes you met, what is next, and what is left.

    Args:
        clear: forget it all, and the times of the drill
        folder: the folder of your copies; found by itself in it and beside it
    """
    from ppobook.teaching import progress
    from ppobook.teaching.desk import desk, find_folder

    work = find_folder(folder)
    if not clear:
        print(desk(work))
    elif progress.clear(work):
        print(f"{work / progress.FILE} is removed: nothing of your checks and of the drill is kept any more.")
    else:
        print(f"There is nothing to forget in {work}.")
