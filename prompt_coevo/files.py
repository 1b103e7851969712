"""The file operations that a run depends on, in one place so that tests can make each of them fail."""

from __future__ import annotations

import os
from pathlib import Path


def append(path: Path, data: bytes, *, sync: bool = False) -> None:
    """Append to a file; with `sync` the data is on the disk on return. Raise OSError.

    A failed write may leave a part of the data.
    """
    _write(path, os.O_APPEND, data, sync=sync)


def replace(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Replace a file atomically: a reader sees the old or the new content, never a part. Raise OSError.

    Without `sync` a power failure may lose both.

    The temporary file has a fixed name, so that killed writes leave at most one file, which the next
    write replaces. Two processes must not write the same file.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        _write(temporary, os.O_TRUNC, data, sync=sync)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def rename(path: Path, new: Path) -> None:
    """Rename a file within its folder. Raise OSError."""
    os.replace(path, new)


def ends_in_newline(path: Path) -> bool:
    """Check that an appended line would begin a new line; true for a missing file. Raise OSError."""
    try:
        with path.open("rb") as file:
            if not file.seek(0, os.SEEK_END):
                return True
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"
    except FileNotFoundError:
        return True


def _write(path: Path, how: int, data: bytes, *, sync: bool) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | how, 0o666)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
