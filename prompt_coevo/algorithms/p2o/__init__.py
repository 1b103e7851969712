"""P2O (arXiv 2603.21877): templates for hard questions, distilled into the weights."""

import math
from collections.abc import Iterator
from typing import Final, Literal

from prompt_coevo.algorithms.p2o.settings import P2OSettings
from prompt_coevo.settings.method import Cost, Foresight, Method, Workload

_HARD_SHARE: Final = 3
_LIKELY_FROM: Final = "if a third of the questions is hard, which is assumed"


def _estimate(section: P2OSettings, workload: Workload) -> Cost:
    limit = section.calls_for(workload.questions)
    budget, size = section.search_budget, section.minibatch_size
    rollouts, late = budget, 0
    if section.overspend == "literal":  # a wave may begin with only one rollout left
        late = section.beam_width
        rollouts += late * (2 * size + min(section.dev_size, workload.questions // 2))
    # An attempt costs B rollouts. Half of the hard questions are set aside, and B is at most the other
    # half.
    note = f", or up to {budget + late} if fewer than {2 * size - 1} questions are hard"
    calls = budget // size + late
    hard = workload.questions // _HARD_SHARE
    likely = int(min(calls, section.calls_for(hard)))
    if limit < calls:
        calls, note = int(limit), ", if all questions are hard"
    return Cost("after an epoch", rollouts, calls, note, likely, _LIKELY_FROM, "after an epoch")


def _foresee(section: P2OSettings, workload: Workload) -> Foresight:
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
    """Count the searches of a run, none after its last step; None if its length is not known."""
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
        f"the run has {workload.in_epochs} and searches are made between two; train for more, or set "
        "p2o.search_every to a number of steps"
    )


def _dear(section: P2OSettings, workload: Workload) -> Iterator[str]:
    """Compare the budget with this run's training: the paper's is for tens of thousands of questions."""
    if section.search_budget > workload.rollouts > 0:
        times = section.search_budget / workload.rollouts
        yield (
            f"a search may make {section.search_budget} rollouts (p2o.search_budget), {times:.1f} times "
            f"the {workload.rollouts} of an epoch's training; p2o.search_budget = {workload.rollouts} is "
            "as many"
        )


METHOD: Final = Method(
    "p2o",
    plugin="prompt_coevo.algorithms.p2o.plugin:P2O",
    section=P2OSettings,
    provides=frozenset({"template"}),
    may_distill=True,
    estimate=_estimate,
    foresee=_foresee,
)
