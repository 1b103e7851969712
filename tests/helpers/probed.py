"""Check what any trainer's journal says about the preflight probe of the reflection model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def check_that_the_model_was_asked(events: Sequence[Mapping[str, Any]]) -> None:
    """Assert that it was probed once, before the first step, and answered. `events` are the whole run's."""
    (probed,) = [one for one in events if one["event"] == "reflection_probed"]
    assert (probed["calls"], probed["error"], probed["step"]) == (1, None, 0)
    (page,) = [one for one in events if one["event"] == "preflight"]
    assert page["ok"], page
    told = [line["text"] for line in page["lines"] if line["topic"] == "reflection"]
    assert "the reflection model 'openai/teacher' answered" in told[0]
    names = [one["event"] for one in events]
    assert names.index("preflight") < names.index("metrics")
