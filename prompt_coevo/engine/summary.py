"""Summarize the result of a run at its end, in one honest paragraph."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import Final

from prompt_coevo import hookspecs
from prompt_coevo.engine.rounds import OpenRounds
from prompt_coevo.engine.run_context import RunContext
from prompt_coevo.markers import PROJECT
from prompt_coevo.types import Summary
from prompt_coevo.visible import in_a_line

logger = logging.getLogger(PROJECT)

_LONGEST: Final = 1_000


def tell_what_came_of_it(context: RunContext, rounds: OpenRounds) -> None:
    """Log, print and journal the methods' summaries and the reflection model's calls."""
    said = [*context.plugins.by_plugin(hookspecs.coevo_summary).items()]
    told = [(name, one) for name, one in reversed(said) if isinstance(one, Summary)]
    if not told:
        return
    failures = _failures(context)
    forgotten = _never_called(context, rounds)
    text = "; ".join([*forgotten, *(f"{name}: {one.text}" for name, one in told), *failures])
    for_nothing = bool(forgotten) or any(one.for_nothing for _, one in told)
    lines = [*(line for _, one in told for line in one.lines), *context.early_said, *_cost(context)]
    if context.folder is not None:
        lines.append(f"see more: prompt-coevo report {context.folder.parent}")
    findings = {name: dict(one.findings) for name, one in told if one.findings is not None}
    context.note("summary", text=text, for_nothing=for_nothing, lines=lines, findings=findings)
    say([in_a_line(one, _LONGEST) for one in (text, *lines)], for_nothing=for_nothing)


def _never_called(context: RunContext, rounds: OpenRounds) -> list[str]:
    """Name the engine calls that the trainer left out. A custom trainer runs without them, but learns
    nothing."""
    if not rounds.planned or _was_over(context):
        return []
    if not rounds.came_back:
        return [
            f"of {rounds.planned} planned groups none came back: call observe with all rollouts of a group"
        ]
    if not context.policy_version.step:
        return ["no step ever ended: call step_end after every update of the weights"]
    return []


def _was_over(context: RunContext) -> bool:
    """Check whether a resumed run had no step left: it only ends the step in progress, and never trains on
    groups that the trainer sampled ahead."""
    resumed = context.resumed_step
    return resumed is not None and context.policy_version.step <= resumed + 1


def _cost(context: RunContext) -> list[str]:
    if context.model is None:
        return []
    totals = context.ledger.totals
    told = f"the reflection model took {int(totals['calls'])} calls"
    tokens_in, tokens_out = int(totals["prompt_tokens"]), int(totals["completion_tokens"])
    if tokens_in:  # 0 for a python function, which reports no usage
        price = f"${totals['usd']:.4f}" if totals["usd"] else "at an unknown price"
        told += f", {tokens_in} tokens in and {tokens_out} out, {price}"
    return [told]


def _failures(context: RunContext) -> list[str]:
    if context.model is None:
        return []
    totals = context.ledger.totals
    calls, errors = int(totals["calls"]), int(totals["errors"])
    if not errors:
        return []
    reason = f": {context.model.last_error}" if context.model.last_error else ""
    return [f"the reflection model failed {errors} of {calls} times{reason}"]


def say(lines: Sequence[str], *, for_nothing: bool = False) -> None:
    """Log lines, and print them if the log would not show them; between two rules if `for_nothing`."""
    level = logging.WARNING if for_nothing else logging.INFO
    shown = "\n".join(f"prompt_coevo: {line}" for line in lines)
    if for_nothing:
        rule = "=" * min(100, max(map(len, lines)))
        shown = f"\n{rule}\n{shown}\n{rule}"
    if logger.hasHandlers():
        for line in lines:
            logger.log(level, "%s", line)
    # Without a configured logger, INFO would not be shown; and a warning must not be lost in a long log.
    if for_nothing or not logger.hasHandlers():
        print(shown, file=sys.stderr, flush=True)
