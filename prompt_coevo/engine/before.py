"""Before the first step: what is looked at, written down, warned of and refused."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict

from prompt_coevo.engine.desk import Desk
from prompt_coevo.errors import OutOfStep, PreflightError
from prompt_coevo.markers import PROJECT
from prompt_coevo.policy import Policy
from prompt_coevo.preflight.look import Looking
from prompt_coevo.preflight.page import Line, Page
from prompt_coevo.preflight.reflection_call import Answer
from prompt_coevo.settings import Settings
from prompt_coevo.settings.method import Workload

logger = logging.getLogger(PROJECT)


def look_before(
    desk: Desk,
    policy: Policy | None,
    workload: Workload | None,
    *,
    roll_out: bool,
    show: Callable[[Page], None] = lambda page: None,
) -> Page:
    """The page. The journal gets it as the event `preflight`, and before it `reflection_probed`. What was
    found is noted and shown also if rollouts end it all (OutOfStep)."""
    looking = Looking(desk.settings, desk.methods, desk.model, desk.encode)
    lines: list[Line] = []
    try:
        for found in looking.lines(policy, workload, roll_out=roll_out):
            if isinstance(found, Answer):
                desk.note(
                    "reflection_probed",
                    calls=found.calls,
                    seconds=found.seconds,
                    usage=asdict(found.usage),
                    error=found.reply.error,
                )
            else:
                lines.append(found)
    except OutOfStep:  # its line is on the page
        _leave(desk, Page(tuple(lines)), show)
        raise
    page = Page(tuple(lines))
    _leave(desk, page, show)
    return page


def _leave(desk: Desk, page: Page, show: Callable[[Page], None]) -> None:
    desk.note("preflight", **page.to_json())
    show(page)


def print_before(desk: Desk, policy: Policy, workload: Workload | None) -> Page:
    """The page of a dry run, printed also if its rollouts end it all."""

    def show(page: Page) -> None:
        print(page.text(), flush=True)

    return look_before(desk, policy, workload, roll_out=True, show=show)


def clear_for_training(settings: Settings, page: Page) -> None:
    """Log what a user should know. Raises PreflightError for a reflection model that does not answer, if
    the settings want that."""
    for line in (*page.of("problem"), *page.of("warning")):
        dead = line.topic == "reflection" and line.status == "problem"
        if dead and settings.preflight.reflection == "refuse":
            raise PreflightError(
                f'{line.text} (to train without it: preflight.reflection = "warn")'
            )
        logger.warning("%s", line.text)
