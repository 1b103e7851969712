"""The plugin that writes event hooks to the journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prompt_coevo.candidates.searches import SearchResult, TemplatesInUse
from prompt_coevo.candidates.trials import Trial
from prompt_coevo.context import Context
from prompt_coevo.engine.journal import Texts
from prompt_coevo.engine.step_rewards import StepRewards, StepRewardsState
from prompt_coevo.lines import JSON
from prompt_coevo.markers import hookimpl
from prompt_coevo.placement import question_text
from prompt_coevo.policy import Policy
from prompt_coevo.proposals import Proposal
from prompt_coevo.types import Candidate, Group


class JournalSink:
    """Write event hooks to the journal."""

    def __init__(self, context: Context) -> None:
        self._note = context.note
        self._texts = Texts(context.note)
        self._policy: Policy | None = None
        self._rewards = StepRewards()
        self._told: set[str] = set()
        """The ids of questions whose texts are in the journal."""

    @hookimpl
    def coevo_train_begin(self, policy: Policy) -> None:
        self._policy = policy

    @hookimpl
    def coevo_observe(self, groups: Sequence[Group]) -> None:
        self._rewards.add(groups)

    @hookimpl
    def coevo_step_end(self) -> None:
        """Journal the rewards of training's rollouts since the last update, if there were any."""
        rewards, self._rewards = self._rewards, StepRewards()
        if rewards.empty:
            return
        uses = rewards.uses
        for name in dict.fromkeys(use[0] for use in uses):
            if name not in self._told and (text := self._question(name)) is not None:
                self._told.add(name)
                self._note("question", question=name, text=text)
        self._note("rewards", **rewards.totals, uses=uses)

    @hookimpl
    def coevo_state(self) -> StepRewardsState | None:
        """Return the rewards that are not journaled yet: OpenRLHF saves before it counts an update."""
        return None if self._rewards.empty else self._rewards.state

    @hookimpl
    def coevo_load_state(self, state: StepRewardsState) -> None:
        self._rewards = StepRewards.of(state)

    @hookimpl
    def coevo_after_candidate_checked(
        self, candidate: Candidate | None, proposal: Proposal, reason: str | None
    ) -> None:
        self._note(
            "candidate_checked",
            candidate=_described(candidate) if candidate else None,
            parent=proposal.request.parent.id,
            accepted=reason is None,
            reason=reason,
            request=proposal.request_hash,
            finish_reason=proposal.reply.finish_reason,
        )

    @hookimpl
    def coevo_after_candidate_verified(self, trial: Trial, accepted: bool) -> None:
        self._note(
            "candidate_verified",
            candidate=trial.child.id,
            parent=trial.parent.id,
            accepted=accepted,
            questions=trial.question_ids,
            parent_rewards=trial.parent_rewards,
            rewards=trial.child_rewards,
            question_texts=[self._question(name) for name in trial.question_ids],
            parent_completions=[self._texts.id(text) for text in trial.parent_completions],
            completions=[self._texts.id(text) for text in trial.child_completions],
        )

    def _question(self, question_id: str) -> str | None:
        """Return the text id of a question; None if the question cannot be looked up."""
        if self._policy is None:
            return None
        try:
            return self._texts.id(question_text(self._policy.question(question_id).prompt))
        except KeyError:
            return None

    @hookimpl
    def coevo_after_population_changed(
        self,
        population: Sequence[Candidate],
        added: Sequence[Candidate],
        removed: Sequence[Candidate],
    ) -> None:
        self._note(
            "population_changed",
            population=[candidate.id for candidate in population],
            added=[_described(candidate) for candidate in added],
            removed=[candidate.id for candidate in removed],
        )

    @hookimpl
    def coevo_after_templates_assigned(
        self, cover: TemplatesInUse | None, result: SearchResult | None
    ) -> None:
        if result is None:
            return  # the method has journaled why
        pool = result.pool
        self._note(
            "templates_assigned",
            stopped=result.stopped,
            failed=result.failed,
            spent=result.spent,
            overshoot=result.overshoot,
            rollouts=result.rollouts,
            waves=result.waves,
            proposals=result.proposals,
            accepted=result.accepted,
            dev_questions=pool.sample_ids,
            pool=[
                {**_described(candidate), "dev_scores": row}
                for candidate, row in zip(pool.candidates, pool.scores.tolist(), strict=True)
            ],
            cover=[candidate.id for candidate in cover.templates] if cover else [],
            hard_questions=len(cover.hard_ids) if cover else 0,
        )

    @hookimpl
    def coevo_on_reflection_error(self, proposal: Proposal) -> None:
        self._note("reflection_error", request=proposal.request_hash, error=proposal.reply.error)

    @hookimpl
    def coevo_on_state_saved(self, state: dict[str, Any]) -> None:
        self._note("state_saved", checksum=state["checksum"])


def _described(candidate: Candidate) -> dict[str, JSON]:
    return {
        "id": candidate.id,
        "kind": candidate.kind,
        "text": candidate.text,
        "origin": candidate.origin,
        "parents": candidate.parents,
    }
