"""From a run's folder to its record: whatever state the files are in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from prompt_coevo.engine.journal import FORMAT, Journal
from prompt_coevo.engine.saved_states import SavedStates
from prompt_coevo.errors import CoevoError
from prompt_coevo.report.fields import Fields, Unreadable, is_whole, number
from prompt_coevo.report.run import (
    Call,
    CandidateRecord,
    Check,
    Fate,
    Moment,
    Note,
    OneQuestion,
    Run,
    Score,
    Step,
    TrialRecord,
    Turn,
)
from prompt_coevo.types import EMPTY_TEMPLATE

_QUIET: Final = frozenset({"state_saved", "reflection_awaited"})
_MOST_NOTES: Final = 1_000
_LONGEST_NOTE: Final = 2_000


class RunError(CoevoError):
    """A run that cannot be read, or has not what was asked for."""


def read_run(folder: Path) -> Run:
    """What the journal of a run's folder (`coevo`) says.

    Lines that cannot be read are counted and passed over. Raises RunError if there is nothing to read,
    or another version of prompt_coevo wrote it.
    """
    reader = _Reader(str(folder))
    for line in journal_of(folder).lines():
        reader.take(line)
    return reader.finished()


def journal_of(folder: Path) -> Journal:
    """The journal for reading; nothing is written. Raises RunError."""
    journal = Journal.to_read(folder)
    if not journal.parts:
        raise RunError(
            f"{folder} holds no journal (events.jsonl); give the output folder of a run, or its "
            "subfolder coevo"
        )
    return journal


def check_format(event: Fields, folder: object) -> None:
    """Of an event that begins a run or goes on with it. Raises RunError for another version's journal."""
    if event.values.get("journal") != FORMAT:
        wrote = event.inside("noted").maybe("versions.prompt-coevo") or "an unknown version"
        told = event.values.get("journal", "none")
        raise RunError(
            f"the journal in {folder} has format {told!r}, this version reads format "
            f"{FORMAT}; use the prompt-coevo that wrote it ({wrote})"
        )


