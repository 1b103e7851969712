"""Hints: a part of a hard question's solution in some rollouts' prompts, less with every success."""

from typing import Final

from prompt_coevo.algorithms.hints.settings import HintSettings
from prompt_coevo.settings.method import Cost, Method, Workload


def _estimate(section: HintSettings, workload: Workload) -> Cost:
    return Cost("in the whole run", 0, 0)


METHOD: Final = Method(
    "hints",
    plugin="prompt_coevo.algorithms.hints.plugin:Hints",
    section=HintSettings,
    provides=frozenset({"template"}),
    may_distil=True,
    columns=lambda section: {"hints.column": section.column},
    estimate=_estimate,
)
