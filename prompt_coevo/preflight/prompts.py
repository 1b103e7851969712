"""A probe placed in every shape of question, and tokenised as the policy sees it and as it is trained."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, TypeAlias

from prompt_coevo.errors import HostError
from prompt_coevo.placement import Placement, Prompt
from prompt_coevo.policy import Policy
from prompt_coevo.preflight.page import Line
from prompt_coevo.settings.method import Job
from prompt_coevo.types import Assignment, Candidate, Question

PROBE_TEMPLATE: Final = Candidate("Think of what you know, step by step.", "template", "probe")
PROBE_INSTRUCTION: Final = Candidate(
    "Answer the question as well as you can.", "instruction", "probe"
)
LOOKED_AT: Final = 10_000
"""Questions whose shape is looked at, at most, evenly spaced."""
_SHOWN: Final = 6

Encode: TypeAlias = Callable[[Prompt], Sequence[int]]
Shape: TypeAlias = tuple[str, ...]


def shapes(policy: Policy) -> tuple[dict[Shape, tuple[Question, int]], int]:
    """The first question of every shape with the count of its likes, and how many were looked at.

    Raises HostError for a question that is no `Question`.
    """
    ids = policy.question_ids()
    every = -(-len(ids) // LOOKED_AT) or 1
    found: dict[Shape, tuple[Question, int]] = {}
    looked_at = ids[::every]
    for question_id in looked_at:
        question = policy.question(question_id)
        if not isinstance(question, Question):
            raise HostError(
                f"policy.question({question_id!r}) returned a {type(question).__name__}; return a "
                "prompt_coevo.Question(id, prompt, ground_truth)"
            )
        shape = _shape(question.prompt)
        first, count = found.get(shape, (question, 0))
        found[shape] = first, count + 1
    return found, len(looked_at)


def look_at_prompts(
    policy: Policy,
    kinds: Collection[Job],
    placement: Placement,
    encode: Encode | None,
    *,
    distill: bool,
) -> Iterator[Line]:
    """One line for each shape, the most frequent ones first. `kinds` are the parts that a run brings in."""
    found, looked_at = shapes(policy)
    total = len(policy.question_ids())
    some = "" if looked_at == total else f", {looked_at} of them looked at"
    yield Line("ok", "questions", f"{total} questions in {_plural(len(found), 'shape')}{some}")
    if not kinds:
        return
    ordered = sorted(found.items(), key=lambda item: -item[1][1])
    for shape, (question, count) in ordered[:_SHOWN]:
        yield _one(
            f"{', '.join(shape)} ({count})", question, kinds, placement, encode, distill=distill
        )
    for shape, (question, count) in ordered[_SHOWN:]:
        line = _one(
            f"{', '.join(shape)} ({count})", question, kinds, placement, encode, distill=distill
        )
        if line.status != "ok":
            yield line
    if len(ordered) > _SHOWN:
        rest = len(ordered) - _SHOWN
        yield Line("note", "prompts", f"{_plural(rest, 'rarer shape')} looked at likewise")


def _one(
    where: str,
    question: Question,
    kinds: Collection[Job],
    placement: Placement,
    encode: Encode | None,
    *,
    distill: bool,
) -> Line:
    """What a prompt of this shape comes to."""
    probe = Assignment(
        question.id,
        instruction=PROBE_INSTRUCTION if "instruction" in kinds else None,
        template=PROBE_TEMPLATE if "template" in kinds else None,
        distill=distill,
        placement=placement,
    )
    try:
        rolled_out = probe.rollout_prompt(question.prompt)
        trained = probe.train_prompt(question.prompt)
        if encode is None:
            return Line("ok", "prompts", f"{where}: {_named(kinds)} placed; no tokenizer was given")
        bare = list(encode(question.prompt))
        both, on_trained = list(encode(rolled_out)), list(encode(trained))
    except Exception as error:  # a chat template is a program of somebody else's
        told = f"{type(error).__name__}: {error}"
        advice = _advice(kinds, placement)
        return Line(
            "problem",
            "prompts",
            f"{where}: it cannot be tokenised with {_named(kinds)}: {told}; {advice}",
        )
    if "instruction" in kinds and on_trained == bare:
        return Line(
            "problem",
            "prompts",
            f"{where}: the instruction does not reach the policy, whose chat template leaves it out; "
            f"{_advice(kinds, placement)}",
        )
    if "template" in kinds and distill and both == on_trained:
        return Line(
            "problem",
            "prompts",
            f"{where}: the template does not reach the policy, whose chat template leaves it out",
        )
    return Line(
        "ok",
        "prompts",
        f"{where}: {len(bare)} tokens; with {_named(kinds)}, rollouts see {len(both)} and training "
        f"{len(on_trained)}",
    )


def _advice(kinds: Collection[Job], placement: Placement) -> str:
    if "instruction" in kinds and placement.instruction == "system":
        return 'if the policy knows no system message, set placement.instruction = "prefix"'
    return "mend the tokenizer's chat template, or the question"


def _shape(prompt: Prompt) -> Shape:
    """What decides how a candidate is placed: text or chat, its roles, texts or parts."""
    if isinstance(prompt, str):
        return ("text",)
    roles: list[str] = []
    for message in prompt:
        parts = "" if isinstance(message.get("content"), str | None) else " in parts"
        roles.append(f"{message.get('role')}{parts}")
    if len(roles) > 4:
        return ("chat: " + roles[0], f"… {len(roles) - 2} messages …", roles[-1])
    return ("chat: " + roles[0], *roles[1:]) if roles else ("chat without messages",)


def _named(kinds: Collection[Job]) -> str:
    articles = {"instruction": "an instruction", "template": "a template"}
    return " and ".join(articles[kind] for kind in sorted(kinds))


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
