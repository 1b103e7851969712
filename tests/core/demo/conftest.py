"""A tiny package in place of the one with SmolLM2."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.smollm2_package import MODEL, WHEEL, fake, write_wheel
from prompt_coevo.demo.smollm2 import GGUF, LICENCE


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The package that is expected is the tiny one, and the user's cache is a new folder."""
    fake(monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def wheel(tiny: None, tmp_path: Path) -> Path:
    return write_wheel(tmp_path / WHEEL, {GGUF: MODEL, LICENCE: b"Apache"})
