"""Proposers: who writes new candidates, chosen by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prompt_coevo.markers import hookimpl
from prompt_coevo.reflection.proposers.instructions import History, Paraphrase, Reflection
from prompt_coevo.reflection.proposers.prompted import PromptedProposer
from prompt_coevo.reflection.proposers.propose_improvement import ProposeImprovement

_BUILTIN: tuple[type[PromptedProposer], ...] = (
    ProposeImprovement,
    Reflection,
    Paraphrase,
    History,
)


class BuiltinProposers:
    """Registers the proposers that come with the package."""

    @hookimpl
    def coevo_register_proposers(self, register: Callable[[str, Callable[..., Any]], None]) -> None:
        for proposer in _BUILTIN:
            register(proposer.name, proposer)
