"""Hints: a part of a hard question's solution in some rollouts' prompts, annealed away."""

from typing import Final

from prompt_coevo import Cost, Method, Workload
from prompt_coevo_hints.settings import HintSettings


def _estimate(section: HintSettings, workload: Workload) -> Cost:
    return Cost("in the whole run", 0, 0)


METHOD: Final = Method(
    "hints",
    plugin="prompt_coevo_hints.plugin:Hints",
    section=HintSettings,
    provides=frozenset({"template"}),
    may_distil=True,
    estimate=_estimate,
)
