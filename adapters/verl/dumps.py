"""The texts rollouts ran under, for VeRL's dumps (`trainer.rollout_data_dir`) of the trained prompts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from prompt_coevo.adapters.verl.rollouts import session
from prompt_coevo.types import Assignment

INSTRUCTION: Final = "coevo_instruction"
TEMPLATE: Final = "coevo_template"
_KEYS: Final = "uid"  # VeRL's name for the column with the rows' keys


class RanUnder:
    """Instructions and templates of a step's rollouts; each text is held once, however many share it."""

    def __init__(self) -> None:
        self._planned: dict[str, Sequence[Assignment]] = {}

    def clear(self) -> None:
        """Forget the previous step's rollouts."""
        self._planned.clear()

    def note(self, planned: Mapping[str, Sequence[Assignment]]) -> None:
        """Add groups that are trained on in this step, by uid."""
        self._planned.update(planned)

    def columns(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Return a dump's columns with two added; they are None for rows of other steps."""
        ran_under = list(self._assignments(columns.get(_KEYS) or ()))
        return {
            **columns,
            INSTRUCTION: [one and one.instruction_text for one in ran_under],
            TEMPLATE: [one and one.template_text for one in ran_under],
        }

    def _assignments(self, keys: Iterable[str]) -> Iterable[Assignment | None]:
        for key in keys:
            if key.count("_") < 2:
                yield None
                continue
            uid, member = session(key)
            group = self._planned.get(uid)
            yield group[member] if group else None
