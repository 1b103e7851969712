"""Questions that training meets and nobody knew: learned, and forgotten again, on all ranks alike."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from prompt_coevo.doors.questions import QuestionIndex
from prompt_coevo.doors.ranked_engine import RankedEngine
from prompt_coevo.doors.rows import Row
from prompt_coevo.policy import Policy


class LateRows:
    """Every rank calls `meet` with its rows of a round, before the round is planned."""

    def __init__(self, questions: QuestionIndex, engine: RankedEngine, policy: Policy) -> None:
        self._questions = questions
        self._engine = engine
        self._policy = policy

    def meet(self, ids: Sequence[str], rows: Sequence[Row]) -> None:
        """Learn the questions of these rows, this rank's, and of the other ranks' rows.

        Raises DatasetError for a row that cannot be used, on every rank.
        """
        mine = dict(zip(ids, rows, strict=True))
        questions = self._questions
        new = {one: row for one, row in mine.items() if one not in questions}
        if questions.streamed:
            for one, row in mine.items():
                if one not in new:
                    questions.learn(row)  # raises for an id that is another question's
        late = [row for part in self._engine.ranks.gather([list(new.values())]) for row in part]
        if not late:
            return
        known = len(questions)
        for row in late:
            questions.learn(row)
        if self._engine.engine is not None and len(questions) > known:
            self._engine.engine.questions_learned(self._policy)
        if questions.overfull:
            in_use: Collection[str] | None = None
            if self._engine.engine is not None:
                in_use = self._engine.engine.questions_in_use()
            questions.forget(self._engine.ranks.broadcast(in_use))
