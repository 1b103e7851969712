"""Check the end of a dry run: a page and a status, or a one-sentence error."""

from __future__ import annotations

from typing import Any

import pytest

from prompt_coevo import Coevolution, Settings
from prompt_coevo.adapters.common.columns import index_columns
from prompt_coevo.adapters.common.dry_run import Prepared, dry_run
from prompt_coevo.errors import DatasetError
from prompt_coevo.settings.method import Workload

ROWS = [{"prompt": f"What is {n} + {n}?", "answer": str(2 * n)} for n in range(4)]


def prepared(workload: Workload, **values: Any) -> Prepared:
    settings = Settings(reflection={"function": str}, **values)
    engine = Coevolution.from_settings(settings)
    return Prepared(engine, index_columns(ROWS, settings), workload)


def status(prepare: Any) -> Any:
    with pytest.raises(SystemExit) as raised:
        dry_run(prepare)
    return raised.value.code


def test_a_run_that_may_come_to_something(capsys: pytest.CaptureFixture[str]) -> None:
    found = prepared(Workload(questions=4, group_size=4, epochs=3.0, steps=12))
    assert status(lambda: found) == 0
    page = capsys.readouterr().out
    assert "4 questions" in page
    assert "none was made: a dry run ends before the workers start" in page
    assert "no problem" in page.splitlines()[-1]


def test_one_that_will_not(capsys: pytest.CaptureFixture[str]) -> None:
    one_epoch = Workload(questions=4, group_size=4, epochs=1.0, steps=4)
    found = prepared(one_epoch, stream={"first_sight": False})
    assert status(lambda: found) == 1
    assert "no template will ever be used, because" in " ".join(capsys.readouterr().out.split())


def test_an_error_of_ours_is_one_sentence() -> None:
    def prepare() -> Prepared:
        raise DatasetError("the training dataset is empty")

    assert status(prepare) == "error: the training dataset is empty"


def test_an_error_of_the_host_is_one_sentence_too() -> None:
    def prepare() -> Prepared:
        raise FileNotFoundError("no file\nat \x1b[31mthis path")

    assert status(prepare) == (
        "error: model or dataset cannot be read: FileNotFoundError: no file at ⟨U+001B⟩[31mthis path"
    )
