"""The engine: the calls that an adapter makes during a run."""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from prompt_coevo import hookspecs
from prompt_coevo.candidates.gates import rough_token_count
from prompt_coevo.engine import opening, run_lock
from prompt_coevo.engine.early_signs import EarlySigns
from prompt_coevo.engine.identity import Dataset, RunIdentity, digest_of
from prompt_coevo.engine.journal import FORMAT
from prompt_coevo.engine.metrics import Metrics
from prompt_coevo.engine.planning import Planner, check_claims
from prompt_coevo.engine.preflight import clear_for_training, look_before
from prompt_coevo.engine.reply_signs import ReplySigns
from prompt_coevo.engine.rounds import OpenRounds
from prompt_coevo.engine.run_context import RunContext
from prompt_coevo.engine.state import seal, unseal, write_view
from prompt_coevo.engine.summary import tell_what_came_of_it
from prompt_coevo.errors import CoevoError, EarlySignError, StateError
from prompt_coevo.lines import JSON
from prompt_coevo.markers import PROJECT
from prompt_coevo.policy import Policy
from prompt_coevo.preflight.page import Page
from prompt_coevo.preflight.prompts import Encode
from prompt_coevo.settings import Settings, may_distill
from prompt_coevo.settings.method import Workload
from prompt_coevo.types import Assignment, Candidate, PolicyVersion, Rollout

logger = logging.getLogger(PROJECT)


