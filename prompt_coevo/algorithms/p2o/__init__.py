"""P2O (arXiv 2603.21877): templates for hard questions, distilled into the weights."""

import math
from typing import Final

from prompt_coevo.algorithms.p2o.settings import P2OSettings
from prompt_coevo.settings.method import Cost, Method, Workload


def _estimate(section: P2OSettings, workload: Workload) -> Cost:
    limit = section.calls_for(workload.questions)
    if section.search_backend == "stream":
        # A step trains on one question at least.
        calls = int(min(limit, section.calls_per_step * workload.questions))
        riders = math.ceil(section.riders * workload.rollouts)
        return Cost("in an epoch", riders, calls, f", if all questions are hard{_late(section)}")
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


METHOD: Final = Method(
    "p2o",
    plugin="prompt_coevo.algorithms.p2o.build:build",
    section=P2OSettings,
    provides=frozenset({"template"}),
    may_distil=True,
    estimate=_estimate,
)
