"""All settings. The papers' methods have the papers' values as defaults; the default method is ours.

Sources, strongest first: constructor arguments, environment variables (`PROMPT_COEVO_SEED=1`,
`PROMPT_COEVO_STREAM__TAU=0.1`), a YAML or TOML file (`config_file`), a preset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, cast

from pydantic import BaseModel, Field, ValidationError, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from prompt_coevo import registry
from prompt_coevo.algorithms.hints.settings import HintSettings
from prompt_coevo.algorithms.inspo.settings import InspoSettings
from prompt_coevo.algorithms.p2o.settings import P2OSettings
from prompt_coevo.algorithms.stream.settings import StreamSettings
from prompt_coevo.errors import SettingsError
from prompt_coevo.lines import JSON
from prompt_coevo.settings.gates import GateSettings
from prompt_coevo.settings.method import Method, installed_methods, load_method, methods_of
from prompt_coevo.settings.mistakes import Source, mistakes_of
from prompt_coevo.settings.placement import PlacementSettings
from prompt_coevo.settings.preflight import PreflightSettings
from prompt_coevo.settings.reflection import ReflectionSettings
from prompt_coevo.settings.section import Contradictions, Section, fields_of, switch
from prompt_coevo.settings.sources import ENV_PREFIX, merged, read_sources
from prompt_coevo.settings.success import SuccessSettings

S = TypeVar("S", bound=Section)
V = TypeVar("V")
M = TypeVar("M", bound=BaseModel)


class Settings(Section, BaseSettings):
    """Everything a user can set. Raises SettingsError, in one sentence per problem.

    >>> Settings(stream={"tau": 0.1}, seed=3).stream.tau
    0.1
    """

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, env_nested_delimiter="__")

    preset: str | None = None
    """A named set of values: `prompt-coevo presets list`."""
    config_file: Path | None = None
    """A YAML or TOML file with settings."""
    seed: int = 0
    """Seed of every decision that the engine draws."""
    algorithms: Annotated[tuple[str, ...], NoDecode] = registry.DEFAULT_METHODS
    """The algorithms that run, by name; a text is split at its commas."""
    question_id_column: str | None = None
    """The dataset column that identifies a question. Default: a hash of prompt and ground truth."""
    ground_truth_column: str | None = "auto"
    """The column with the right answer; `auto` looks for a common name, `null` hides it from the
    reflection model."""
    row_columns: tuple[str, ...] = ()
    """Further columns of the dataset that methods may read."""
    context_distillation: bool = True
    """Train on the question without its template (P2O eq. 5). Off is an ablation."""
    distill_forward: bool = False
    """A forward pass more under the template: corrections between sampler and trainer then work on
    distilled rollouts too, and how much the template does is measured."""
    success: SuccessSettings = SuccessSettings()
    placement: PlacementSettings = PlacementSettings()
    reflection: ReflectionSettings = ReflectionSettings()
    gates: GateSettings = GateSettings()
    preflight: PreflightSettings = PreflightSettings()
    resume: Literal["strict", "force"] = "strict"
    """What to do with a checkpoint of a different run (another seed, dataset, method or method settings):
    `strict` refuses it, `force` continues with the current settings."""
    early_signs: Literal["warn", "stop"] = "warn"
    """What to do if the first rounds show that nothing can be learned: `warn` logs it once and trains on,
    `stop` ends the run with that sentence, before more is spent."""
    sinks: tuple[str, ...] = ("journal",)
    """Sinks that record the run's events, by name: the built-in `journal`, sinks of installed packages, or
    `module:attribute` of a factory."""
    trackers: Annotated[Literal["texts", "off"], switch("texts")] = "texts"
    """`texts` sends the candidates' lineage, and those in use, to the trainer's experiment trackers, as
    texts and tables at every change."""
    plugins: dict[str, dict[str, Any]] = Field(default={}, repr=False)
    """Settings of installed methods and plugins, by name; each checks its own."""
    # The built-in methods, under the names that `registry` knows them by.
    hints: HintSettings = HintSettings()
    inspo: InspoSettings = InspoSettings()
    p2o: P2OSettings = P2OSettings()
    stream: StreamSettings = StreamSettings()

    def __init__(self, **values: Any) -> None:
        found: list[str] = []
        sources = self._sources(values, found)
        whole = merged(*(values for _, values in sources))

        def check(values: Mapping[str, Any], contradictions: Contradictions) -> None:
            self.__pydantic_validator__.validate_python(
                dict(values), self_instance=self, context=contradictions
            )

        try:
            found += mistakes_of(check, type(self), whole, sources=sources)
            found += self._of_outside_methods(sources)
        except RecursionError:
            found.append("a setting holds lists in lists too deep to be read")
        if found:
            raise SettingsError(*found)

    @classmethod
    def _sources(cls, arguments: Mapping[str, Any], found: list[str]) -> list[Source]:
        """Return all values by where they stand, the strongest first; what cannot be read is in `found`."""
        return read_sources(cls, arguments, found)

    @field_validator("algorithms", mode="before")
    @classmethod
    def _split_names(cls, names: V) -> V | tuple[str, ...]:
        if isinstance(names, str):
            return tuple(name.strip() for name in names.split(",") if name.strip())
        return names

    def section(self, model: type[S]) -> S:
        """Return a method's own section. Raise SettingsError if no method of this run has this one."""
        # Outside methods first: one may have the section of a built-in method as its own.
        for method in self._outside(methods_of(self).values()):
            if method.section is model:
                return parse_section(model, self.place(method), self.plugins.get(method.name, {}))
        for name in type(self).model_fields:
            if type(value := getattr(self, name)) is model:
                return value
        raise SettingsError(f"no method of this run has the section {model.__name__}")

    def place(self, method: Method) -> str:
        """Return where a method's settings stand: `p2o`, or `plugins.NAME` if it is not built in."""
        own = type(getattr(self, method.name, None)) is method.section
        return method.name if own else f"plugins.{method.name}"

    def resolved(self, **options: Any) -> dict[str, JSON]:
        """Dump all values as JSON, those of outside methods as their sections do: whole, and without keys.

        `options` are those of `model_dump`.
        """
        values = self.model_dump(mode="json", **options)
        common = {name: value for name, value in options.items() if name != "exclude"}
        for method in self._outside(methods_of(self).values()):
            dumped = self.section(method.section).model_dump(mode="json", **common)
            values["plugins"] = {**values.get("plugins", {}), method.name: dumped}
        return values

    def problems(self) -> Iterator[str]:
        unknown: list[str] = []
        methods = self._methods(unknown)
        yield from unknown
        if not unknown:  # with a method that nobody knows, nobody knows what has an effect
            yield from self._idle_sections()
            yield from self._unread_plugins(methods)
            yield from self._of_methods(methods)
        yield from self._of_distillation()
        yield from self._of_reflection(methods)
        yield from registry.unknown("sinks", self.sinks, "sinks")

    def _methods(self, problems: list[str]) -> dict[str, Method]:
        """Load the methods of this run; what is wrong with a name is added to `problems`."""
        methods: dict[str, Method] = {}
        # Settings that were refused have no attributes.
        for name in vars(self).get("algorithms", ()):
            try:
                methods[name] = load_method(name)
            except SettingsError as error:
                problems.append(str(error))
        return methods

    def _outside(self, methods: Iterable[Method]) -> list[Method]:
        return [method for method in methods if self.place(method) != method.name]

    def _idle_sections(self) -> Iterator[str]:
        offered = registry.names("methods")
        if not set(self.algorithms) <= set(offered):
            return  # a method given by its place may read the section of a built-in one
        for name in sorted(set(offered) - set(self.algorithms)):
            if registry.is_built_in("methods", name):
                place, given = name, bool(getattr(self, name).model_fields_set)
            else:
                place, given = f"plugins.{name}", bool(self.plugins.get(name))
            if given:
                yield (
                    f'settings under {place} have no effect without "{name}" in algorithms; '
                    + self._meant(name)
                )

    def _unread_plugins(self, methods: Mapping[str, Method]) -> Iterator[str]:
        """Of names under `plugins` that nobody offers; `_idle_sections` tells of those that do not run."""
        places = {method.name: self.place(method) for method in methods.values()}
        offered = registry.names("methods")
        for name in self.plugins:
            built_in = name in offered and registry.is_built_in("methods", name)
            if built_in and places.get(name, name) == name:
                yield f"plugins.{name} sets nothing: the settings of the method {name!r} stand under {name}"
            elif name not in places and name not in offered:
                yield (
                    f"plugins.{name} sets nothing: no method of this run has that name; methods: "
                    + (", ".join(places) or "none")
                )

    def _meant(self, name: str) -> str:
        """Say what to do about the settings of a method that does not run."""
        given = set(getattr(self, name, Section()).model_fields_set)
        for other in self.algorithms:
            section = getattr(self, other, None)
            if isinstance(section, Section) and given and given <= set(type(section).model_fields):
                names = ", ".join(f"{other}.{one}" for one in sorted(given))
                return f'set {names}, or name "{name}" in place of "{other}"'
        return "add it or leave them out"

    def _of_distillation(self) -> Iterator[str]:
        if self.distill_forward and not self.context_distillation:
            yield (
                "distill_forward = True has no effect without context distillation; set "
                "context_distillation = true or leave distill_forward out"
            )

    def _of_methods(self, methods: Mapping[str, Method]) -> Iterator[str]:
        idle = {"context_distillation", "distill_forward"} & self.model_fields_set
        if idle and methods and not any(method.may_distill for method in methods.values()):
            yield (
                f"{min(idle)} has no effect with algorithms = {', '.join(self.algorithms)}, "
                "which put no template into a prompt; leave it out"
            )
        sections = [method.section for method in methods.values() if method.section is not Section]
        for section in {one for one in sections if sections.count(one) > 1}:
            yield (
                f"algorithms = {', '.join(self.algorithms)}: several have the section {section.__name__}; "
                "give each a class of its own"
            )

    def _of_outside_methods(self, sources: Sequence[Source]) -> Iterator[str]:
        for method in self._outside(self._methods([]).values()):
            name = method.name
            own = [(label, _section_at(values, "plugins", name)) for label, values in sources]
            yield from section_mistakes(
                method.section, f"plugins.{name}", self.plugins.get(name, {}), own
            )

    def _of_reflection(self, methods: Mapping[str, Method]) -> Iterator[str]:
        sections = [self._section_of(method) for method in methods.values()]
        for section in sections:
            yield from section.problems_beside(self.reflection)
        limited = "total_timeout_s" in self.reflection.model_fields_set
        waits = not any(section.asks_in_background for section in sections)
        if self.reflection.function is not None and limited and waits:
            yield (
                "reflection.total_timeout_s has no effect with a reflection.function that training waits "
                "for; leave it out"
            )

    def _section_of(self, method: Method) -> Section:
        """Return a method's section; an empty one if what stands there is refused anyway."""
        if self.place(method) == method.name:
            return cast(Section, getattr(self, method.name))
        try:
            return method.section.model_validate(self.plugins.get(method.name, {}))
        except ValidationError:
            return Section()


