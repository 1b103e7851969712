"""Check that a run reports how many questions have similar ones."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from helpers.families import Families, engine_with, resumed
from helpers.likeness import SharedValue
from prompt_coevo import Coevolution, Settings
from prompt_coevo.algorithms.stream.evidence import Evidence
from prompt_coevo.algorithms.stream.lookalikes import tell_lookalikes
from prompt_coevo.types import Question


class Unlike(Families):
    """Give the first `alike` questions a common word, and the others none."""

    alike = 0

    def question(self, question_id: str) -> Question:
        text = f"{'same ' if int(question_id[1:]) < self.alike else ''}word{question_id}"
        return Question(question_id, text, "answer")


@pytest.fixture(autouse=True)
def heard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    lines = [
        (one.levelname, one.getMessage())
        for one in caplog.records
        if one.getMessage().startswith("stream: ") and "like them" in one.getMessage()
    ]
    caplog.clear()
    return lines


def test_one_line_at_the_start_of_a_run_and_of_a_resumed_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    policy, engine = Families(), engine_with()
    engine.begin(policy)
    line = ("INFO", "stream: 32 of 32 questions have others like them")
    assert said(caplog) == [line]
    resumed(engine, policy)
    assert said(caplog) == [line]


@pytest.mark.parametrize(
    ("count", "alike", "likeness", "level"),
    [
        (150, 0, "words", "WARNING"),
        (150, 3, "words", "WARNING"),
        (150, 4, "words", None),
        (99, 0, "words", "INFO"),
        (150, 0, "none", "INFO"),
        (1, 0, "words", None),
    ],
)
def test_where_hardly_any_is_alike_it_says_what_follows(
    count: int, alike: int, likeness: str, level: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    policy = Unlike(count=count)
    policy.alike = alike
    engine_with(stream={"likeness": likeness}).begin(policy)
    lines = said(caplog)
    if level is None:
        assert [line for _, line in lines if "stream.likeness" in line] == []
        return
    ((found, line),) = lines
    assert found == level
    assert line.startswith(f"stream: {alike} of {count} questions")
    for name in (f"stream.likeness = {likeness!r}", "stream.proof", "overall", "says little"):
        assert name in line


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([0, 0, 1, None], "stream: 2 of 4 questions have others like them"),
        ([0] * 1_000, "stream: 1 000 of 1 000 questions have others like them"),
        ([0] * 2_500, "stream: about 2 500 of 2 500 questions have others like them"),
    ],
)
def test_of_many_questions_a_part_is_looked_at(
    values: Sequence[int | None], line: str, caplog: pytest.LogCaptureFixture
) -> None:
    context = engine_with().context
    tell_lookalikes(context, Evidence(len(values), SharedValue(values)), len(values))
    assert said(caplog) == [("INFO", line)]


def test_the_part_stands_for_all_of_them(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    values = [n % 3 if n % 10 < 4 else None for n in range(3_000)]
    engine = Coevolution.from_settings(Settings(reflection={"function": str}), output_dir=tmp_path)
    tell_lookalikes(engine.context, Evidence(3_000, SharedValue(values)), 3_000)
    (journal,) = tmp_path.rglob("events.jsonl")
    (noted,) = [
        event
        for event in map(json.loads, journal.read_text("utf-8").splitlines())
        if event["event"] == "lookalikes"
    ]
    assert (noted["questions"], noted["looked_at"]) == (3_000, 1_000)
    assert abs(noted["alike"] - 400) < 60
    ((_, line),) = said(caplog)
    assert (
        line
        == f"stream: about {3 * noted['alike']:,} of 3 000 questions have others like them".replace(
            ",", " "
        )
    )
