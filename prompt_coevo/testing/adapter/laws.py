"""The laws of an adapter, one file per part of its work."""

# Imported in reading order, which is also the order of their runs' cost.
# isort: off
from prompt_coevo.testing.adapter import rollouts as rollouts
from prompt_coevo.testing.adapter import training as training
from prompt_coevo.testing.adapter import policy as policy
from prompt_coevo.testing.adapter import evaluation as evaluation
from prompt_coevo.testing.adapter import moments as moments
from prompt_coevo.testing.adapter import refusals as refusals

# isort: on
from prompt_coevo.testing.adapter.law import LAWS, Law

__all__ = ["LAWS", "Law"]
