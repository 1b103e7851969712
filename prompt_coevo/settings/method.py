"""A method: what one registration says about it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from prompt_coevo import registry
from prompt_coevo.errors import CoevoError, PluginError
from prompt_coevo.markers import INTERFACE, PROJECT, check_interface
from prompt_coevo.settings.section import Section

if TYPE_CHECKING:
    from prompt_coevo.algorithms.all_settings import Settings
    from prompt_coevo.context import Context
    from prompt_coevo.policy import Policy

logger = logging.getLogger(PROJECT)

Job: TypeAlias = Literal["instruction", "template"]
"""A part of what a rollout runs under."""


@dataclass(frozen=True)
class Workload:
    """What the host trains on: `questions` an epoch, `group_size` rollouts of each.

    `rows` are those of the dataset, where several may be one question; None: as many as questions.
    `epochs` and `steps` say how long the whole run is, in passes over the questions (not always
    whole ones) and weight updates; None is unknown. `updates_per_round` are the updates that one
    generation round serves.
    """

    questions: int
    group_size: int
    epochs: float | None = None
    steps: int | None = None
    updates_per_round: float = 1.0
    rows: int | None = None

    @property
    def rollouts(self) -> int:
        """Training rollouts an epoch."""
        return (self.questions if self.rows is None else self.rows) * self.group_size

    @property
    def in_epochs(self) -> str:
        """The length of a run whose `epochs` are known, in words."""
        return "one epoch" if self.epochs == 1 else f"{self.epochs:.2g} epochs"


@dataclass(frozen=True)
class Cost:
    """At most so many policy rollouts outside training and calls to the reflection model.

    `when` says how often: "after an epoch", "in the whole run"; `note` ends the sentence. `likely` are the
    calls to be expected `likely_when`, and `likely_from` says where that comes from; None is unknown.
    """

    when: str
    rollouts: int
    calls: int
    note: str = ""
    likely: int | None = None
    likely_from: str = ""
    likely_when: str = ""


@dataclass(frozen=True)
class Foresight:
    """What will become of a method in a run of a known length.

    `searches` counts what it does outside the steps of training (None: not known, or all the time).
    `never` says why nothing can come of it, and what to set; it ends a sentence. `remarks` are sentences
    that a user should read before. `shown` are the examples that a reflection call shows, at most, and
    `listed` the candidates that were tried.
    `unknown` is the length of the run that would decide on `never`, if the workload does not say it.
    """

    searches: int | None = None
    never: str | None = None
    remarks: tuple[str, ...] = ()
    shown: int = 0
    unknown: Literal["epochs", "steps"] | None = None
    listed: int = 0


@dataclass(frozen=True)
class Method:
    """An algorithm that `settings.algorithms` may name, built in or not.

    `section` is its part of the settings, under its name if it is built in, else under `plugins.NAME`.
    `plugin(context)` makes the object with its hooks; as `module:attribute` it is imported when the
    method runs. `provides` are the parts of a plan that it gives; two methods of a run must not give the
    same. `may_distill`: a prompt that is trained on may differ from the one rolled out. `columns` are those
    of the dataset that it reads, by the setting that names each. `estimate` says what it costs, `foresee`
    what will become of it; `refuses` why a run would not begin with these questions, in a sentence.
    `interface` is the version of the interface that it was written for.
    """

    name: str
    plugin: str | Callable[[Context], object]
    section: type[Section] = Section
    provides: frozenset[Job] = frozenset()
    may_distill: bool = False
    columns: Callable[[Any], Mapping[str, str]] = lambda section: {}
    estimate: Callable[[Any, Workload], Cost | None] = lambda section, workload: None
    foresee: Callable[[Any, Workload], Foresight] = lambda section, workload: Foresight()
    refuses: Callable[[Any, Policy], str | None] = lambda section, policy: None
    interface: int = INTERFACE

    def build(self, context: Context) -> object:
        """The plugin of a run. Raises what its constructor raises, or PluginError."""
        factory = self.plugin
        if isinstance(factory, str):
            factory = registry.load("methods", factory, f"the plugin of the method {self.name}")
        plugin: object = factory(context)
        return plugin


def load_method(name: str) -> Method:
    """The method of a name. Raises SettingsError, or PluginError if what is found is no method."""
    method = registry.load("methods", name, "algorithms")
    if not isinstance(method, Method):
        raise PluginError(
            f"the method {name!r} cannot be used: what is registered is a {type(method).__name__}, not a "
            "prompt_coevo.Method"
        )
    check_interface(f"the method {name!r}", method.interface)
    if ":" not in name and method.name != name:
        raise PluginError(
            f"the method {name!r} cannot be used: it calls itself {method.name!r}; register it under "
            "that name"
        )
    return method


def methods_of(settings: Settings) -> dict[str, Method]:
    """The methods that a run's settings name, in their order."""
    return {name: load_method(name) for name in settings.algorithms}


def installed_methods() -> Iterator[Method]:
    """The methods that others offer. Log those that cannot be used; choosing one raises the same."""
    for name in registry.names("methods"):
        if not registry.is_built_in("methods", name):
            try:
                yield load_method(name)
            except CoevoError as error:
                logger.warning("the method %r cannot be used: %s", name, error)


def columns_read(settings: Settings) -> dict[str, str]:
    """The dataset's columns that this run's methods read, each with the setting that names it."""
    read = dict.fromkeys(settings.row_columns, "row_columns")
    for method in methods_of(settings).values():
        for setting, column in method.columns(settings.section(method.section)).items():
            read.setdefault(column, setting)
    return read


def may_distill(settings: Settings) -> bool:
    """Whether a prompt that this run trains on may differ from the one rolled out."""
    methods = methods_of(settings).values()
    return settings.context_distillation and any(method.may_distill for method in methods)
