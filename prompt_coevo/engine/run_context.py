"""The implementation of `prompt_coevo.context.Context`."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

from prompt_coevo import files, hookspecs, registry
from prompt_coevo.candidates.source import NamedProposers
from prompt_coevo.engine import run_lock
from prompt_coevo.engine.identity import RunIdentity
from prompt_coevo.engine.journal import Journal, Texts
from prompt_coevo.engine.plugins import Plugins
from prompt_coevo.errors import SettingsError
from prompt_coevo.lines import JSON
from prompt_coevo.markers import PROJECT
from prompt_coevo.preflight.prompts import Encode
from prompt_coevo.proposals import Proposer
from prompt_coevo.redact import secrets_in
from prompt_coevo.reflection.ledger import CALLS, Ledger
from prompt_coevo.reflection.models import build_language_model
from prompt_coevo.reflection.paid_replies import PaidReplies
from prompt_coevo.reflection.spending import Spending
from prompt_coevo.settings import Settings
from prompt_coevo.settings.method import Method, Workload, methods_of
from prompt_coevo.types import PolicyVersion

logger = logging.getLogger(PROJECT)

P = ParamSpec("P")
R = TypeVar("R")


class RunContext:
    """`prompt_coevo.context.Context`: shared by the methods, proposers, gates and sinks of a run.

    `folder` is for the run's files (None: no files); no other process may write there. The engine sets
    `policy_version`.
    """

    def __init__(
        self,
        settings: Settings,
        folder: Path | None,
        identity: RunIdentity,
        count_tokens: Callable[[str], int],
        initial_policy: str,
        system_message: Callable[[], str | None],
        encode: Encode | None = None,
    ) -> None:
        self.settings = settings
        self.folder = folder
        self.identity = identity
        key = settings.reflection.api_key
        self._secrets = [key.get_secret_value()] if key else []
        self._secrets += secrets_in(settings.reflection.api_base or "")
        self.journal = Journal(folder, secrets=self._secrets)
        if folder is not None:
            run_lock.hold(folder)
            ledger = Path(os.path.realpath(folder / CALLS))
            if ledger.parent != folder.resolve():  # two folders may have links to one ledger
                run_lock.hold(ledger.parent, f"{ledger.name}.lock")
        self.ledger = Ledger(folder / CALLS if folder else None)
        self.policy_version = PolicyVersion()
        self.workload: Workload | None = None
        self.early_said: list[str] = []
        """Early signs of this training; its last log lines repeat them."""
        self.resumed_step: int | None = None
        """The step of the checkpoint that was resumed; None for a new run."""
        self.resumed_from: str | None = None
        """The checkpoint that was loaded; None once the log has said so."""
        self.plugins = Plugins(on_error=self._report, secrets=self._secrets)
        self.methods: Mapping[str, Method] = methods_of(settings)
        self.model: PaidReplies | None = None
        """The reflection model; None until `language_model` is first called."""
        self._count_tokens = count_tokens
        self._counting = threading.Lock()
        self._initial_policy = initial_policy
        self._system_message = system_message
        self.encode = encode
        """A function from a prompt to its token ids as the policy gets them, if the adapter has one."""
        self._proposers: dict[str, Proposer] = {}
        self._texts = Texts(self.note)

    def load_plugins(self, given: Mapping[str, object]) -> None:
        """Register all plugins of the run; the last ones are called first. The order: the built-in provider
        of proposals, gates, sinks, methods, installed plugins, and those `given` by name.

        Raise SettingsError with all mistakes in the settings, PluginError, or MissingExtraError.
        """
        settings = self.settings
        found: list[str] = []
        self.plugins.register(NamedProposers(self), "named_proposers")
        chosen: tuple[tuple[registry.Kind, str, Sequence[str]], ...] = (
            ("gates", "gates.active", settings.gates.active),
            ("sinks", "sinks", settings.sinks),
        )
        for kind, setting, names in chosen:
            for name in names:
                with _collected(found):
                    self.plugins.register(registry.load(kind, name, setting)(self), name)
        for method in self.methods.values():
            with _collected(found):
                self.plugins.register(method.build(self), method.name)
        built_in = len(self.plugins.names)
        self.plugins.load_entry_points()
        for name, plugin in given.items():
            self.plugins.register(plugin, name)
        for name in settings.reflection.meta_prompts:
            with _collected(found):
                registry.load("proposers", name, "reflection.meta_prompts")
        others_are_gates = all(map(self._is_gate, self.plugins.names[built_in:]))
        if not found and others_are_gates:
            found += self._unread_meta_prompts()
        if found:
            raise SettingsError(*dict.fromkeys(found))
        if not self.methods and others_are_gates:
            self.note("nothing_evolves")
            logger.warning(
                "no algorithm is configured, so nothing will evolve; set algorithms to some of: %s",
                ", ".join(registry.names("methods")),
            )

    def _unread_meta_prompts(self) -> Iterator[str]:
        """Tell of meta-prompts of proposers that no method asked for. Outside methods may do so later."""
        if not all(registry.is_built_in("methods", name) for name in self.methods):
            return
        for name in self.settings.reflection.meta_prompts.keys() - self._proposers.keys():
            yield (
                f"reflection.meta_prompts.{name} has no effect: the proposers of this run are "
                f"{', '.join(self._proposers) or 'none'}; name one of them, or leave it out"
            )

    # What plugins call (context.Context)

    def first_result(
        self, hook: Callable[P, R | None], *args: P.args, **kwargs: P.kwargs
    ) -> R | None:
        return self.plugins.first(hook, *args, **kwargs)

    def notify(self, event: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        self.plugins.each(event, *args, **kwargs)

    def check(self, hook: Callable[P, str | None], *args: P.args, **kwargs: P.kwargs) -> str | None:
        try:
            return self.plugins.first(hook, *args, **kwargs)
        except Exception as error:  # a gate that raises rejects
            return f"a gate raised {type(error).__name__}: {error}"

    def note(self, event: str, **fields: JSON) -> None:
        attempt, step = self.policy_version
        self.journal.write([{"event": event, "attempt": attempt, "step": step, **fields}])

    def warn_early(self, sign: str, sentence: str) -> None:
        logger.warning("%s", sentence)
        self.note("early_sign", sign=sign, reason=sentence)
        self.early_said.append(sentence)

    def count_tokens(self, text: str) -> int:
        # Proposers count in the background, and a tokenizer may not be thread-safe.
        with self._counting:
            return self._count_tokens(text)

    def system_message(self) -> str | None:
        return self._system_message()

    def publish(self, name: str, text: str) -> None:
        if self.folder is None:
            return
        try:
            files.replace(self.folder / name, text.encode("utf-8", "replace"))
        except OSError as error:
            logger.warning("%s cannot be written: %s", self.folder / name, error)

    def language_model(self) -> PaidReplies:
        if self.model is None:
            reflection = self.settings.reflection
            identity = {
                "model": reflection.model,
                "temperature": reflection.temperature,
                "max_tokens": reflection.longest_reply,
                "function": self.identity.noted.get("reflection.function"),
            }
            self.model = PaidReplies(
                build_language_model(reflection, self._initial_policy),
                identity,
                self.ledger,
                spending=Spending.from_settings(reflection),
                total_timeout_s=reflection.total_timeout_s,
                at_once=reflection.calls_at_once,
                secrets=self._secrets,
                note=self._note_call,
            )
        return self.model

    def proposer(self, name: str) -> Proposer:
        if name not in self._proposers:
            self._proposers[name] = registry.load("proposers", name, "proposer")(self)
        return self._proposers[name]

    # For adapters

    def abandon(self, within: float = 5.0) -> None:
        """Stop the reflection model and close the ledger; the run may still be unfinished.

        No further calls are made; calls under way have `within` seconds to finish.
        """
        if self.model is not None:
            self.model.close(within)
        if self.ledger.is_open:
            self.ledger.close()

    # Inside

    def resume_at(self, version: PolicyVersion, where: str) -> None:
        """Set the version of the weights after a state was loaded."""
        self.policy_version, self.resumed_step = version, version.step
        self.resumed_from = where

    def _note_call(self, event: str, **fields: JSON) -> None:
        if isinstance(prompt := fields.get("prompt"), str):
            fields["prompt"] = self._texts.id(prompt)
        self.note(event, **fields)

    def _is_gate(self, name: str) -> bool:
        return self.plugins.implements(name, hookspecs.coevo_check_candidate)

    def _report(self, plugin: str, hook: str, error: Exception) -> None:
        self.note(
            "plugin_error", plugin=plugin, hook=hook, error=f"{type(error).__name__}: {error}"
        )


@contextmanager
def _collected(found: list[str]) -> Iterator[None]:
    """Collect the mistakes of a SettingsError, so that one mistake does not hide others."""
    try:
        yield
    except SettingsError as error:
        found += error.problems
