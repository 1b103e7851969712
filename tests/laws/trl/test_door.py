"""The door of the tutorial keeps all laws."""

from __future__ import annotations

from helpers.own_door_run import OwnDoorUnderTest
from prompt_coevo.testing.door import door_laws

test_own_door = door_laws(OwnDoorUnderTest)
