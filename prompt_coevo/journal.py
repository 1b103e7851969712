"""The run's append-only event log, `events.jsonl`."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prompt_coevo.cover import TemplateCover
from prompt_coevo.errors import SettingsError
from prompt_coevo.markers import PROJECT, hookimpl
from prompt_coevo.proposals import Proposal
from prompt_coevo.search import SearchResult
from prompt_coevo.trials import Trial
from prompt_coevo.types import Candidate

logger = logging.getLogger(PROJECT)

# A rejected candidate can have any length.
_LONGEST_TEXT = 100_000


class Journal:
    """Appends one JSON object per line. Without a folder it forgets everything.

    A line that cannot be written (a full disk, say) is reported once and does not stop the run. Raises
    SettingsError if the folder cannot be written to at the start.
    """

    def __init__(self, folder: Path | None) -> None:
        self.path = folder / "events.jsonl" if folder else None
        self._failed = False
        self._lock = threading.Lock()
        if self.path is not None:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                _end_last_line(self.path)
            except OSError as error:
                raise SettingsError(
                    f"the output directory {self.path.parent} cannot be written to: "
                    f"{error.strerror}; "
                    "give the trainer another one"
                ) from None

    def write(self, events: Sequence[dict[str, Any]], *, sync: bool = False) -> None:
        """Append events, from any thread; with `sync` they are on the disk when this returns."""
        if self.path is None:
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        lines = [json.dumps({"time": now, **event}, default=str) + "\n" for event in events]
        try:
            with self._lock, self.path.open("a", encoding="utf-8") as file:
                file.writelines(lines)
                if sync:
                    file.flush()
                    os.fsync(file.fileno())
        except OSError as error:
            if not self._failed:
                logger.warning("the journal %s cannot be written: %s", self.path, error)
            self._failed = True

    def read(self) -> Iterator[dict[str, Any]]:
        """All events so far; a line cut short by a crash is passed over."""
        if self.path is None:
            return
        with self.path.open(encoding="utf-8") as file:
            for line in file:
                try:
                    event = json.loads(line)
                except ValueError:
                    continue
                if isinstance(event, dict):
                    yield event


def _end_last_line(path: Path) -> None:
    """A crash may have cut the last line short; the next one must not be glued to it."""
    with path.open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")


class JournalSink:
    """The plugin that turns event hooks into journal lines."""

    def __init__(self, note: Callable[..., None]) -> None:
        self._note = note

    @hookimpl
    def coevo_after_candidate_checked(
        self, candidate: Candidate | None, proposal: Proposal, reason: str | None
    ) -> None:
        self._note(
            "candidate_checked",
            candidate=_described(candidate) if candidate else None,
            parent=proposal.request.parent.id,
            accepted=reason is None,
            reason=reason,
            request=proposal.request_hash,
            finish_reason=proposal.reply.finish_reason,
        )

    @hookimpl
    def coevo_after_candidate_verified(self, trial: Trial, accepted: bool) -> None:
        self._note(
            "candidate_verified",
            candidate=trial.child.id,
            parent=trial.parent.id,
            accepted=accepted,
            questions=trial.question_ids,
            parent_rewards=trial.parent_rewards,
            rewards=trial.child_rewards,
        )

    @hookimpl
    def coevo_after_population_changed(
        self,
        population: Sequence[Candidate],
        added: Sequence[Candidate],
        removed: Sequence[Candidate],
    ) -> None:
        self._note(
            "population_changed",
            population=[candidate.id for candidate in population],
            added=[_described(candidate) for candidate in added],
            removed=[candidate.id for candidate in removed],
        )

    @hookimpl
    def coevo_after_templates_assigned(
        self, cover: TemplateCover | None, result: SearchResult
    ) -> None:
        pool = result.pool
        self._note(
            "templates_assigned",
            stopped=result.stopped,
            failed=result.failed,
            spent=result.spent,
            overshoot=result.overshoot,
            rollouts=result.rollouts,
            waves=result.waves,
            proposals=result.proposals,
            accepted=result.accepted,
            dev_questions=pool.sample_ids,
            pool=[
                {**_described(candidate), "dev_scores": row}
                for candidate, row in zip(pool.candidates, pool.scores.tolist(), strict=True)
            ],
            cover=[candidate.id for candidate in cover.templates] if cover else [],
            hard_questions=len(cover.hard_ids) if cover else 0,
        )

    @hookimpl
    def coevo_on_reflection_error(self, proposal: Proposal) -> None:
        self._note("reflection_error", request=proposal.request_hash, error=proposal.reply.error)

    @hookimpl
    def coevo_on_state_saved(self, state: dict[str, Any]) -> None:
        self._note("state_saved", checksum=state["checksum"])


def _described(candidate: Candidate) -> dict[str, Any]:
    return {
        "id": candidate.id,
        "kind": candidate.kind,
        "text": candidate.text[:_LONGEST_TEXT],
        "origin": candidate.origin,
        "parents": candidate.parents,
    }
