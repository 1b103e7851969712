"""Merge the methods' plans into the assignments of a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from prompt_coevo.errors import PluginError, SettingsError
from prompt_coevo.placement import Placement
from prompt_coevo.settings.method import Job, Method
from prompt_coevo.types import Assignment, MemberPlan

_NOTHING: Final = MemberPlan()


def check_claims(methods: Mapping[str, Method]) -> None:
    """Raise SettingsError, naming both, if two methods provide the same part of a plan."""
    claimed: dict[Job, str] = {}
    for name, method in methods.items():
        for job in sorted(method.provides):
            if (other := claimed.setdefault(job, name)) != name:
                raise SettingsError(
                    f"the algorithms {other!r} and {name!r} both give every rollout its {job}; "
                    "leave one of them out"
                )


class Planner:
    """Merge the plans of several providers; each part comes from one of them.

    `methods` are the active ones; other plugins take precedence. `placement` and `distill` are the
    defaults for plans that leave them out.
    """

    def __init__(
        self, methods: Mapping[str, Method], placement: Placement, *, distill: bool
    ) -> None:
        self._methods = methods
        self._placement = placement
        self._distill = distill

    def group(
        self,
        question_id: str,
        where: tuple[int, int],
        size: int,
        offers: Mapping[str, Sequence[MemberPlan]],
    ) -> list[Assignment]:
        """Return the assignments of one group; `where` are its round and its number.

        `offers` are the plans by provider, in calling order. Raise PluginError for an offer of the wrong
        length or of a part that its method does not provide, or if two plugins offer the same part.
        """
        for name, plans in offers.items():
            _check_offer(name, plans, size)
        instructions = self._offered("instruction", size, offers)
        templates = self._offered("template", size, offers)
        number, group = where
        return [
            Assignment(
                question_id,
                number,
                group,
                member,
                instruction=instructions[member].instruction,
                template=part.template,
                distill=self._distill if part.distill is None else part.distill,
                placement=part.placement or self._placement,
                punished_from=part.punished_from,
            )
            for member, part in enumerate(templates)
        ]

    def _offered(
        self, job: Job, size: int, offers: Mapping[str, Sequence[MemberPlan]]
    ) -> Sequence[MemberPlan]:
        """Return the plans that provide this part; empty plans if none does."""
        chosen: str | None = None
        for name, plans in offers.items():
            given = [part for plan in plans if (part := getattr(plan, job)) is not None]
            if not given:
                continue
            if any(part.kind != job for part in given):
                raise PluginError(
                    f"coevo_plan_group of {name!r} gives as {job} a candidate of another kind; make it "
                    f"Candidate(text, {job!r})"
                )
            method = self._methods.get(name)
            if method is not None and job not in method.provides:
                raise PluginError(
                    f"the method {name!r} gives rollouts a {job}, which its registration does not declare; "
                    f"add it to Method.provides"
                )
            if chosen is None:
                chosen = name
            elif method is None:
                raise PluginError(
                    f"the plugins {chosen!r} and {name!r} both give every rollout its {job}; "
                    "leave one of them out"
                )
        return [_NOTHING] * size if chosen is None else offers[chosen]


def _check_offer(name: str, plans: object, size: int) -> None:
    if not isinstance(plans, Sequence) or not all(isinstance(plan, MemberPlan) for plan in plans):
        raise PluginError(
            f"coevo_plan_group of {name!r} returned a {type(plans).__name__} that is not a sequence of "
            "MemberPlan; return one MemberPlan per rollout"
        )
    if len(plans) != size:
        raise PluginError(
            f"coevo_plan_group of {name!r} returned {len(plans)} plans for a group of {size}; it "
            "must return one per rollout"
        )
