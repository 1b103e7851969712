"""OpenRLHF's door keeps the laws of a door."""

from __future__ import annotations

from helpers.openrlhf_under_test import OpenRLHFUnderTest
from prompt_coevo.testing.door import door_laws

test_openrlhf_door = door_laws(OpenRLHFUnderTest)
