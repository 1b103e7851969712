"""P2O (arXiv 2603.21877): templates for hard questions, distilled into the weights."""

from typing import Final

from prompt_coevo.algorithms.p2o.settings import P2OSettings
from prompt_coevo.settings.method import Cost, Method, Workload


def _estimate(section: P2OSettings, workload: Workload) -> Cost:
    budget = section.search_budget
    # An attempt costs B. Half of the hard questions are set aside, and B cannot exceed the others.
    enough = 2 * section.minibatch_size - 1
    note = f", or up to {budget} if fewer than {enough} questions are hard"
    return Cost("after an epoch", budget, budget // section.minibatch_size, note)


METHOD: Final = Method(
    "p2o",
    plugin="prompt_coevo.algorithms.p2o.plugin:P2O",
    section=P2OSettings,
    provides=frozenset({"template"}),
    may_distil=True,
    estimate=_estimate,
)
