"""Every hook, typed. `docs/hooks.md` documents each of them; a test keeps the two in agreement.

Call a hook by its specification, `context.first_result(hookspecs.coevo_propose, requests=...)`: a type
checker then finds a wrong name, argument or result.

Three kinds. *One provider answers*: the first result that is not None counts. *Everyone acts*: all
plugins are called. *Everyone may listen*: events; an exception in a listener is reported and ignored.
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
    """Plan the instruction and template of each rollout in a group. Return None to leave the group alone.

    Each part (instruction, template) has one provider. Third-party plugins take precedence over methods;
    two of them, or two methods, that provide the same part are an error.
    """


@hookspec(firstresult=True)
def coevo_best_instruction() -> Candidate | None:
    """Return the best instruction so far. Template searches run under it; the run's result includes it."""


@hookspec(firstresult=True)
def coevo_evaluation_instruction() -> Candidate | None:
    """Return the instruction for the trainer's evaluation. None leaves its prompts unchanged."""


@hookspec(firstresult=True)
def coevo_propose(requests: Sequence[ProposalRequest]) -> Sequence[Proposal] | None:
    """Write new candidates: one proposal per request. The requests are sent concurrently."""


@hookspec(firstresult=True)
def coevo_verify(algorithm: str, trials: Sequence[Trial]) -> Sequence[bool] | None:
    """Decide which children join the population: compare their rollouts with their parents'."""


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
    """Return why this candidate is rejected, or None. Called before any rollout is spent on it."""


# Every algorithm acts


@hookspec
def coevo_train_begin(policy: Policy) -> None:
    """Called when training begins or resumes from a checkpoint; the state is already loaded."""


@hookspec
def coevo_questions_learned(policy: Policy) -> None:
    """Called when `policy` has new questions (of a stream), before the first round that trains on them."""


@hookspec
def coevo_questions_in_use() -> Collection[str] | None:
    """Return ids of questions that this plugin may still need: with a streamed dataset, their rows stay."""


@hookspec
def coevo_observe(groups: Sequence[Group]) -> None:
    """Called with the scored groups of a generation round."""


@hookspec
def coevo_step_end(policy: Policy, last: bool) -> None:
    """Called after a weight update. `last` is true after the final one."""


@hookspec
def coevo_epoch_end(policy: Policy) -> None:
    """Called between two epochs."""


@hookspec
def coevo_train_end(policy: Policy) -> None:
    """Called at the end of training, with the final weights."""


@hookspec
def coevo_state() -> dict[str, Any] | None:
    """Return this plugin's state for the checkpoint, as JSON values."""


@hookspec
def coevo_load_state(state: dict[str, Any]) -> None:
    """Restore a state that `coevo_state` returned."""


@hookspec
def coevo_metrics() -> dict[str, float] | None:
    """Return finite numbers for the trainer's logger; the engine adds the prefix `coevo/`.

    They are totals or current values. Wrap a number that describes only the last round in `OfRound`.
    """


@hookspec
def coevo_summary() -> Summary | None:
    """Summarize the result of the run in one sentence for its last log lines. Called at its end."""


# Everyone may listen


@hookspec
def coevo_after_candidate_checked(
    candidate: Candidate | None, proposal: Proposal, reason: str | None
) -> None:
    """Called when a candidate passed the gates (`reason` is None) or was rejected.

    `candidate` is None if the reply contained none.
    """


@hookspec
def coevo_after_candidate_verified(trial: Trial, accepted: bool) -> None:
    """Called when a candidate has been rolled out against its parent."""


@hookspec
def coevo_after_population_changed(
    population: Sequence[Candidate], added: Sequence[Candidate], removed: Sequence[Candidate]
) -> None:
    """Called when instructions joined or left the population."""


@hookspec
def coevo_after_templates_assigned(
    cover: TemplatesInUse | None, result: SearchResult | None
) -> None:
    """Called when templates are assigned. `cover` holds those in use from now on; None: there are none.

    `result` is the search that found them, None if no search was due or it failed.
    """


@hookspec
def coevo_on_reflection_error(proposal: Proposal) -> None:
    """Called when a call to the reflection model failed after all retries."""


@hookspec
def coevo_on_state_saved(state: dict[str, Any]) -> None:
    """Called when the trainer has taken a copy of the engine's state for a checkpoint."""
