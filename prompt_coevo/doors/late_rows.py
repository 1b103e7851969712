"""Questions that training meets and nobody knew: learned, and forgotten again, on all ranks alike."""

from __future__ import annotations

from collections.abc import Sequence

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

        No question of this round is forgotten, because it is about to be trained on. Raises DatasetError
        for a row that cannot be used, on every rank.
        """
        mine = dict(zip(ids, rows, strict=True))
        questions, ranks = self._questions, self._engine.ranks
        new = {one: row for one, row in mine.items() if one not in questions}
        if questions.streamed:
            for one, row in mine.items():
                if one not in new:
                    questions.learn(row)  # raises for an id that is another question's
        parts = ranks.gather([([one for one in mine if one in questions.late], list(new.values()))])
        for back, _ in parts:
            questions.came(back)
        late = [row for _, rows_of_one in parts for row in rows_of_one]
        if not late:
            return
        known = len(questions)
        for row in late:
            questions.learn(row)
        engine = self._engine.engine
        if engine is not None and len(questions) > known:
            engine.questions_learned(self._policy)
        gone: list[str] | None = None
        if ranks.is_main and questions.overfull:
            in_use = set() if engine is None else engine.questions_in_use()
            this_round = {one for back, _ in parts for one in back}
            this_round.update(questions.id_of(row) for row in late)
            gone = questions.to_forget(in_use, this_round)
        gone = ranks.broadcast(gone)
        if gone is not None:
            questions.forget(gone)
