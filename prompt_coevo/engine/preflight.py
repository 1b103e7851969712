"""Run the preflight checks, journal them, log warnings, and raise on fatal ones."""

from __future__ import annotations

import logging
from dataclasses import asdict

from prompt_coevo.engine.run_context import RunContext
from prompt_coevo.errors import DatasetError, OutOfStep, PreflightError
from prompt_coevo.markers import PROJECT
from prompt_coevo.policy import Policy
from prompt_coevo.preflight.checks import Checks
from prompt_coevo.preflight.page import Line, Page
from prompt_coevo.preflight.reflection_call import Answer
from prompt_coevo.settings import Settings
from prompt_coevo.settings.method import Workload

logger = logging.getLogger(PROJECT)


def look_before(
    context: RunContext,
    policy: Policy | None,
    workload: Workload | None,
    *,
    roll_out: bool,
    show: bool = False,
) -> Page:
    """Run the checks; journal them (events `reflection_probed`, `preflight`); print the page if `show`.

    Raise OutOfStep at the end if the rollouts left the ranks out of step.
    """
    checks = Checks(context.settings, context.methods, context.model, context.encode)
    lines: list[Line] = []
    ended: OutOfStep | None = None
    try:
        for found in checks.lines(policy, workload, roll_out=roll_out):
            if isinstance(found, Answer):
                context.note(
                    "reflection_probed",
                    calls=found.calls,
                    seconds=found.seconds,
                    usage=asdict(found.usage),
                    error=found.reply.error,
                )
            else:
                lines.append(found)
    except OutOfStep as error:  # the page already has a line about it
        ended = error
    page = Page(tuple(lines))
    context.note("preflight", **page.to_json())
    if show:
        print(page.text(), flush=True)
    if ended is not None:
        raise ended
    return page


def clear_for_training(settings: Settings, page: Page) -> None:
    """Log problems and warnings. Raise DatasetError if a method refuses the questions, PreflightError if
    the reflection model does not answer and `preflight.reflection` is `refuse`."""
    for line in (*page.of("problem"), *page.of("warning")):
        if line.topic == "method":  # `Method.refuses`
            raise DatasetError(line.text)
        dead = line.topic == "reflection" and line.status == "problem"
        if dead and settings.preflight.reflection == "refuse":
            raise PreflightError(
                f'{line.text} (to train without it: preflight.reflection = "warn")'
            )
        logger.warning("%s", line.text)
