from __future__ import annotations

from typing import Any

import pytest
from datasets import Dataset

from prompt_coevo.doors.rows import rows_of

ROWS = [
    {"prompt": [{"role": "user", "content": f"{n}?"}], "answer": str(n), "n": n, "x": {"y": [n]}}
    for n in range(2_500)
]


def odd(dataset: Dataset) -> Dataset:
    return dataset.filter(lambda row: row["n"] % 2 == 1)


@pytest.mark.parametrize(
    "change",
    [
        lambda dataset: dataset,
        lambda dataset: dataset.shuffle(seed=1),
        lambda dataset: odd(dataset).select(range(7)),
        lambda dataset: dataset.with_format(None, columns=["prompt", "n"]),
        lambda dataset: dataset.select_columns(["n"]).with_format("numpy"),
        lambda dataset: dataset.with_transform(lambda batch: {"n": [2 * n for n in batch["n"]]}),
    ],
    ids=["plain", "shuffled", "selected", "columns", "format", "transform"],
)
def test_rows_are_what_looking_them_up_gives(change: Any) -> None:
    dataset = change(Dataset.from_list(ROWS))
    assert list(rows_of(dataset)) == [dataset[number] for number in range(len(dataset))]


def test_rows_of_a_plain_dataset_are_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Dataset, "__getitem__", lambda *_: pytest.fail("looked up"))
    assert len(list(rows_of(Dataset.from_list(ROWS)))) == len(ROWS)
