"""Each run of these laws is one of OpenRLHF, in processes of its own."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

collect_ignore_glob: list[str] = []
try:
    version("openrlhf")
except PackageNotFoundError:
    collect_ignore_glob = ["test_*.py"]
