"""Propose a child of two parents. Registered under the name `espl_crossover`."""

from __future__ import annotations

from prompt_coevo.proposals import ProposalRequest
from prompt_coevo.reflection.proposers.prompted import PromptedProposer

_NO_FAILURES = "(none)"


class Crossover(PromptedProposer):
    """Propose an instruction from two, their scores, and failures of the first where the second won."""

    name = "espl_crossover"
    tag = r"ins_[1-9]\d*"
    placeholders = ("first", "second", "first_score", "second_score", "failures")

    def values(self, request: ProposalRequest) -> dict[str, str]:
        first, second = request.parents
        scores = dict(request.history)
        return {
            "first": self.show(first.text),
            "second": self.show(second.text),
            "first_score": f"{scores[first.text]:.2g}",
            "second_score": f"{scores[second.text]:.2g}",
            "failures": self.show_failures(request) or _NO_FAILURES,
        }
