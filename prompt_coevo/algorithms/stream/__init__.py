"""The stream: find templates for hard questions inside training's own rollout groups."""

import math
from collections.abc import Iterator
from typing import Final, Literal

from prompt_coevo.algorithms.stream.settings import StreamSettings
from prompt_coevo.settings.method import Cost, Foresight, Method, Workload

LISTED: Final = 4
"""At most this many tried templates are listed in one call to the reflection model."""
_LIKELY: Final = 150
_LIKELY_FROM: Final = (
    f"one for each question and at most {_LIKELY}; measured runs took a third of this to 2.6 times as "
    "many, with a teacher that is hardly ever right six times"
)


def _estimate(section: StreamSettings, workload: Workload) -> Cost:
    limit = section.calls_for(workload.questions)
    # A step trains on at least one question.
    calls = int(min(limit, section.calls_per_step * workload.questions))
    late = "; no template is used in the first epoch without stream.first_sight"
    note = f", if all questions are hard{'' if section.first_sight else late}"
    likely = min(workload.questions, _most(section, workload, limit))
    return Cost("in an epoch", 0, calls, note, likely, _LIKELY_FROM, "in the whole run")


def _most(section: StreamSettings, workload: Workload, limit: float) -> int:
    """Return the most calls a run can make, as far as its length is known."""
    epochs = math.inf if workload.epochs is None else math.ceil(workload.epochs)
    steps = math.inf if workload.steps is None else max(0, workload.steps - section.reply_steps - 1)
    most = min(limit * epochs, section.calls_per_step * steps)
    return int(min(most, _LIKELY))


def _foresee(section: StreamSettings, workload: Workload) -> Foresight:
    return Foresight(
        never=_no_template(section, workload),
        remarks=tuple(_remarks(section, workload)),
        shown=section.failures_per_call,
        listed=LISTED,
        unknown=_unknown(section, workload),
    )


def _no_template(section: StreamSettings, workload: Workload) -> str | None:
    """Explain why no rollout can ever get a template; return None if some can."""
    if section.bare_members >= workload.group_size and not section.first_sight:
        return f"no template will ever be used, because {no_room(section, workload.group_size)}"
    if workload.steps is not None and workload.steps <= section.reply_steps:
        return (
            f"no template will ever be used, because the run has {workload.steps} steps and the first "
            f"reply is used after {section.reply_steps} (stream.reply_steps); train longer"
        )
    if section.first_sight or workload.epochs is None or workload.epochs > 1:
        return None
    return (
        f"no template will ever be used, because the run has {workload.in_epochs} and meets no question "
        "twice; set stream.first_sight = true, or train for more"
    )


def no_room(section: StreamSettings, group_size: int) -> str:
    """Explain why the groups of hard questions are too small for templates."""
    return (
        f"stream.bare_members = {section.bare_members} leaves none of the {group_size} rollouts "
        "of a hard question's group for templates; lower it, or make the groups larger"
    )


def _remarks(section: StreamSettings, workload: Workload) -> Iterator[str]:
    if section.bare_members >= workload.group_size and section.first_sight:
        yield no_room(section, workload.group_size)


def _unknown(section: StreamSettings, workload: Workload) -> Literal["epochs", "steps"] | None:
    """Return the length that `_no_template` needs and does not know. An epoch has at least one step."""
    if workload.epochs is None and not section.first_sight:
        return "epochs"
    if workload.steps is None and math.ceil(workload.epochs or 1) <= section.reply_steps:
        return "steps"
    return None


METHOD: Final = Method(
    "stream",
    plugin="prompt_coevo.algorithms.stream.plugin:Stream",
    section=StreamSettings,
    provides=frozenset({"template"}),
    may_distill=True,
    estimate=_estimate,
    foresee=_foresee,
)
