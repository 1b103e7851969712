"""The initial population: the user's instructions and their paraphrases."""

from __future__ import annotations

from collections.abc import Iterable

from prompt_coevo import hookspecs
from prompt_coevo.algorithms.inspo.settings import InspoSettings
from prompt_coevo.candidates.leaks import LeakGuard
from prompt_coevo.candidates.source import CandidateSource, ProposerUnavailable
from prompt_coevo.context import Context
from prompt_coevo.errors import SettingsError
from prompt_coevo.proposals import ProposalRequest, Reply
from prompt_coevo.types import Candidate

_CALLS = 5


def users_instructions(context: Context) -> list[Candidate]:
    """Return the user's list, else the one instruction, else the system message that all questions share.

    Raises SettingsError if there is none.
    """
    settings = context.settings.section(InspoSettings)
    texts = list(settings.initial_population)
    if not texts:
        one = settings.instruction
        if one is None and context.settings.placement.instruction == "system":
            one = context.system_message()
        if one is None:
            raise SettingsError(
                "there is no instruction to start from: set inspo.instruction, or give all prompts of "
                "the dataset the same system message"
            )
        texts = [one]
    return [Candidate(text, "instruction") for text in texts]


def check_instructions(candidates: Iterable[Candidate], context: Context) -> None:
    """Raise SettingsError if one of them fails the gates that new instructions must pass.

    Gates may need the trainer's tokenizer and dataset, so call this when training begins.
    """
    for candidate in candidates:
        reason = context.check(
            hookspecs.coevo_check_candidate,
            candidate=candidate,
            parents=(candidate,),
            reply=Reply(candidate.text),
            known=(),
            leak_guard=LeakGuard(),
        )
        if reason is not None:
            raise SettingsError(
                f"the instruction {candidate.text[:80]!r} does not pass the gates that its successors "
                f"must pass: {reason}; change the instruction or the settings under gates"
            )


def paraphrases(context: Context, parent: Candidate, count: int) -> list[Candidate]:
    """Ask the proposer `paraphrase` for up to `count` paraphrases of the instruction that pass the gates.

    Returns fewer if five calls do not give enough, or if the reflection model fails.
    """
    source = CandidateSource(context, LeakGuard())
    known = {parent.text}
    found: list[Candidate] = []
    for _ in range(_CALLS):
        missing = count - len(found)
        if missing <= 0:
            break
        request = ProposalRequest("instruction", (parent,), (), "paraphrase", missing)
        try:
            (candidates,) = source.ask([request], known)
        except ProposerUnavailable as error:
            context.note("paraphrases_failed", reason=str(error))
            break
        found += candidates[:missing]
    return found
