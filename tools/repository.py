"""The addresses of the book's repository and of its site, for launch, edit and errata links."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

# The forms of `git remote` in which a site serves a repository: https://…, ssh://git@…, git@…:…
_REMOTE = re.compile(
    r"(?:https?://|ssh://)?(?:[^@/\s]+@)?([\w-]+(?:\.[\w-]+)+)(?::\d+)?[/:]([\w.~/-]+?)(?:\.git)?/?"
)


def address(root: Path, override: str | None = None, environ: Mapping[str, str] = os.environ) -> str:
    """`https://HOST/OWNER/NAME`, or "" where none is known.

    The first that there is of: `repository` in book.yml; what GitHub's or GitLab's CI says of itself; the
    checkout's remote `origin`.
    """
    if override:
        return override.rstrip("/")
    if environ.get("GITHUB_REPOSITORY"):
        return f"{environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{environ['GITHUB_REPOSITORY']}"
    return environ.get("CI_PROJECT_URL") or _web(_origin(root))


def pages(repository: str) -> str:
    """`https://OWNER.github.io/NAME/`, where the site of a repository on GitHub is; elsewhere ""."""
    found = re.fullmatch(r"https://github\.com/([^/]+)/([^/]+)", repository)
    if not found:
        return ""
    host = f"{found[1].lower()}.github.io"
    return f"https://{host}/" if found[2].lower() == host else f"https://{host}/{found[2]}/"


def _origin(root: Path) -> str:
    # A copy without history may lie inside another repository, whose remote is not the book's.
    if not (root / ".git").exists():
        return ""
    try:
        asked = subprocess.run(
            ["git", "remote", "get-url", "origin"], cwd=root, capture_output=True, text=True
        )
    except OSError:  # no git
        return ""
    return asked.stdout.strip()


def _web(remote: str) -> str:
    found = _REMOTE.fullmatch(remote)
    return f"https://{found[1]}/{found[2]}" if found else ""
