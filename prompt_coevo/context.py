"""The engine's interface for plugins: algorithms, proposers, gates."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar

from prompt_coevo.lines import JSON
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
        """The version of the policy's current weights."""
        ...

    @property
    def workload(self) -> Workload | None:
        """The trainer's questions and batch sizes, from `coevo_train_begin` on; None if not reported."""
        ...

    def warn_early(self, sign: str, sentence: str) -> None:
        """Log and journal a sign that nothing can be learned. `early_signs = "stop"` ends the run."""
        ...

    def first_result(
        self, hook: Callable[P, R | None], *args: P.args, **kwargs: P.kwargs
    ) -> R | None:
        """Return the first result of a hook that is not None. A provider that raises is skipped.

        Name the hook by its specification: `context.first_result(hookspecs.coevo_propose, requests=...)`.
        """
        ...

    def notify(self, event: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Call every listener of an event hook. Exceptions are reported and ignored."""
        ...

    def check(self, hook: Callable[P, str | None], *args: P.args, **kwargs: P.kwargs) -> str | None:
        """Return the first gate's reason to reject, or None. A gate that raises rejects."""
        ...

    def note(self, event: str, **fields: JSON) -> None:
        """Write one line to the run's journal."""
        ...

    def language_model(self) -> RecordedModel:
        """Return the reflection model. Raise SettingsError if none is configured."""
        ...

    def proposer(self, name: str) -> Proposer:
        """Return the proposer with this name. Raise SettingsError if it is unknown or cannot work."""
        ...

    def count_tokens(self, text: str) -> int:
        """Count the tokens of a text with the policy's tokenizer."""
        ...

    def system_message(self) -> str | None:
        """Return the system message that all questions of the dataset share; None if they differ."""
        ...

    def publish(self, name: str, text: str) -> None:
        """Write a file with this name into the run's folder, if there is one."""
        ...
