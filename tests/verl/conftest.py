"""Start VeRL for the tests in this folder, each in separate processes."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

collect_ignore_glob: list[str] = []
try:
    version("verl")  # `import verl` would also find this folder
except PackageNotFoundError:
    collect_ignore_glob = ["test_*.py"]
