"""A small algorithm that obeys the laws: of two instructions, the better gets a child each epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prompt_coevo import Candidate, MemberPlan, Method, Rollout, RolloutRequest, hookimpl, hookspecs
from prompt_coevo.candidates.leaks import LeakGuard
from prompt_coevo.candidates.trials import Trial
from prompt_coevo.proposals import ProposalRequest, Trajectory
from prompt_coevo.rng import counter_rng
from prompt_coevo.types import Assignment, Group, Sampling

POOL = 3


class Small:
    """Keep sum and count of the rewards by instruction in `scores`, and each epoch's groups in `tried`."""

    def __init__(self, context: Any) -> None:
        self.context = context
        self.seed: int = context.settings.seed
        context.proposer("reflection")
        self.pool = [Candidate(text, "instruction") for text in ("Think.", "Answer at once.")]
        self.best = self.pool[0]
        self.scores: dict[str, list[float]] = {one.id: [0.0, 0] for one in self.pool}
        self.tried: dict[int, int] = {}
        self.failures: list[list[Any]] = []
        self.epoch = 0

    def rng(self, purpose: str, *counters: int) -> Any:
        return counter_rng(self.seed, f"small/{purpose}", *counters)

    # Training

    @hookimpl
    def coevo_plan_group(
        self, question_id: str, round: int, group: int, group_size: int
    ) -> Sequence[MemberPlan]:
        return [MemberPlan(instruction=self.choose(round, group))] * group_size

    def choose(self, round: int, group: int) -> Candidate:
        rng = self.rng("choice", round, group)
        return self.best if rng.random() < 0.5 else self.pool[int(rng.integers(len(self.pool)))]

    @hookimpl
    def coevo_observe(self, groups: Sequence[Group]) -> None:
        measured = sum(group.mean_reward is not None for group in groups)
        self.tried[self.epoch] = self.tried.get(self.epoch, 0) + measured
        for rollout in (rollout for group in groups for rollout in group.rollouts):
            if self.counts(rollout):
                self.learn(rollout)

    def counts(self, rollout: Rollout) -> bool:
        return rollout.fit

    def learn(self, rollout: Rollout) -> None:
        where = self.scores.get(self.credited(rollout))
        if where is not None:  # it may have left meanwhile
            where[0] += rollout.reward
            where[1] += 1
        if rollout.reward < 1:
            self.failures.append(
                [rollout.assignment.question_id, rollout.completion, rollout.reward]
            )

    def credited(self, rollout: Rollout) -> str:
        assert rollout.assignment.instruction is not None
        return rollout.assignment.instruction.id

    @hookimpl
    def coevo_step_end(self, policy: Any) -> None:
        self.best = max(self.pool, key=self.mean)

    def mean(self, candidate: Candidate) -> float:
        total, count = self.scores[candidate.id]
        return total / count if count else 0.0

    # Evolution

    @hookimpl
    def coevo_epoch_end(self, policy: Any) -> None:
        shown = self.shown(self.rng("failures", self.epoch))
        for child in self.children(self.request(shown, policy)) if shown else []:
            if self.better(child, policy):
                self.join(child)
        self.failures.clear()
        self.epoch += 1

    def shown(self, rng: Any) -> list[list[Any]]:
        known = sorted(self.failures)
        return [known[place] for place in rng.permutation(len(known))[:3]]

    def request(self, shown: Sequence[Any], policy: Any) -> ProposalRequest:
        failures = tuple(
            Trajectory.of(policy.question(question_id), completion, reward)
            for question_id, completion, reward in shown
        )
        return ProposalRequest("instruction", (self.best,), failures, "reflection", 2)

    def children(self, request: ProposalRequest) -> list[Candidate]:
        found = []
        for proposal in (
            self.context.first_result(hookspecs.coevo_propose, requests=[request]) or ()
        ):
            for text in proposal.texts:
                child = Candidate(
                    text, "instruction", "small", (self.best.id,), self.context.policy_version
                )
                if self.passes(child, proposal) and child.id not in self.scores:
                    found.append(child)
        return found

    def passes(self, child: Candidate, proposal: Any) -> bool:
        reason = self.context.check(
            hookspecs.coevo_check_candidate,
            candidate=child,
            parents=proposal.request.parents,
            reply=proposal.reply,
            known={one.text for one in self.pool},
            leak_guard=LeakGuard(),
        )
        return reason is None

    def better(self, child: Candidate, policy: Any) -> bool:
        ids = sorted(policy.question_ids())
        count = 3 + self.tried.get(self.epoch, 0) % 5
        asked = [
            ids[place] for place in self.rng("asked", self.epoch).permutation(len(ids))[:count]
        ]
        rows = [
            policy.rollout(
                [
                    RolloutRequest(Assignment(one, member=place, instruction=who), Sampling(0.0))
                    for place, one in enumerate(asked)
                ]
            )
            for who in (self.best, child)
        ]
        return self.gain(child, rows) > 0

    def gain(self, child: Candidate, rows: Sequence[Sequence[Rollout]]) -> float:
        return Trial.paired(self.best, child, *rows).gain

    def join(self, child: Candidate) -> None:
        if len(self.pool) == POOL:
            worst = min(self.pool, key=self.mean)
            self.pool.remove(worst)
            del self.scores[worst.id]
        self.pool.append(child)
        self.scores[child.id] = [0.0, 0]
        self.best = child

    # State

    @hookimpl
    def coevo_state(self) -> dict[str, Any]:
        return {
            "pool": [one.to_json() for one in self.pool],
            "best": self.best.to_json(),
            "scores": {name: list(score) for name, score in self.scores.items()},
            "tried": [list(item) for item in self.tried.items()],
            "failures": [list(failure) for failure in self.failures],
            "epoch": self.epoch,
        }

    @hookimpl
    def coevo_load_state(self, state: dict[str, Any]) -> None:
        self.pool = [Candidate.from_json(one) for one in state["pool"]]
        self.best = Candidate.from_json(state["best"])
        self.scores = {name: list(score) for name, score in state["scores"].items()}
        self.tried = dict(state["tried"])
        self.failures = [list(failure) for failure in state["failures"]]
        self.epoch = state["epoch"]

    @hookimpl
    def coevo_metrics(self) -> dict[str, float]:
        return {"pool": float(len(self.pool)), "best": self.mean(self.best)}


def method(plugin: type[Small]) -> Method:
    """Register it, or a mutant of it."""
    return Method("small", plugin=plugin, provides=frozenset({"instruction"}))
