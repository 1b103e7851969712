"""Run pairs of processes that talk as a run's ranks do, with a timeout of four seconds.

Argument: a folder. What rank 1 reports about `happens` goes into the file `happens, rank 1` in it. All
are forks, because such a process spends most of its time on imports.
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
from prompt_coevo.adapters.common.questions import QuestionIndex
from prompt_coevo.adapters.trl.ranked_engine import RankedEngine
from prompt_coevo.adapters.trl.ranked_policy import RankedPolicy, Scored
from prompt_coevo.adapters.trl.ranks import Ranks
from prompt_coevo.types import Assignment, PolicyVersion, RolloutRequest, Sampling

PATIENCE_S = 4.0
LOST = {
    "rank 1 stops in a rollout": 1,
    "rank 0 stops in a rollout": 0,
    "rank 0 stops in a search": 0,
    "rank 1 dies in a rollout": 1,
    "a slow reply": None,
}
"""What happens, and which rank is not there in the end."""


class Answers(RankedPolicy):
    """Answer with its rank, unless `happens` prevents it."""

    def __init__(self, ranks: Ranks, happens: str) -> None:
        questions = QuestionIndex(
            [{"prompt": "why?"}],
            prompt=lambda row: row["prompt"],
            truth=lambda row: None,
            own_id=lambda row: "why",
        )
        engine = Coevolution.from_settings(Settings(algorithms=())) if ranks.is_main else None
        super().__init__(questions, RankedEngine(engine, ranks), 0)
        self._happens = happens

    def sample(
        self, requests: list[RolloutRequest], sampling: Sampling, version: PolicyVersion
    ) -> list[Scored]:
        if self._happens == f"rank {self._ranks.rank} stops in a rollout":
            os.kill(os.getpid(), signal.SIGSTOP)
        if self._happens == f"rank {self._ranks.rank} dies in a rollout":
            os._exit(1)
        if self._happens == "a slow reply":
            time.sleep(PATIENCE_S / 2)  # no rank listens for rank 0's news here
        return [Scored(f"by rank {self._ranks.rank}", 1.0, None) for _ in requests]


def talk(happens: str, rank: int, folder: Path) -> str:
    """Return what this rank reports at the end."""
    meet = f"file://{folder}/{happens}"
    dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=2)
    policy = Answers(Ranks(rank, 2, timedelta(seconds=PATIENCE_S), "ddp_timeout"), happens)
    texts: list[str] = []

    def search(_: Coevolution) -> None:
        if happens == "rank 0 stops in a search":
            os.kill(os.getpid(), signal.SIGSTOP)
        if happens == "a slow reply" and not texts:
            time.sleep(2 * PATIENCE_S)
        two = [RolloutRequest(Assignment("why", member=n), Sampling()) for n in range(2)]
        texts.extend(one.completion for one in policy.rollout(two))

    try:
        for _ in range(2):
            policy.lead(search)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ", ".join(texts)


def fork(happens: str, rank: int, folder: Path) -> int:
    child = os.fork()
    if child == 0:
        signal.alarm(120)  # ends the process if nothing else does
        (folder / f"{happens}, rank {rank}").write_text(talk(happens, rank, folder))
        os._exit(0)  # the other one may hang
    return child


def main(folder: Path) -> None:
    ranks = {(name, rank): fork(name, rank, folder) for name in LOST for rank in (0, 1)}
    for (name, rank), child in ranks.items():
        if rank != LOST[name]:
            os.waitpid(child, 0)
    for (name, rank), child in ranks.items():
        if rank == LOST[name]:
            os.kill(child, signal.SIGKILL)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
