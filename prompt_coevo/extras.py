"""Optional dependencies: imported late, with an error that says how to install them."""

from __future__ import annotations

from importlib.util import find_spec

from prompt_coevo.errors import CoevoError


class MissingExtraError(CoevoError, ImportError):
    """An optional dependency is not installed."""


def require(*packages: str, extra: str, purpose: str) -> None:
    """Raise MissingExtraError unless all packages are installed; nothing is imported."""
    for package in packages:
        if not is_installed(package):
            raise MissingExtraError(
                f"{purpose} needs the package {package!r}, which is not installed; "
                f"run: pip install 'prompt-coevo[{extra}]'"
            )


def is_installed(package: str) -> bool:
    """Whether a package can be imported; a folder that happens to have its name is none."""
    spec = find_spec(package)
    return spec is not None and spec.origin is not None
