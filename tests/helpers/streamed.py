"""Compare a server's samples in a step of a streaming search with what was trained on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Sample(NamedTuple):
    """A response, the prompt that it was sampled under, and the version of the weights."""

    version: int
    prompt: list[int]
    response: list[int]


def check_trained_as_sampled(
    generated: list[Sample], trained: list[Sample], questions: list[list[int]], templated: float
) -> None:
    """Assert that all samples of a step are trained on, in any order.

    Requests may overtake each other on their way to a server, so nothing depends on their order. A share
    `templated` was sampled under templates, as the round was planned. `questions` are the prompts without a
    template, which are trained on.
    """
    assert len(generated) == len(trained)
    assert _all_were_sampled(trained, generated), "rows were trained on that nobody sampled"
    under_template = sum(sample.prompt not in questions for sample in generated)
    assert under_template == templated * len(trained)


def _all_were_sampled(trained: Iterable[Sample], generated: Iterable[Sample]) -> bool:
    waiting = list(generated)
    for row in trained:
        origin = next((sample for sample in waiting if _is_origin(sample, row)), None)
        if origin is None:
            return False
        waiting.remove(origin)
    return True


def _is_origin(sample: Sample, row: Sample) -> bool:
    """Tell whether the sample is the row before its prompt became the question alone."""
    own = row.prompt[1:]  # after the token that opens the user's turn
    return (sample.version, sample.response, sample.prompt[-len(own) :]) == (
        row.version,
        row.response,
        own,
    )
