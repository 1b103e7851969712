"""GEPA's "propose improvement": P2O section 3.4, eq. 6.

The paper uses the meta-prompt of GEPA (arXiv 2507.19457); ours asks for the same, in its own words and
with our tags in place of a code fence.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources

from prompt_coevo.context import Context
from prompt_coevo.errors import SettingsError
from prompt_coevo.placement import check_layout, fill
from prompt_coevo.proposals import Proposal, ProposalRequest, Reply
from prompt_coevo.proposers.excerpts import cut, neutralise, show_failure
from prompt_coevo.proposers.tags import extract_tagged

_NO_TEMPLATE = "(none: the question is given as it is)"


class ProposeImprovement:
    """One reflection call per parent: its template, the failures under it, an improved template back.

    Raises SettingsError if no reflection model is configured or the meta-prompt file cannot be used.
    """

    def __init__(self, context: Context) -> None:
        self._reflection = context.settings.reflection
        self._count_tokens = context.count_tokens
        self._model = context.language_model()
        self._meta_prompt = self._read_meta_prompt()

    def propose(self, requests: Sequence[ProposalRequest]) -> list[Proposal]:
        """One proposal per request; all calls run concurrently."""
        prompts = [self.render(request) for request in requests]
        replies = self._model.complete(prompts)
        return [
            _parse(request, self._model.request_hash(prompt), reply)
            for request, prompt, reply in zip(requests, prompts, replies, strict=True)
        ]

    def render(self, request: ProposalRequest) -> str:
        """The prompt for the reflection model."""
        budget = self._reflection.max_example_tokens
        failures = [
            show_failure(number, trajectory, budget, self._count_tokens)
            for number, trajectory in enumerate(request.failures, start=1)
        ]
        parent = neutralise(cut(request.parent.text, budget, self._count_tokens))
        return fill(
            self._meta_prompt, parent=parent or _NO_TEMPLATE, failures="\n\n".join(failures)
        )

    def _read_meta_prompt(self) -> str:
        path = self._reflection.meta_prompts.get("propose_improvement")
        if path is None:
            return (resources.files(__package__) / "propose_improvement.md").read_text("utf-8")
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(
                f"reflection.meta_prompt_file {path} cannot be read: {error}"
            ) from None
        check_layout(text, ["parent", "failures"], f"reflection.meta_prompt_file {path}")
        return text


def _parse(request: ProposalRequest, request_hash: str, reply: Reply) -> Proposal:
    if reply.text is None:
        return Proposal(request, (), reply, request_hash, reply.error or "the reply is empty")
    texts, problem = extract_tagged(reply.text, "template")
    return Proposal(request, texts, reply, request_hash, problem)
