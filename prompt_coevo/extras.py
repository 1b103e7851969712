"""Optional dependencies: imported late, with an error that says how to install them."""

from __future__ import annotations

from importlib.util import find_spec

from prompt_coevo.errors import CoevoError


class MissingExtraError(CoevoError, ImportError):
    """An optional dependency is not installed."""


def require(*packages: str, extra: str, purpose: str) -> None:
    """Raise MissingExtraError unless all packages are installed. Do not import them."""
    for package in packages:
        if not is_installed(package):
            raise MissingExtraError(
                f"{purpose} needs the package {package!r}, which is not installed; "
                f"run: pip install 'prompt-coevo[{extra}]'"
            )


def is_installed(package: str) -> bool:
    """Check whether a package can be imported. A plain folder of the same name does not count."""
    spec = find_spec(package)
    return spec is not None and spec.origin is not None
