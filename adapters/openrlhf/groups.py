"""Groups under several prompts: asked for in parts, and joined again.

A Ray task imports the module that its function is in, so this one imports little.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final

import ray

if TYPE_CHECKING:
    from prompt_coevo.adapters.openrlhf.host import Dispatch, Reference, Response

TAG: Final = "coevo"
"""The entry of a response with the number that it was asked for under."""


def dispatch_groups(
    dispatch: Dispatch,
    texts: Sequence[str],
    labels: Sequence[object],
    generate_kwargs: Mapping[str, object],
    first: int,
) -> list[Reference]:
    """One reference per group, whatever number of prompts it has: OpenRLHF takes what stands together
    for a group.

    `texts` are the prompts of all rollouts, group after group, which are numbered from `first` on;
    `labels` has one entry per group.
    """
    size = len(texts) // len(labels)
    asked: dict[tuple[int, str], list[int]] = {}
    for number, text in enumerate(texts):
        asked.setdefault((number // size, text), []).append(first + number)
    parts: dict[tuple[int, str], Reference] = {}
    for count in sorted(set(map(len, asked.values()))):
        same = [part for part, numbers in asked.items() if len(numbers) == count]
        kwargs = {**generate_kwargs, "n_samples_per_prompt": count}
        found = dispatch([text for _, text in same], [labels[group] for group, _ in same], **kwargs)
        parts |= zip(same, found, strict=True)
    groups = [list(group) for _, group in groupby(asked, key=lambda part: part[0])]
    return [
        join.remote([asked[part] for part in group], *[parts[part] for part in group])
        for group in groups
    ]


@ray.remote(num_cpus=0)  # type: ignore[untyped-decorator]
def join(members: Sequence[Sequence[int]], *parts: Sequence[Response]) -> list[Response]:
    """All responses in the order of their numbers, each with its own."""
    numbered: list[Response] = [
        {**response, "prompt": str(response["prompt"]), TAG: number}
        for numbers, part in zip(members, parts, strict=True)
        for number, response in zip(numbers, part, strict=True)
    ]
    return sorted(numbered, key=lambda response: response[TAG])
