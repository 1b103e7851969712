"""The harness that an adapter's author writes: it runs the trainer with the adapter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from prompt_coevo.lines import JSON
from prompt_coevo.placement import Prompt
from prompt_coevo.testing.adapter.job import Job, Material
from prompt_coevo.testing.adapter.record import Record

Capability: TypeAlias = Literal[
    "late rollouts",
    "rollouts in parts",
    "rewards of none",
    "evaluation",
    "log-probs",
    "live greedy",
    "host state",
    "temperatures",
    "exact resume",
    "steps in checkpoints",
    "ranks",
    "failing rewards",
]
"""Capabilities that some trainers lack. Parts of a record: "live greedy", "host state", "temperatures" and
"log-probs".

"exact resume": a resumed run samples the same completions as an uninterrupted one. "steps in checkpoints":
the engine hears of the end of a step before that step's checkpoint is written, also in a resumed run.
"failing rewards": the harness can tell the reward function that a rollout is for the engine
(`Job.failing`).
"""


class AdapterUnderTest(Protocol):
    """A trainer with its adapter. It can run many times, each time from the same initial weights."""

    @property
    def material(self) -> Material: ...

    @property
    def lacks(self) -> Mapping[Capability, str]:
        """Capabilities that this trainer cannot have, each with a sentence that says why."""
        ...

    def encode(self, prompt: Prompt) -> Sequence[int]:
        """Return the prompt's token ids as the trainer sends them to the policy, up to where the completion
        begins."""
        ...

    def run(self, job: Job, folder: Path) -> Record:
        """Run the job with `folder` as the output directory and return what happened.

        Let the CoevoError through when the engine or the adapter refuses something.
        """
        ...

    def edit_state(self, checkpoint: Path, edit: Callable[[dict[str, JSON]], JSON]) -> None:
        """Replace the engine's state in a checkpoint with the result of `edit`."""
        ...
