"""The laws of a door, one file per part of its work."""

# In the order of reading, and of the cost of their runs.
# isort: off
from prompt_coevo.testing.door import rollouts as rollouts
from prompt_coevo.testing.door import training as training
from prompt_coevo.testing.door import policy as policy
from prompt_coevo.testing.door import evaluation as evaluation
from prompt_coevo.testing.door import moments as moments
from prompt_coevo.testing.door import refusals as refusals

# isort: on
from prompt_coevo.testing.door.law import LAWS, Law

__all__ = ["LAWS", "Law"]
