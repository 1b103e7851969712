"""Learn questions when training first meets them, and forget them again, alike on all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from prompt_coevo.adapters.common.questions import QuestionIndex
from prompt_coevo.adapters.common.rows import Row
from prompt_coevo.adapters.trl.ranked_engine import RankedEngine
from prompt_coevo.errors import DatasetError
from prompt_coevo.policy import Policy


class _Part(NamedTuple):
    """One rank's message to the others."""

    refused: str | None = None
    """Why a row cannot be used. All ranks raise it together; if one did alone, the others would wait."""
    back: Sequence[str] = ()
    """Ids of late questions that come again."""
    new: Sequence[Row] = ()
    """Rows of unknown questions. Two may have one id; `learn` sorts that out."""


class LateRows:
    """Keeps late questions. Every rank calls `meet` with its rows before a round is planned."""

    def __init__(self, questions: QuestionIndex, engine: RankedEngine, policy: Policy) -> None:
        self._questions = questions
        self._engine = engine
        self._policy = policy

    def meet(self, rows: Sequence[Row]) -> None:
        """Learn the questions of all ranks' rows; `rows` are this rank's.

        Questions of this round are not forgotten, because they are about to be trained on. Raises
        DatasetError for a row that cannot be used, on every rank.
        """
        questions, ranks = self._questions, self._engine.ranks
        parts = ranks.gather([self._part(rows)])
        for part in parts:
            if part.refused is not None:
                raise DatasetError(part.refused)
        for part in parts:
            questions.came(part.back)
        late = [row for part in parts for row in part.new]
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
            this_round = {one for part in parts for one in part.back}
            this_round.update(questions.id_of(row) for row in late)
            gone = questions.to_forget(in_use, this_round)
        gone = ranks.broadcast(gone)
        if gone is not None:
            questions.forget(gone)

    def _part(self, rows: Sequence[Row]) -> _Part:
        questions = self._questions
        back: dict[str, None] = {}
        new: list[Row] = []
        for row in questions.distinct(rows):
            if (question_id := questions.id_of(row)) not in questions:
                new.append(row)
                continue
            if questions.streamed:
                try:
                    questions.learn(row)  # raises if the id belongs to another question
                except DatasetError as error:
                    return _Part(str(error))
            if question_id in questions.late:
                back[question_id] = None
        return _Part(back=[*back], new=new)