class Coevolution:
    """The engine of one run. An adapter calls, in this order:

    `begin` once, `plan` before a generation round, `observe` after it, `step_end` after every weight
    update, `epoch_end` between two epochs, `end` last. `state_dict` and `load_state_dict` belong in the
    trainer's checkpoint, `metrics` in its logs. See `docs/adapters.md`.
    """

    def __init__(self, context: RunContext) -> None:
        """Used by `from_settings`."""
        self.context = context
        """The run as its plugins see it."""
        self._plugins = context.plugins
        check_claims(context.methods)
        by_name = {method.name: method for method in context.methods.values()}
        self._planner = Planner(
            by_name, self.settings.placement.build(), distill=self.settings.context_distillation
        )
        context.policy_version = PolicyVersion(1 + context.journal.last_attempt())
        self._round = 0
        self._under_way = self._ended = False
        self.epochs = 0
        """Finished epochs: calls of `epoch_end`."""
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
        """Build an engine; no state is loaded yet.

        `output_dir` is the trainer's; the engine writes to its subfolder `coevo`, or nowhere if None.
        `count_tokens` counts with the policy's tokenizer. `initial_policy` is the checkpoint that
        training starts from, for `reflection.model = "self"`. `system_message` returns the system
        message that all questions share, or None. `plugins` are registered by name, after the installed
        ones. `dataset` identifies the data: a resumed run needs the same. `host` names the trainer and
        its version, for the run's files. `encode` returns the token ids of a prompt as the policy gets
        it, for the preflight. Raise SettingsError, PluginError or MissingExtraError.
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
        """Check the settings before a dataset or a model is loaded; nothing is written.

        Raise SettingsError, PluginError or MissingExtraError.
        """
        unknown = "not known yet"
        cls.from_settings(settings, initial_policy=unknown, system_message=lambda: unknown)

    @property
    def settings(self) -> Settings:
        return self.context.settings

    @property
    def policy_version(self) -> PolicyVersion:
        """The version of the policy's current weights."""
        return self.context.policy_version

    @property
    def may_distill(self) -> bool:
        """True if a trained prompt may differ from the one rolled out."""
        return may_distill(self.settings)

    # The calls of an adapter

    def preflight(
        self, policy: Policy | None, workload: Workload | None = None, *, roll_out: bool = False
    ) -> Page:
        """Run the preflight checks and return their page; training does not begin.

        Asks the reflection model for one short reply, unless `preflight.reflection` is `off`, and with
        `roll_out` the policy for one group of rollouts. Checks that need a policy or a workload are
        skipped without one.
        """
        return look_before(self.context, policy, workload, roll_out=roll_out)

    def dry_run(self, policy: Policy, workload: Workload | None = None) -> int:
        """Run `preflight` with rollouts, print its page and return the exit status, 0 or 1."""
        return look_before(self.context, policy, workload, roll_out=True, show=True).exit_status

    def begin(self, policy: Policy, workload: Workload | None = None) -> None:
        """Begin training; load a checkpoint's state first. May ask `policy` for rollouts.

        `workload` describes what the trainer will train on, if known. Raise StateError for an unusable
        ledger, DatasetError for questions that a method refuses, PreflightError for a reflection model that
        does not answer, SystemExit after a dry run.
        """
        if self.settings.preflight.dry_run:
            raise SystemExit(self.dry_run(policy, workload))
        if self.context.folder is not None:
            run_lock.begin_in(self.context.folder, self)
        if not self._under_way:
            self._open_ledger()
            self._note_run("run_begins")
            opening.say_what_was_there(self.context)
        elif self._ended:  # `train` was called again
            digest = self.context.identity.digest
            self.context.ledger.go_on(digest, continues=digest)
        self._under_way, self._ended = True, False
        self.context.early_said.clear()
        try:
            clear_for_training(self.settings, self.preflight(policy, workload))
            self.context.workload = workload
            self._plugins.each(hookspecs.coevo_train_begin, policy=policy)
        except CoevoError as error:
            self.context.note("run_refused", reason=str(error))
            raise
        opening.say_what_was_resumed(self.context, self._metrics)

    def dataset_replaced(self, dataset: Dataset) -> None:
        """Switch to another training dataset. Call it before `begin` or `load_state_dict`.

        Methods forget questions that the policy's `question_ids` no longer names. Checkpoints belong to
        the new dataset. Raise StateError for a ledger that cannot be written.
        """
        old = self.context.identity
        self.context.identity = old.on(dataset)
        if self.context.ledger.is_open:
            self.context.ledger.go_on(self.context.identity.digest, continues=old.digest)
        differences = self.context.identity.differences(old.meaning)
        self.context.note("dataset_replaced", differences=differences)
        logger.warning("the training dataset has changed: %s", "; ".join(differences))

    def questions_learned(self, policy: Policy) -> None:
        """Tell the plugins of new ids in `policy.question_ids()`. Call it before their first round."""
        self._plugins.each(hookspecs.coevo_questions_learned, policy=policy)

    def questions_in_use(self) -> set[str]:
        """Return the ids of questions that a plugin may still need. The trainer may drop all others."""
        by_plugin = self._plugins.by_plugin(hookspecs.coevo_questions_in_use)
        return {question_id for ids in by_plugin.values() for question_id in ids}

    def plan(self, question_ids: Sequence[str], group_size: int) -> list[Assignment]:
        """Plan the instruction and template of each rollout in the next generation round.

        Takes one id per group; returns `len(question_ids) * group_size` assignments, group after group.
        Raise PluginError if two plugins plan the same part of a rollout, and HostError if another engine
        of this process has since begun in the same folder.
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
        """Reopen whole groups that were planned before a checkpoint, for a trainer that samples ahead.

        Call it after `load_state_dict`. Raise HostError for a round that the loaded state does not know.
        """
        self._rounds.open_again(plan, self._round)

    def observe(self, rollouts: Sequence[Rollout]) -> None:
        """Take in scored rollouts, in any order; a group counts once it is complete.

        Raise HostError if the assignment of a rollout was not planned or was already observed.
        """
        if groups := self._rounds.close(rollouts):
            self._signs.observe(groups)
            self._plugins.each(hookspecs.coevo_observe, groups=groups)

    def step_end(self, policy: Policy, *, last: bool = False) -> None:
        """Count a weight update, the final one if `last`. May ask `policy` for rollouts.

        Raise EarlySignError for a run that `early_signs` ends.
        """
        if not last:
            self._end_early()  # before plugins spend rollouts or reflection calls
        attempt, step = self.policy_version
        self.context.policy_version = PolicyVersion(attempt, step + 1)
        self._plugins.each(hookspecs.coevo_step_end, policy=policy, last=last)
        if self.context.journal.path is not None:
            self.context.note("metrics", metrics=self.metrics())

    def epoch_end(self, policy: Policy) -> None:
        """Count an epoch that another one follows. May ask `policy` for rollouts."""
        self.epochs += 1
        self._plugins.each(hookspecs.coevo_epoch_end, policy=policy)
        self._write_view()

    def evaluation_instruction(self) -> Candidate | None:
        """Return the instruction for the trainer's evaluation, if any."""
        return self._plugins.first(hookspecs.coevo_evaluation_instruction)

    def end(self, policy: Policy) -> None:
        """End training: log a summary and close the run's files. May ask `policy` for rollouts."""
        self._plugins.each(hookspecs.coevo_train_end, policy=policy)
        tell_what_came_of_it(self.context, self._rounds)
        self.context.note("training_ended", metrics=self.metrics())
        self.context.ledger.close()
        self._ended = True
        self._write_view()

    def state_dict(self) -> dict[str, JSON]:
        """Return the whole state as JSON values, for the trainer's checkpoint."""
        state = self._sealed_state()
        self._plugins.each(hookspecs.coevo_on_state_saved, state=copy.deepcopy(state))
        self._write_view(state)
        return state

    def load_state_dict(
        self,
        state: Mapping[str, JSON],
        where: str = "the given state",
        ledgers: Sequence[Path] = (),
    ) -> None:
        """Resume from a checkpoint, as a new attempt. `ledgers` are the ledger files of the run's earlier
        calls, if it wrote to another folder. Raise StateError if the state does not fit."""
        saved = unseal(state, where)
        states = opening.states_to_load(self.context, saved.plugins, where)
        self._check_run(saved.run, where)
        attempt = max(self.policy_version.attempt, saved.attempt + 1)
        self.context.resume_at(PolicyVersion(attempt, saved.step), where)
        self._round = saved.round
        self.epochs = saved.epochs
        self._rounds.clear()
        self._signs.look_no_more()
        self._reply_signs.look_no_more()
        run = digest_of(saved.run)
        opening.take_ledger_along(self.context, run, ledgers, where)
        self._open_ledger(continues=run, since=saved.ledger, under_way=saved.under_way)
        spent = opening.spent_before(self.context, saved.reflection, run, ledgers, where)
        self.context.ledger.carry_over(spent)
        self._under_way = True
        for name, text in states.items():
            try:
                self._plugins.only(name, hookspecs.coevo_load_state, state=json.loads(text))
            except StateError:
                raise
            except Exception as error:  # a third-party plugin may raise anything
                raise StateError(
                    f"{where} holds a state of {name!r} that it cannot read: {error!r}; "
                    "resume with the version that wrote it"
                ) from error
        self._note_run("resumed", changed=self.context.identity.changes(saved.noted))

    def metrics(self) -> dict[str, float]:
        """Return finite numbers for the trainer's logger. If two share a name, the first one counts."""
        return self._metrics.collect()

    @property
    def metrics_of_round(self) -> frozenset[str]:
        """Names in the latest `metrics` that describe only the last round: a trainer that logs every few
        steps logs their mean, and the last value of all others."""
        return self._metrics.of_round

    # Inside

    def _end_early(self) -> None:
        """If an early sign ends the run, close its files and raise EarlySignError."""
        if self.settings.early_signs != "stop" or not self.context.early_said:
            return
        self.context.note("training_ended", metrics=self.metrics())
        self._write_view()
        self.context.abandon()
        self._ended = True
        sign = self.context.early_said[0]
        raise EarlySignError(f'{sign} (to train anyway: early_signs = "warn")')

    def _check_run(self, saved: Mapping[str, JSON], where: str) -> None:
        if not (differences := self.context.identity.differences(saved)):
            return
        told = "; ".join(differences)
        if self.settings.resume != "force":
            raise StateError(
                f"{where} is of another run: {told}; restore the earlier values, start without this "
                'checkpoint, or set resume = "force" to continue with the new ones'
            )
        logger.warning("resumed as another run: %s", told)
        self.context.note("resumed_as_another_run", differences=differences)

    def _open_ledger(
        self, *, continues: str | None = None, since: int = 0, under_way: Collection[int] = ()
    ) -> None:
        ledger, run = self.context.ledger, self.context.identity.digest
        ledger.open(run, continues=continues, since=since, under_way=under_way)
        opening.say_what_was_lost(self.context)

    def _note_run(self, event: str, **fields: JSON) -> None:
        run = self.context.identity
        self.context.note(event, journal=FORMAT, settings=run.meaning, noted=run.noted, **fields)

    def _sealed_state(self) -> dict[str, JSON]:
        attempt, step = self.policy_version
        # Read before the plugins' states, and the position first: a reply that arrives in between must
        # count as unknown to the saved state.
        position = self.context.ledger.position
        asked = self.context.model.under_way if self.context.model else self.context.ledger.unused
        totals = self.context.ledger.totals
        payload: dict[str, JSON] = {
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
        return seal(payload)

    def _plugin_states(self) -> dict[str, str]:
        """Collect the plugins' states. Report and skip one that is not JSON, to save the checkpoint."""
        states = {}
        for name, state in self._plugins.by_plugin(hookspecs.coevo_state).items():
            try:
                states[name] = json.dumps(state, allow_nan=False)
            except (TypeError, ValueError, RecursionError) as error:
                self._plugins.report(name, "coevo_state", error)
        return states

    def _write_view(self, state: Mapping[str, JSON] | None = None) -> None:
        """Write `state.json`, for people to read; only the state in the trainer's checkpoint is loaded."""
        if self.context.folder is None:
            return
        try:
            write_view(self.context.folder / "state.json", state or self._sealed_state())
        except OSError as error:
            logger.warning("the readable state cannot be written: %s", error)
