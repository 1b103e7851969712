"""Progress of a trainer whose next generation is the first to know that a step is over."""

from __future__ import annotations

from dataclasses import dataclass

from prompt_coevo.adapters.common.due import Due


@dataclass
class Progress(Due):
    """For trainers without a hook after a step or an episode: the next generation makes up for both.

    `batches` were handed over for training so far; `prompts_in_episode` were drawn in this episode (one
    pass over the dataset), whether or not dynamic filtering left any.
    """

    batches: int = 0
    prompts_in_episode: int = 0

    def generated(self, *, prompts: int, trained: bool, exhausted: bool) -> None:
        """Record a finished generation. An episode that divides evenly ends with an extra, empty one."""
        self.prompts_in_episode += prompts
        if trained:
            self.batches += 1
            self.step_due = True
        if exhausted and self.prompts_in_episode:
            self.epoch_due = True
            self.prompts_in_episode = 0
