"""A file that is as long as it was, and not what it was."""

import zipfile


def spoil(path):
    """Turn a byte of the largest entry of an archive round, behind the archive's back."""
    with zipfile.ZipFile(path) as archive:
        entry = max(archive.infolist(), key=lambda one: one.file_size)
    content = bytearray(path.read_bytes())
    # Behind the entry's own header, which is its name and padding and well below this.
    content[entry.header_offset + 128 + entry.file_size // 2] ^= 0x41
    path.write_bytes(content)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() == entry.filename
