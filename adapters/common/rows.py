"""Iterate over all rows of a dataset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

Row: TypeAlias = Mapping[str, Any]

_BATCH: Final = 1_000


def rows_of(dataset: Any) -> Iterator[Row]:
    """Yield the rows in order, as `dataset[number]` gives them.

    A `datasets.Dataset` is read in batches, which costs less (benchmarks/index.py). One with a format or a
    transform may return other values for a batch than for a row, so it is read row by row.
    """
    if _is_plain(dataset):
        for batch in dataset.iter(_BATCH):
            for values in zip(*batch.values(), strict=True):
                yield dict(zip(batch, values, strict=True))
    else:
        for number in range(len(dataset)):
            yield dataset[number]


def _is_plain(dataset: Any) -> bool:
    # The exact class: a subclass or a proxy may return other rows.
    kind = type(dataset)
    if (kind.__module__, kind.__name__) != ("datasets.arrow_dataset", "Dataset"):
        return False
    return dataset.format.get("type", "") is None
