"""VeRL's door keeps the laws of a door, in the unmodified main_ppo."""

from __future__ import annotations

from helpers.verl_under_test import VerlUnderTest
from prompt_coevo.testing.door import door_laws

test_verl_door = door_laws(VerlUnderTest)
