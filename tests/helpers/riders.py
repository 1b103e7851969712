"""What a server sampled in a step, parted into what was trained on and what rode along."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Sample(NamedTuple):
    """A response, the prompt that it was sampled under, and the version of the weights."""

    version: int
    prompt: list[int]
    response: list[int]


def riders_behind(
    generated: list[Sample], trained: list[Sample], questions: list[list[int]], templated: float
) -> list[Sample]:
    """The riders of a step, after checks.

    All rows that were trained on were generated, with the share under templates that the round was
    planned with; what else was generated has a template, and did not come first (requests may overtake
    each other on their way to a server). `questions` are the prompts without a template, which are what
    is trained on.
    """
    batch, rest = _parted(generated, trained)
    assert len(batch) == len(trained), "rows were trained on that nobody sampled"
    under_template = [sample for sample in batch if sample.prompt not in questions]
    assert len(under_template) == templated * len(batch)
    assert all(sample.prompt not in questions for sample in rest)
    assert generated[0] is batch[0]
    return rest


def _parted(
    generated: Iterable[Sample], trained: Iterable[Sample]
) -> tuple[list[Sample], list[Sample]]:
    """Of what was generated the origins of what was trained on, and the rest; in order."""
    waiting = list(trained)
    origins, rest = [], []
    for sample in generated:
        row = next((row for row in waiting if _is_origin(sample, row)), None)
        if row is None:
            rest.append(sample)
        else:
            waiting.remove(row)
            origins.append(sample)
    return origins, rest


def _is_origin(sample: Sample, row: Sample) -> bool:
    """Whether it is what the row was before its prompt became the question alone."""
    own = row.prompt[1:]  # behind the token that opens the user's turn
    return (sample.version, sample.response, sample.prompt[-len(own) :]) == (
        row.version,
        row.response,
        own,
    )
