"""For the tests of every folder."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# How long an example takes says something about the machine and what else it does.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")
