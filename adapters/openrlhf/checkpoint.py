"""The engine's state in OpenRLHF's checkpoints, where the prompt dataloader's state is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from prompt_coevo.adapters.openrlhf.host import Arguments
from prompt_coevo.doors.checkpoint import starts_anew
from prompt_coevo.doors.due import Due
from prompt_coevo.engine.coevolution import Coevolution

if TYPE_CHECKING:
    from torchdata.stateful_dataloader import StatefulDataLoader  # type: ignore[import-not-found]

STATE: Final = "prompt_coevo"
METRICS: Final = "prompt_coevo_metrics"


@dataclass
class Progress(Due):
    """OpenRLHF has no moment after a step or an episode, so the next generation makes up for both.

    `batches` that were handed over for training so far; prompts drawn in this episode, whether or not
    dynamic filtering left any.
    """

    batches: int = 0
    prompts_in_episode: int = 0

    def generated(self, *, prompts: int, trained: bool, exhausted: bool) -> None:
        """A generation is over. An episode that divides evenly ends with an extra, empty one."""
        self.prompts_in_episode += prompts
        if trained:
            self.batches += 1
            self.step_due = True
        if exhausted and self.prompts_in_episode:
            self.epoch_due = True
            self.prompts_in_episode = 0


class StatefulPrompts:
    """Stands in for the prompt dataloader in both of OpenRLHF's trainers; all but the state is its own.

    The state that it gives belongs to a checkpoint after the batch that was handed over last.
    """

    def __init__(
        self, loader: StatefulDataLoader, engine: Coevolution, args: Arguments, *, evaluates: bool
    ) -> None:
        self._loader = loader
        self._engine = engine
        self._args = args
        self._evaluates = evaluates
        self._counts_unknown = False
        self.progress = Progress()

    def __iter__(self) -> Iterator[object]:
        return iter(self._loader)

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)

    def state_dict(self) -> dict[str, object]:
        """The dataloader's state, with ours if this state may be that of a checkpoint."""
        ours: dict[str, object] = {}
        if self._may_be_saved():
            progress = self.progress.to_json()
            ours[STATE] = {"engine": self._engine.state_dict(), "progress": progress}
        return {**self._loader.state_dict(), **ours, METRICS: self._engine.metrics()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint; without a state of ours in it, say so. Raises StateError."""
        theirs = {name: value for name, value in state.items() if name not in (STATE, METRICS)}
        self._loader.load_state_dict(theirs)
        if STATE not in state:
            self._counts_unknown = True
            starts_anew("the checkpoint has no state of prompt_coevo")
            return
        ours = state[STATE]
        self.progress = Progress(**ours["progress"])
        self._engine.load_state_dict(ours["engine"], where="the checkpoint's data loader state")

    def _may_be_saved(self) -> bool:
        """After saving steps, after evaluations, and after any batch if these may be later than it."""
        args = self._args
        if self._counts_unknown:
            return True
        if self._evaluates and args.train.async_enable and math.isfinite(args.eval.steps):
            return True
        steps = [args.ckpt.save_steps, *([args.eval.steps] if self._evaluates else [])]
        return not all(self.progress.batches % step for step in steps)
