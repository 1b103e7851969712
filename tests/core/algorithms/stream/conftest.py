"""Fixtures for the tests of the stream."""

from __future__ import annotations

import pytest

from prompt_coevo.algorithms.stream import reflection


@pytest.fixture
def room_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an epoch try every proposal, so that nothing else limits the calls."""
    monkeypatch.setattr(reflection, "_ENOUGH", 1e-3)
