"""All settings. The defaults are the papers' values.

Sources, strongest first: constructor arguments, environment variables (`PROMPT_COEVO_SEED=1`,
`PROMPT_COEVO_P2O__TAU=0.1`), a YAML or TOML file (`config_file`), a preset.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)
from pydantic_settings.exceptions import SettingsError as SourceError

from prompt_coevo.errors import SettingsError
from prompt_coevo.settings.gates import GateSettings
from prompt_coevo.settings.inspo import InspoSettings
from prompt_coevo.settings.p2o import P2OSettings
from prompt_coevo.settings.placement import PlacementSettings
from prompt_coevo.settings.reflection import ReflectionSettings
from prompt_coevo.settings.section import Section
from prompt_coevo.settings.sources import (
    ENV_PREFIX,
    check_environment,
    describe,
    read_file,
    read_preset,
)

METHODS: Final[dict[str, list[str]]] = {
    "p2o": ["p2o"],
    "inspo": ["inspo"],
    "both": ["inspo", "p2o"],
}
"""What a door's one flag may say, and the algorithms that it stands for."""


class Settings(BaseSettings):
    """Everything a user can set. Raises SettingsError, in one sentence per problem.

    >>> Settings(p2o={"tau": 0.1}, seed=3).p2o.tau
    0.1
    """

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
    )

    preset: str | None = None
    """A named set of values: `prompt-coevo presets list`."""
    config_file: Path | None = None
    """A YAML or TOML file with settings."""
    seed: int = 0
    """Seed of every decision that the engine draws."""
    algorithms: Annotated[tuple[str, ...], NoDecode] = ("p2o",)
    """The algorithms that run, by name; a text is split at its commas."""
    question_id_column: str | None = None
    """The dataset column that identifies a question. Default: a hash of prompt and ground truth."""
    ground_truth_column: str | None = "auto"
    """The column with the right answer; `auto` looks for a common name, None shows none to the
    reflection model."""
    context_distillation: bool = True
    """Train on the question without its template (P2O eq. 5). Off is an ablation."""
    distill_ratio: Literal["clean", "band", "templated"] = "clean"
    """Where old log-probs of distilled rollouts come from; see the documentation."""
    distill_band: tuple[float, float] = (0.01, 10.0)
    """With `band`: tokens whose π(y|x)/π(y|x~) is outside are left out of the loss."""
    placement: PlacementSettings = PlacementSettings()
    reflection: ReflectionSettings = ReflectionSettings()
    gates: GateSettings = GateSettings()
    p2o: P2OSettings = P2OSettings()
    inspo: InspoSettings = InspoSettings()
    plugins: dict[str, dict[str, Any]] = {}
    """Settings of third-party plugins, by plugin name; each plugin checks its own."""

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise SettingsError(describe(error, type(self))) from None
        except SourceError as error:
            raise SettingsError(f"{error}: {error.__cause__}") from None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        check_environment(os.environ, cls)
        arguments = _without_defaults(init_settings())
        environment = env_settings()
        file = read_file(_first("config_file", arguments, environment))
        preset = read_preset(_first("preset", arguments, environment, file))
        return tuple(
            InitSettingsSource(settings_cls, init_kwargs=values)
            for values in (arguments, environment, file, preset)
        )

    @field_validator("algorithms", mode="before")
    @classmethod
    def _split_names(cls, names: Any) -> Any:
        if isinstance(names, str):
            return tuple(name.strip() for name in names.split(",") if name.strip())
        return names

    @model_validator(mode="after")
    def _sections_in_use(self) -> Settings:
        # An outside algorithm may read a built-in one's section, so only built-in ones are judged.
        if set(self.algorithms) <= {"p2o", "inspo"}:
            for name in {"p2o", "inspo"} - set(self.algorithms):
                if name in self.model_fields_set and getattr(self, name).model_fields_set:
                    raise ValueError(
                        f'settings under {name} have no effect without "{name}" in algorithms; '
                        "add it or leave them out"
                    )
        return self

    @model_validator(mode="after")
    def _combinations(self) -> Settings:
        low, high = self.distill_band
        if not 0 <= low < high:
            raise ValueError(
                f"distill_band must be two numbers with 0 <= low < high, but is {low}, {high}"
            )
        if not self.context_distillation and self.distill_ratio != "clean":
            raise ValueError(
                f"distill_ratio = {self.distill_ratio!r} has no effect without context "
                "distillation; "
                "set context_distillation = true or leave distill_ratio out"
            )
        self._check_overlap()
        if "distill_band" in self.model_fields_set and self.distill_ratio != "band":
            raise ValueError(
                'distill_band has no effect unless distill_ratio = "band"; set that or leave it out'
            )
        return self

    def _check_overlap(self) -> None:
        overlapped = "inspo" in self.algorithms and self.inspo.reflection == "overlapped"
        if overlapped and self.reflection.model == "self":
            raise ValueError(
                'inspo.reflection = "overlapped" cannot go with reflection.model = "self": it would '
                "generate while training does, with the same random state; serve the model and name it "
                "by reflection.api_base, or leave the overlap out"
            )
        limited = "total_timeout_s" in self.reflection.model_fields_set
        if self.reflection.function is not None and limited and not overlapped:
            raise ValueError(
                "reflection.total_timeout_s has no effect with a reflection.function, unless "
                'inspo.reflection = "overlapped"; leave it out'
            )


def setting_fields(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every setting by its dotted name, sections resolved."""
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, Section):
            yield from setting_fields(kind, f"{prefix}{name}.")
        else:
            yield prefix + name, field


def parse_section(model: type[BaseModel], name: str, values: Mapping[str, Any]) -> BaseModel:
    """Check a plugin's own settings with its model. Raises SettingsError."""
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        raise SettingsError(describe(error, model, prefix=name)) from None


def _first(name: str, *sources: Mapping[str, Any]) -> Any:
    return next((source[name] for source in sources if source.get(name) is not None), None)


def _without_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """Sections given as objects count with what was set in them, so that sources merge by value."""
    return {
        name: {key: getattr(value, key) for key in value.model_fields_set}
        if isinstance(value, Section)
        else value
        for name, value in values.items()
    }
