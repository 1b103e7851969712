"""Save the engine's state in the trainer's checkpoint, next to the state of its dataloader."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from prompt_coevo.adapters.common.checkpoint import starts_anew
from prompt_coevo.adapters.common.due import Due
from prompt_coevo.adapters.common.trackers.texts import Texts
from prompt_coevo.adapters.openrlhf.host import Arguments
from prompt_coevo.engine.coevolution import Coevolution
from prompt_coevo.errors import StateError

if TYPE_CHECKING:
    from torchdata.stateful_dataloader import StatefulDataLoader  # type: ignore[import-not-found]

STATE: Final = "prompt_coevo"
METRICS: Final = "prompt_coevo_metrics"
"""The entry of the state with the engine's metrics, for trainers that log in another process."""
TEXTS: Final = "prompt_coevo_texts"
"""The entry with the tables that are due in the trainer's trackers, if there are any."""


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


def may_be_saved(args: Arguments, progress: Progress, *, evaluates: bool) -> bool:
    """Tell when OpenRLHF may write a checkpoint: after saving steps and evaluations, and always if
    evaluations may lag behind."""
    if evaluates and args.train.async_enable and math.isfinite(args.eval.steps):
        return True
    steps = [args.ckpt.save_steps, *([args.eval.steps] if evaluates else [])]
    return not all(progress.batches % step for step in steps)


class StatefulLoader:
    """A proxy for a dataloader that adds the engine's state to `state_dict()` and delegates the rest.

    `progress` is what the engine has not been told of yet; it is saved, too. `may_be_saved` tells whether
    the state that is asked for now may go into a checkpoint; if not, the engine's is left out. `texts`
    follows the engine for the trainer's trackers.
    """

    def __init__(
        self,
        loader: StatefulDataLoader,
        engine: Coevolution,
        may_be_saved: Callable[[Progress], bool],
        texts: Texts | None = None,
    ) -> None:
        self._loader = loader
        self._engine = engine
        self.progress = Progress()
        self._may_be_saved = may_be_saved
        self._texts = texts
        self._progress_unknown = False

    def __iter__(self) -> Iterator[object]:
        return iter(self._loader)

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)

    def state_dict(self) -> dict[str, object]:
        """Return the dataloader's state with the metrics, and with ours if it may go into a checkpoint."""
        ours: dict[str, object] = {}
        if self._progress_unknown or self._may_be_saved(self.progress):
            progress = self.progress.to_json()
            ours[STATE] = {"engine": self._engine.state_dict(), "progress": progress}
        if self._texts and (tables := self._texts.due(self._engine.policy_version.step)):
            ours[TEXTS] = tables
        return {**self._loader.state_dict(), **ours, METRICS: self._engine.metrics()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a checkpoint; warn if it has no state of ours. Raises StateError."""
        own = (STATE, METRICS, TEXTS)
        theirs = {name: value for name, value in state.items() if name not in own}
        self._loader.load_state_dict(theirs)
        if STATE not in state:
            self._progress_unknown = True
            starts_anew("the checkpoint has no state of prompt_coevo")
            return
        ours, where = state[STATE], "the checkpoint's data loader state"
        try:
            self.progress = Progress(**ours["progress"])
            engine = ours["engine"]
        except (LookupError, TypeError) as error:
            raise StateError(
                f"{where} is not one that prompt_coevo wrote ({type(error).__name__}: {error}); resume "
                "from another checkpoint"
            ) from None
        self._engine.load_state_dict(engine, where=where)
