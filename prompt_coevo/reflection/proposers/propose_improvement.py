"""GEPA's "propose improvement": P2O section 3.4, eq. 6.

The paper uses the meta-prompt of GEPA (arXiv 2507.19457); ours asks for the same, in its own words and
with our tags in place of a code fence.
"""

from __future__ import annotations

from prompt_coevo.proposals import ProposalRequest
from prompt_coevo.reflection.proposers.prompted import PromptedProposer

_NO_TEMPLATE = "(none: the question is given as it is)"


class ProposeImprovement(PromptedProposer):
    """A template, the failures under it; an improved template back."""

    name = "propose_improvement"
    tag = "template"
    placeholders = ("parent", "failures")

    def values(self, request: ProposalRequest) -> dict[str, str]:
        return {
            "parent": self.show(request.parent.text) or _NO_TEMPLATE,
            "failures": self.show_failures(request),
        }