class _Reader:
    """Takes events in the order of their writing."""

    def __init__(self, folder: str) -> None:
        self._run = Run(folder)
        self._texts: dict[str, str] = {}
        self._trial_scores: list[tuple[Moment, str, str, float]] = []
        self._states = SavedStates()
        self._handlers: dict[str, Callable[[Fields], None]] = {
            "run_begins": self._begins,
            "resumed": self._resumed,
            "state_saved": self._state_saved,
            "training_ended": self._ended,
            "text": self._text,
            "question": self._question,
            "reply": self._reply,
            "candidate_checked": self._checked,
            "candidate_verified": self._verified,
            "population_changed": self._population,
            "instruction_weights": self._weights,
            "templates_assigned": self._assigned,
            "search_skipped": self._without_templates,
            "search_failed": self._without_templates,
            "template_joined": self._joined,
            "template_dropped": self._left,
            "metrics": self._metrics,
            "rewards": self._rewards,
            "gap": self._gap,
        }

    def take(self, line: dict[str, Any] | None) -> None:
        if line is None or not isinstance(line.get("event"), str):
            self._run.damaged += 1
            return
        self._run.events += 1
        event, name = Fields(line, self._run.events), line["event"]
        if name not in ("gap", "text"):
            self._run.last = event.at
        try:
            if (handle := self._handlers.get(name)) is not None:
                handle(event)
        except Unreadable:
            self._run.damaged += 1
        if name not in _QUIET and (handle is None or name in ("search_skipped", "search_failed")):
            self._note(name, event)

    def finished(self) -> Run:
        """Raises RunError if nothing was readable."""
        run = self._run
        if not run.events:
            raise RunError(
                f"the journal in {run.folder} holds no event that can be read ({run.damaged} damaged "
                "lines); was the run killed as it began?"
            )
        for _, question, template, reward in self._trial_scores:
            _score(run, question, template).add(1, reward)
        for step in run.steps.values():
            for question, used, rollouts, reward in step.uses:
                _score(run, question, used).add(rollouts, reward)
        return run

    # What a run is

    def _begins(self, event: Fields) -> None:
        """From its beginning, whatever the folder held before: of that the calls count, as costs."""
        check_format(event, self._run.folder)
        old = self._run
        if old.attempts:
            self._run = Run(
                old.folder,
                begun=old.begun,
                last=old.last,
                attempts=old.attempts,
                events=old.events,
                damaged=old.damaged,
                lost=old.lost,
                calls=old.calls,
            )
            self._trial_scores, self._states = [], SavedStates()
        self._attempt(event)

    def _resumed(self, event: Fields) -> None:
        check_format(event, self._run.folder)
        if self._run.attempts:
            self._undo(event.at)
        self._attempt(event)

    def _attempt(self, event: Fields) -> None:
        run, at = self._run, event.at
        run.begun = run.begun or at.time
        run.settings = dict(event.inside("settings").values)
        run.noted = dict(event.inside("noted").values)
        run.ended = False
        run.attempts.append(at)

    def _state_saved(self, event: Fields) -> None:
        self._states.saved(event.at.step, event.at.place)

    def _undo(self, at: Moment) -> None:
        """The run went on from here: what came after is not what happened."""
        run, still = self._run, self._states.resumed(at.step)

        def counts(when: Moment) -> bool:
            return still(when.step, when.place)

        run.steps = {number: step for number, step in run.steps.items() if number <= at.step}
        run.empty_replies = [one for one in run.empty_replies if counts(one.at)]
        self._trial_scores = [one for one in self._trial_scores if counts(one[0])]
        for candidate in run.candidates.values():
            candidate.checks = [one for one in candidate.checks if counts(one.at)]
            candidate.trials = [one for one in candidate.trials if counts(one.at)]
            kept = [turn for turn in candidate.turns if counts(turn.at)]
            if candidate.turns and not kept:
                why = f"attempt {at.attempt} went on from step {at.step}, before it"
                kept = [Turn(at, "undone", why)]
            candidate.turns = kept

    def _ended(self, event: Fields) -> None:
        self._run.ended = True
        self._run.metrics = event.by_name("metrics")

    def _gap(self, event: Fields) -> None:
        self._run.lost += event.whole("lost")

    # Texts and calls

    def _text(self, event: Fields) -> None:
        self._texts[event.text("id")] = event.text("text")

    def _question(self, event: Fields) -> None:
        name, text = event.text("question"), self._texts.get(event.text("text"))
        if text is not None:
            self._run.questions[name] = text

    def _reply(self, event: Fields) -> None:
        usage = event.inside("usage")
        self._run.calls.append(
            Call(
                at=event.at,
                number=event.whole("call"),
                request=event.text("request"),
                prompt=self._texts.get(event.maybe("prompt") or ""),
                text=event.maybe("text"),
                error=event.maybe("error"),
                finish_reason=event.maybe("finish_reason"),
                prompt_tokens=usage.whole("prompt_tokens"),
                completion_tokens=usage.whole("completion_tokens"),
                usd=usage.number("usd") or 0.0,
            )
        )

    # Candidates

    def _checked(self, event: Fields) -> None:
        reason, parent = event.maybe("reason"), event.maybe("parent")
        request = event.text("request")
        described = event.inside("candidate")
        if not described.values:
            self._run.empty_replies.append(Check(event.at, None, parent, request, reason))
            return
        candidate = self._described(described)
        candidate.checks.append(Check(event.at, candidate.id, parent, request, reason))
        # Proposed again it is what it was: in use a copy, dropped not tried once more.
        if not candidate.turns or candidate.fate in ("refused", "undone"):
            if reason is None:
                _turn(candidate, event, "on trial", "it passed the gates")
            else:
                _turn(candidate, event, "refused", reason)

    def _verified(self, event: Fields) -> None:
        parent = event.text("parent")
        candidate = self._candidate(event.text("candidate"))
        questions = tuple(self._questions(event))
        accepted = event.true("accepted")
        trial = TrialRecord(event.at, parent, accepted, questions)
        candidate.trials.append(trial)
        for one in questions:
            if candidate.kind == "template":
                self._trial_scores.append((event.at, one.id, candidate.id, one.reward))
        means = (
            f"mean reward {trial.mean:.3g} on {len(questions)} questions, its parent's "
            f"{trial.parent_mean:.3g}"
            if trial.mean is not None and trial.parent_mean is not None
            else "no question could be judged"
        )
        _turn(candidate, event, "won its trial" if accepted else "lost its trial", means)

    def _questions(self, event: Fields) -> Iterator[OneQuestion]:
        names, texts = event.texts("questions"), event.maybe_texts("question_texts")
        before, after = event.numbers("parent_rewards"), event.numbers("rewards")
        if not len(names) == len(before) == len(after):
            raise Unreadable("questions")
        olds = self._kept(event.maybe_texts("parent_completions"), len(names))
        news = self._kept(event.maybe_texts("completions"), len(names))
        kept = self._kept(texts, len(names))
        for place, name in enumerate(names):
            if (text := kept[place]) is not None:
                self._run.questions.setdefault(name, text)
            yield OneQuestion(name, text, before[place], after[place], olds[place], news[place])

    def _kept(self, ids: list[str | None], count: int) -> list[str | None]:
        """The texts behind the ids, as far as they are known."""
        found = [self._texts.get(one) if one is not None else None for one in ids]
        return found if len(found) == count else [None] * count

    def _population(self, event: Fields) -> None:
        for described in event.objects("added"):
            member = self._described(described)
            why = "the user's own" if member.origin == "user" else "it joined the population"
            _turn(member, event, "in use", why)
        for name in event.texts("removed"):
            _turn(self._candidate(name), event, "dropped", "it left the population")
        self._run.population = event.texts("population")

    def _assigned(self, event: Fields) -> None:
        cover, questions = event.texts("cover"), event.texts("dev_questions")
        self._no_longer(event, set(cover), "a later search chose others")
        for described in event.objects("pool"):
            candidate = self._described(described)
            for question, reward in zip(questions, described.numbers("dev_scores"), strict=False):
                self._trial_scores.append((event.at, question, candidate.id, reward))
        for name in cover:
            _turn(self._candidate(name), event, "in use", "a search chose it for hard questions")

    def _without_templates(self, event: Fields) -> None:
        self._no_longer(event, set(), event.maybe("reason") or "the search failed")

    def _no_longer(self, event: Fields, chosen: set[str], why: str) -> None:
        for one in self._run.candidates.values():
            if (
                one.kind == "template"
                and one.fate == "in use"
                and one.turns
                and one.id not in chosen
            ):
                _turn(one, event, "dropped", why)

    def _joined(self, event: Fields) -> None:
        self._verdict(event, "in use")

    def _left(self, event: Fields) -> None:
        self._verdict(event, "dropped")

    def _verdict(self, event: Fields, fate: Fate) -> None:
        candidate = self._candidate(event.text("template"))
        candidate.text = candidate.text or event.maybe("text") or ""
        tried, solved = event.whole("tried"), event.whole("solved")
        unseen = event.whole("solved_unseen")
        why = (
            f"on trial {solved} of {tried} rollouts succeeded, {unseen} of them on questions that its "
            "proposer did not see"
        )
        _turn(candidate, event, fate, why)

    # Numbers

    def _weights(self, event: Fields) -> None:
        self._step(event).weights = event.by_name("weights")

    def _metrics(self, event: Fields) -> None:
        self._step(event).metrics = self._run.metrics = event.by_name("metrics")

    def _rewards(self, event: Fields) -> None:
        step = self._step(event)
        step.templated = event.inside("templated").number("reward")
        step.untemplated = event.inside("untemplated").number("reward")
        uses = []
        for row in event.rows("uses"):
            if len(row) != 4 or not isinstance(row[0], str) or not is_whole(row[2]):
                continue
            template, reward = row[1], number(row[3])
            if reward is not None and (template is None or isinstance(template, str)):
                uses.append((row[0], template, row[2], reward))
        step.uses = tuple(uses)
        bare, under = Score(), Score()
        for _, template, rollouts, reward in uses:
            (bare if template is None else under).add(rollouts, reward)
        step.hard_untemplated, step.hard_templated = bare.mean, under.mean

    # Inside

    def _step(self, event: Fields) -> Step:
        return self._run.steps.setdefault(event.at.step, Step(event.at.attempt))

    def _described(self, described: Fields) -> CandidateRecord:
        candidate = self._candidate(described.text("id"))
        if not candidate.kind:
            candidate.kind, candidate.text = described.text("kind"), described.text("text")
            candidate.origin = described.maybe("origin") or ""
            candidate.parents = tuple(described.texts("parents"))
        return candidate

    def _candidate(self, name: str) -> CandidateRecord:
        """Of an id that may be all that is left of it."""
        found = self._run.candidates.get(name)
        if found is None:
            found = self._run.candidates[name] = CandidateRecord(name, "", "", "", ())
        if name == EMPTY_TEMPLATE.id:
            found.kind, found.origin = "template", EMPTY_TEMPLATE.origin
        return found

    def _note(self, name: str, event: Fields) -> None:
        run = self._run
        run.others[name] = run.others.get(name, 0) + 1
        told = {
            key: value
            for key, value in event.values.items()
            if key not in ("time", "event", "attempt", "step")
        }
        text = json.dumps(told, ensure_ascii=False)[:_LONGEST_NOTE] if told else ""
        run.notes.append(Note(event.at, name, text))
        if len(run.notes) > 2 * _MOST_NOTES:
            del run.notes[:_MOST_NOTES]


def _turn(candidate: CandidateRecord, event: Fields, fate: Fate, why: str) -> None:
    candidate.turns.append(Turn(event.at, fate, why))


def _score(run: Run, question: str, template: str | None) -> Score:
    empty = template == EMPTY_TEMPLATE.id
    return run.scores.setdefault((question, None if empty else template), Score())
