"""Write a worked solution of each question, as a dataset might have it, with the answer at its end."""

from __future__ import annotations

from typing import Final

from prompt_coevo.demo.unnamed.tasks import Task

_SENTENCES: Final = {
    "capital of a country": "The capital of {item} is {answer}.",
    "opposite of a word": "The opposite of {item} is {answer}.",
    "mood of a review": "This review is {answer}.",
    "plural of a noun": "The plural of {item} is {answer}.",
    "symbol of an element": "The symbol of {item} is {answer}.",
    "fruit or vegetable": "The {item} is a {answer}.",
    "capital, asked": "The capital of {item} is {answer}.",
    "sum, asked": "{item} = {answer}",
}


def solution(task: Task) -> str:
    """Write the solution of a built-in question. Raises KeyError for a family from a file."""
    item = task.question.rpartition(": ")[2].removesuffix("?")
    for asked in ("What is the capital of ", "What is "):
        item = item.removeprefix(asked)
    return _SENTENCES[task.family].format(item=item, answer=task.answer)
