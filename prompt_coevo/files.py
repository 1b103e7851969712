"""The file operations that a run depends on, in one place, so that tests can let each of them fail."""

from __future__ import annotations

import os
from pathlib import Path


def append(path: Path, data: bytes, *, sync: bool = False) -> None:
    """Write behind what is there; with `sync` it is on the disk when this returns. Raises OSError.

    A write that fails may leave a part of the data.
    """
    _write(path, os.O_APPEND, data, sync=sync)


def replace(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Write a file so that a reader sees the old one or the whole new one, never a part. Raises OSError.

    Without `sync` a machine that loses its power may lose both.

    The temporary file beside it has one name, so that a killed write leaves one file at most, and the
    next one writes over it. Two processes must not write the same file.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        _write(temporary, os.O_TRUNC, data, sync=sync)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def ends_in_newline(path: Path) -> bool:
    """Whether a line that is appended would stand on its own. Raises OSError; a missing file is fine."""
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
