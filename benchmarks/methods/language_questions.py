"""Read questions with worked answers from a file of lines, for a larger model: GSM8K, MATH and similar.

A line is a JSON object with `question` and `answer`, or `problem` and `solution`. An answer ends with
`#### 72` or has `\\boxed{72}`; math-verify compares.

Or every line has `question`, `pattern` and `family`: a right completion matches the regular expression from
its first to its last letter (white space at its ends aside, a dot matches line breaks). Half of each family
is held out. `"plain": true` marks a family that the policy answers without help.
"""

from __future__ import annotations

import functools
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from store import ResultsError

from prompt_coevo.demo.unnamed.arms import QUESTIONS_PER_STEP
from prompt_coevo.demo.unnamed.tasks import Questions, Task, matches

HELD_OUT: Final = 200
FAMILY: Final = "questions"


def from_file(file: Path, seed: int, most_tokens: int) -> Questions:
    """Read the questions, and hold some of them out. Raises ResultsError for an invalid file, or one with
    too few questions to train on."""
    lines = lines_of(file)
    first = next(iter(lines.values()), "")
    read = _with_patterns if '"pattern"' in first else _with_answers
    questions = read(file, lines, seed, most_tokens)
    if (left := len(questions.training)) < QUESTIONS_PER_STEP:
        raise ResultsError(
            f"{file}: too few questions: {left} to train on, where a step takes {QUESTIONS_PER_STEP}"
        )
    return questions


def _with_answers(file: Path, lines: Mapping[int, str], seed: int, most_tokens: int) -> Questions:
    tasks = [_task(file, number, line) for number, line in lines.items()]
    reward = _verifier()
    for number, task in zip(lines, tasks, strict=True):
        if not reward(task.answer, task.answer):
            raise ResultsError(
                f"{file}, line {number}: math-verify reads no answer in {task.answer!r}"
            )
    _check_distinct(file, tasks)
    held_out = min(HELD_OUT, len(tasks) // 4)
    random.Random(f"{file.name}/{seed}").shuffle(tasks)
    return Questions(
        training=tuple(tasks[held_out:]),
        held_out=tuple(tasks[:held_out]),
        reward=reward,
        hard=(FAMILY,),
        most_tokens=most_tokens,
    )


def _with_patterns(file: Path, lines: Mapping[int, str], seed: int, most_tokens: int) -> Questions:
    families: dict[str, list[Task]] = {}
    plain = set[str]()
    for number, line in lines.items():
        try:
            row = json.loads(line)
            task = Task(str(row["question"]), str(row["pattern"]), str(row["family"]))
            re.compile(task.answer)
        except (ValueError, KeyError, TypeError, re.error):
            raise ResultsError(
                f"{file}, line {number}: not a JSON object with question, pattern and family, the pattern "
                "a regular expression"
            ) from None
        families.setdefault(task.family, []).append(task)
        if row.get("plain"):
            plain.add(task.family)
    _check_distinct(file, [task for tasks in families.values() for task in tasks])
    hard = tuple(name for name in families if name not in plain)
    if not hard or min(map(len, families.values())) < 2:
        raise ResultsError(
            f"{file}: a family that is not plain is needed, and two questions of each"
        )
    training, held_out = list[Task](), list[Task]()
    rng = random.Random(f"{file.name}/{seed}")
    for tasks in families.values():
        rng.shuffle(tasks)
        held_out += tasks[: len(tasks) // 2]
        training += tasks[len(tasks) // 2 :]
    return Questions(training, held_out, matches, hard, most_tokens)


def _check_distinct(file: Path, tasks: Sequence[Task]) -> None:
    ((question, times),) = Counter(task.question for task in tasks).most_common(1) or [("", 0)]
    if times > 1:
        raise ResultsError(
            f"{file}: the question {question[:60]!r} is there {times} times; the held-out ones must be new"
        )


def lines_of(file: Path) -> dict[int, str]:
    """Read the non-empty lines of a file, by number. Raises ResultsError if it cannot be read."""
    try:
        lines = enumerate(file.read_text("utf-8-sig").split("\n"), start=1)
        return {number: line for number, line in lines if line.strip()}
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
        """Return 1 if both are the same. A comparison that takes a second counts as wrong."""
        said = parse(completion, parsing_timeout=1)
        return float(verify(read(answer), said, timeout_seconds=1))

    return reward
