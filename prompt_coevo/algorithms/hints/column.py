"""Read hints from the dataset's column, and check that they can help."""

from __future__ import annotations

from prompt_coevo.algorithms.hints.settings import HintSettings
from prompt_coevo.candidates.leaks import some_questions
from prompt_coevo.errors import DatasetError
from prompt_coevo.policy import Policy
from prompt_coevo.types import Question


def named(column: str) -> str:
    """Name the column, for error messages."""
    return f"the column {column!r} (hints.column)"


def hint_of(question: Question, column: str) -> str:
    """Read a question's hint; empty if it has none. Raises DatasetError if it is not text."""
    text = question.columns.get(column)
    if not isinstance(text, str | None):
        raise DatasetError(
            f"the column {column!r} of question {question.id!r} holds a {type(text).__name__}; "
            "hints.column must name one with texts"
        )
    return (text or "").strip()


def is_answer(question: Question, text: str) -> bool:
    """Return True if the text is the right answer, ignoring case, extra spaces and a final full stop. An
    empty text is not."""
    return bool(text) and _plain(text) == _plain(question.ground_truth or "")


def unusable(settings: HintSettings, policy: Policy) -> str | None:
    """Look at 512 questions at most and say why their hints cannot help; return None if some can."""
    questions = some_questions(policy)
    try:
        hints = [(one, text) for one in questions if (text := hint_of(one, settings.column))]
    except DatasetError as error:
        return str(error)
    if questions and not hints:
        return (
            f"{named(settings.column)} is empty in all {len(questions)} rows that were looked at; name a "
            "column with solutions or hints"
        )
    if hints and all(is_answer(*pair) for pair in hints):
        return (
            f"{named(settings.column)} holds the right answers themselves in all {len(hints)} rows that "
            "were looked at, so rollouts would copy them; name a column with solutions or hints"
        )
    return None


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).removesuffix(".")
