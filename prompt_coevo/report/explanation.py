"""Explain in words what became of a candidate and why, for a terminal or a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prompt_coevo.preflight.page import plural
from prompt_coevo.report.run import CandidateRecord, Check, Run, Spent, TrialRecord
from prompt_coevo.types import EMPTY_TEMPLATE
from prompt_coevo.visible import in_a_line, visible

_USES: Final = 20
_LINE: Final = 100


def explanation(run: Run, one: CandidateRecord) -> Iterator[str]:
    """Yield lines: the candidate, what its proposer was shown and wrote, gates, trials, uses, cost. Texts
    of the model are made safe for a terminal."""
    yield f"{in_a_line(one.kind) or 'candidate'} {in_a_line(one.id)}: {one.fate} ({in_a_line(one.why)})"
    if one.id == EMPTY_TEMPLATE.id:
        yield "It is the empty template: the question as it is."
    else:
        yield from _indented(one.text)
    yield f"origin: {in_a_line(one.origin) or 'unknown'}" + _parents(run, one)
    yield ""
    yield "What became of it"
    for turn in one.turns:
        yield f"  {turn.at}: {turn.fate} ({in_a_line(turn.why)})"
    if not one.turns:
        yield "  nothing in the journal"
    for check in one.checks:
        yield ""
        yield from _proposal(run, check, one.text)
    for trial in one.trials:
        yield ""
        yield from _trial(trial)
    yield ""
    yield from _used(run, one)
    yield from _cost(run, one)


def _parents(run: Run, one: CandidateRecord) -> str:
    if not one.parents:
        return ""
    told = []
    for name in one.parents:
        if name == EMPTY_TEMPLATE.id:
            told.append("the empty template")
            continue
        parent = run.candidates.get(name)
        text = f" ({in_a_line(parent.text, 60)!r})" if parent and parent.text else ""
        told.append(in_a_line(name) + text)
    return f"; parent: {', '.join(told)}"


def _proposal(run: Run, check: Check, text: str) -> Iterator[str]:
    outcome = "it passed the gates" if check.reason is None else "a gate refused it"
    yield f"Proposed at {check.at}: {outcome}"
    if check.reason is not None:
        yield f"  why: {in_a_line(check.reason)}"
    calls = run.requests.get(check.request, [])
    if not calls:
        yield "  the journal has no call to the reflection model for it"
    for call in calls:
        tokens = _tokens(call.prompt_tokens, call.completion_tokens)
        yield f"  call {call.number}, {call.at}: {tokens}, {call.usd:.4f} USD"
        if call.error is not None:
            yield f"  it failed: {in_a_line(call.error)}"
    if calls:
        # The same prompt may have been sent more than once.
        last = next((one for one in calls[::-1] if text in (one.text or "")), calls[-1])
        yield "  What the reflection model was shown:"
        yield from _indented(last.prompt if last.prompt is not None else "(not in the journal)", 4)
        yield "  What it wrote:"
        yield from _indented(last.text if last.text is not None else "(nothing)", 4)


def _trial(trial: TrialRecord) -> Iterator[str]:
    verdict = "it won" if trial.accepted else "it lost"
    yield f"Trial at {trial.at} against {in_a_line(trial.parent)}: {verdict}"
    for one in trial.questions:
        yield f"  {one.parent_reward:.3g} -> {one.reward:.3g}  {in_a_line(one.text or one.id, _LINE)}"
        for name, text in (("parent", one.parent_completion), ("child", one.completion)):
            if text is not None:
                yield f"      {name}: {in_a_line(text, _LINE)}"


def _used(run: Run, one: CandidateRecord) -> Iterator[str]:
    yield "Where it is used"
    if one.kind == "instruction":
        steps = [number for number, step in sorted(run.steps.items()) if one.id in step.weights]
        if steps:
            weight = run.steps[steps[-1]].weights[one.id]
            yield f"  in the population from step {steps[0]} to {steps[-1]}; last weight {weight:.3g}"
        else:
            yield "  nowhere"
        return
    trained = run.uses([one.id]).get(one.id, {})
    if not trained:
        yield "  in no rollout of training"
        return
    rollouts = sum(score.rollouts for score in trained.values())
    on = plural(len(trained), "question")
    yield f"  in {plural(rollouts, 'rollout')} of training, on {on}:"
    ranked = sorted(trained.items(), key=lambda item: -(item[1].mean or 0.0))
    for question, score in ranked[:_USES]:
        text = run.questions.get(question, question)
        yield f"  {score.mean:.3g} over {score.rollouts}  {in_a_line(text, _LINE)}"
    if len(ranked) > _USES:
        yield f"  and {len(ranked) - _USES} more"


def _cost(run: Run, one: CandidateRecord) -> Iterator[str]:
    yield ""
    yield "What it cost"
    spent = Spent.on(run.calls_of(one))
    others = sum(
        other is not one and not one.requests.keys().isdisjoint(other.requests)
        for other in run.candidates.values()
    )
    shared = f", shared with {plural(others, 'other')} of the same reply" if others else ""
    tokens = _tokens(spent.prompt_tokens, spent.completion_tokens)
    yield f"  {plural(spent.calls, 'call')}, {tokens}, {spent.usd:.4f} USD{shared}"
    if one.trials:
        judged = sum(len(trial.questions) for trial in one.trials)
        yield f"  rollouts or groups of its own that were judged in trials: {judged}"


def _tokens(prompt: int, completion: int) -> str:
    return f"{prompt} tokens in, {completion} out"


def _indented(text: str, by: int = 2) -> Iterator[str]:
    for line in visible(text).split("\n"):
        yield " " * by + line
