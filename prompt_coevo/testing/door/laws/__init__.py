"""The laws of a door, one file per part of its work."""

# In the order of reading, and of the cost of their runs.
# isort: off
from prompt_coevo.testing.door.laws import rollouts as rollouts
from prompt_coevo.testing.door.laws import training as training
from prompt_coevo.testing.door.laws import policy as policy
from prompt_coevo.testing.door.laws import evaluation as evaluation
from prompt_coevo.testing.door.laws import moments as moments
from prompt_coevo.testing.door.laws import refusals as refusals

# isort: on
from prompt_coevo.testing.door.laws.law import LAWS, Law

__all__ = ["LAWS", "Law"]
