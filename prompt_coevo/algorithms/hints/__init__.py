"""Hints: show part of a hard question's solution in some rollouts' prompts, less with every success."""

from typing import Final

from prompt_coevo.algorithms.hints.settings import HintSettings
from prompt_coevo.policy import Policy
from prompt_coevo.settings.method import Cost, Method, Workload


def _estimate(section: HintSettings, workload: Workload) -> Cost:
    return Cost("in the whole run", 0, 0)


def _refuses(section: HintSettings, policy: Policy) -> str | None:
    from prompt_coevo.algorithms.hints.column import unusable  # not while settings are being loaded

    return unusable(section, policy)


METHOD: Final = Method(
    "hints",
    plugin="prompt_coevo.algorithms.hints.plugin:Hints",
    section=HintSettings,
    provides=frozenset({"template"}),
    may_distill=True,
    columns=lambda section: {"hints.column": section.column},
    estimate=_estimate,
    refuses=_refuses,
)
