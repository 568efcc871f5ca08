"""Run jobs: each library in an environment of its own, one job at a time, finished jobs kept in a file."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
import venv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import settings

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
VENVS = HERE / ".venvs"
DONE = HERE / ".done" / "jobs.jsonl"
# PyTorch's own index has a CPU build, a tenth of the size of the one with CUDA in it.
TORCH_INDEX = ["--extra-index-url", "https://download.pytorch.org/whl/cpu"]

Job = dict[str, Any]


class NoPeer(Exception):  # noqa: N818 - this is no error of the program
    """A library is not available on this machine; the message says why."""


class JobError(Exception):
    """A worker ended without a result; the message has the last line that it printed."""


def python_of(peer: str) -> Path:
    """Return the interpreter that has this library; its environment is made on first use."""
    if peer == "ours":
        return Path(sys.executable)
    wanted = (HERE / "peers" / f"{peer}.txt").read_text()
    home = VENVS / peer
    stamp = home / "installed.txt"
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if stamp.is_file() and stamp.read_text() == wanted:
        return python
    print(f"installing {peer} into {home.relative_to(ROOT)}, once: some minutes", flush=True)
    venv.create(home, with_pip=True, clear=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += TORCH_INDEX if os.environ.get("TORCH") == "cpu" else []
    pip = subprocess.run([*command, *wanted.split()], capture_output=True, text=True, check=False)
    if pip.returncode != 0:
        raise NoPeer(f"{peer} cannot be installed: {_last_line(pip.stderr)}")
    stamp.write_text(wanted)
    return python


def peer_folder(peer: str) -> Path:
    """Return a folder with a peer's files, at the commit and with the checksums of `settings.PEER_FILES`.

    They come from the checkout that the environment variable named after the peer gives (CLEANRL,
    PUREJAXRL), or are fetched once from the peer's public repository.
    """
    peers = settings.PEER_FILES[peer]
    given = os.environ.get(peer.upper())
    folder = Path(given) if given else HERE / ".peers" / peer
    for name, checksum in peers["files"].items():
        file = folder / name
        if not file.is_file():
            url = f"https://raw.githubusercontent.com/{peers['repository']}/{peers['commit']}/{name}"
            if given:
                raise NoPeer(
                    f"{peer.upper()} must be a checkout of {peers['name']} with {name}, got {given!r}"
                )
            try:
                with urllib.request.urlopen(url, timeout=30) as answer:
                    content = answer.read()
            except OSError as error:
                raise NoPeer(
                    f"{url} cannot be fetched ({error}); {peer.upper()}=PATH takes a checkout"
                ) from None
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        found = hashlib.sha256(file.read_bytes()).hexdigest()
        if found != checksum:
            raise NoPeer(f"{file} must have the sha256 {checksum[:12]}…, got {found[:12]}…")
    return folder.resolve()


def absent(peers: Iterable[str]) -> dict[str, str]:
    """Return the libraries that are not available on this machine, each with the reason."""
    why = {}
    for peer in sorted(set(peers)):
        try:
            if peer in settings.PEER_FILES:
                peer_folder(peer)
            python_of(peer)
        except NoPeer as error:
            why[peer] = str(error)
    return why


def run_job(job: Job, *, timeout: float = 3600.0) -> dict[str, Any]:
    """Run one job in its library's environment, in a process of its own, and return what it measured."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    if job["peer"] in settings.PEER_FILES:
        threads["PEER_FILES"] = str(peer_folder(job["peer"]))
    with tempfile.TemporaryDirectory() as nowhere:  # some libraries leave files where they are run
        done = subprocess.run(
            [str(python_of(job["peer"])), str(HERE / "workers" / f"{job['worker']}.py")],
            input=json.dumps(job),
            env={**os.environ, **threads},
            cwd=nowhere,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    if done.returncode != 0:
        raise JobError(f"{job['label']}, seed {job['seed']}: {_last_line(done.stderr)}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def run_unit(jobs: Sequence[Job]) -> list[dict[str, Any]]:
    """Run jobs back to back, so that they meet the same machine, and keep what they measured.

    The jobs of one unit are kept together or not at all: ratios compare runs of the same minute.
    """
    done = key(jobs)
    if DONE.is_file():
        for line in DONE.read_text().splitlines():
            kept = json.loads(line)
            if kept["key"] == done:
                results: list[dict[str, Any]] = kept["results"]
                return results
    results = [run_job(job) for job in jobs]
    DONE.parent.mkdir(parents=True, exist_ok=True)
    with DONE.open("a") as file:
        file.write(json.dumps({"key": done, "jobs": list(jobs), "results": results}) + "\n")
    return results


def key(jobs: Sequence[Job]) -> str:
    """Return a name for these jobs on the present code: after a change of the library they run again."""
    digest = hashlib.sha256(json.dumps(list(jobs), sort_keys=True).encode())
    for path in sorted((ROOT / "lib" / "ppobook").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:20]


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it printed nothing"])[-1].strip()
