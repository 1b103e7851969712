"""Fold a journal's events, one after another, into the history of a run's candidates.

Trackers use it during training, so it imports nothing heavy and keeps only the candidates' texts. `fold.py`
adds the rest for the report.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from prompt_coevo.engine.journal import FORMAT
from prompt_coevo.lines import JSON
from prompt_coevo.preflight.page import plural
from prompt_coevo.report.fields import Fields, Unreadable
from prompt_coevo.report.run import (
    CandidateRecord,
    Check,
    Evidence,
    Fate,
    Judged,
    Moment,
    OneQuestion,
    Run,
    RunError,
    Step,
    TrialRecord,
    Turn,
    mean,
)
from prompt_coevo.types import EMPTY_TEMPLATE

_KEPT: Final = "begun", "last", "attempts", "events", "damaged", "lost", "calls", "requests"
"""The fields that are kept when another run begins in the folder."""
_UNDATED: Final = frozenset({"gap", "text", "reward_chosen"})


class _Dated(Protocol):
    @property
    def at(self) -> Moment: ...


class Lineage:
    """Takes a journal's events in order; `run` is the result so far: candidates with their fates, and the
    instructions' weights.

    A method `_on_NAME` handles the events with that name.
    """

    def __init__(self, folder: object = "") -> None:
        self.run = Run(str(folder))
        self.before: Run | None = None
        """The latest run in the folder that had trained when the current one began."""
        self._texts: dict[str, str] = {}
        self._saved: dict[int, int] = {}
        """By step: the number of the event that says that its state was saved."""

    def take(self, event: Mapping[str, JSON] | None) -> bool:
        """Take an event, or None for an unreadable line. Count a damaged one and return False.

        Raise RunError for the journal of another version.
        """
        name = event.get("event") if event is not None else None
        if event is None or not isinstance(name, str):
            self.run.damaged += 1
            return False
        self.run.events += 1
        fields = Fields(event, self.run.events)
        last = self.run.last
        if name not in _UNDATED:
            self.run.last = fields.at
        if name == "run_begins" and self.run.steps:
            self.before = replace(self.run, last=last)
        handle = getattr(self, f"_on_{name}", self._on_other)
        try:
            handle(fields)
        except Unreadable:
            self.run.damaged += 1
            return False
        return True

    def _on_other(self, event: Fields) -> None:
        """Handle an event that has no method."""

    # What a run is

    def _on_run_begins(self, event: Fields) -> None:
        """Begin a new run. Of an earlier one in the folder, keep the calls, because they cost."""
        check_format(event, self.run.folder)
        old = self.run
        if old.attempts:
            self.run = Run(old.folder, **{name: getattr(old, name) for name in _KEPT})
            self._saved = {}
        self._attempt(event)

    def _on_resumed(self, event: Fields) -> None:
        check_format(event, self.run.folder)
        if self.run.attempts:
            self._undo(event.at)
        self._attempt(event)

    def _attempt(self, event: Fields) -> None:
        run, at = self.run, event.at
        run.begun = run.begun or at.time
        run.settings = dict(event.inside("settings").values)
        run.noted = dict(event.inside("noted").values)
        run.ended, run.ending, run.refused = False, None, None
        run.attempts.append(at)

    def _on_state_saved(self, event: Fields) -> None:
        self._saved[event.at.step] = event.at.place

    def _undo(self, at: Moment) -> None:
        """Undo what came after the step whose state was resumed; the run does it again."""
        run, saved = self.run, self._saved.get(at.step)
        self._saved = {step: place for step, place in self._saved.items() if step <= at.step}

        def counts(one: _Dated) -> bool:
            if one.at.step != at.step:
                return one.at.step < at.step
            # Without a saved state, decisions before the first step are made again.
            return one.at.place <= saved if saved is not None else at.step > 0

        run.steps = {number: step for number, step in run.steps.items() if number <= at.step}
        run.empty_replies = list(filter(counts, run.empty_replies))
        run.judged = list(filter(counts, run.judged))
        for one in run.candidates.values():
            one.checks = list(filter(counts, one.checks))
            one.trials = list(filter(counts, one.trials))
            one.evidence = list(filter(counts, one.evidence))
            kept = list(filter(counts, one.turns))
            if one.turns and not kept:
                why = f"attempt {at.attempt} resumed from step {at.step}, before it"
                kept = [Turn(at, "undone", why)]
            one.turns = kept

    # Candidates

    def _on_candidate_checked(self, event: Fields) -> None:
        reason, described = event.maybe("reason"), event.inside("candidate")
        check = Check(event.at, event.text("request"), reason)
        if not described.values:
            self.run.empty_replies.append(check)
            return
        candidate = self._described(described, event)
        candidate.checks.append(check)
        # A known candidate that is proposed again keeps its fate: it is not tried again.
        if not candidate.turns or candidate.fate in ("refused", "undone"):
            if reason is None:
                _turn(candidate, event, "on trial", "it passed the gates")
            else:
                _turn(candidate, event, "refused", reason)

    def _on_candidate_verified(self, event: Fields) -> None:
        candidate, at = self._candidate(event.text("candidate")), event.at
        accepted, questions = event.true("accepted"), tuple(self._questions(event))
        trial = TrialRecord(at, event.text("parent"), accepted, questions)
        candidate.trials.append(trial)
        if candidate.kind == "template":
            self.run.judged += [Judged(at, one.id, candidate.id, one.reward) for one in questions]
        means = (
            f"mean reward {trial.mean:.3g} on {plural(len(questions), 'question')}, its parent's "
            f"{trial.parent_mean:.3g}"
            if trial.mean is not None and trial.parent_mean is not None
            else "no question could be judged"
        )
        _turn(candidate, event, "won its trial" if accepted else "lost its trial", means)

    def _questions(self, event: Fields) -> Iterator[OneQuestion]:
        names, before, after = (
            event.items("questions", str),
            event.numbers("parent_rewards"),
            event.numbers("rewards"),
        )
        if not len(names) == len(before) == len(after):
            raise Unreadable("questions")
        texts = self._kept(event, "question_texts", len(names))
        olds = self._kept(event, "parent_completions", len(names))
        news = self._kept(event, "completions", len(names))
        for name, text, *rest in zip(names, texts, before, after, olds, news, strict=True):
            if text is not None:
                self.run.questions.setdefault(name, text)
            yield OneQuestion(name, text, *rest)

    def _kept(self, event: Fields, field: str, count: int) -> list[str | None]:
        """Return the texts of the ids in a field, None where a text is unknown."""
        found = [
            self._texts.get(one) if isinstance(one, str) else None
            for one in event.items(field, object)
        ]
        return found if len(found) == count else [None] * count

    def _on_population_changed(self, event: Fields) -> None:
        for described in event.objects("added"):
            member = self._described(described, event)
            why = "the user's own" if member.origin == "user" else "it joined the population"
            _turn(member, event, "in use", why)
        left = "it left the population"
        for name in event.items("removed", str):
            _turn(self._candidate(name), event, "dropped", left)
        # And others, in case the line that removed them is lost.
        self._out_of_use(event, "instruction", event.items("population", str), left)

    def _on_templates_assigned(self, event: Fields) -> None:
        cover, questions, at = (
            event.items("cover", str),
            event.items("dev_questions", str),
            event.at,
        )
        self._out_of_use(event, "template", cover, "a later search chose others")
        for described in event.objects("pool"):
            candidate = self._described(described, event)
            rewards = described.numbers("dev_scores")
            self.run.judged += [
                Judged(at, question, candidate.id, reward)
                for question, reward in zip(questions, rewards, strict=False)
            ]
            words = f"mean dev score {mean(rewards) or 0.0:.3f}"
            candidate.evidence.append(Evidence(at, words))
            spare = candidate.id not in (*cover, EMPTY_TEMPLATE.id)
            if spare and candidate.fate != "dropped":
                _turn(candidate, event, "dropped", "a search did not choose it")
        for name in cover:
            _turn(self._candidate(name), event, "in use", "a search chose it for hard questions")

    def _on_search_skipped(self, event: Fields) -> None:
        self._out_of_use(event, "template", [], event.maybe("reason") or "the search failed")

    _on_search_failed = _on_search_skipped

    def _out_of_use(self, event: Fields, kind: str, but: Sequence[str], why: str) -> None:
        for one in self.run.candidates.values():
            if one.kind == kind and one.fate == "in use" and one.id not in but:
                _turn(one, event, "dropped", why)

    def _on_instruction_weights(self, event: Fields) -> None:
        self._step(event).weights = event.by_name("weights")

    def _on_template_joined(self, event: Fields) -> None:
        self._tried(event, "in use")

    def _on_template_dropped(self, event: Fields) -> None:
        self._tried(event, "dropped")

    def _tried(self, event: Fields, fate: Fate) -> None:
        described = {"kind": "template", "text": event.maybe("text") or ""}
        candidate = self._described(Fields({"id": event.text("template"), **described}), event)
        tried, solved = event.whole("tried"), event.whole("solved")
        unseen = event.whole("solved_unseen")
        why = (
            f"on trial {solved} of {tried} rollouts succeeded, {unseen} of them on questions that its "
            "proposer did not see"
        )
        _turn(candidate, event, fate, why)
        words = f"solved {solved} of {tried} in its trial"
        candidate.evidence.append(Evidence(event.at, words))

    # Inside

    def _step(self, event: Fields) -> Step:
        return self.run.steps.setdefault(event.at.step, Step())

    def _described(self, described: Fields, event: Fields) -> CandidateRecord:
        """Return a described candidate. Its first description counts, or the first after it was undone."""
        candidate = self._candidate(described.text("id"))
        if not candidate.kind or candidate.fate == "undone":
            candidate.born = event.at
        if not candidate.origin:
            candidate.kind = described.text("kind")
            candidate.text = described.text("text") or candidate.text
            candidate.origin = described.maybe("origin") or ""
            candidate.parents = tuple(described.items("parents", str))
        return candidate

    def _candidate(self, name: str) -> CandidateRecord:
        """Return the candidate with an id. Create it if the journal has no description."""
        found = self.run.candidates.get(name)
        if found is None:
            found = self.run.candidates[name] = CandidateRecord(name)
        if name == EMPTY_TEMPLATE.id:
            found.kind, found.origin = "template", EMPTY_TEMPLATE.origin
        return found


def check_format(event: Fields, folder: object) -> None:
    """Check an event that begins or resumes a run. Raise RunError for another version's journal."""
    if event.values.get("journal") != FORMAT:
        noted = event.values.get("noted")
        wrote = noted.get("versions.prompt-coevo") if isinstance(noted, dict) else None
        told = event.values.get("journal", "none")
        raise RunError(
            f"the journal in {folder} has format {told!r}, this version reads format "
            f"{FORMAT}; use the prompt-coevo that wrote it ({wrote or 'an unknown version'})"
        )


def _turn(candidate: CandidateRecord, event: Fields, fate: Fate, why: str) -> None:
    candidate.turns.append(Turn(event.at, fate, why))
