"""Iterate over all rows of a dataset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeGuard

if TYPE_CHECKING:
    import datasets

Row: TypeAlias = Mapping[str, Any]

_BATCH: Final = 1_000


class Rows(Protocol):
    """A dataset whose rows can be looked up by number."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int, /) -> Row: ...


def rows_of(dataset: Rows) -> Iterator[Row]:
    """Yield the rows in order, as `dataset[number]` gives them.

    A `datasets.Dataset` is read in batches, which costs less (benchmarks/index.py). One with a format or a
    transform may return other values for a batch than for a row, so it is read row by row.
    """
    if _is_arrow(dataset) and dataset.format.get("type", "") is None:
        for batch in dataset.iter(_BATCH):
            for values in zip(*batch.values(), strict=True):
                yield dict(zip(batch, values, strict=True))
    else:
        for number in range(len(dataset)):
            yield dataset[number]


def _is_arrow(dataset: Rows) -> TypeGuard[datasets.Dataset]:
    # The exact class: a subclass or a proxy may return other rows.
    kind = type(dataset)
    return (kind.__module__, kind.__name__) == ("datasets.arrow_dataset", "Dataset")
