"""P2O (arXiv 2603.21877): templates for hard questions, distilled into the weights."""

from typing import Final

from prompt_coevo.algorithms.p2o.settings import P2OSettings
from prompt_coevo.settings.method import Cost, Method, Workload


def _estimate(section: P2OSettings, workload: Workload) -> Cost:
    # An attempt costs at least B, so there are fewer calls than this.
    calls = section.search_budget // section.minibatch_size
    return Cost("after an epoch", section.search_budget, calls)


METHOD: Final = Method(
    "p2o",
    plugin="prompt_coevo.algorithms.p2o.plugin:P2O",
    section=P2OSettings,
    provides=frozenset({"template"}),
    may_distil=True,
    estimate=_estimate,
)
