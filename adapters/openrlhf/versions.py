"""Check the version of a trainer's package."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version

from prompt_coevo.errors import HostError
from prompt_coevo.extras import MissingExtraError


def check_version(package: str, first: str, below: str) -> None:
    """Raise HostError unless `first <= version < below`, for adapters that rely on a trainer's internals.

    `package` is also the name of our extra. Raises MissingExtraError if it is not installed.
    """
    try:
        found = version(package)
    except PackageNotFoundError:
        raise MissingExtraError(
            f"this command needs the package {package!r}, which is not installed; "
            f"run: pip install 'prompt-coevo[{package}]'"
        ) from None
    if not _numbers(first) <= _numbers(found) < _numbers(below):
        raise HostError(
            f"{package} {found} is not supported, because its internals differ; "
            f"install {package}>={first},<{below}"
        )


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)[:3]))
