"""The engine: the calls that an adapter makes."""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from prompt_coevo import hookspecs
from prompt_coevo.candidates.gates import rough_token_count
from prompt_coevo.engine import run_lock
from prompt_coevo.engine.early_signs import EarlySigns
from prompt_coevo.engine.identity import Dataset, RunIdentity, digest_of
from prompt_coevo.engine.journal import FORMAT
from prompt_coevo.engine.metrics import Metrics
from prompt_coevo.engine.opening import say_what_was_lost, say_what_was_there, spent_before
from prompt_coevo.engine.planning import Planner, check_claims
from prompt_coevo.engine.preflight import clear_for_training, look_before
from prompt_coevo.engine.reply_signs import ReplySigns
from prompt_coevo.engine.rounds import OpenRounds
from prompt_coevo.engine.run_context import RunContext
from prompt_coevo.engine.state import seal, unseal, write_view
from prompt_coevo.engine.summary import tell_what_came_of_it
from prompt_coevo.errors import EarlySignError, StateError
from prompt_coevo.markers import PROJECT
from prompt_coevo.policy import Policy
from prompt_coevo.preflight.page import Page
from prompt_coevo.preflight.prompts import Encode
from prompt_coevo.settings import Settings, may_distill
from prompt_coevo.settings.method import Workload
from prompt_coevo.types import Assignment, Candidate, PolicyVersion, Rollout

logger = logging.getLogger(PROJECT)


