"""Files are replaced in one step."""

import os

import pytest

from ppobook.run.files import atomic_write


@pytest.mark.parametrize("content", ["größer\n", b"\x00\xff"])
@pytest.mark.parametrize("sync", [True, False])
def test_atomic_write(tmp_path, content, sync):
    path = tmp_path / "file"
    for _ in range(2):
        atomic_write(path, content, sync=sync)
        assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
        assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "file"
    atomic_write(path, "old")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        atomic_write(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
