"""Instructions or templates for a fixed policy, by the searches that trainers use.

Instructions: INSPO's evolution against one policy (`inspo.evolution = "before"`, arXiv 2512.01945, Fig. 3).
Templates: one of P2O's searches (`p2o.search_backend = "waves"`, arXiv 2603.21877, Algorithm 3) on the
questions that a first pass found hard.

Nothing is kept but the run's folder: started again with the same settings and data, a run that was stopped
asks the same questions, and the ledger of calls answers those that were paid for.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from prompt_coevo import hookspecs
from prompt_coevo.doors.trackers.lineage import Lineage
from prompt_coevo.endpoint.data import Columns, Row, distinct, indexed, split
from prompt_coevo.endpoint.evolved import RESULT, Evolved, finished, redacted, write
from prompt_coevo.endpoint.policy import SEARCH_ENDS, BudgetSpent, EndpointPolicy
from prompt_coevo.endpoint.rewards import Reward
from prompt_coevo.endpoint.scores import Score, difference, score
from prompt_coevo.endpoint.watching import Watching
from prompt_coevo.engine.coevolution import Coevolution
from prompt_coevo.engine.identity import Dataset
from prompt_coevo.errors import CoevoError, SettingsError
from prompt_coevo.settings import Settings
from prompt_coevo.settings.reflection import ReflectionSettings
from prompt_coevo.types import Assignment, Candidate, Rollout
from prompt_coevo.visible import in_a_line

Kind: TypeAlias = Literal["instruction", "templates"]

SEARCH_SHARE: Final = 0.8
"""Of every budget, where questions are held out; the rest is left for their last scores."""


class NothingToEvolve(CoevoError, RuntimeError):
    """The data, the reward or the models leave a search nothing to do."""


@dataclass(frozen=True)
class Job:
    """What to evolve, on what. `settings.reflection` has the budgets of both models' calls together;
    `policy` says how to reach the policy."""

    kind: Kind
    settings: Settings
    policy: ReflectionSettings
    rows: Sequence[Row]
    columns: Columns
    reward: Reward
    reward_name: str
    out: Path
    samples: int = 4
    temperature: float | None = 1.0
    held_out: float = 0.25
    allow_all_fail: bool = False


class Evolving:
    """One run in its folder. `tell` is given a line for every stage."""

    def __init__(self, job: Job, tell: Callable[[str], None] = lambda line: None) -> None:
        """Raises SettingsError for a folder with a finished run, or any CoevoError of what is checked
        before a call is made."""
        if finished(job.out / RESULT):
            raise SettingsError(
                f"{job.out} holds the result of a finished run; name another folder"
            )
        self._job, self._tell = job, tell
        rows = distinct(job.rows, job.columns)
        self._duplicates = len(job.rows) - len(rows)
        if self._duplicates:
            tell(
                f"left out: {self._duplicates} of {len(job.rows)} rows, whose prompts stand before them"
            )
        train, held = split(rows, job.held_out, job.settings.seed)
        self._train, self._held = indexed(train, job.columns), None
        if held:
            self._held = indexed(held, job.columns)
        self._start = self._first_instruction()
        self._check_budget(len(train), len(held))
        self._keys = [
            one.api_key.get_secret_value()
            for one in (job.policy, job.settings.reflection)
            if one.api_key is not None
        ]
        self._watching = Watching(self._look_first)
        settings = job.settings
        if self._held is not None:
            searching = _share(settings.reflection, SEARCH_SHARE)
            settings = settings.model_copy(update={"reflection": searching})
        self._engine = Coevolution.from_settings(
            settings,
            output_dir=job.out,
            system_message=self._train.shared_system_message,
            plugins={"evolve": self._watching},
            dataset=self._identity(train, held),
            host=f"evolve {job.policy.model}",
        )
        self._engine.desk.when_spent = SEARCH_ENDS
        self._engine.desk.trains = False
        self._lineage = Lineage()
        self._engine.desk.journal.listener = self._lineage.follow
        self._policy = EndpointPolicy(
            _with_budget(job.policy, settings.reflection),
            self._train,
            job.reward,
            self._engine.desk.ledger,
            temperature=job.temperature,
            note=self._engine.desk.note,
            secrets=self._keys,
        )
        self._first_rollouts: list[Rollout] = []
        self._before: list[float] | None = None
        self._warnings: list[str] = []

    def run(self) -> Evolved:
        """Search, score, write the files.

        Raises NothingToEvolve, EndpointError, RewardError, ResultError and what the engine raises;
        the folder can be gone on with then, and after a KeyboardInterrupt.
        """
        engine = self._engine
        engine.begin(self._policy)
        if self._job.kind == "templates":
            engine.epoch_end(self._policy)
        best, stopped = self._found()
        after = self._on_held_out(best[0] if best else None, self._job.settings.reflection)
        evolved = self._evolved(best, stopped, after)
        self._write(evolved)
        if evolved.unfinished:
            self._note_the_end()
        else:
            engine.end(self._policy)
        return evolved

    # The first look: what the policy can do by itself

    def _look_first(self) -> None:
        job, policy = self._job, self._policy
        ids = self._train.ids()
        self._tell(f"{len(ids)} questions, {job.samples} completions each, without a search")
        try:
            policy.probe()
            if job.kind == "templates":
                plan = self._engine.plan(ids, job.samples)
                self._first_rollouts = policy.sampled(plan)
                self._engine.observe(self._first_rollouts)
            else:
                plan = [self._assignment(one, self._start) for one in ids] * job.samples
                self._first_rollouts = policy.sampled(plan)
        except BudgetSpent as error:
            self._note_the_end()
            raise NothingToEvolve(f"before a search could begin, {error}; raise it") from None
        self._check_rewards()
        self._before = self._on_held_out(self._start, self._engine.settings.reflection)

    def _check_rewards(self) -> None:
        rewards = [one.reward for one in self._first_rollouts if one.fit]  # at least one is
        solved_at = self._solved_at
        if all(reward >= solved_at for reward in rewards):
            raise NothingToEvolve(
                f"all {len(rewards)} completions have a reward of {solved_at:g} or more, so there is no "
                "failure to learn from: nothing to evolve"
            )
        if max(rewards) <= 0 and not self._job.allow_all_fail:
            one = next(one for one in self._first_rollouts if one.fit)
            truth = self._train.question(one.assignment.question_id).ground_truth or ""
            raise NothingToEvolve(
                f"all {len(rewards)} completions have a reward of 0, which is as a rule a wrong --reward "
                f"or column: to the answer {_short(truth)} the policy said {_short(one.completion)}; if "
                "they are that hard, say --allow-all-fail"
            )

    def _check_budget(self, train: int, held: int) -> None:
        """Raises SettingsError for calls that pay no search, before the first one is made."""
        given = self._job.settings.reflection.max_calls
        share = SEARCH_SHARE if held else 1.0
        least = 2 + train * self._job.samples + held + 1  # two to try it, one for a candidate
        needed = least
        while int(share * needed) < least:
            needed += 1
        if given is not None and given < needed:
            kept = ", and a fifth is kept for the last scores" if held else ""
            raise SettingsError(
                f"reflection.max_calls = {given} pays for no search, {needed} are needed at least: before "
                f"a search could begin, {least - 1} calls are made (2 + {train} questions x "
                f"{self._job.samples} samples + {held} held out){kept}"
            )

    # The search's outcome

    def _found(self) -> tuple[tuple[Candidate, ...], str]:
        """The candidates, the best one first, and why the search ended."""
        best, stopped = self._outcome()
        if (spent := self._spent) is None:
            return best, stopped
        if self._held is not None:
            spent += f" ({SEARCH_SHARE:.0%} of the run's; the rest is for the last scores)"
        self._warnings.append(f"the search ended early: {spent}; a larger budget goes on")
        return best, spent

    @property
    def _spent(self) -> str | None:
        """The budget's sentence, if it ended the search."""
        return self._watching.spent or self._policy.spent

    def _outcome(self) -> tuple[tuple[Candidate, ...], str]:
        seen = self._watching
        if seen.failed and not seen.written:
            raise NothingToEvolve(
                f"the reflection model failed {seen.failed} of {seen.failed} times: {seen.error}"
            )
        if self._job.kind == "instruction":
            best = self._engine.desk.ask(hookspecs.coevo_best_instruction)
            same = best is None or (self._start is not None and best.text == self._start.text)
            return (() if same or best is None else (best,)), "the evolutions are over"
        if seen.result is None:
            raise NothingToEvolve(
                f"fewer than p2o.min_hard = {self._p2o.min_hard} of {len(self._train)} questions are hard "
                f"(mean reward below p2o.tau = {self._p2o.tau:g}), so there is nothing to search for"
            )
        if seen.result.failed and self._spent is None:
            self._warnings.append(f"the search ended early: {seen.result.stopped}")
        if seen.cover is None:
            return (), seen.result.stopped
        ranked = sorted(
            zip(seen.cover.weights, seen.cover.templates, strict=True), key=lambda one: -one[0]
        )
        return tuple(one for _, one in ranked if one.text), seen.result.stopped

    def _on_held_out(
        self, candidate: Candidate | None, budget: ReflectionSettings
    ) -> list[float] | None:
        """A reward for each held-out question, NaN for one that could not be had."""
        if self._held is None:
            return None
        if candidate is None and self._before is not None:
            return self._before
        self._tell(f"{len(self._held)} held-out questions")
        plan = [self._assignment(one, candidate) for one in self._held.ids()]
        try:
            rollouts = self._policy.greedy(plan, self._held, budget)
        except BudgetSpent as error:
            self._warnings.append(f"the held-out questions were not scored: {error}")
            return None
        return [one.reward for one in rollouts]

    def _evolved(
        self, best: tuple[Candidate, ...], stopped: str, after: list[float] | None
    ) -> Evolved:
        seed, before = self._job.settings.seed, self._before
        scores: dict[str, Score | None] = {"before": None, "after": None, "change": None}
        if before is not None and after is not None:
            pairs = [
                pair for pair in zip(before, after, strict=True) if all(map(math.isfinite, pair))
            ]
            if pairs:
                early, late = ([pair[place] for pair in pairs] for place in (0, 1))
                scores["before"] = score(early, seed)
                scores["after"] = score(late, seed)
                scores["change"] = difference(early, late, seed)
            if len(pairs) < len(before):
                self._warnings.append(
                    f"{len(before) - len(pairs)} of {len(before)} held-out questions got no completion"
                )
        if self._policy.failed:
            self._warnings.append(
                f"{self._policy.failed} of {self._policy.calls} completions could not be had"
            )
        cost = {**self._engine.desk.ledger.totals, "completions": float(self._policy.calls)}
        return Evolved(
            best=best,
            first=score(self._mean_rewards(), seed),
            stopped=stopped,
            cost=cost,
            warnings=tuple(self._warnings),
            unfinished=self._spent is not None,
            **scores,
        )

    def _mean_rewards(self) -> list[float]:
        """Of each question that was measured at first."""
        by_question: dict[str, list[float]] = {}
        for one in self._first_rollouts:
            if one.fit:
                by_question.setdefault(one.assignment.question_id, []).append(one.reward)
        return [math.fsum(rewards) / len(rewards) for rewards in by_question.values()]

    # Files

    def _write(self, evolved: Evolved) -> None:
        report = {
            "kind": self._job.kind,
            "policy": self._job.policy.model,
            "reflection": self._job.settings.reflection.model,
            "reward": self._job.reward_name,
            "seed": self._job.settings.seed,
            "questions": len(self._train),
            "held_out": len(self._held) if self._held else 0,
            "duplicates": self._duplicates,
            **evolved.to_json(),
        }
        write(self._job.out, self._lineage.rows.values(), redacted(report, self._keys))

    # Inside

    def _note_the_end(self) -> None:
        """Of a run that a budget ended. Its account stays open, and a larger budget goes on with it."""
        self._engine.desk.note("training_ended", metrics=self._engine.metrics())

    def _first_instruction(self) -> Candidate | None:
        """What an evolution of instructions begins with."""
        if self._job.kind == "templates":
            return None
        inspo = self._job.settings.inspo
        given = [*inspo.initial_population, inspo.instruction]
        text = next(filter(None, given), None) or self._train.shared_system_message()
        if text is None:
            raise SettingsError(
                "there is no instruction to start from: give one with --instruction, or give all prompts "
                "of the data the same system message"
            )
        return Candidate(text, "instruction")

    @property
    def _p2o(self) -> Any:
        return self._job.settings.p2o

    @property
    def _solved_at(self) -> float:
        method = self._p2o if self._job.kind == "templates" else self._job.settings.inspo
        return float(method.solved_at)

    def _assignment(self, question_id: str, candidate: Candidate | None) -> Assignment:
        is_template = candidate is not None and candidate.kind == "template"
        return Assignment(
            question_id,
            instruction=None if is_template else candidate,
            template=candidate if is_template else None,
            placement=self._job.settings.placement.build(),
        )

    def _identity(self, train: Sequence[Row], held: Sequence[Row]) -> Dataset:
        """What a run that goes on has to be given again: the questions, the policy and the reward."""
        job = self._job
        parts = [
            *(
                json.dumps([kind, row], sort_keys=True, default=str)
                for kind, rows in (("train", train), ("held", held))
                for row in rows
            ),
            f"{job.policy.model} {job.policy.max_tokens} {job.temperature} {job.samples}",
            job.reward_name,
        ]
        return replace(Dataset.of(parts), questions=len(train))


def _with_budget(policy: ReflectionSettings, budget: ReflectionSettings) -> ReflectionSettings:
    names = ("max_calls", "max_total_tokens", "max_usd", "max_seconds")
    return policy.model_copy(update={name: getattr(budget, name) for name in names})


def _share(settings: ReflectionSettings, share: float) -> ReflectionSettings:
    smaller: dict[str, Any] = {}
    for name in ("max_calls", "max_total_tokens"):
        if (limit := getattr(settings, name)) is not None:
            smaller[name] = max(1, int(share * limit))
    for name in ("max_usd", "max_seconds"):
        if (limit := getattr(settings, name)) is not None:
            smaller[name] = share * limit
    return settings.model_copy(update=smaller)


def _short(text: str) -> str:
    line = in_a_line(text)
    return repr(line if len(line) <= 80 else line[:80] + "...")
