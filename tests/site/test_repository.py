"""The address of the book's repository."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

import repository

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))
site_hooks = pytest.importorskip("site_hooks", reason="Sphinx is not installed")

BOOK = "https://github.com/someone/book"


@pytest.mark.parametrize(
    ("remote", "expected"),
    [
        ("https://github.com/someone/book.git", BOOK),
        ("https://name:word@github.com/someone/book", BOOK),  # what logs in stays out
        ("git@github.com:someone/book.git", BOOK),
        ("file:///tmp/book.git", ""),
        (None, ""),
    ],
)
def test_a_checkouts_remote(tmp_path: Path, remote: str | None, expected: str) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    if remote:
        subprocess.run(["git", "remote", "add", "origin", remote], cwd=tmp_path, check=True)
    assert repository.address(tmp_path, None, {}) == expected


def test_what_goes_first(tmp_path: Path) -> None:
    github = {"GITHUB_REPOSITORY": "someone/book", "GITHUB_SERVER_URL": "https://github.com"}
    assert repository.address(tmp_path, None, github) == BOOK
    assert repository.address(tmp_path, None, {"CI_PROJECT_URL": "https://gitlab.com/a/b"}) == (
        "https://gitlab.com/a/b"
    )
    assert repository.address(tmp_path, "https://example.org/mine/", github) == "https://example.org/mine"


def page(address: str, name: str = "chapters/01_vanilla_policy_gradient") -> dict[str, Any]:
    """Return what the hooks add to a page."""
    config = SimpleNamespace(
        book_meta={"branch": "main"}, book_repository=address, release="1", html_title="Book"
    )
    context: dict[str, Any] = {"title": "Title", "header_buttons": []}
    app = SimpleNamespace(srcdir=str(ROOT), config=config)
    site_hooks.add_links(app, name, "", context, object())
    site_hooks.add_launch_buttons(app, name, "", context, object())
    return context


def test_where_an_address_is_known_there_are_links() -> None:
    context = page(BOOK)
    assert context["edit_url"] == f"{BOOK}/edit/main/chapters/01_vanilla_policy_gradient.md"
    assert context["report_url"].startswith(f"{BOOK}/issues/new?title=")
    binder, colab = (button["url"] for button in context["header_buttons"][0]["buttons"])
    assert "/gh/someone/book/main?" in binder
    assert "/github/someone/book/blob/colab/" in colab


def test_where_none_is_known_there_are_no_dead_links() -> None:
    assert page("") == {"title": "Title", "header_buttons": []}


# --- what a checkout installs, and when it publishes --------------------------------------------------------


def test_condas_environment_names_everything_that_a_command_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"]
    lines = next(entry["pip"] for entry in environment if isinstance(entry, dict))
    extras = re.fullmatch(r"-e \.\[(.+)\]", next(line for line in lines if line.startswith("-e")))
    assert extras is not None
    assert set(extras[1].split(",")) == set(project["project"]["optional-dependencies"])

    def names(group: str) -> set[str]:
        entries = project["dependency-groups"][group]
        own = {re.split(r"[<>=]", entry)[0] for entry in entries if isinstance(entry, str)}
        return own.union(*(names(entry["include-group"]) for entry in entries if not isinstance(entry, str)))

    named = {line for line in lines if not line.startswith("-")}
    assert named == {"gymnasium", "jupyterlab", "matplotlib", "torch"}.union(
        *(names(group) for group in ("site", "test", "browser", "editions"))
    )
