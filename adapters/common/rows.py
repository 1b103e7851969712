"""All rows of a dataset, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

Row: TypeAlias = Mapping[str, Any]

_BATCH: Final = 1_000


def rows_of(dataset: Any) -> Iterator[Row]:
    """The rows in their order, as `dataset[number]` gives them.

    Those of a `datasets.Dataset` are read in batches, which costs less (benchmarks/index.py); one with a
    format or a transform of its own may make other values of a batch than of a row, and is asked row by
    row.
    """
    if _is_plain(dataset):
        for batch in dataset.iter(_BATCH):
            for values in zip(*batch.values(), strict=True):
                yield dict(zip(batch, values, strict=True))
    else:
        for number in range(len(dataset)):
            yield dataset[number]


def _is_plain(dataset: Any) -> bool:
    # Exactly: rows of a subclass, or of what passes its calls on, may be others.
    kind = type(dataset)
    if (kind.__module__, kind.__name__) != ("datasets.arrow_dataset", "Dataset"):
        return False
    return dataset.format.get("type", "") is None
