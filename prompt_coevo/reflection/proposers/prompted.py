"""The base of proposers that use a meta-prompt and read tagged candidates from the reply."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module, resources
from typing import ClassVar

from prompt_coevo.context import Context
from prompt_coevo.errors import SettingsError
from prompt_coevo.placement import check_layout, fill
from prompt_coevo.proposals import Proposal, ProposalRequest, Reply
from prompt_coevo.reflection.proposers.excerpts import cut, neutralise_fences, show_failure
from prompt_coevo.reflection.proposers.tags import extract_tagged


class PromptedProposer:
    """Make one call per request, all of them concurrently.

    A subclass defines its meta-prompt (`<name>.md` beside it, or the user's file), the placeholders in it,
    and the tag around its candidates. Raise SettingsError if no reflection model is configured or the
    user's file cannot be used.
    """

    name: ClassVar[str]
    tag: ClassVar[str]
    placeholders: ClassVar[tuple[str, ...]]
    optional: ClassVar[tuple[str, ...]] = ()
    """Placeholders that a user's file may leave out, besides `count`."""

    def __init__(self, context: Context) -> None:
        self._reflection = context.settings.reflection
        self._count_tokens = context.count_tokens
        self._model = context.language_model()
        self._meta_prompt = self._read_meta_prompt()

    def propose(self, requests: Sequence[ProposalRequest]) -> list[Proposal]:
        """Return one proposal per request, with at most as many texts as it asks for."""
        prompts = [self.render(request) for request in requests]
        replies = self._model.complete(prompts)
        return [
            self._read(request, self._model.request_hash(prompt), reply)
            for request, prompt, reply in zip(requests, prompts, replies, strict=True)
        ]

    def render(self, request: ProposalRequest) -> str:
        """Return the prompt for the reflection model."""
        left_out = dict.fromkeys(self.optional, "")
        return fill(
            self._meta_prompt, count=str(request.count), **{**left_out, **self.values(request)}
        )

    def values(self, request: ProposalRequest) -> dict[str, str]:
        """Return the values of the placeholders, with texts from outside made safe."""
        raise NotImplementedError

    def show(self, text: str) -> str:
        """Cut a candidate's text to size and make it unable to close the tags around it."""
        return neutralise_fences(cut(text, self._reflection.max_example_tokens, self._count_tokens))

    def show_failures(self, request: ProposalRequest) -> str:
        """Write the failed trajectories, fenced."""
        budget = self._reflection.max_example_tokens
        return "\n\n".join(
            show_failure(number, trajectory, budget, self._count_tokens)
            for number, trajectory in enumerate(request.failures, start=1)
        )

    def _read(self, request: ProposalRequest, request_hash: str, reply: Reply) -> Proposal:
        if not reply.text:
            return Proposal(request, (), reply, request_hash, reply.error or _why_empty(reply))
        texts, problem = extract_tagged(reply.text, self.tag)
        return Proposal(request, texts[: request.count], reply, request_hash, problem)

    def _read_meta_prompt(self) -> str:
        path = self._reflection.meta_prompts.get(self.name)
        if path is None:
            # Beside the class that defines the name; it may be in a third-party package.
            named = next(kind for kind in type(self).__mro__ if "name" in vars(kind))
            package = import_module(named.__module__).__package__ or __package__
            return (resources.files(package) / f"{self.name}.md").read_text("utf-8")
        where = f"reflection.meta_prompts.{self.name} {path}"
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{where} cannot be read: {error}") from None
        check_layout(text, self.placeholders, where, optional=["count", *self.optional])
        return text


def _why_empty(reply: Reply) -> str:
    used_up = ", having used up reflection.max_tokens" if reply.finish_reason == "length" else ""
    return f"the reply is empty{used_up}"
