"""The engine: the calls that a door makes."""

from __future__ import annotations

import json
import logging
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from prompt_coevo.algorithms import BuiltinAlgorithms, may_distil
from prompt_coevo.candidates.gates import Gates, rough_token_count
from prompt_coevo.engine.journal import Journal
from prompt_coevo.engine.journal_sink import JournalSink
from prompt_coevo.engine.plugins import Plugins
from prompt_coevo.engine.rounds import OpenRounds
from prompt_coevo.engine.state import seal, unseal, write_json, write_text
from prompt_coevo.errors import PluginError, SettingsError, StateError
from prompt_coevo.markers import PROJECT
from prompt_coevo.policy import Policy
from prompt_coevo.proposals import Proposer
from prompt_coevo.reflection.models import build_language_model
from prompt_coevo.reflection.paid_replies import PaidReplies
from prompt_coevo.reflection.proposers import BuiltinProposers
from prompt_coevo.reflection.proposers.named import NamedProposers
from prompt_coevo.reflection.redact import redact
from prompt_coevo.reflection.spending import Spending
from prompt_coevo.settings import Settings, parse_section
from prompt_coevo.types import Assignment, Candidate, PolicyVersion, Rollout

logger = logging.getLogger(PROJECT)


class Coevolution:
    """One engine per run. A door calls, in this order and as often as it trains:

    `begin` once, `plan` before a generation round, `observe` after it, `step_end` after every weight
    update, `epoch_end` between two epochs. `state_dict` and `load_state_dict` travel in the host's
    checkpoint, `metrics` in its logs; `end` is the last call. See `docs/adapters.md`.
    """

    def __init__(
        self,
        settings: Settings,
        folder: Path | None,
        count_tokens: Callable[[str], int],
        initial_policy: str,
        system_message: Callable[[], str | None],
    ) -> None:
        """For `from_settings`."""
        self._settings = settings
        self._folder = folder
        self._journal = Journal(folder)
        self._count_tokens = count_tokens
        self._counting = threading.Lock()
        self._initial_policy = initial_policy
        self._system_message = system_message
        attempts = (event.get("attempt", 0) for event in self._journal.read())
        self._attempt = 1 + max(attempts, default=-1)
        self._step = self._round = self._saved = 0
        self.epochs = 0
        """Epochs that `epoch_end` has closed."""
        self._rounds = OpenRounds()
        self._model: PaidReplies | None = None
        self._proposers: dict[str, Proposer] = {}
        self._plugins = Plugins(on_error=self._report_plugin_error)

    @classmethod
    def from_settings(
        cls,
        settings: Settings,
        *,
        output_dir: Path | None = None,
        count_tokens: Callable[[str], int] = rough_token_count,
        initial_policy: str = "",
        system_message: Callable[[], str | None] = lambda: None,
        plugins: Mapping[str, object] | None = None,
    ) -> Coevolution:
        """Build an engine; nothing is restored yet.

        `output_dir` is the host's: the engine writes to its subfolder `coevo`, or nothing if None.
        `count_tokens` counts with the policy's tokenizer. `initial_policy` is the checkpoint that
        training starts from, for `reflection.model = "self"`. `system_message` answers with the system
        message that all questions share, if they do. `plugins` are registered by name, after the
        installed ones. Raises SettingsError, PluginError or MissingExtraError.
        """
        folder = output_dir / "coevo" if output_dir else None
        engine = cls(settings, folder, count_tokens, initial_policy, system_message)
        engine._register_plugins(plugins or {})
        return engine

    @classmethod
    def check(cls, settings: Settings) -> None:
        """Find what is wrong with the settings before a dataset or a model is loaded; nothing is written.

        Raises SettingsError, PluginError or MissingExtraError.
        """
        unknown = "not known yet"
        cls.from_settings(settings, initial_policy=unknown, system_message=lambda: unknown)

    @property
    def may_distil(self) -> bool:
        """Whether a trained prompt may differ from the one rolled out."""
        return may_distil(self._settings)

    # The calls of a door

    def begin(self, policy: Policy) -> None:
        """Training begins, after a state was loaded if there is one. May ask `policy` for rollouts."""
        self._plugins.each("coevo_train_begin", policy=policy)

    def plan(self, question_ids: Sequence[str], group_size: int) -> list[Assignment]:
        """What the rollouts of the next generation round run under.

        One id per group; returns `len(question_ids) * group_size` assignments, group after group.
        """
        number, self._round = self._round, self._round + 1
        placement = self._settings.placement.build()
        plan = []
        for group, question_id in enumerate(question_ids):
            where: dict[str, Any] = {"question_id": question_id, "round": number, "group": group}
            instruction = self.ask("coevo_assign_instruction", **where)
            templates = self._templates(where, group_size)
            plan += [
                Assignment(
                    **where,
                    member=member,
                    instruction=instruction,
                    template=template,
                    distill=self._settings.context_distillation,
                    placement=placement,
                )
                for member, template in enumerate(templates)
            ]
        self._rounds.open(number, plan)
        return plan

    def observe(self, rollouts: Sequence[Rollout]) -> None:
        """Take in the scored rollouts of planned rounds, whole groups at a time.

        The first call with any rollout of a round closes it. Raises HostError if an assignment is not
        the one that was planned, or belongs to a round that is closed.
        """
        self._plugins.each("coevo_observe", groups=self._rounds.close(rollouts))

    def step_end(self, policy: Policy, *, last: bool = False) -> None:
        """The weights were updated once, for the last time if `last`. May ask `policy` for rollouts."""
        self._step += 1
        self._plugins.each("coevo_step_end", policy=policy, last=last)

    def epoch_end(self, policy: Policy) -> None:
        """An epoch is over and another one follows. May ask `policy` for rollouts."""
        self.epochs += 1
        self._plugins.each("coevo_epoch_end", policy=policy)
        self._write_view()

    def evaluation_instruction(self) -> Candidate | None:
        """The instruction that the host's evaluation runs under, if any."""
        instruction: Candidate | None = self.ask("coevo_evaluation_instruction")
        return instruction

    def end(self, policy: Policy) -> None:
        """Training is over. May ask `policy` for rollouts."""
        self._plugins.each("coevo_train_end", policy=policy)
        self.note("training_ended", metrics=self.metrics())
        self._write_view()

    def state_dict(self) -> dict[str, Any]:
        """The whole state as JSON values, for the host's checkpoint."""
        # Before the plugins are asked: a reply that comes in meanwhile counts as unknown to the state.
        self._saved += 1
        self.note("state_saving", save=self._save)
        state = self._sealed_state()
        self.tell("coevo_on_state_saved", state=state)
        self._write_view(state)
        return state

    def load_state_dict(self, state: Mapping[str, Any], where: str = "the given state") -> None:
        """Go on from a checkpoint, as another attempt. Raises StateError if the state does not fit."""
        payload = unseal(state, where)
        for name in payload["plugins"]:
            if not self._plugins.has(name):
                raise StateError(
                    f"{where} holds the state of {name!r}, which is not active in this run; "
                    f"add it to the settings, or start without this checkpoint"
                )
        self._attempt = max(self._attempt, payload["attempt"] + 1)
        self._step, self._round = payload["step"], payload["round"]
        self.epochs = payload["epochs"]
        self._rounds.clear()
        if self._model is not None:
            self._model.totals.update(payload["reflection"])
            self._model.reuse(self._replies_since(payload["save"]))
        for name, plugin_state in payload["plugins"].items():
            try:
                self._plugins.only(name, "coevo_load_state", state=plugin_state)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise StateError(
                    f"{where} holds a state of {name!r} that it cannot read: {error!r}; "
                    "resume with the version that wrote it"
                ) from error
        self.note("resumed")

    def metrics(self) -> dict[str, float]:
        """Finite numbers for the host's own logger."""
        merged: dict[str, float] = {}
        for values in self._plugins.each("coevo_metrics").values():
            merged.update({k: float(v) for k, v in (values or {}).items() if math.isfinite(v)})
        if self._model is not None:
            merged.update(
                {f"reflection_{name}": float(value) for name, value in self._model.totals.items()}
            )
        return {f"coevo/{name}": value for name, value in merged.items()}

    # What plugins see (context.Context)

    @property
    def settings(self) -> Settings:
        return self._settings

    @property
    def policy_version(self) -> PolicyVersion:
        return PolicyVersion(self._attempt, self._step)

    def ask(self, hook: str, **arguments: Any) -> Any:
        return self._plugins.first(hook, **arguments)

    def tell(self, event: str, **arguments: Any) -> None:
        self._plugins.each(event, **arguments)

    def veto(self, **arguments: Any) -> str | None:
        try:
            reason: str | None = self._plugins.first(
                "coevo_check_candidate", strict=True, **arguments
            )
        except Exception as error:  # a gate that cannot answer does not let anything through
            return f"a gate raised {type(error).__name__}: {error}"
        return reason

    def note(self, event: str, **fields: Any) -> None:
        self._journal.write([self._stamped(event, fields)])

    def count_tokens(self, text: str) -> int:
        # Proposers count in the background, and a tokenizer may not be thread-safe.
        with self._counting:
            return self._count_tokens(text)

    def system_message(self) -> str | None:
        return self._system_message()

    def publish(self, name: str, text: str) -> None:
        if self._folder is None:
            return
        try:
            write_text(self._folder / name, text)
        except OSError as error:
            logger.warning("%s cannot be written: %s", self._folder / name, error)

    def language_model(self) -> PaidReplies:
        if self._model is None:
            reflection = self._settings.reflection
            identity = {
                "model": reflection.model,
                "temperature": reflection.temperature,
                "max_tokens": reflection.max_tokens,
            }
            model = build_language_model(reflection, self._initial_policy)
            self._model = PaidReplies(
                model,
                identity,
                self._record_replies,
                Spending.from_settings(reflection),
                self.note,
            )
        return self._model

    def proposer(self, name: str) -> Proposer:
        if name not in self._proposers:
            self._proposers[name] = self._component("proposer", name)(self)
        return self._proposers[name]

    def section(self, plugin: str) -> BaseModel:
        model = self._plugins.only(plugin, "coevo_settings_model")
        if model is None:
            raise SettingsError(
                f"plugins.{plugin} sets nothing: no active plugin of that name has settings; "
                f"active: {', '.join(self._plugins.names)}"
            )
        return parse_section(model, f"plugins.{plugin}", self._settings.plugins.get(plugin, {}))

    # Inside

    def _register_plugins(self, given: Mapping[str, object]) -> None:
        self._plugins.register(BuiltinAlgorithms(), "builtin_algorithms")
        self._plugins.register(BuiltinProposers(), "builtin_proposers")
        self._plugins.register(Gates(self), "gates")
        self._plugins.register(NamedProposers(self), "named_proposers")
        self._plugins.register(JournalSink(self.note), "journal")
        self._plugins.load_entry_points()
        for name, plugin in given.items():
            self._plugins.register(plugin, name)
        for name in self._settings.algorithms:
            self._plugins.register(self._component("algorithm", name)(self), name)
        for name in self._settings.plugins:
            self.section(name)
        for name in self._settings.reflection.meta_prompts:
            self._component("proposer", name)

    def _component(self, kind: str, name: str) -> Callable[..., Any]:
        """The factory registered under a name. Raises SettingsError that lists the known names."""
        known: dict[str, Callable[..., Any]] = {}
        self._plugins.each(f"coevo_register_{kind}s", register=known.__setitem__)
        if name not in known:
            raise SettingsError(f"there is no {kind} {name!r}; known: {', '.join(sorted(known))}")
        return known[name]

    def _templates(self, where: dict[str, Any], group_size: int) -> Sequence[Candidate | None]:
        templates: Sequence[Candidate] | None = self.ask(
            "coevo_assign_template", **where, group_size=group_size
        )
        if templates is None:
            return [None] * group_size
        if len(templates) != group_size:
            raise PluginError(
                f"coevo_assign_template answered {len(templates)} templates for a group of "
                f"{group_size}; it must answer one per rollout"
            )
        return templates

    def _record_replies(self, replies: list[dict[str, Any]]) -> None:
        self._journal.write([self._stamped("reply", reply) for reply in replies], sync=True)

    @property
    def _save(self) -> str:
        """Names the latest copy of the state that was given out."""
        return f"{self._attempt}.{self._saved}"

    def _replies_since(self, save: str) -> list[dict[str, Any]]:
        """The replies in the journal that came in after this copy of the state was taken."""
        replies: list[dict[str, Any]] = []
        for event in self._journal.read():
            if event.get("event") == "reply" and event.get("step", -1) >= self._step:
                replies.append(event)
            elif event.get("event") == "state_saving" and event.get("save") == save:
                replies.clear()  # the state knows these
        return replies

    def _stamped(self, event: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        return {"event": event, "attempt": self._attempt, "step": self._step, **fields}

    def _report_plugin_error(self, plugin: str, hook: str, error: Exception) -> None:
        text = redact(f"{type(error).__name__}: {error}")
        self.note("plugin_error", plugin=plugin, hook=hook, error=text)

    def _sealed_state(self) -> dict[str, Any]:
        return seal(
            {
                "attempt": self._attempt,
                "save": self._save,
                "step": self._step,
                "round": self._round,
                "epochs": self.epochs,
                "plugins": self._plugin_states(),
                "reflection": dict(self._model.totals) if self._model else {},
            }
        )

    def _plugin_states(self) -> dict[str, Any]:
        """Without those that cannot be written down: a bad plugin must not cost the checkpoint."""
        states = {}
        for name, state in self._plugins.each("coevo_state").items():
            try:
                json.dumps(state, allow_nan=False)
            except (TypeError, ValueError) as error:
                logger.error("the state of plugin %r is no JSON and is not saved: %s", name, error)
                self._report_plugin_error(name, "coevo_state", error)
            else:
                states[name] = state
        return {name: state for name, state in states.items() if state is not None}

    def _write_view(self, state: Mapping[str, Any] | None = None) -> None:
        """`state.json`: for people to read; only the copy in the host's checkpoint is ever loaded."""
        if self._folder is None:
            return
        try:
            write_json(self._folder / "state.json", state or self._sealed_state())
        except OSError as error:
            logger.warning("the readable state cannot be written: %s", error)
