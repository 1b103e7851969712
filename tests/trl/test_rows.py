from __future__ import annotations

from typing import Any

import pytest
from datasets import Dataset

from prompt_coevo.adapters.common.columns import index_columns
from prompt_coevo.adapters.common.rows import rows_of
from prompt_coevo.settings import Settings

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


class Wrapped:
    """Pass on what it does not do itself."""

    def __init__(self, inner: Dataset) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __len__(self) -> int:
        return len(self._inner)

    def __getitem__(self, number: int) -> Any:
        return {"n": -self._inner[number]["n"]}


def test_rows_of_what_only_looks_like_a_dataset_are_looked_up() -> None:
    assert list(rows_of(Wrapped(Dataset.from_list(ROWS[:3])))) == [{"n": 0}, {"n": -1}, {"n": -2}]


def test_columns_are_those_that_a_transform_makes() -> None:
    asked = Dataset.from_list([{"q": f"{n}?", "a": n} for n in range(4)])
    made = asked.with_transform(
        lambda batch: {"prompt": batch["q"], "answer": [f"It is {a}." for a in batch["a"]]}
    )
    questions = index_columns(made, Settings(reflection={"function": str}))
    found = [questions.question(one) for one in questions.ids()]
    assert [(one.prompt, one.ground_truth) for one in found] == [
        (f"{n}?", f"It is {n}.") for n in range(4)
    ]
