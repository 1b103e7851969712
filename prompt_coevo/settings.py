"""All settings. The defaults are the papers' values.

Sources, strongest first: constructor arguments, environment variables (`PROMPT_COEVO_SEED=1`,
`PROMPT_COEVO_P2O__TAU=0.1`), a YAML or TOML file (`config_file`), a preset.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ImportString,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)
from pydantic_settings.exceptions import SettingsError as SourceError

from prompt_coevo.budget import Overspend
from prompt_coevo.errors import SettingsError
from prompt_coevo.placement import Placement, check_layout
from prompt_coevo.setting_sources import (
    ENV_PREFIX,
    check_environment,
    describe,
    read_file,
    read_preset,
)


class Section(BaseModel):
    """A group of settings: unknown names are refused, values do not change afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class PlacementSettings(Section):
    """Where instruction and template go in a prompt."""

    instruction: Literal["system", "prefix"] = "system"
    """`system`: as the chat's system message; `prefix`: in front of the last user message."""
    instruction_layout: str = Placement.instruction_layout
    """How an instruction in front of a prompt is joined to it."""
    template_layout: str = Placement.template_layout
    """How a template is joined to a question: `T(x, z)`, P2O section 3.2."""

    @model_validator(mode="after")
    def _check_layouts(self) -> PlacementSettings:
        check_layout(
            self.instruction_layout, ["instruction", "prompt"], "placement.instruction_layout"
        )
        check_layout(self.template_layout, ["template", "question"], "placement.template_layout")
        return self

    def build(self) -> Placement:
        return Placement(**self.model_dump())


_OF_A_MODEL = {"temperature", "max_tokens"}
_OF_A_REMOTE_MODEL = {"api_base", "api_key", "timeout_s", "total_timeout_s"}


class ReflectionSettings(Section):
    """Who writes new candidates."""

    proposer: str = "propose_improvement"
    """The name of a registered proposer."""
    model: str | None = None
    """`"self"` for the initial policy (P2O's self-reference), or any litellm model name (a teacher)."""
    function: ImportString[Any] | None = None
    """A callable from prompt text to reply text, or its import path, in place of a model."""
    api_base: str | None = None
    """Base URL of an OpenAI-compatible server, such as a local vLLM."""
    api_key: SecretStr | None = None
    """Better left to the provider's own environment variable."""
    temperature: float = Field(default=1.0, ge=0.0)
    """Sampling temperature of the reflection model."""
    max_tokens: int = Field(default=4096, ge=1)
    """Longest reply, in tokens; a reply that reaches it is rejected."""
    concurrency: int | None = Field(default=None, ge=1)
    """Calls at once. Default: 8 for a litellm model, 1 for a function (it may not be thread-safe)."""
    timeout_s: float = Field(default=120.0, gt=0.0)
    """Seconds that one attempt may take."""
    total_timeout_s: float = Field(default=300.0, gt=0.0)
    """Seconds that one call may take with all its retries."""
    max_example_tokens: int = Field(default=2000, ge=16)
    """Longest excerpt of one failed trajectory in a reflection prompt, in tokens."""
    meta_prompt_file: Path | None = None
    """A file in place of the proposer's own meta-prompt."""

    @model_validator(mode="after")
    def _one_source(self) -> ReflectionSettings:
        if self.model is not None and self.function is not None:
            raise ValueError("reflection.model and reflection.function exclude each other: set one")
        if self.function is not None:
            self._refuse(_OF_A_MODEL | _OF_A_REMOTE_MODEL, "a reflection.function")
        if self.model == "self":
            self._refuse({"concurrency"} | _OF_A_REMOTE_MODEL, 'reflection.model = "self"')
        return self

    def _refuse(self, names: set[str], where: str) -> None:
        for name in sorted(names & self.model_fields_set):
            raise ValueError(f"reflection.{name} has no effect with {where}; leave it out")


class GateSettings(Section):
    """What a candidate must satisfy before any rollout is spent on it."""

    max_candidate_tokens: int = Field(default=1024, ge=1)
    """Longest candidate, in tokens of the policy."""
    required_tags: tuple[str, ...] = ()
    """Texts that every candidate must contain."""
    leak_ngram: int = Field(default=8, ge=2)
    """A candidate must not share so many consecutive words with a training question."""
    leak_truth_chars: int = Field(default=12, ge=1)
    """A ground truth of at least so many characters must not stand in a candidate."""


class P2OSettings(Section):
    """P2O (arXiv 2603.21877)."""

    tau: float = 0.2
    """`τ` of eq. 4: a question is hard if its group's mean reward is below it. At K = 6 the default
    means all fail, or one success, as the authors ran it."""
    search_every: Literal["epoch"] | int = "epoch"
    """Search at the end of every epoch (Algorithm 1), or every so many weight updates."""
    search_budget: int = Field(default=11_000, ge=1)
    """`C_total` of Algorithm 3: policy rollouts per search (what the authors ran)."""
    overspend: Overspend = "never"
    """`never`: a wave holds what the budget can pay in full; `literal`: the paper's test between waves."""
    beam_width: int = Field(default=16, ge=1)
    """`W` of Algorithm 4."""
    front_fill: bool = False
    """Fill a front smaller than `W` with further proposals from the same parents (not in the paper)."""
    minibatch_size: int = Field(default=3, ge=1)
    """`B` of Algorithm 3: questions per proposal."""
    dev_size: int = Field(default=300, ge=1)
    """Questions on which accepted templates are scored; at most half of the hard ones."""
    min_hard: int = Field(default=2, ge=2)
    """Fewer hard questions than this: no search (the authors' code uses 100)."""
    solved_at: float = 1.0
    """A reward from which a question counts as solved: `C(z)` of Algorithm 2."""
    minibatch_temperature: float = Field(default=0.6, ge=0.0)
    """Sampling temperature of the minibatch rollouts."""
    dev_temperature: float = Field(default=0.0, ge=0.0)
    """Sampling temperature of the dev rollouts; 0 is greedy."""
    group_templates: Literal["diverse", "same"] = "diverse"
    """`same` gives all rollouts of a group one template: the ablation of Table 2."""
    max_barren_waves: int = Field(default=8, ge=1)
    """End a search after so many waves in a row that gave no candidate to try (not in the paper)."""

    @field_validator("tau")
    @classmethod
    def _tau_above_zero(cls, tau: float) -> float:
        if not tau > 0:
            raise ValueError(
                "must be greater than 0, else no question can be hard; for example 0.2"
            )
        return tau

    @field_validator("search_every")
    @classmethod
    def _positive_steps(cls, every: Any) -> Any:
        if every != "epoch" and every < 1:
            raise ValueError('must be "epoch" or a number of steps of at least 1')
        return every


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
        if "distill_band" in self.model_fields_set and self.distill_ratio != "band":
            raise ValueError(
                'distill_band has no effect unless distill_ratio = "band"; set that or leave it out'
            )
        return self


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
