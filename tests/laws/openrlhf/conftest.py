"""Run each of these laws' jobs in OpenRLHF, in separate processes."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import pytest

collect_ignore_glob: list[str] = []
try:
    version("openrlhf")
except PackageNotFoundError:
    collect_ignore_glob = ["test_*.py"]

LONG = ("ranks have one engine and one plan",)
"""Laws whose separate run takes too long for every test run."""


def pytest_itemcollected(item: pytest.Item) -> None:
    if item.name.endswith(tuple(f"[{law}]" for law in LONG)):
        item.add_marker(pytest.mark.long)
