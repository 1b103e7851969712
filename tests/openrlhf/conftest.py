"""The tests of this folder start OpenRLHF, each in processes of its own."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version

import pytest

collect_ignore_glob: list[str] = []
try:
    version("openrlhf")  # `import openrlhf` would also find this folder
except PackageNotFoundError:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("PROMPT_COEVO_", "COEVO_TEST_")):
            monkeypatch.delenv(name)
