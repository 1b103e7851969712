"""Installed in OpenRLHF's processes in a soak: what is recorded, and random numbers for each request."""

from __future__ import annotations

from helpers import openrlhf_facts, soak_recorder


def install() -> None:
    """For `COEVO_TEST_INSTALL`."""
    openrlhf_facts.install()
    soak_recorder.install()
