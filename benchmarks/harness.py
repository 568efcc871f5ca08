"""What runs the race: each library in an environment of its own, one job at a time, what is done is kept."""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import settings

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
VENVS = HERE / ".venvs"
DONE = HERE / ".done"
# PyTorch's own index has a CPU build, a tenth of the size of the one with CUDA in it.
TORCH_INDEX = ["--extra-index-url", "https://download.pytorch.org/whl/cpu"]

Job = dict[str, Any]

# A job of ours that ran on other code than the library has now is run again. These rooms are not timed.
_NOT_TIMED = {"analysis", "cli", "course", "experiments", "language", "teaching"}
# In the race of language models these are not.
_NOT_TIMED_IN_LANGUAGE = {"actor_critic", "analysis", "cli", "course", "envs", "episodes", "evaluation"}
_NOT_TIMED_IN_LANGUAGE |= {
    "experiments",
    "policies",
    "ppo",
    "rollouts",
    "teaching",
    "training",
    "trpo",
    "vanilla",
}
_NOT_TIMED_IN_LANGUAGE |= {f"fast/{x}" for x in ("actor", "classic", "closed_form")}
_NOT_TIMED_IN_LANGUAGE |= {f"language/{x}" for x in ("best_of_n", "evaluating", "online", "records")}


class NoPeer(Exception):  # noqa: N818 - no error of this program
    """A library can't be had on this machine; the message says why."""


class JobError(Exception):
    """A worker ended without a result; the message has what it said last."""


# ------------------------------------------------------------------------------------------ environments


