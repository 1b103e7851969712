"""Hints: show part of a hard question's solution in some rollouts' prompts, less with every success."""

from typing import Final

from prompt_coevo.algorithms.hints.settings import HintSettings
from prompt_coevo.policy import Policy
from prompt_coevo.settings.method import Cost, Foresight, Method, Workload


def _estimate(section: HintSettings, workload: Workload) -> Cost:
    return Cost("in the whole run", 0, 0)


def _foresee(section: HintSettings, workload: Workload) -> Foresight:
    if workload.rows not in (None, workload.questions):  # a question may come twice in an epoch
        return Foresight()
    if workload.epochs is None:
        return Foresight(unknown="epochs")
    if workload.epochs > 1:
        return Foresight()
    return Foresight(
        never=f"no hint will ever be shown, because the run has {workload.in_epochs} and meets no question "
        "twice; train for more"
    )


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
    foresee=_foresee,
    refuses=_refuses,
)
