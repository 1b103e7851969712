"""A group of settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, model_validator


class Section(BaseModel):
    """A group of settings: unknown names are refused, values do not change afterwards."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False
    )

    may_change: ClassVar[frozenset[str]] = frozenset()
    """What a resumed run may have another value of without being another run: costs, as a rule."""

    def problems(self) -> Iterator[str]:
        """What is wrong with the values together, one sentence each."""
        return iter(())

    @classmethod
    def without_lapsed(cls, preset: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """What counts of a preset's values beside those `given` by stronger sources: as a rule, all."""
        return dict(preset)

    @model_validator(mode="after")
    def _no_problems(self) -> Self:
        if problems := list(self.problems()):
            raise ValueError("; ".join(problems))
        return self