def python_of(peer: str) -> Path:
    """The interpreter that has this library: the present one for ours, else one made for it.

    The environment is made on first use and again when its list of requirements has changed.

    Raises
    ------
    NoPeer
        It can't be installed.
    """
    if peer == "ours":
        return Path(sys.executable)
    wanted = HERE / "peers" / f"{peer}.txt"
    home = VENVS / peer
    stamp = home / "installed.txt"
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if stamp.is_file() and stamp.read_text() == wanted.read_text():
        return python
    print(f"installing {peer} into {home.relative_to(ROOT)}, once: some minutes", flush=True)
    venv.create(home, with_pip=True, clear=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += TORCH_INDEX if os.environ.get("TORCH") == "cpu" else []
    pip = subprocess.run([*command, "-r", str(wanted)], capture_output=True, text=True, check=False)
    if pip.returncode != 0:
        raise NoPeer(f"{peer} cannot be installed: {_last_line(pip.stderr)}")
    stamp.write_text(wanted.read_text())
    return python


# ------------------------------------------------------------------------------------------------- jobs


def run_job(job: Job, *, timeout: float = 3600.0) -> dict[str, Any]:
    """Run one job in its library's environment, in a process of its own, and return what it measured."""
    python = python_of(job["peer"])
    threads = str(job.get("threads", 1))
    limits = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), threads)
    if job["peer"] in settings.PEER_FILES:
        limits["PPOBOOK_PEER_FILES"] = str(peer_folder(job["peer"]))
    worker = ["-c", job["code"]] if "code" in job else [str(HERE / "workers" / f"{job['worker']}.py")]

    def start() -> str:
        done = subprocess.run(
            [str(python), *worker],
            input=json.dumps(job),
            env={**os.environ, **limits},
            cwd=nowhere,  # some libraries leave files where they are run
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if done.returncode != 0:
            raise JobError(f"{job['label']}, seed {job.get('seed')}: {_last_line(done.stderr)}")
        return done.stdout

    with tempfile.TemporaryDirectory() as nowhere:
        if "code" not in job:
            result: dict[str, Any] = json.loads(start().splitlines()[-1])
            return result
        start()  # once beforehand: the files of the library are then in memory
        import resource  # not on Windows

        before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        start()
        wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        return {"seconds": wall, "cpu_seconds": cpu}


def peer_folder(peer: str) -> Path:
    """A folder with a peer's files, at the commit and with the checksums of `settings.PEER_FILES`.

    From the checkout that the environment variable named after the peer gives (CLEANRL, PUREJAXRL), else as
    fetched once from its public repository.

    Raises
    ------
    NoPeer
        A file is missing, cannot be fetched, or is another one.
    """
    peers = settings.PEER_FILES[peer]
    variable = peer.upper()
    given = os.environ.get(variable)
    folder = Path(given) if given else HERE / ".peers" / peer
    for name, checksum in peers["files"].items():
        file = folder / name
        if given and not file.is_file():
            raise NoPeer(f"{variable} must be a checkout of {peers['name']} with {name}, got {given!r}")
        if not file.is_file():
            url = f"https://raw.githubusercontent.com/{peers['repository']}/{peers['commit']}/{name}"
            try:
                with urllib.request.urlopen(url, timeout=30) as answer:
                    content = answer.read()
            except OSError as error:
                raise NoPeer(
                    f"{peers['name']}'s {name} cannot be fetched from {url} ({error}); "
                    f"{variable}=PATH takes a checkout"
                ) from None
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        found = hashlib.sha256(file.read_bytes()).hexdigest()
        if found != checksum:
            raise NoPeer(
                f"{file} must be {peers['name']}'s {name} of commit {peers['commit'][:7]} "
                f"(sha256 {checksum[:12]}…), got sha256 {found[:12]}…"
            )
    return folder.resolve()


def absent(peers: Iterable[str]) -> dict[str, str]:
    """Which of these libraries can't be had on this machine, and why, in a sentence each."""
    why = {}
    for peer in sorted(set(peers)):
        try:
            if peer in settings.PEER_FILES:
                peer_folder(peer)
            python_of(peer)
        except NoPeer as error:
            why[peer] = str(error)
    return why


def run_unit(recording: str, jobs: Sequence[Job]) -> list[dict[str, Any]]:
    """Run jobs one directly after the other, so that they meet the same machine; keep what they measured.

    Jobs of one unit are kept together or not at all: half a pair from another hour is no pair.
    """
    kept = DONE / recording / f"{key(jobs)}.json"
    if kept.is_file():
        results: list[dict[str, Any]] = json.loads(kept.read_text())["results"]
        return results
    results = [run_job(job) for job in jobs]
    kept.parent.mkdir(parents=True, exist_ok=True)
    part = kept.with_suffix(".part")
    part.write_text(json.dumps({"jobs": list(jobs), "results": results}, indent=1) + "\n")
    os.replace(part, kept)
    return results


def is_done(recording: str, jobs: Sequence[Job]) -> bool:
    return (DONE / recording / f"{key(jobs)}.json").is_file()


def key(jobs: Sequence[Job]) -> str:
    """A name for these jobs, on this code: the same jobs on another version of ours have another."""
    code = ""
    if any(job["peer"] == "ours" for job in jobs):
        language = any(job.get("worker", "").startswith("language") for job in jobs)
        code = library_digest(off=_NOT_TIMED_IN_LANGUAGE) if language else library_digest()
    return hashlib.sha256((json.dumps(list(jobs), sort_keys=True) + code).encode()).hexdigest()[:20]


def library_digest(
    package: Path = ROOT / "lib" / "ppobook", *, off: Collection[str] = frozenset(_NOT_TIMED)
) -> str:
    """A digest of what the library does in a race: its modules' syntax trees, less docstrings.

    `off` names rooms, and files of rooms, that are not timed.
    """

    def counts(path: Path) -> bool:
        name = path.relative_to(package).with_suffix("")
        return name.parts[0] not in off and name.as_posix() not in off

    files: Iterable[Path] = sorted(filter(counts, package.rglob("*.py")))
    digest = hashlib.sha256()
    for path in files:
        code = _code(path.read_text(encoding="utf-8"))
        digest.update(path.relative_to(package).as_posix().encode() + code.encode())
    return digest.hexdigest()[:16]


@functools.cache
def _code(source: str) -> str:
    """A file's syntax tree less docstrings; kept, since each unit of a race asks for the whole library's."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [one for one in body if not _is_text(one)]  # type: ignore[attr-defined]
    return ast.dump(tree)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
