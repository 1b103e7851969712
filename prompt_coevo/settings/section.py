"""A group of settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Self, TypeVar, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo

if TYPE_CHECKING:
    from prompt_coevo.settings.reflection import ReflectionSettings

V = TypeVar("V")


@dataclass
class Contradictions:
    """The context of a validation that wants to know all: what is wrong with values together."""

    sentences: list[str] = field(default_factory=list)


class Section(BaseModel):
    """A group of settings: unknown names are refused, values do not change afterwards."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False
    )

    may_change: ClassVar[frozenset[str]] = frozenset()
    """What a resumed run may have another value of without being another run: costs, as a rule."""

    def problems(self) -> Iterator[str]:
        """Say what is wrong with the values together, one sentence each.

        A sentence names all settings that it is about: one that names a setting whose value was refused
        already is not shown.
        """
        return iter(())

    def problems_beside(self, reflection: ReflectionSettings) -> Iterator[str]:
        """Say what is wrong with a method's values beside those of the section `reflection`."""
        return iter(())

    @property
    def asks_in_background(self) -> bool:
        """Tell whether the method asks the reflection model while training goes on."""
        return False

    @field_validator("*", mode="before")
    @classmethod
    def _no_switch_for_a_number(cls, value: V, info: ValidationInfo) -> V:
        """Refuse `true` for a number, which it would be: 1."""
        if isinstance(value, bool) and info.field_name is not None:
            annotation = cls.model_fields[info.field_name].annotation
            kinds = {annotation, *get_args(annotation)}
            if kinds & {int, float} and bool not in kinds:
                raise ValueError(f"must be a number, not {str(value).lower()}")
        return value

    @model_validator(mode="after")
    def _no_problems(self, info: ValidationInfo) -> Self:
        """Say what is wrong with values together: to who collects that, or by ValueError."""
        problems = list(self.problems())
        if isinstance(info.context, Contradictions):
            info.context.sentences += problems
        elif problems:
            raise ValueError("; ".join(problems))
        return self


def switch(on: str) -> BeforeValidator:
    """Map booleans to the names `on` and `off`, because YAML reads `off` as false."""
    names = {"true": on, "false": "off"}
    return BeforeValidator(lambda value: names.get(str(value).lower(), value))


def fields_of(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Yield every setting of a model by its dotted name, sections resolved."""
    for name, info in model.model_fields.items():
        kind = info.annotation
        if isinstance(kind, type) and issubclass(kind, Section):
            yield from fields_of(kind, f"{prefix}{name}.")
        else:
            yield prefix + name, info
