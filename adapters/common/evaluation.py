"""The assignment that the trainer's own evaluation runs under."""

from __future__ import annotations

from prompt_coevo.engine.coevolution import Coevolution
from prompt_coevo.types import Assignment


def evaluation_assignment(engine: Coevolution) -> Assignment | None:
    """Return the best instruction, ready to be placed by `rollout_prompt`, or None if there is none.

    The assignment belongs to no round, so its results are not observed.
    """
    instruction = engine.evaluation_instruction()
    if instruction is None:
        return None
    placement = engine.settings.placement.build()
    return Assignment("validation", instruction=instruction, placement=placement)
