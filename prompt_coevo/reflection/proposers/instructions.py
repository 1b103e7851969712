"""The proposers of INSPO (appendix E): reflection, and the two that Fig. 3 compares it with.

The meta-prompts have the content of the paper's, in our own words.
"""

from __future__ import annotations

from prompt_coevo.proposals import ProposalRequest
from prompt_coevo.reflection.proposers.prompted import PromptedProposer

_TAG = r"ins_[1-9]\d*"


class Reflection(PromptedProposer):
    """Improve an instruction, given trajectories that failed under it or its siblings."""

    name = "reflection"
    tag = _TAG
    placeholders = ("parent", "failures")

    def values(self, request: ProposalRequest) -> dict[str, str]:
        return {
            "parent": self.show(request.parent.text),
            "failures": self.show_failures(request),
        }


class Paraphrase(PromptedProposer):
    """Reword an instruction (Zhou et al., 2023)."""

    name = "paraphrase"
    tag = _TAG
    placeholders = ("parent",)

    def values(self, request: ProposalRequest) -> dict[str, str]:
        return {"parent": self.show(request.parent.text)}


class History(PromptedProposer):
    """Improve on earlier instructions, given with their scores, worst first (Yang et al., 2024).

    Scores are mean rewards, clipped to 0 ... 1 and shown as 0 to 100. As in the paper's ablation, each was
    measured under the policy of its time, in training or in verification.
    """

    name = "history"
    tag = _TAG
    placeholders = ("history",)

    def values(self, request: ProposalRequest) -> dict[str, str]:
        known = request.history or ((request.parent.text, 0.0),)
        entries = [
            f"<ins_{number}>\n{self.show(text)}\n</ins_{number}>\n"
            f"<score_{number}>{100 * min(max(score, 0.0), 1.0):.0f}</score_{number}>"
            for number, (text, score) in enumerate(sorted(known, key=lambda entry: entry[1]), 1)
        ]
        return {"history": "\n\n".join(entries)}
