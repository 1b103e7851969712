"""The laws of a door, as tests that its author's own test file calls.

    from prompt_coevo.testing.door import door_laws

    test_my_door = door_laws(MyDoorUnderTest)

`DoorUnderTest` says what `MyDoorUnderTest` must be able to do: run a `Job` and return the `Record` of
what happened in it. The laws judge records; nothing here imports torch or a framework.
"""

from prompt_coevo.testing.door.host import Capability, DoorUnderTest
from prompt_coevo.testing.door.job import Job, Material, reward_of
from prompt_coevo.testing.door.laboratory import Laboratory
from prompt_coevo.testing.door.laws import LAWS, Law
from prompt_coevo.testing.door.record import (
    Evaluated,
    LogProbs,
    Record,
    Sampled,
    Scored,
    Trained,
    fingerprint,
)
from prompt_coevo.testing.door.suite import door_laws, judge

__all__ = [
    "LAWS",
    "Capability",
    "DoorUnderTest",
    "Evaluated",
    "Job",
    "Laboratory",
    "Law",
    "LogProbs",
    "Material",
    "Record",
    "Sampled",
    "Scored",
    "Trained",
    "door_laws",
    "fingerprint",
    "judge",
    "reward_of",
]
