"""A group of settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from pydantic import BaseModel, ConfigDict, model_validator


class Section(BaseModel):
    """A group of settings: unknown names are refused, values do not change afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    def problems(self) -> Iterator[str]:
        """What is wrong with the values together, one sentence each."""
        return iter(())

    @model_validator(mode="after")
    def _no_problems(self) -> Self:
        if problems := list(self.problems()):
            raise ValueError("; ".join(problems))
        return self
