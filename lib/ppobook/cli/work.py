"""`ppobook envs`, `work` and `reset`."""

from __future__ import annotations

from ppobook.cli.options import command


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
