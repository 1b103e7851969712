"""Check that a dead or hanging rank ends the run within `ddp_timeout`; a slow reflection model does not.

The processes are real.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "two_talkers.py"


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("talkers")
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, str(SCRIPT), str(folder)], env=environment, check=True)
    return folder


@pytest.mark.parametrize(
    ("happens", "left", "whom"),
    [
        ("rank 1 stops in a rollout", 0, "another rank"),
        ("rank 0 stops in a rollout", 1, "rank 0"),
        ("rank 0 stops in a search", 1, "rank 0"),
        ("rank 1 dies in a rollout", 0, "another rank"),
    ],
)
def test_a_rank_that_is_lost_ends_the_run(happens: str, left: int, whom: str, said: Path) -> None:
    assert (
        (said / f"{happens}, rank {left}")
        .read_text()
        .startswith(
            f"OutOfStep: rank {left} has lost {whom}, which died, or hangs: ddp_timeout = 4 s is how long"
        )
    )
    assert not (said / f"{happens}, rank {1 - left}").exists()


def test_a_reply_that_takes_longer_than_the_time_out_ends_nothing(said: Path) -> None:
    first, second = [(said / f"a slow reply, rank {rank}").read_text() for rank in (0, 1)]
    assert first == ", ".join(["by rank 0, by rank 1"] * 2)
    assert second == ""
