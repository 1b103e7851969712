"""Simulate a failing disk: any operation on a folder's files can be made to fail.

    disk = FailingDisk(folder)
    with disk.failing(at=17):
        ...

Python's own ways to a file are covered (`open`, `pathlib`, and `os.open`, `write`, `fsync`, `replace`,
`mkdir`, `unlink`), not those of libraries in C. It is for one thread that fails and any that do not.
"""

from __future__ import annotations

import errno
import io
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

_BY_PATH: Final = ("replace", "rename", "mkdir", "unlink", "truncate")


class FailingDisk:
    """Count the operations on files below `folder`, and fail one of them, or all from one on.

    `operations` holds their names in order. An operation fails with `error`, a number of `errno`: a full
    disk as a rule. A write that fails has written the first half of its data if `cut`.
    """

    def __init__(self, folder: Path, *, error: int = errno.ENOSPC, cut: bool = False) -> None:
        self._folder = folder.resolve()
        self._error = error
        self._cut = cut
        self._files: set[int] = set()
        self._lock = threading.Lock()
        self._first = self._last = -1
        self.operations: list[str] = []

    @contextmanager
    def watching(self) -> Iterator[FailingDisk]:
        """Count operations without failing any."""
        with self.failing(at=-1):
            yield self

    @contextmanager
    def failing(self, at: int, *, lasting: bool = False) -> Iterator[FailingDisk]:
        """Fail the operation with this number, counted from 0; if `lasting`, also all later ones."""
        self.operations, self._files = [], set()
        self._first, self._last = at, (1 << 62) if lasting and at >= 0 else at
        with ExitStack() as stack:
            for name in _BY_PATH:
                stack.enter_context(patch.object(os, name, self._by_path(name)))
            for name in ("write", "fsync", "close"):
                stack.enter_context(patch.object(os, name, self._by_file(name)))
            for module, name in ((os, "open"), (io, "open")):
                stack.enter_context(patch.object(module, name, self._opened(module, name)))
            yield self

    def _by_path(self, name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def operation(path: Any, *args: Any, **kwargs: Any) -> Any:
            if self._is_ours(path):
                self._count(name)
            return real(path, *args, **kwargs)

        return operation

    def _opened(self, module: Any, name: str) -> Callable[..., Any]:
        real = getattr(module, name)

        def operation(path: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._is_ours(path):
                return real(path, *args, **kwargs)
            self._count("open")
            opened = real(path, *args, **kwargs)
            if isinstance(opened, int):
                self._files.add(opened)
            return opened

        return operation

    def _by_file(self, name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def operation(descriptor: int, *data: Any) -> Any:
            if descriptor not in self._files:
                return real(descriptor, *data)
            if name == "close":
                self._files.discard(descriptor)
                return real(descriptor)
            try:
                self._count(name)
            except OSError:
                if self._cut and data:
                    real(descriptor, bytes(data[0])[: len(data[0]) // 2])
                raise
            return real(descriptor, *data)

        return operation

    def _is_ours(self, path: Any) -> bool:
        if not isinstance(path, (str, os.PathLike)):
            return False
        return Path(os.path.abspath(os.fspath(path))).is_relative_to(self._folder)

    def _count(self, operation: str) -> None:
        with self._lock:
            number = len(self.operations)
            self.operations.append(operation)
        if self._first <= number <= self._last:
            raise OSError(self._error, os.strerror(self._error))
