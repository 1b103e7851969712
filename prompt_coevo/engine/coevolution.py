"""The engine: the calls that a door makes."""

from __future__ import annotations

import copy
import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from prompt_coevo import hookspecs
from prompt_coevo.candidates.gates import rough_token_count
from prompt_coevo.engine.desk import Desk
from prompt_coevo.engine.planning import Planner, check_claims
from prompt_coevo.engine.riders import Riders, check_wanted
from prompt_coevo.engine.rounds import OpenRounds
from prompt_coevo.engine.state import seal, unseal, write_json
from prompt_coevo.errors import HostError, StateError
from prompt_coevo.markers import PROJECT
from prompt_coevo.policy import Policy
from prompt_coevo.settings import Settings, may_distil
from prompt_coevo.types import Assignment, Candidate, PolicyVersion, Rollout, RolloutRequest

logger = logging.getLogger(PROJECT)


class Coevolution:
    """One engine per run. A door calls, in this order and as often as it trains:

    `begin` once, `plan` before a generation round, `observe` after it, `step_end` after every weight
    update, `epoch_end` between two epochs. `state_dict` and `load_state_dict` travel in the host's
    checkpoint, `metrics` in its logs; `end` is the last call. See `docs/adapters.md`.
    """

    def __init__(self, desk: Desk) -> None:
        """For `from_settings`."""
        self.desk = desk
        """What the plugins of the run see."""
        self._plugins = desk.plugins
        settings = desk.settings
        check_claims(desk.methods)
        by_name = {method.name: method for method in desk.methods.values()}
        self._planner = Planner(
            by_name, settings.placement.build(), distill=settings.context_distillation
        )
        attempts = (event.get("attempt", 0) for event in desk.journal.read())
        desk.policy_version = PolicyVersion(1 + max(attempts, default=-1))
        self._round = self._saved = 0
        self.epochs = 0
        """Epochs that `epoch_end` has closed."""
        self._rounds = OpenRounds()
        self._riders = Riders(desk.policy_version.attempt)
        self._colliding: set[str] = set()

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
        desk = Desk(settings, folder, count_tokens, initial_policy, system_message)
        engine = cls(desk)
        desk.furnish(plugins or {})
        return engine

    @classmethod
    def check(cls, settings: Settings) -> None:
        """Find what is wrong with the settings before a dataset or a model is loaded; nothing is written.

        Raises SettingsError, PluginError or MissingExtraError.
        """
        unknown = "not known yet"
        cls.from_settings(settings, initial_policy=unknown, system_message=lambda: unknown)

    @property
    def settings(self) -> Settings:
        return self.desk.settings

    @property
    def policy_version(self) -> PolicyVersion:
        """The version of the host's current weights."""
        return self.desk.policy_version

    @property
    def may_distil(self) -> bool:
        """Whether a trained prompt may differ from the one rolled out."""
        return may_distil(self.settings)

    # The calls of a door

    def begin(self, policy: Policy) -> None:
        """Training begins, after a state was loaded if there is one. May ask `policy` for rollouts."""
        self._plugins.each(hookspecs.coevo_train_begin, policy=policy)

    def plan(self, question_ids: Sequence[str], group_size: int) -> list[Assignment]:
        """What the rollouts of the next generation round run under.

        One id per group; returns `len(question_ids) * group_size` assignments, group after group.
        Raises PluginError if two plugins plan the same part of a rollout.
        """
        number, self._round = self._round, self._round + 1
        plan: list[Assignment] = []
        for group, question_id in enumerate(question_ids):
            offers = self._plugins.by_plugin(
                hookspecs.coevo_plan_group,
                question_id=question_id,
                round=number,
                group=group,
                group_size=group_size,
            )
            plan += self._planner.group(question_id, (number, group), group_size, offers)
        self._rounds.open(number, plan)
        return plan

    def wanted(self, capacity: int) -> list[RolloutRequest]:
        """Rollouts that would help a search, to be sampled behind a generation round of training.

        `capacity` is the number of rollouts in the round; at most as many are wanted, as a rule a few in
        a hundred, or none. They are no part of the batch: they must not reach the loss, the metrics or a
        buffer, and are handed to `observe` like others, now or later, any of them or none. Call it
        before each round, or never. Raises HostError for a capacity below 0.
        """
        if capacity < 0:
            raise HostError(f"wanted({capacity}): the capacity for riders cannot be below 0")
        hook = hookspecs.coevo_wanted
        plugins = [name for name in self._plugins.names if self._plugins.implements(name, hook)]
        share = capacity // max(1, len(plugins))
        found: list[RolloutRequest] = []
        if share:
            for name, wanted in self._plugins.by_plugin(hook, capacity=share).items():
                check_wanted(name, wanted, share)
                found += wanted
        return self._riders.send(found)

    def observe(self, rollouts: Sequence[Rollout]) -> None:
        """Take in scored rollouts, in any order; a group counts once its last rollout is there.

        Riders that are not out (any more) are left out. Raises HostError if the assignment of another
        rollout is not one that was planned, or comes a second time.
        """
        if riders := [rollout for rollout in rollouts if rollout.assignment.round < 0]:
            rollouts = [rollout for rollout in rollouts if rollout.assignment.round >= 0]
            if back := self._riders.take(riders):
                self._plugins.each(hookspecs.coevo_observe_riders, rollouts=back)
        groups = self._rounds.close(rollouts)
        if groups:
            self._plugins.each(hookspecs.coevo_observe, groups=groups)

    def step_end(self, policy: Policy, *, last: bool = False) -> None:
        """The weights were updated once, for the last time if `last`. May ask `policy` for rollouts."""
        attempt, step = self.policy_version
        self.desk.policy_version = PolicyVersion(attempt, step + 1)
        self._plugins.each(hookspecs.coevo_step_end, policy=policy, last=last)

    def epoch_end(self, policy: Policy) -> None:
        """An epoch is over and another one follows. May ask `policy` for rollouts."""
        self.epochs += 1
        self._plugins.each(hookspecs.coevo_epoch_end, policy=policy)
        self._write_view()

    def evaluation_instruction(self) -> Candidate | None:
        """The instruction that the host's evaluation runs under, if any."""
        return self._plugins.first(hookspecs.coevo_evaluation_instruction)

    def end(self, policy: Policy) -> None:
        """Training is over. May ask `policy` for rollouts."""
        self._plugins.each(hookspecs.coevo_train_end, policy=policy)
        self.desk.note("training_ended", metrics=self.metrics())
        self._write_view()

    def state_dict(self) -> dict[str, Any]:
        """The whole state as JSON values, for the host's checkpoint."""
        # Before the plugins are asked: a reply that comes in meanwhile counts as unknown to the state.
        self._saved += 1
        self.desk.note("state_saving", save=self._save)
        state = self._sealed_state()
        self._plugins.each(hookspecs.coevo_on_state_saved, state=copy.deepcopy(state))
        self._write_view(state)
        return state

    def load_state_dict(self, state: Mapping[str, Any], where: str = "the given state") -> None:
        """Go on from a checkpoint, as another attempt. Raises StateError if the state does not fit."""
        payload = unseal(state, where)
        self._check_names(payload["plugins"], where)
        attempt = max(self.policy_version.attempt, payload["attempt"] + 1)
        self.desk.policy_version = PolicyVersion(attempt, payload["step"])
        self._round = payload["round"]
        self.epochs = payload["epochs"]
        self._rounds.clear()
        self._riders = Riders(attempt)
        if self.desk.model is not None:
            self.desk.model.totals.update(payload["reflection"])
            self.desk.model.reuse(self._replies_since(payload["save"]))
        for name, plugin_state in payload["plugins"].items():
            try:
                self._plugins.only(name, hookspecs.coevo_load_state, state=plugin_state)
            except StateError:
                raise
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise StateError(
                    f"{where} holds a state of {name!r} that it cannot read: {error!r}; "
                    "resume with the version that wrote it"
                ) from error
        self.desk.note("resumed")

    def metrics(self) -> dict[str, float]:
        """Finite numbers for the host's own logger. Of two that share a name the first one counts."""
        merged: dict[str, float] = {}
        for plugin, values in self._plugins.by_plugin(hookspecs.coevo_metrics).items():
            for name, value in self._numbers(plugin, values).items():
                if name in merged:
                    self._warn_of_collision(name, plugin)
                else:
                    merged[name] = value
        if self.desk.model is not None:
            totals = self.desk.model.totals
            merged.update({f"reflection_{name}": float(value) for name, value in totals.items()})
        return {f"coevo/{name}": value for name, value in merged.items()}

    # Inside

    def _check_names(self, saved: Mapping[str, Any], where: str) -> None:
        for name in saved:
            if name not in self._plugins.names:
                raise StateError(
                    f"{where} holds the state of {name!r}, which is not active in this run; "
                    f"add it to the settings, or start without this checkpoint"
                )
        for method in self.desk.methods.values():
            if method.name not in saved and self._plugins.implements(
                method.name, hookspecs.coevo_state
            ):
                raise StateError(
                    f"{where} holds no state of {method.name!r}, which would start anew in the middle of "
                    "the run; resume from another checkpoint, or start without this one"
                )

    def _numbers(self, plugin: str, values: Any) -> dict[str, float]:
        """The finite ones; a plugin that answers something else is reported."""
        try:
            numbers = {str(name): float(value) for name, value in values.items()}
        except (AttributeError, TypeError, ValueError, OverflowError) as error:
            self._plugins.report(plugin, "coevo_metrics", error)
            return {}
        return {name: number for name, number in numbers.items() if math.isfinite(number)}

    def _warn_of_collision(self, name: str, plugin: str) -> None:
        if name not in self._colliding:
            self._colliding.add(name)
            logger.warning("the metric %r of the plugin %r is another one's already", name, plugin)
            self.desk.note("metric_collides", metric=name, plugin=plugin)

    @property
    def _save(self) -> str:
        """Names the latest copy of the state that was given out."""
        return f"{self.policy_version.attempt}.{self._saved}"

    def _replies_since(self, save: str) -> list[dict[str, Any]]:
        """The replies in the journal that came in after this copy of the state was taken."""
        replies: list[dict[str, Any]] = []
        for event in self.desk.journal.read():
            if event.get("event") == "reply" and event.get("step", -1) >= self.policy_version.step:
                replies.append(event)
            elif event.get("event") == "state_saving" and event.get("save") == save:
                replies.clear()  # the state knows these
        return replies

    def _sealed_state(self) -> dict[str, Any]:
        attempt, step = self.policy_version
        return seal(
            {
                "attempt": attempt,
                "save": self._save,
                "step": step,
                "round": self._round,
                "epochs": self.epochs,
                "plugins": self._plugin_states(),
                "reflection": dict(self.desk.model.totals) if self.desk.model else {},
            }
        )

    def _plugin_states(self) -> dict[str, Any]:
        """Without those that cannot be written down: a bad plugin must not cost the checkpoint."""
        states = {}
        for name, state in self._plugins.by_plugin(hookspecs.coevo_state).items():
            try:
                # As it will come back, and a copy: what the plugin changes later is not in it.
                states[name] = json.loads(json.dumps(state, allow_nan=False))
            except (TypeError, ValueError, RecursionError) as error:
                self._plugins.report(name, "coevo_state", error)
        return states

    def _write_view(self, state: Mapping[str, Any] | None = None) -> None:
        """`state.json`: for people to read; only the copy in the host's checkpoint is ever loaded."""
        folder = self.desk.folder
        if folder is None:
            return
        try:
            write_json(folder / "state.json", state or self._sealed_state())
        except OSError as error:
            logger.warning("the readable state cannot be written: %s", error)
