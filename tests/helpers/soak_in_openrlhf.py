"""Install the soak's recorder in OpenRLHF's processes, and give each request its own random numbers."""

from __future__ import annotations

from helpers import openrlhf_facts, soak_recorder


def install() -> None:
    """Install both; `COEVO_TEST_INSTALL` names this function."""
    openrlhf_facts.install()
    soak_recorder.install()
