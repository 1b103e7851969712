"""GEPA's "propose improvement": P2O section 3.4, eq. 6.

The paper uses the meta-prompt of GEPA (arXiv 2507.19457); ours has the same content in other words, and
tags in place of a code fence.
"""

from __future__ import annotations

from prompt_coevo.placement import fill
from prompt_coevo.proposals import ProposalRequest
from prompt_coevo.reflection.proposers.prompted import PromptedProposer

_NO_TEMPLATE = "(none: the question is given as it is)"
_TRIED = (
    "\nThese templates were tried on such questions. The number in front of each is the share of responses "
    "under it that were right:\n\n{{templates}}\n\nDo not propose one of them again.\n"
)


class ProposeImprovement(PromptedProposer):
    """Improve a template, given the failures under it."""

    name = "propose_improvement"
    tag = "template"
    placeholders = ("parent", "failures")
    optional = ("tried",)

    def values(self, request: ProposalRequest) -> dict[str, str]:
        return {
            "parent": self.show(request.parent.text) or _NO_TEMPLATE,
            "failures": self.show_failures(request),
            "tried": self._show_tried(request),
        }

    def _show_tried(self, request: ProposalRequest) -> str:
        if not request.history:
            return ""
        tried = [
            f"<tried>\n{share:.2f}\n{self.show(text)}\n</tried>" for text, share in request.history
        ]
        return fill(_TRIED, templates="\n".join(tried))
