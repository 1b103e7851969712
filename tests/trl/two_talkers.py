"""One of two processes that talk as the ranks of a run do, with a time-out of two seconds.

Arguments: what happens, and the file for what this rank has to say of it. `RANK` says
which one this is, `MEET_AT` where they meet.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist

from prompt_coevo import Coevolution, Settings
from prompt_coevo.doors.questions import QuestionIndex
from prompt_coevo.doors.ranked_engine import RankedEngine
from prompt_coevo.doors.ranked_policy import RankedPolicy, Scored
from prompt_coevo.doors.ranks import Ranks
from prompt_coevo.types import Assignment, PolicyVersion, RolloutRequest, Sampling

PATIENCE_S = 2.0


class Answers(RankedPolicy):
    """Answers with its rank; `happens` may keep it from that."""

    def __init__(self, ranks: Ranks, happens: str) -> None:
        questions = QuestionIndex(
            [{"prompt": "why?"}],
            prompt=lambda row: row["prompt"],
            truth=lambda row: None,
            own_id=lambda row: "why",
        )
        engine = Coevolution.from_settings(Settings(algorithms=())) if ranks.is_main else None
        super().__init__(questions, RankedEngine(engine, ranks), 0, "test/rollouts")
        self._happens = happens

    def sample(
        self, requests: list[RolloutRequest], sampling: Sampling, version: PolicyVersion
    ) -> list[Scored]:
        if self._happens == f"rank {self._ranks.rank} stops in a rollout":
            os.kill(os.getpid(), signal.SIGSTOP)
        if self._happens == f"rank {self._ranks.rank} dies in a rollout":
            os._exit(1)
        return [Scored(f"by rank {self._ranks.rank}", 1.0, None) for _ in requests]


def main(happens: str) -> str:
    rank, meet = int(os.environ["RANK"]), os.environ["MEET_AT"]
    dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=2)
    ranks = Ranks(rank, 2, timedelta(seconds=PATIENCE_S), "ddp_timeout")
    policy = Answers(ranks, happens)
    texts: list[str] = []

    def search(_: Coevolution) -> None:
        if happens == "rank 0 stops in a search":
            os.kill(os.getpid(), signal.SIGSTOP)
        if happens == "a slow reply":
            time.sleep(3 * PATIENCE_S)
        two = [RolloutRequest(Assignment("why", member=n), Sampling()) for n in range(2)]
        texts.extend(one.completion for one in policy.rollout(two))

    try:
        for _ in range(2):
            policy.lead(search)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ", ".join(texts)


if __name__ == "__main__":
    said = main(sys.argv[1])
    Path(sys.argv[2]).write_text(said)
    os._exit(0)  # the other one may hang
