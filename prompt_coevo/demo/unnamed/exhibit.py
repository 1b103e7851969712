"""Arms, columns and panels of the runs with a real language model."""

from __future__ import annotations

from typing import Final

from prompt_coevo.demo.show import Exhibit
from prompt_coevo.demo.unnamed.arms import ARMS, POINTS
from prompt_coevo.demo.unnamed.tasks import HARD, PLAIN

UNNAMED: Final = Exhibit(
    ARMS,
    "Held-out questions, sampled without any template",
    {"task\nunstated": HARD, "task\nstated": PLAIN},
    {"task unstated": HARD, "task stated": PLAIN},
    POINTS,
    {name: (name,) for name in HARD},
)
