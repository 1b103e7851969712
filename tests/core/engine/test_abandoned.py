"""Check that a run which its trainer abandons leaves nothing running."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from prompt_coevo import Coevolution, Settings
from prompt_coevo.threads import in_thread

LONG = 1000.0


class Teacher:
    """Wait with its answers until `may` is set."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.begun, self.may = threading.Event(), threading.Event()

    def __call__(self, prompt: str) -> str:
        self.asked.append(prompt)
        self.begun.set()
        assert self.may.wait(LONG)
        return "a reply"


def engine(teacher: Teacher, folder: Path) -> Coevolution:
    settings = Settings(reflection={"function": teacher, "total_timeout_s": LONG})
    return Coevolution.from_settings(settings, output_dir=folder)


def lines(folder: Path) -> list[str]:
    written = (folder / "coevo" / "calls.jsonl").read_text().splitlines()
    return [json.loads(line)["event"] for line in written]


@pytest.mark.parametrize("in_time", [True, False])
def test_background_work_ends_with_the_account(in_time: bool, policy: Any, tmp_path: Path) -> None:
    teacher = Teacher()
    made = engine(teacher, tmp_path)
    made.begin(policy)
    model = made.context.language_model()
    work = in_thread(lambda: model.complete(["one", "two"]))
    assert teacher.begun.wait(LONG)
    if in_time:
        leaving = in_thread(lambda: made.context.abandon(LONG))
        while model.refusal() is None:
            time.sleep(0.01)
        assert not leaving.done()
        teacher.may.set()
        leaving.result(LONG)
        assert lines(tmp_path) == ["run", "asked", "answered", "run_ended"]
    else:
        made.context.abandon(0.0)
        assert lines(tmp_path) == ["run", "asked", "run_ended"]
        teacher.may.set()
    first, second = work.result(LONG)
    assert first.text == "a reply"
    assert second.error == "the run was given up, so no more calls are made"
    assert teacher.asked == ["one"]
    assert sorted(lines(tmp_path)) == ["answered", "asked", "run", "run_ended"]
    assert made.metrics()["coevo/reflection_calls"] == 1


def test_a_run_that_never_began_has_no_account_to_end(tmp_path: Path) -> None:
    made = engine(Teacher(), tmp_path)
    made.context.abandon()
    assert not (tmp_path / "coevo" / "calls.jsonl").exists()
