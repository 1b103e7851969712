"""What the author of an adapter supplies: a harness that runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

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
"""What not every host has. "live greedy", "host state", "temperatures" and "log-probs" are parts of
a record.

"exact resume" means that a resumed run of the host samples what the uninterrupted one did; "steps in
checkpoints" that the end of a step is told before its checkpoint is written, and not after it, by a resumed
run too; "failing rewards" that the harness can tell the reward function that a rollout is for the engine
(`Job.failing`)."""


class AdapterUnderTest(Protocol):
    """A host with its adapter, ready to be run again and again, each time from the same first weights."""

    @property
    def material(self) -> Material: ...

    @property
    def lacks(self) -> Mapping[Capability, str]:
        """The capabilities that this host cannot have, each with a sentence that says why."""
        ...

    def encode(self, prompt: Prompt) -> Sequence[int]:
        """The ids of a prompt as the host asks the policy, up to where the completion begins."""
        ...

    def run(self, job: Job, folder: Path) -> Record:
        """Do the job with `folder` as the output directory, and say what happened.

        What the engine or the adapter refuses must come out as the CoevoError that it is.
        """
        ...

    def edit_state(self, checkpoint: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
        """Replace the engine's state in a checkpoint by what `edit` makes of it."""
        ...
