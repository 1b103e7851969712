"""What the engine has not been told of yet, for hosts that lack the moment to tell it."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from prompt_coevo.engine.coevolution import Coevolution
from prompt_coevo.policy import Policy


@dataclass
class Due:
    """The ends of a step and of an epoch that are still owed to the engine.

    A host without a moment right after an update, with the new weights ready to sample, notes here
    what is over and settles it at its next good moment. The value belongs into the host's checkpoint
    next to the engine's state, or must follow from what is there: a resumed run settles it first.
    """

    step_due: bool = False
    epoch_due: bool = False

    def settle(self, engine: Coevolution, policy: Policy, *, last: bool = False) -> None:
        """Tell the engine. With `last` there is no epoch to come, so none is closed."""
        if self.step_due:
            engine.step_end(policy, last=last)
            self.step_due = False
        if self.epoch_due and not last:
            engine.epoch_end(policy)
            self.epoch_due = False

    def to_json(self) -> dict[str, bool | int]:
        """The fields, those of a subclass too."""
        return asdict(self)
