"""Place made-up candidates in every shape of question; tokenise the rollout and the trained prompt."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, TypeAlias

from prompt_coevo.errors import HostError
from prompt_coevo.placement import Placement, Prompt, RenderedChat
from prompt_coevo.policy import Policy
from prompt_coevo.preflight.page import Line, Status, plural
from prompt_coevo.settings.method import Job
from prompt_coevo.types import Assignment, Candidate, Question

_TEMPLATE: Final = Candidate("Think of what you know, step by step.", "template", "probe")
_INSTRUCTION: Final = Candidate("Answer the question as well as you can.", "instruction", "probe")
LOOKED_AT: Final = 10_000
"""The most questions whose shape is examined; they are evenly spaced."""
_SHOWN: Final = 6
_COUNTED: Final = 64

Encode: TypeAlias = Callable[[Prompt], Sequence[int]]
Shape: TypeAlias = tuple[str, ...]


def shapes(policy: Policy) -> tuple[dict[Shape, tuple[Question, int]], int]:
    """Return the first question of every shape with the shape's count, and how many were examined.

    Raise HostError for a question that is not a `Question`.
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


def mean_tokens(policy: Policy, encode: Encode) -> int | None:
    """Return the mean length of some questions in tokens; None if they cannot be tokenised."""
    ids = policy.question_ids()
    some = ids[:: max(1, len(ids) // _COUNTED)][:_COUNTED]
    try:
        lengths = [len(encode(policy.question(one).prompt)) for one in some]
    except Exception:  # from a third-party chat template; another check reports it
        return None
    return round(sum(lengths) / len(lengths)) if lengths else None


def probe_of(
    question_id: str, kinds: Collection[Job], placement: Placement, *, distill: bool = True
) -> Assignment:
    """Assign a made-up candidate of each kind that the run uses to a question."""
    return Assignment(
        question_id,
        instruction=_INSTRUCTION if "instruction" in kinds else None,
        template=_TEMPLATE if "template" in kinds else None,
        distill=distill,
        placement=placement,
    )


def check_prompts(
    policy: Policy,
    kinds: Collection[Job],
    placement: Placement,
    encode: Encode | None,
    *,
    distill: bool,
) -> Iterator[Line]:
    """Yield a line for each shape, the most frequent first. `kinds` are the parts that the run uses."""
    found, looked_at = shapes(policy)
    total = len(policy.question_ids())
    some = "" if looked_at == total else f", {looked_at} of them checked"
    told = f"{plural(total, 'question')} in {plural(len(found), 'shape')}{some}"
    yield Line("ok", "questions", told)
    if not kinds:
        return
    ordered = sorted(found.items(), key=lambda item: -item[1][1])
    for place, (shape, (question, count)) in enumerate(ordered):
        probe = probe_of(question.id, kinds, placement, distill=distill)
        status, told = _placed(probe, question, kinds, encode)
        if place < _SHOWN or status != "ok":
            yield Line(status, "prompts", f"{', '.join(shape)} ({count}): {told}")
    if len(ordered) > _SHOWN:
        rest = len(ordered) - _SHOWN
        yield Line("note", "prompts", f"{plural(rest, 'rarer shape')} checked as well")


def _placed(
    probe: Assignment, question: Question, kinds: Collection[Job], encode: Encode | None
) -> tuple[Status, str]:
    """Place and tokenise the probe in a question's prompt; return the status and a sentence."""
    named, advice = _named(kinds), _advice(kinds, probe.placement)
    try:
        rolled_out = probe.rollout_prompt(question.prompt)
        trained = probe.train_prompt(question.prompt)
        if encode is None:
            return "ok", f"{named} placed; no tokenizer was given"
        bare = list(encode(question.prompt))
        both, on_trained = list(encode(rolled_out)), list(encode(trained))
    except Exception as error:  # a chat template is third-party code
        told = f"{type(error).__name__}: {error}"
        return "problem", f"it cannot be tokenised with {named}: {told}; {advice}"
    unheard = "does not reach the policy, whose chat template leaves it out"
    if "instruction" in kinds and on_trained == bare:
        return "problem", f"the instruction {unheard}; {advice}"
    if "template" in kinds and probe.distill and both == on_trained:
        return "problem", f"the template {unheard}"
    lengths = f"rollouts see {len(both)} and training {len(on_trained)}"
    return "ok", f"{len(bare)} tokens; with {named}, {lengths}"


def _advice(kinds: Collection[Job], placement: Placement) -> str:
    if "instruction" in kinds and placement.instruction == "system":
        return 'if the policy knows no system message, set placement.instruction = "prefix"'
    return "fix the tokenizer's chat template, or the question"


def _shape(prompt: Prompt) -> Shape:
    """Return what determines the placement of a candidate: text or chat, roles, texts or parts."""
    if isinstance(prompt, RenderedChat):
        return ("rendered chat", "without a system message" if prompt.system is None else "system")
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
