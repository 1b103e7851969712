"""Questions with worked answers from a file of lines, for a larger model: GSM8K, MATH and their like.

A line is a JSON object with `question` and `answer`, or `problem` and `solution`. An answer ends with
`#### 72` or has `\\boxed{72}`; math-verify compares.
"""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from store import ResultsError

from prompt_coevo.demo.unnamed.tasks import Questions, Task

HELD_OUT: Final = 200
FAMILY: Final = "questions"


def from_file(file: Path, seed: int, most_tokens: int) -> Questions:
    """Read the questions, and hold some of them out. Raises ResultsError for a file that is none."""
    tasks = [_task(file, number, line) for number, line in enumerate(_lines(file), start=1)]
    reward = _verifier()
    for number, task in enumerate(tasks, start=1):
        if not reward(task.answer, task.answer):
            raise ResultsError(
                f"{file}, question {number}: math-verify reads no answer in {task.answer!r}"
            )
    if len({task.question for task in tasks}) < len(tasks):
        raise ResultsError(f"{file}: a question stands there twice; the held-out ones must be new")
    held_out = min(HELD_OUT, len(tasks) // 4)
    if not held_out:
        raise ResultsError(f"{file} has {len(tasks)} questions; four is the least")
    random.Random(f"{file.name}/{seed}").shuffle(tasks)
    return Questions(
        training=tuple(tasks[held_out:]),
        held_out=tuple(tasks[:held_out]),
        reward=reward,
        hard=(FAMILY,),
        most_tokens=most_tokens,
    )


def _lines(file: Path) -> Sequence[str]:
    try:
        return [line for line in file.read_text("utf-8-sig").split("\n") if line.strip()]
    except OSError as error:
        raise ResultsError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ResultsError(f"{file} is not in UTF-8") from None


def _task(file: Path, number: int, line: str) -> Task:
    try:
        row = json.loads(line)
        question = row["question"] if "question" in row else row["problem"]
        answer = row["answer"] if "answer" in row else row["solution"]
        return Task(str(question), str(answer).rpartition("####")[2].strip(), FAMILY)
    except (ValueError, KeyError, TypeError):
        raise ResultsError(
            f"{file}, line {number}: not a JSON object with question and answer, or problem and solution"
        ) from None


def _verifier() -> Callable[[str, str], float]:
    try:
        from math_verify import parse, verify
    except ImportError:
        raise ResultsError(
            "questions from a file are judged by math-verify: pip install math-verify"
        ) from None

    read = functools.lru_cache(maxsize=None)(parse)

    def reward(completion: str, answer: str) -> float:
        """Return 1 if both are the same. What takes a second to compare is wrong."""
        said = parse(completion, parsing_timeout=1)
        return float(verify(read(answer), said, timeout_seconds=1))

    return reward
