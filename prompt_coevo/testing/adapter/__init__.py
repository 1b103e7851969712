"""The laws of an adapter, as tests for its author's own test file.

    from prompt_coevo.testing.adapter import adapter_laws

    test_my_adapter = adapter_laws(MyAdapterUnderTest)

`MyAdapterUnderTest` implements `AdapterUnderTest`: it runs a `Job` and returns a `Record` of what happened.
The laws judge records; nothing here imports torch or a framework.
"""

from prompt_coevo.testing.adapter.host import AdapterUnderTest, Capability
from prompt_coevo.testing.adapter.job import Job, Material, reward_of
from prompt_coevo.testing.adapter.laboratory import Laboratory
from prompt_coevo.testing.adapter.law import LAWS, Law
from prompt_coevo.testing.adapter.record import (
    Evaluated,
    LogProbs,
    Record,
    Sampled,
    Scored,
    Trained,
    fingerprint,
)
from prompt_coevo.testing.adapter.suite import adapter_laws, judge

__all__ = [
    "LAWS",
    "AdapterUnderTest",
    "Capability",
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
    "adapter_laws",
    "fingerprint",
    "judge",
    "reward_of",
]
