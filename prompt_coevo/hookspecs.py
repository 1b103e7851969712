"""Every hook, typed. `docs/hooks.md` documents each of them; a test holds the two together.

A hook is called by its specification, `context.first_result(hookspecs.coevo_propose, requests=...)`, so a
wrong name, argument or result is a type error.

Three kinds. *One provider answers*: the first result that is not None counts. *Everyone acts*: all
plugins are called. *Everyone may listen*: events; a listener that raises is reported and does no harm.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from prompt_coevo.markers import hookspec

if TYPE_CHECKING:
    from prompt_coevo.candidates.leaks import LeakGuard
    from prompt_coevo.candidates.searches import SearchRequest, SearchResult, TemplatesInUse
    from prompt_coevo.candidates.trials import Trial
    from prompt_coevo.policy import Policy
    from prompt_coevo.proposals import Proposal, ProposalRequest, Reply
    from prompt_coevo.types import (
        Candidate,
        Group,
        MemberPlan,
        Summary,
    )


# One provider answers


@hookspec
def coevo_plan_group(
    question_id: str, round: int, group: int, group_size: int
) -> Sequence[MemberPlan] | None:
    """What every rollout of this group runs under, or None: nothing to add.

    Each part (instruction, template) has one provider: a stranger's plugin before a method, and two
    that both claim a part are an error.
    """


@hookspec(firstresult=True)
def coevo_best_instruction() -> Candidate | None:
    """The best instruction so far: what a template search runs under, and what a run results in."""


@hookspec(firstresult=True)
def coevo_evaluation_instruction() -> Candidate | None:
    """The instruction that the host's evaluation runs under; None leaves its prompts alone."""


@hookspec(firstresult=True)
def coevo_propose(requests: Sequence[ProposalRequest]) -> Sequence[Proposal] | None:
    """Write new candidates: one proposal per request, asked for concurrently."""


@hookspec(firstresult=True)
def coevo_verify(algorithm: str, trials: Sequence[Trial]) -> Sequence[bool] | None:
    """Which children join, by their rollouts next to their parents'."""


@hookspec(firstresult=True)
def coevo_search(request: SearchRequest) -> SearchResult | None:
    """Find templates for the hard questions (P2O Algorithm 3)."""


# Everyone may veto


@hookspec(firstresult=True)
def coevo_check_candidate(
    candidate: Candidate,
    parents: Sequence[Candidate],
    reply: Reply,
    known: Collection[str],
    leak_guard: LeakGuard,
) -> str | None:
    """Why this candidate must not be tried, or None. Called before any rollout is spent on it."""


# Every algorithm acts


@hookspec
def coevo_train_begin(policy: Policy) -> None:
    """Training begins, or goes on from a checkpoint; the state is loaded already."""


@hookspec
def coevo_questions_learned(policy: Policy) -> None:
    """The policy knows more questions than before, because training met them; their round comes next."""


@hookspec
def coevo_questions_in_use() -> Collection[str] | None:
    """The ids of questions that this plugin may ask for later: a host with a stream keeps their rows."""


@hookspec
def coevo_observe(groups: Sequence[Group]) -> None:
    """The groups of one generation round, with their rewards."""


@hookspec
def coevo_step_end(policy: Policy, last: bool) -> None:
    """The host updated the weights; `last` says that it will not train on."""


@hookspec
def coevo_epoch_end(policy: Policy) -> None:
    """An epoch is over and another one follows."""


@hookspec
def coevo_train_end(policy: Policy) -> None:
    """Training is over; the weights are final."""


@hookspec
def coevo_state() -> dict[str, Any] | None:
    """What this plugin must remember, as JSON values."""


@hookspec
def coevo_load_state(state: dict[str, Any]) -> None:
    """Take up a remembered state."""


@hookspec
def coevo_metrics() -> dict[str, float] | None:
    """Finite numbers for the host's logger; the engine adds the prefix `coevo/`.

    Totals, and how things stand now; a number of the last round alone is an `OfRound`.
    """


@hookspec
def coevo_summary() -> Summary | None:
    """What came of the run, in one sentence for its last lines: called at its end."""


# Everyone may listen


@hookspec
def coevo_after_candidate_checked(
    candidate: Candidate | None, proposal: Proposal, reason: str | None
) -> None:
    """A candidate passed the gates (`reason` is None) or did not; None if the reply held none."""


@hookspec
def coevo_after_candidate_verified(trial: Trial, accepted: bool) -> None:
    """A candidate was rolled out next to its parent."""


@hookspec
def coevo_after_population_changed(
    population: Sequence[Candidate], added: Sequence[Candidate], removed: Sequence[Candidate]
) -> None:
    """Instructions joined or left the population."""


@hookspec
def coevo_after_templates_assigned(
    cover: TemplatesInUse | None, result: SearchResult | None
) -> None:
    """`cover` holds the templates in use from now on, None if there are none.

    `result` is the search that found them, None if there was none to make or it failed.
    """


@hookspec
def coevo_on_reflection_error(proposal: Proposal) -> None:
    """A call to the reflection model failed for good."""


@hookspec
def coevo_on_state_saved(state: dict[str, Any]) -> None:
    """The host has taken a copy of the engine's state."""
