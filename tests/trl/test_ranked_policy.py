"""Check rollouts shared among ranks, which are threads here; `test_ranks.py` has real processes."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from helpers.thread_ranks import ThreadRanks
from prompt_coevo import Coevolution, Settings
from prompt_coevo.adapters.common.policy import RolloutsFailed
from prompt_coevo.adapters.common.questions import QuestionIndex
from prompt_coevo.adapters.trl.ranked_engine import RankedEngine
from prompt_coevo.adapters.trl.ranked_policy import RankedPolicy, Scored
from prompt_coevo.adapters.trl.ranks import Ranks
from prompt_coevo.errors import HostError
from prompt_coevo.types import Assignment, PolicyVersion, RolloutRequest, Sampling

BROKEN = RuntimeError("out of memory")
REQUESTS = [RolloutRequest(Assignment(name), Sampling(0.0)) for name in "abcde"]


class Naming(RankedPolicy):
    """Answer with the question's id and its rank; record shares and seeds."""

    def __init__(
        self,
        ranks: Ranks,
        fails_on: int = -1,
        error: Exception = BROKEN,
        folder: Path | None = None,
    ) -> None:
        questions = QuestionIndex(
            [{"id": name, "prompt": f"why {name}?"} for name in "abcde"],
            prompt=lambda row: row["prompt"],
            truth=lambda row: None,
            own_id=lambda row: row["id"],
        )
        settings = Settings(algorithms=())
        engine = Coevolution.from_settings(settings, output_dir=folder) if ranks.is_main else None
        super().__init__(questions, RankedEngine(engine, ranks), 0)
        self.shares: list[str] = []
        self.seeds: list[int] = []
        self._fails_on, self._error = fails_on, error

    def sample(
        self, requests: list[RolloutRequest], sampling: Sampling, version: PolicyVersion
    ) -> list[Scored]:
        if self._fails_on == self._ranks.rank:
            raise self._error
        self.seeds.append(self.next_seed(version))
        names = [request.assignment.question_id for request in requests]
        self.shares.append("".join(names))
        return [Scored(f"{name}{self._ranks.rank}", 1.0, None) for name in names]


def test_requests_are_shared_and_the_last_one_fills_up() -> None:
    def act(ranks: ThreadRanks) -> Any:
        policy, texts = Naming(ranks), []
        policy.lead(lambda _: texts.extend(one.completion for one in policy.rollout(REQUESTS)))
        return texts, policy.shares, policy.seeds

    first, second = ThreadRanks.run(2, act)
    assert first[:2] == (["a0", "b0", "c0", "d1", "e1"], ["abc"])
    assert second[:2] == ([], ["dee"])
    assert first[2] != second[2]


def test_calls_are_seeded_apart_and_alike_in_every_lead() -> None:
    policy = Naming(Ranks(0, 1, timedelta(minutes=1)))
    for _ in range(2):
        policy.lead(lambda _: (policy.rollout(REQUESTS), policy.rollout(REQUESTS)))  # type: ignore[func-returns-value, arg-type, return-value]
    assert policy.seeds[:2] == policy.seeds[2:]
    assert len(set(policy.seeds)) == 2


def test_an_error_on_rank_0_ends_the_others_too() -> None:
    def fail(_: Coevolution) -> None:
        raise ValueError("the search is broken")

    def act(ranks: ThreadRanks) -> str:
        with pytest.raises((ValueError, HostError)) as raised:
            Naming(ranks).lead(fail)
        return str(raised.value)

    assert ThreadRanks.run(2, act) == [
        "the search is broken",
        "rank 0 failed: ValueError: the search is broken",
    ]


def test_an_error_of_the_only_rank_passes_as_it_is() -> None:
    with pytest.raises(RuntimeError, match="^out of memory$"):
        Naming(Ranks(0, 1, timedelta(minutes=1)), fails_on=0).rollout(REQUESTS)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_cannot_sample_ends_the_search_and_leaves_the_ranks_in_step(rank: int) -> None:
    def act(ranks: ThreadRanks) -> list[str]:
        policy, said = Naming(ranks, fails_on=rank), []

        def search(_: Coevolution) -> None:
            with pytest.raises(RolloutsFailed) as raised:
                policy.rollout(REQUESTS)
            said.append(str(raised.value))

        policy.lead(search)
        policy._fails_on = -1
        policy.lead(lambda _: said.append(policy.rollout(REQUESTS[:1])[0].completion))
        return said

    failed = f"a policy rollout failed on rank {rank}: RuntimeError: out of memory"
    assert ThreadRanks.run(2, act) == [[failed, "a0"], []]


def test_what_stops_the_host_on_one_rank_stops_it_on_all() -> None:
    def act(ranks: ThreadRanks) -> str:
        policy = Naming(ranks, fails_on=1, error=HostError("no such sampler"))
        with pytest.raises(HostError) as raised:
            policy.lead(lambda _: policy.rollout(REQUESTS))
        return str(raised.value)

    failed = "a policy rollout failed on rank 1: HostError: no such sampler"
    assert ThreadRanks.run(2, act) == [failed, f"rank 0 failed: HostError: {failed}"]


def test_a_question_that_is_not_there_is_found_before_the_ranks_begin() -> None:
    def act(ranks: ThreadRanks) -> list[str]:
        policy = Naming(ranks)

        def search(_: Coevolution) -> None:
            with pytest.raises(KeyError, match="'z'"):
                policy.rollout([*REQUESTS, RolloutRequest(Assignment("z"), Sampling(0.0))])

        policy.lead(search)
        return policy.shares

    assert ThreadRanks.run(2, act) == [[], []]
