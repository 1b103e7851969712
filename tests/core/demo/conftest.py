"""Replace the package with SmolLM2 by a tiny one."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.smollm2_package import MODEL, WHEEL, fake, write_wheel
from prompt_coevo.demo.smollm2 import GGUF, LICENCE


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Expect the tiny package, and use a new folder as the user's cache."""
    fake(monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def wheel(tiny: None, tmp_path: Path) -> Path:
    return write_wheel(tmp_path / WHEEL, {GGUF: MODEL, LICENCE: b"Apache"})
