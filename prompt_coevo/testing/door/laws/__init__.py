"""The laws of a door, one file per part of its work."""

from prompt_coevo.testing.door.laws import (  # noqa: F401
    checkpoints,
    evaluation,
    moments,
    policy,
    refusals,
    rollouts,
    training,
)
from prompt_coevo.testing.door.laws.law import LAWS, Law

__all__ = ["LAWS", "Law"]
