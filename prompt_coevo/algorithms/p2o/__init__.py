"""P2O (arXiv 2603.21877): templates for hard questions, distilled into the weights."""

import math
from collections.abc import Iterator
from typing import Final, Literal

from prompt_coevo.algorithms.p2o.settings import P2OSettings
from prompt_coevo.settings.method import Cost, Foresight, Method, Workload


def _estimate(section: P2OSettings, workload: Workload) -> Cost:
    limit = section.calls_for(workload.questions)
    if section.search_backend == "stream":
        # A step trains on one question at least.
        calls = int(min(limit, section.calls_per_step * workload.questions))
        return Cost("in an epoch", 0, calls, f", if all questions are hard{_late(section)}")
    budget = section.search_budget
    # An attempt costs B. Half of the hard questions are set aside, and B cannot exceed the others.
    enough = 2 * section.minibatch_size - 1
    note = f", or up to {budget} if fewer than {enough} questions are hard"
    calls = budget // section.minibatch_size
    if limit < calls:
        return Cost("after an epoch", budget, int(limit), ", if all questions are hard")
    return Cost("after an epoch", budget, calls, note)


def _late(section: P2OSettings) -> str:
    if section.first_sight:
        return ""
    return "; no template is used in the first epoch without p2o.first_sight"


def _foresee(section: P2OSettings, workload: Workload) -> Foresight:
    if section.search_backend == "stream":
        return Foresight(
            never=_no_template(section, workload),
            shown=section.failures_per_call,
            unknown=_unknown_to_the_stream(section, workload),
        )
    searches = _searches(section, workload)
    never = None
    if workload.questions < section.min_hard:
        never = (
            f"no search will ever happen, because the dataset has {workload.questions} questions and a "
            f"search needs {section.min_hard} hard ones (p2o.min_hard); train on more"
        )
    elif searches == 0:
        never = f"no search will ever happen, because {_too_short(section, workload)}"
    unknown: Literal["epochs", "steps"] | None = None
    if searches is None:
        unknown = "epochs" if section.search_every == "epoch" else "steps"
    return Foresight(
        searches, never, tuple(_dear(section, workload)), section.minibatch_size, unknown
    )


def _searches(section: P2OSettings, workload: Workload) -> int | None:
    """None of them after the last step."""
    if section.search_every != "epoch":
        every = section.search_every
        return None if workload.steps is None else max(0, workload.steps - 1) // every
    return None if workload.epochs is None else max(0, math.ceil(workload.epochs - 1e-6) - 1)


def _too_short(section: P2OSettings, workload: Workload) -> str:
    if section.search_every != "epoch":
        return (
            f"p2o.search_every = {section.search_every} and the run has {workload.steps} steps; lower it, "
            "or train longer"
        )
    return (
        f"the run has {_epochs(workload)} and searches are made between two; train for more, or set "
        "p2o.search_every to a number of steps"
    )


def _no_template(section: P2OSettings, workload: Workload) -> str | None:
    """Why the stream has no rollout to put a template into."""
    if workload.steps is not None and workload.steps <= section.reply_steps:
        return (
            f"no template will ever be used, because the run has {workload.steps} steps and the first "
            f"reply is used after {section.reply_steps} (p2o.reply_steps); train longer"
        )
    if section.first_sight or workload.epochs is None or workload.epochs > 1:
        return None
    return (
        f"no template will ever be used, because the run has {_epochs(workload)} and meets no question "
        "twice; set p2o.first_sight = true, or train for more"
    )


def _unknown_to_the_stream(
    section: P2OSettings, workload: Workload
) -> Literal["epochs", "steps"] | None:
    """Which length `_no_template` misses. An epoch has one step at least."""
    if workload.epochs is None and not section.first_sight:
        return "epochs"
    if workload.steps is None and math.ceil(workload.epochs or 1) <= section.reply_steps:
        return "steps"
    return None


def _epochs(workload: Workload) -> str:
    return "one epoch" if workload.epochs == 1 else f"{workload.epochs:.2g} epochs"


def _dear(section: P2OSettings, workload: Workload) -> Iterator[str]:
    """What the budget comes to on this dataset; the paper's is for tens of thousands of questions."""
    if section.search_budget > workload.rollouts > 0:
        times = section.search_budget / workload.rollouts
        yield (
            f"a search may make {section.search_budget} rollouts (p2o.search_budget), {times:.1f} times "
            f"the {workload.rollouts} of an epoch's training; p2o.search_budget = {workload.rollouts} is "
            "as many"
        )


METHOD: Final = Method(
    "p2o",
    plugin="prompt_coevo.algorithms.p2o.build:build",
    section=P2OSettings,
    provides=frozenset({"template"}),
    may_distil=True,
    estimate=_estimate,
    foresee=_foresee,
)
