"""Plant faults of algorithms, each into a copy of `small_method.Small`."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from laws.core.mutant import Mutant, planter
from laws.core.small_method import Small
from prompt_coevo import Candidate, MemberPlan, Rollout, RolloutRequest, hookimpl, hookspecs
from prompt_coevo.rng import counter_rng
from prompt_coevo.types import Assignment, Group, Sampling

MUTANTS: list[Mutant] = []
plant = planter(MUTANTS)


@plant(
    "credit-to-current",
    "A reward is credited to the candidate in use now, not to the one planned.",
    "credit_goes_to_the_candidate_that_was_planned",
)
class CreditToCurrent(Small):
    def choose(self, round: int, group: int) -> Candidate:
        self.current = super().choose(round, group)
        return self.current

    def credited(self, rollout: Rollout) -> str:
        return self.current.id


@plant(
    "outage-is-failure",
    "A rollout that is unfit to judge by counts as a reward of 0.",
    "an_unfit_group_counts_for_nothing",
)
class OutageIsFailure(Small):
    def counts(self, rollout: Rollout) -> bool:
        return True

    def learn(self, rollout: Rollout) -> None:
        super().learn(Rollout(rollout.assignment, rollout.completion, rollout.reward or 0.0))


@plant(
    "outage-in-trial",
    "In a trial, a rollout that is unfit to judge by counts with its reward.",
    "unfit_rollouts_are_not_looked_at",
)
class OutageInTrial(Small):
    def gain(self, child: Candidate, rows: Sequence[Sequence[Rollout]]) -> float:
        parents, children = (sum(one.reward for one in row) for row in rows)
        return children - parents


@plant(
    "zero-is-nothing",
    "A true reward of 0 is taken for a missing one.",
    "a_reward_of_zero_counts",
)
class ZeroIsNothing(Small):
    def counts(self, rollout: Rollout) -> bool:
        return rollout.fit and bool(rollout.reward)


@plant(
    "integer-keys",
    "The state is keyed by numbers, which JSON turns into texts.",
    "a_resumed_run_goes_on_the_same",
)
class IntegerKeys(Small):
    @hookimpl
    def coevo_state(self) -> dict[str, Any]:
        return {**super().coevo_state(), "tried": dict(self.tried)}

    @hookimpl
    def coevo_load_state(self, state: dict[str, Any]) -> None:
        super().coevo_load_state({**state, "tried": []})
        self.tried = dict(state["tried"])


@plant(
    "tuples-in-state",
    "What was a tuple comes back as a list and is not found any more.",
    "a_resumed_run_goes_on_the_same",
)
class TuplesInState(Small):
    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self.seen: list[Any] = []

    def learn(self, rollout: Rollout) -> None:
        entry = (rollout.assignment.question_id, rollout.assignment.member)
        if entry not in self.seen:
            self.seen.append(entry)
            super().learn(rollout)

    @hookimpl
    def coevo_state(self) -> dict[str, Any]:
        return {**super().coevo_state(), "seen": list(self.seen)}

    @hookimpl
    def coevo_load_state(self, state: dict[str, Any]) -> None:
        super().coevo_load_state(state)
        self.seen = list(state["seen"])


@plant(
    "saving-forgets",
    "That the state is asked for changes what the algorithm goes on with.",
    "a_resumed_run_goes_on_the_same",
)
class SavingForgets(Small):
    @hookimpl
    def coevo_state(self) -> dict[str, Any]:
        state = super().coevo_state()
        self.tried = {}
        return state


@plant(
    "field-not-saved",
    "One field is missing from the state.",
    "a_resumed_run_goes_on_the_same",
)
class FieldNotSaved(Small):
    @hookimpl
    def coevo_load_state(self, state: dict[str, Any]) -> None:
        super().coevo_load_state({**state, "failures": []})


@plant(
    "generator-not-saved",
    "It draws from a running generator that is not in the state.",
    "a_resumed_run_goes_on_the_same",
)
class GeneratorNotSaved(Small):
    def rng(self, purpose: str, *counters: int) -> Any:
        if not hasattr(self, "generator"):
            self.generator = counter_rng(self.seed, "small")
        return self.generator


@plant(
    "global-numpy",
    "It draws from numpy's global generator.",
    "global_randomness_is_left_alone",
)
class GlobalNumpy(Small):
    def rng(self, purpose: str, *counters: int) -> Any:
        return np.random.default_rng(np.random.randint(2**31))


@plant(
    "global-seed",
    "It seeds the global generator of Python before it draws.",
    "global_randomness_is_left_alone",
)
class GlobalSeed(Small):
    def shown(self, rng: Any) -> list[list[Any]]:
        random.seed(self.seed)
        return random.sample(sorted(self.failures), min(3, len(self.failures)))


@plant(
    "seed-ignored",
    "It draws with a seed of its own, not with the settings'.",
    "another_seed_draws_differently",
)
class SeedIgnored(Small):
    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self.seed = 42


@plant(
    "shared-by-engines",
    "Two engines of a process share what they have learnt.",
    "the_same_seed_decides_the_same",
)
class SharedByEngines(Small):
    everything: ClassVar[list[list[Any]]] = []

    def shown(self, rng: Any) -> list[list[Any]]:
        self.everything += self.failures
        self.failures = list(self.everything)
        return super().shown(rng)


@plant(
    "edited-in-place",
    "A candidate is edited in place after it was planned.",
    "plans_are_never_edited",
)
class EditedInPlace(Small):
    @hookimpl
    def coevo_step_end(self, policy: Any) -> None:
        super().coevo_step_end(policy)
        object.__setattr__(self.pool[0], "text", f"{self.pool[0].text} Again.")


@plant(
    "arrival-order",
    "The first failures to arrive are the ones shown.",
    "arrival_order_decides_nothing",
)
class ArrivalOrder(Small):
    def shown(self, rng: Any) -> list[list[Any]]:
        return self.failures[:3]


@plant(
    "left-meanwhile",
    "A reward for a candidate that has left meanwhile raises, which nobody sees.",
    "rounds_may_come_long_after",
)
class LeftMeanwhile(Small):
    def learn(self, rollout: Rollout) -> None:
        self.scores[self.credited(rollout)][1] += 0
        super().learn(rollout)


@plant(
    "reply-expected",
    "A reply without a candidate raises, which nobody sees.",
    "a_failing_reflection_model_stops_nothing",
)
class ReplyExpected(Small):
    def children(self, request: Any) -> list[Candidate]:
        answered = self.context.first_result(hookspecs.coevo_propose, requests=[request])
        answered[0].texts[0]
        return super().children(request)


@plant(
    "gives-up",
    "After one failed call it never asks the reflection model again.",
    "a_failure_of_the_reflection_model_passes",
)
class GivesUp(Small):
    gone = False

    def children(self, request: Any) -> list[Candidate]:
        found = [] if self.gone else super().children(request)
        self.gone = self.gone or not found
        return found


@plant(
    "gates-skipped",
    "Candidates are rolled out without asking the gates.",
    "what_the_gates_refuse_is_never_rolled_out",
)
class GatesSkipped(Small):
    def passes(self, child: Candidate, proposal: Any) -> bool:
        return True


@plant(
    "gates-late",
    "The gates are asked after the rollouts, not before them.",
    "what_the_gates_refuse_is_never_rolled_out",
)
class GatesLate(Small):
    def passes(self, child: Candidate, proposal: Any) -> bool:
        self.late = child, proposal
        return True

    def better(self, child: Candidate, policy: Any) -> bool:
        joins = super().better(child, policy)
        return joins and super().passes(child, self.late[1])


@plant(
    "policy-while-observing",
    "It asks the policy for a rollout while it observes.",
    "the_policy_is_asked_where_it_is_given",
)
class PolicyWhileObserving(Small):
    @hookimpl
    def coevo_train_begin(self, policy: Any) -> None:
        self.policy = policy

    @hookimpl
    def coevo_observe(self, groups: Sequence[Group]) -> None:
        super().coevo_observe(groups)
        request = RolloutRequest(Assignment(groups[0].question_id), Sampling(0.0))
        self.policy.rollout([request])


@plant(
    "policy-in-thread",
    "It asks the policy for a rollout on a thread of its own.",
    "the_policy_is_asked_where_it_is_given",
)
class PolicyInThread(Small):
    def better(self, child: Candidate, policy: Any) -> bool:
        found: list[bool] = []
        thread = threading.Thread(target=lambda: found.append(Small.better(self, child, policy)))
        thread.start()
        thread.join()
        return found[0]


@plant(
    "not-a-number",
    "A metric is NaN until something was measured.",
    "metrics_are_finite_numbers",
)
class NotANumber(Small):
    @hookimpl
    def coevo_metrics(self) -> dict[str, float]:
        measured = self.scores[self.best.id][1]
        return {"pool": float(len(self.pool)), "best": self.mean(self.best) if measured else np.nan}


@plant(
    "four-members",
    "A plan has four members, however many the group has.",
    "plans_are_valid",
)
class FourMembers(Small):
    @hookimpl
    def coevo_plan_group(
        self, question_id: str, round: int, group: int, group_size: int
    ) -> Sequence[MemberPlan]:
        return super().coevo_plan_group(question_id, round, group, 4)


@plant(
    "known-questions-only",
    "A question that it has not met before raises.",
    "plans_are_valid",
)
class KnownQuestionsOnly(Small):
    @hookimpl
    def coevo_plan_group(
        self, question_id: str, round: int, group: int, group_size: int
    ) -> Sequence[MemberPlan]:
        int(question_id.removeprefix("q"))
        return super().coevo_plan_group(question_id, round, group, group_size)


@plant(
    "more-than-it-says",
    "It plans a template, which its registration does not name.",
    "plans_hold_what_the_method_says",
)
class MoreThanItSays(Small):
    @hookimpl
    def coevo_plan_group(
        self, question_id: str, round: int, group: int, group_size: int
    ) -> Sequence[MemberPlan]:
        chosen = self.choose(round, group)
        hint = Candidate("Hint.", "template") if round > 5 else None
        return [MemberPlan(instruction=chosen, template=hint)] * group_size


@plant(
    "never-evolves",
    "Nothing ever passes the trial, so that there is nothing to look at.",
    "the_run_shows_something",
)
class NeverEvolves(Small):
    def children(self, request: Any) -> list[Candidate]:
        return []


@plant(
    "groups-taken",
    "It empties the list of groups, which other plugins get, too.",
    "another_plugin_is_not_disturbed",
)
class GroupsTaken(Small):
    @hookimpl(tryfirst=True)
    def coevo_observe(self, groups: Sequence[Group]) -> None:
        super().coevo_observe(groups)
        groups.clear()  # type: ignore[attr-defined]
