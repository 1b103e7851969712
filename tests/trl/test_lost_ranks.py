"""A rank that dies or hangs ends the run within `ddp_timeout`; a slow reflection model does not.

Two real processes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "two_talkers.py"


def talk(folder: Path, happens: str, *speakers: int) -> list[str]:
    """What these of the two processes say in the end."""
    files = [folder / f"rank{rank}" for rank in (0, 1)]
    processes = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), happens, str(file)],
            env={
                **os.environ,
                "RANK": str(rank),
                "MEET_AT": f"file://{folder}/store",
                "GLOO_SOCKET_IFNAME": "lo",
                "OMP_NUM_THREADS": "1",
            },
        )
        for rank, file in enumerate(files)
    ]
    try:
        for rank in speakers:
            assert processes[rank].wait(timeout=600) == 0
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return [files[rank].read_text() for rank in speakers]


@pytest.mark.parametrize(
    ("happens", "lost", "whom"),
    [
        ("rank 1 stops in a rollout", 1, "another rank"),
        ("rank 0 stops in a rollout", 0, "rank 0"),
        ("rank 0 stops in a search", 0, "rank 0"),
        ("rank 1 dies in a rollout", 1, "another rank"),
    ],
)
def test_a_rank_that_is_lost_ends_the_run(
    happens: str, lost: int, whom: str, tmp_path: Path
) -> None:
    left = 1 - lost
    (said,) = talk(tmp_path, happens, left)
    assert said.startswith(
        f"OutOfStep: rank {left} has lost {whom}, which died, or hangs: ddp_timeout = 2 s is how long"
    )


def test_a_reply_that_takes_longer_than_the_time_out_ends_nothing(tmp_path: Path) -> None:
    first, second = talk(tmp_path, "a slow reply", 0, 1)
    assert first == ", ".join(["by rank 0, by rank 1"] * 2)
    assert second == ""
