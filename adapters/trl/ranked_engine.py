"""One engine for trainers that train and sample in the same processes, one per rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prompt_coevo.adapters.common.evaluation import evaluation_assignment
from prompt_coevo.adapters.trl.ranks import Ranks
from prompt_coevo.engine.coevolution import Coevolution
from prompt_coevo.errors import HostError
from prompt_coevo.types import Assignment, PolicyVersion, Rollout


@dataclass(frozen=True)
class RankedPlan:
    """A round's plan for all ranks' rows, and this rank's part of it."""

    whole: list[Assignment]
    mine: list[Assignment]

    @property
    def distilled_somewhere(self) -> bool:
        """Check whether a row of any rank is trained on with another prompt."""
        return any(assignment.distilled for assignment in self.whole)

    @property
    def mixed_somewhere(self) -> bool:
        """Check whether the prompts of a group differ, on any rank."""
        prompts = {(one.group, one.instruction, one.template, one.placement) for one in self.whole}
        return len(prompts) > len({one.group for one in self.whole})


class RankedEngine:
    """Shares one engine among ranks that make the same calls in the same order.

    `engine` is None on all ranks but 0. A batch's rows come rank after rank, and group after group; a group
    may span ranks.
    """

    def __init__(self, engine: Coevolution | None, ranks: Ranks) -> None:
        self.engine = engine
        self.ranks = ranks

    @property
    def policy_version(self) -> PolicyVersion:
        """Return the version on rank 0; elsewhere the first one, because it is not used there."""
        return self.engine.policy_version if self.engine else PolicyVersion()

    def plan(self, question_ids: Sequence[str], group_size: int, size_name: str) -> RankedPlan:
        """Plan a round; `question_ids` has one entry per row of this rank.

        Raises HostError if the rows do not come in groups; `size_name` is the trainer's name for
        `group_size`.
        """
        ids = self.ranks.gather(list(question_ids))
        groups = _one_per_group(ids, group_size, size_name)
        whole = self.ranks.broadcast(self.engine.plan(groups, group_size) if self.engine else None)
        start = self.ranks.rank * len(question_ids)
        return RankedPlan(whole, whole[start : start + len(question_ids)])

    def observe(
        self, mine: list[tuple[Assignment, str, str | None]], rewards: Sequence[float]
    ) -> None:
        """Observe this rank's rows (assignment, completion, its agent's report), all ranks' rewards."""
        rows = self.ranks.gather(mine)
        if self.engine is not None:
            version = self.engine.policy_version
            self.engine.observe(
                [
                    Rollout.scored(assignment, text, reward, version, reported)
                    for (assignment, text, reported), reward in zip(rows, rewards, strict=True)
                ]
            )

    def evaluation(self) -> Assignment | None:
        """Return what the trainer's evaluation runs under, on every rank."""
        best = evaluation_assignment(self.engine) if self.engine else None
        return self.ranks.broadcast(best)


def _one_per_group(ids: list[str], size: int, size_name: str) -> list[str]:
    for first in range(0, len(ids), size):
        if len(set(ids[first : first + size])) != 1:
            raise HostError(
                f"rows {first} to {first + size - 1} of a generation batch should be {size} rollouts "
                "of one question, but are not; a custom sampler must repeat every question "
                f"{size_name} times, and an environment's reset() must ask one question of equal rows"
            )
    return ids[::size]
