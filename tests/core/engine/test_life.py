"""An engine's life, drawn: what happens when, who answers, and when the process dies."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

from helpers.engine_life import EngineLife

EngineLife.TestCase.settings = settings(
    max_examples=int(os.environ.get("COEVO_LIVES", "25")),
    stateful_step_count=30,
    derandomize=True,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestEngineLife = EngineLife.TestCase
