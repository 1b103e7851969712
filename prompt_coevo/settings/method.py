"""The registration of a method, and the methods of a run."""

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
    """The size of a training run: `questions` per epoch, with `group_size` rollouts each.

    `rows` is the number of dataset rows if several rows may hold the same question; None means one row per
    question. `epochs` (may be fractional) and `steps` (weight updates) are the length of the whole run,
    None if unknown. `updates_per_round` is the number of weight updates per generation round.
    """

    questions: int
    group_size: int
    epochs: float | None = None
    steps: int | None = None
    updates_per_round: float = 1.0
    rows: int | None = None

    @property
    def rollouts(self) -> int:
        """The number of training rollouts per epoch."""
        return (self.questions if self.rows is None else self.rows) * self.group_size

    @property
    def in_epochs(self) -> str:
        """The length of the run in words. `epochs` must be known."""
        return "one epoch" if self.epochs == 1 else f"{self.epochs:.2g} epochs"


@dataclass(frozen=True)
class Cost:
    """An upper bound on policy rollouts outside training and on calls to the reflection model.

    `when` says how often they are spent: "after an epoch", "in the whole run"; `note` ends the sentence.
    `likely` is the expected number of calls (None if unknown), `likely_when` says how often, `likely_from`
    where the estimate comes from.
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
    """A forecast of a method's work in a run of a known length.

    `searches` is the number of its searches (None: unknown, or it searches all the time). `never` says why
    the method cannot find anything in this run and which setting helps; it ends a sentence. `remarks` are
    sentences for the user to read before the run. `shown` and `listed` are the most examples and earlier
    candidates that one reflection call shows. `unknown` names the length that would decide on `never`, if
    the workload lacks it.
    """

    searches: int | None = None
    never: str | None = None
    remarks: tuple[str, ...] = ()
    shown: int = 0
    unknown: Literal["epochs", "steps"] | None = None
    listed: int = 0


@dataclass(frozen=True)
class Method:
    """The registration of an algorithm, built in or third-party, that `settings.algorithms` can name.

    `section` is the class of its settings, found under its name if it is built in, else under
    `plugins.NAME`. `plugin(context)` makes the object with its hooks; given as `module:attribute`, it is
    imported only if the method runs. `provides` are the parts of a plan that it sets; no two methods of a
    run may set the same part. `may_distill`: the trained prompt may differ from the one rolled out.
    `columns` maps settings to the dataset columns they name. `estimate` returns the cost, `foresee` a
    forecast, `refuses` a sentence on why the run cannot begin with these questions, or None. `interface` is
    the version of the hook interface it was written for.
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
        """Make the plugin for a run. Raises what its constructor raises, or PluginError."""
        factory = self.plugin
        if isinstance(factory, str):
            factory = registry.load("methods", factory, f"the plugin of the method {self.name}")
        plugin: object = factory(context)
        return plugin


def load_method(name: str) -> Method:
    """Return the method of this name. Raises SettingsError if unknown, PluginError if unusable."""
    method = registry.load("methods", name, "algorithms")
    if not isinstance(method, Method):
        raise PluginError(
            f"the method {name!r} cannot be used: what is registered is a {type(method).__name__}, not a "
            "prompt_coevo.Method; register one"
        )
    check_interface(f"the method {name!r}", method.interface)
    if ":" not in name and method.name != name:
        raise PluginError(
            f"the method {name!r} cannot be used: it calls itself {method.name!r}; register it under "
            "that name"
        )
    return method


def methods_of(settings: Settings) -> dict[str, Method]:
    """Return the methods that the settings name, in that order."""
    return {name: load_method(name) for name in settings.algorithms}


def installed_methods() -> Iterator[Method]:
    """Yield the usable third-party methods; log a warning for each of the others."""
    for name in registry.names("methods"):
        if not registry.is_built_in("methods", name):
            try:
                yield load_method(name)
            except CoevoError as error:
                logger.warning("the method %r cannot be used: %s", name, error)


def columns_read(settings: Settings) -> dict[str, str]:
    """Return the dataset columns that this run's methods read, each with the setting that names it."""
    read = dict.fromkeys(settings.row_columns, "row_columns")
    for method in methods_of(settings).values():
        for setting, column in method.columns(settings.section(method.section)).items():
            read.setdefault(column, setting)
    return read


def may_distill(settings: Settings) -> bool:
    """Return True if this run may train on other prompts than it rolled out."""
    methods = methods_of(settings).values()
    return settings.context_distillation and any(method.may_distill for method in methods)
