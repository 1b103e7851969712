"""Ends of steps and epochs that the engine must still be told of, for trainers without a hook there."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from prompt_coevo.engine.coevolution import Coevolution
from prompt_coevo.policy import Policy


@dataclass
class Due:
    """The ends of a step and of an epoch that the engine has not been told of yet.

    A trainer without a hook right after an update, with the new weights ready to sample, notes here what
    is over and settles it at its next chance. Save the value in the trainer's checkpoint next to the
    engine's state, or derive it from what is there: a resumed run settles it first.
    """

    step_due: bool = False
    epoch_due: bool = False

    def settle(self, engine: Coevolution, policy: Policy, *, last: bool = False) -> None:
        """Tell the engine. With `last` no other epoch follows, so none is closed."""
        if self.step_due:
            engine.step_end(policy, last=last)
            self.step_due = False
        if self.epoch_due and not last:
            engine.epoch_end(policy)
            self.epoch_due = False

    def to_json(self) -> dict[str, bool | int]:
        """Return the fields, including those of a subclass."""
        return asdict(self)
