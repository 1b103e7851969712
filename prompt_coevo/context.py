"""What an algorithm or a proposer may rely on: the engine, as its plugins see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from prompt_coevo.proposals import Proposer, RecordedModel
from prompt_coevo.types import PolicyVersion

if TYPE_CHECKING:
    from prompt_coevo.settings import Settings
    from prompt_coevo.settings.method import Workload

P = ParamSpec("P")
R = TypeVar("R")


class Context(Protocol):
    """The part of the engine that plugins are built with."""

    @property
    def settings(self) -> Settings: ...

    @property
    def policy_version(self) -> PolicyVersion:
        """The version of the host's current weights."""
        ...

    @property
    def workload(self) -> Workload | None:
        """What the host trains on, from `coevo_train_begin` on; None if it has not said."""
        ...

    def warn_early(self, sign: str, sentence: str) -> None:
        """Log and journal a sign that nothing can be learned, which ends the run if the setting
        `early_signs` is `stop`."""
        ...

    def first_result(
        self, hook: Callable[P, R | None], *args: P.args, **kwargs: P.kwargs
    ) -> R | None:
        """The first answer of a hook's providers that is not None; one that raises is passed over.

        Name the hook by its specification: `context.first_result(hookspecs.coevo_propose, requests=...)`.
        """
        ...

    def notify(self, event: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Call every listener of an event hook; one that raises is reported and does no harm."""
        ...

    def check(self, hook: Callable[P, str | None], *args: P.args, **kwargs: P.kwargs) -> str | None:
        """As `first_result`, for a gate: one that raises is a reason to reject."""
        ...

    def note(self, event: str, **fields: Any) -> None:
        """Write one line to the run's journal."""
        ...

    def language_model(self) -> RecordedModel:
        """The reflection model. Raises SettingsError if none is configured."""
        ...

    def proposer(self, name: str) -> Proposer:
        """The proposer of this name. Raises SettingsError if it is unknown or cannot work."""
        ...

    def count_tokens(self, text: str) -> int:
        """Length of a text in tokens of the policy."""
        ...

    def system_message(self) -> str | None:
        """The system message that all questions of the dataset share; None if they do not."""
        ...

    def publish(self, name: str, text: str) -> None:
        """Write a file of that name into the run's folder, if it has one."""
        ...