def method_choices() -> dict[str, list[str]]:
    """Return the values of an adapter's method flag, each with the algorithms that it stands for."""
    alone = {name: [name] for name in registry.names("methods")}
    return {**alone, **{name: list(names) for name, names in registry.METHOD_SETS.items()}}


def setting_fields() -> Iterator[tuple[str, FieldInfo]]:
    """Yield every setting of `Settings` and of all installed methods, by its dotted name."""
    yield from fields_of(Settings)
    for method in installed_methods():
        yield from fields_of(method.section, f"plugins.{method.name}.")


def parse_section(model: type[M], name: str, values: Mapping[str, Any]) -> M:
    """Check a plugin's own settings with its model. Raises SettingsError with all that is wrong."""
    if mistakes := section_mistakes(model, name, values):
        raise SettingsError(*mistakes)
    return model.model_validate(dict(values))


def section_mistakes(
    model: type[BaseModel],
    name: str,
    values: Mapping[str, Any],
    sources: Sequence[Source] = (),
) -> list[str]:
    """All that is wrong with a plugin's own settings, in sentences."""

    def check(values: Mapping[str, Any], contradictions: Contradictions) -> None:
        model.model_validate(dict(values), context=contradictions)

    return mistakes_of(check, model, values, prefix=name, sources=sources)


def _section_at(values: Any, *path: str) -> Mapping[str, Any]:
    for name in path:
        values = values.get(name) if isinstance(values, Mapping) else None
    return values if isinstance(values, Mapping) else {}