class Coevolution:
    """One engine per run. An adapter calls, in this order and as often as it trains:

    `begin` once, `plan` before a generation round, `observe` after it, `step_end` after every weight
    update, `epoch_end` between two epochs. `state_dict` and `load_state_dict` travel in the host's
    checkpoint, `metrics` in its logs; `end` is the last call. See `docs/adapters.md`.
    """

    def __init__(self, context: RunContext) -> None:
        """For `from_settings`."""
        self.context = context
        """What the plugins of the run see."""
        self._plugins = context.plugins
        settings = context.settings
        check_claims(context.methods)
        by_name = {method.name: method for method in context.methods.values()}
        self._planner = Planner(
            by_name, settings.placement.build(), distill=settings.context_distillation
        )
        context.policy_version = PolicyVersion(1 + context.journal.last_attempt())
        self._round = 0
        self._under_way = self._ended = False
        self.epochs = 0
        """Epochs that `epoch_end` has closed."""
        self._rounds = OpenRounds()
        self._metrics = Metrics(context)
        self._signs = EarlySigns(context)
        self._reply_signs = ReplySigns(context)
        context.plugins.register(self._reply_signs, "reply_signs")

    @classmethod
    def from_settings(
        cls,
        settings: Settings,
        *,
        output_dir: str | Path | None = None,
        count_tokens: Callable[[str], int] = rough_token_count,
        initial_policy: str = "",
        system_message: Callable[[], str | None] = lambda: None,
        plugins: Mapping[str, object] | None = None,
        dataset: Dataset | None = None,
        host: str = "",
        encode: Encode | None = None,
    ) -> Coevolution:
        """Build an engine; nothing is restored yet.

        `output_dir` is the host's: the engine writes to its subfolder `coevo`, or nothing if None.
        `count_tokens` counts with the policy's tokenizer. `initial_policy` is the checkpoint that
        training starts from, for `reflection.model = "self"`. `system_message` answers with the system
        message that all questions share, if they do. `plugins` are registered by name, after the
        installed ones. `dataset` is what a resumed run has to be given again; `host` names the trainer
        and its version, for the files. `encode` gives the ids of a prompt as the policy gets it, for the
        check before training. Raises SettingsError, PluginError or MissingExtraError.
        """
        folder = None if output_dir is None else Path(output_dir) / "coevo"
        identity = RunIdentity.of(settings, dataset, host)
        context = RunContext(
            settings, folder, identity, count_tokens, initial_policy, system_message, encode
        )
        engine = cls(context)
        context.load_plugins(plugins or {})
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
        return self.context.settings

    @property
    def policy_version(self) -> PolicyVersion:
        """The version of the host's current weights."""
        return self.context.policy_version

    @property
    def may_distill(self) -> bool:
        """Whether a trained prompt may differ from the one rolled out."""
        return may_distill(self.settings)

    # The calls of an adapter

    def preflight(
        self, policy: Policy | None, workload: Workload | None = None, *, roll_out: bool = False
    ) -> Page:
        """Look at all that can be known before the first step; nothing is begun.

        Asks the reflection model for one short reply, unless `preflight.reflection` is `off`, and with
        `roll_out` the policy for one group of rollouts. Without a policy or a workload what depends on
        them is left out.
        """
        return look_before(self.context, policy, workload, roll_out=roll_out)

    def dry_run(self, policy: Policy, workload: Workload | None = None) -> int:
        """`preflight` with rollouts, its page printed; returns the exit status, 0 or 1."""
        return look_before(self.context, policy, workload, roll_out=True, show=True).exit_status

    def begin(self, policy: Policy, workload: Workload | None = None) -> None:
        """Training begins, after a state was loaded if there is one. May ask `policy` for rollouts.

        `workload` is what the host will train on, as far as it knows. Raises StateError for a ledger that
        cannot be used, PreflightError for a reflection model that does not answer, and SystemExit at the
        end of a dry run (`preflight.dry_run`).
        """
        if self.settings.preflight.dry_run:
            raise SystemExit(self.dry_run(policy, workload))
        if self.context.folder is not None:
            run_lock.begin_in(self.context.folder, self)
        if not self._under_way:
            self._open_ledger()
            self._note_run("run_begins")
            say_what_was_there(self.context)
        elif self._ended:  # the host trains a second time
            digest = self.context.identity.digest
            self.context.ledger.go_on(digest, continues=digest)
        self._under_way, self._ended = True, False
        self.context.early_said.clear()
        clear_for_training(self.settings, self.preflight(policy, workload))
        self.context.workload = workload
        self._plugins.each(hookspecs.coevo_train_begin, policy=policy)

    def dataset_replaced(self, dataset: Dataset) -> None:
        """The host trains on another dataset from now on. Call it before `begin`, or a state is loaded.

        What `question_ids` of the policy does not name any more is forgotten by the methods. Checkpoints
        belong to the new dataset. Raises StateError for a ledger that cannot be written.
        """
        old = self.context.identity
        self.context.identity = old.on(dataset)
        if self.context.ledger.is_open:
            self.context.ledger.go_on(self.context.identity.digest, continues=old.digest)
        differences = self.context.identity.differences(old.meaning)
        self.context.note("dataset_replaced", differences=differences)
        logger.warning("the training dataset is another one now: %s", "; ".join(differences))

    def questions_learned(self, policy: Policy) -> None:
        """`policy.question_ids()` names new ones, of a stream: call it before their first round."""
        self._plugins.each(hookspecs.coevo_questions_learned, policy=policy)

    def questions_in_use(self) -> set[str]:
        """The questions that a method may ask for later. Others a host may forget."""
        by_plugin = self._plugins.by_plugin(hookspecs.coevo_questions_in_use)
        return {question_id for ids in by_plugin.values() for question_id in ids}

    def plan(self, question_ids: Sequence[str], group_size: int) -> list[Assignment]:
        """What the rollouts of the next generation round run under.

        One id per group; returns `len(question_ids) * group_size` assignments, group after group.
        Raises PluginError if two plugins plan the same part of a rollout, and HostError if another engine
        of this process has begun in the same folder since.
        """
        if self.context.folder is not None:
            run_lock.check_alone(self.context.folder, self)
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

    def still_out(self, plan: Sequence[Assignment]) -> None:
        """Whole groups, planned before a checkpoint, that a host which samples ahead still holds.

        Call it after `load_state_dict`. Raises HostError for a round that the loaded state does not know.
        """
        self._rounds.open_again(plan, self._round)

    def observe(self, rollouts: Sequence[Rollout]) -> None:
        """Take in scored rollouts, in any order; a group counts once its last rollout is there.

        Raises HostError if the assignment of a rollout is not one that was planned, or comes a second
        time.
        """
        groups = self._rounds.close(rollouts)
        if groups:
            self._signs.observe(groups)
            self._plugins.each(hookspecs.coevo_observe, groups=groups)

    def step_end(self, policy: Policy, *, last: bool = False) -> None:
        """The weights were updated once, for the last time if `last`. May ask `policy` for rollouts.

        Raises EarlySignError for a run that `early_signs` ends.
        """
        if not last:
            self._end_early()  # before anything more is asked
        attempt, step = self.policy_version
        self.context.policy_version = PolicyVersion(attempt, step + 1)
        self._plugins.each(hookspecs.coevo_step_end, policy=policy, last=last)
        if self.context.journal.path is not None:
            self.context.note("metrics", metrics=self.metrics())

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
        tell_what_came_of_it(self.context, self._rounds)
        self.context.note("training_ended", metrics=self.metrics())
        self.context.ledger.close()
        self._ended = True
        self._write_view()

    def state_dict(self) -> dict[str, Any]:
        """The whole state as JSON values, for the host's checkpoint."""
        state = self._sealed_state()
        self._plugins.each(hookspecs.coevo_on_state_saved, state=copy.deepcopy(state))
        self._write_view(state)
        return state

    def load_state_dict(
        self, state: Mapping[str, Any], where: str = "the given state", ledgers: Sequence[Path] = ()
    ) -> None:
        """Go on from a checkpoint, as another attempt; `ledgers` are files with the calls that the run had
        made, if it wrote into another folder. Raises StateError if the state does not fit."""
        saved = unseal(state, where)
        self._check_names(saved.plugins, where)
        self._check_run(saved.run, where)
        attempt = max(self.policy_version.attempt, saved.attempt + 1)
        self.context.resume_at(PolicyVersion(attempt, saved.step))
        self._round = saved.round
        self.epochs = saved.epochs
        self._rounds.clear()
        self._signs.look_no_more()
        self._reply_signs.look_no_more()
        run = digest_of(saved.run)
        self._open_ledger(continues=run, since=saved.ledger, under_way=saved.under_way)
        self.context.ledger.carry_over(
            spent_before(self.context, saved.reflection, run, ledgers, where)
        )
        self._under_way = True
        for name, text in saved.plugins.items():
            try:
                self._plugins.only(name, hookspecs.coevo_load_state, state=json.loads(text))
            except StateError:
                raise
            except Exception as error:  # a stranger's plugin may raise anything
                raise StateError(
                    f"{where} holds a state of {name!r} that it cannot read: {error!r}; "
                    "resume with the version that wrote it"
                ) from error
        self._note_run("resumed", changed=self.context.identity.changes(saved.noted))

    def metrics(self) -> dict[str, float]:
        """Finite numbers for the host's own logger. Of two that share a name the first one counts."""
        return self._metrics.collect()

    @property
    def metrics_of_round(self) -> frozenset[str]:
        """The names of the latest `metrics` that are of the last round alone: a host that logs every few
        steps logs their mean, and of all others the last value."""
        return self._metrics.of_round

    # Inside

    def _end_early(self) -> None:
        """Close the run's files if an early sign is to end it. Raises EarlySignError then."""
        if self.settings.early_signs != "stop" or not self.context.early_said:
            return
        self.context.note("training_ended", metrics=self.metrics())
        self._write_view()
        self.context.abandon()
        self._ended = True
        sign = self.context.early_said[0]
        raise EarlySignError(f'{sign} (to train all the same: early_signs = "warn")')

    def _check_names(self, saved: Mapping[str, Any], where: str) -> None:
        for name in saved:
            if name not in self._plugins.names:
                raise StateError(
                    f"{where} holds the state of {name!r}, which is not active in this run; add it to "
                    "the settings, or start without this checkpoint"
                )
        for method in self.context.methods.values():
            has_state = self._plugins.implements(method.name, hookspecs.coevo_state)
            if has_state and method.name not in saved:
                raise StateError(
                    f"{where} holds no state of {method.name!r}, which would start anew in the middle of "
                    "the run; resume from another checkpoint, or start without this one"
                )

    def _check_run(self, saved: Mapping[str, Any], where: str) -> None:
        if not (differences := self.context.identity.differences(saved)):
            return
        told = "; ".join(differences)
        if self.settings.resume != "force":
            raise StateError(
                f"{where} is of another run: {told}; give the run back what it had, start without this "
                'checkpoint, or set resume = "force" to go on with what is new'
            )
        logger.warning("resumed as another run: %s", told)
        self.context.note("resumed_as_another_run", differences=differences)

    def _open_ledger(
        self, *, continues: str | None = None, since: int = 0, under_way: Collection[int] = ()
    ) -> None:
        ledger, run = self.context.ledger, self.context.identity.digest
        ledger.open(run, continues=continues, since=since, under_way=under_way)
        say_what_was_lost(self.context)

    def _note_run(self, event: str, **fields: Any) -> None:
        run = self.context.identity
        self.context.note(event, journal=FORMAT, settings=run.meaning, noted=run.noted, **fields)

    def _sealed_state(self) -> dict[str, Any]:
        attempt, step = self.policy_version
        # Before the plugins are asked, and the position first: a reply that comes in meanwhile counts as
        # unknown to the state.
        position = self.context.ledger.position
        asked = self.context.model.under_way if self.context.model else self.context.ledger.unused
        totals = self.context.ledger.totals
        return seal(
            {
                "run": self.context.identity.meaning,
                "noted": self.context.identity.noted,
                "attempt": attempt,
                "step": step,
                "round": self._round,
                "epochs": self.epochs,
                "plugins": self._plugin_states(),
                "under_way": asked,
                "ledger": position,
                "reflection": totals,
            }
        )

    def _plugin_states(self) -> dict[str, str]:
        """Without those that cannot be written down: a bad plugin must not cost the checkpoint."""
        states = {}
        for name, state in self._plugins.by_plugin(hookspecs.coevo_state).items():
            try:
                states[name] = json.dumps(state, allow_nan=False)
            except (TypeError, ValueError, RecursionError) as error:
                self._plugins.report(name, "coevo_state", error)
        return states

    def _write_view(self, state: Mapping[str, Any] | None = None) -> None:
        """`state.json`: for people to read; only the copy in the host's checkpoint is ever loaded."""
        if self.context.folder is None:
            return
        try:
            write_view(self.context.folder / "state.json", state or self._sealed_state())
        except OSError as error:
            logger.warning("the readable state cannot be written: %s", error)
