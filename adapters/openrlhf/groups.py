"""Groups under several prompts: asked for in parts, and handed to OpenRLHF as one.

The vLLM actor numbers its responses and keeps those of a part in Ray's store, so what is joined is where
they lie. No response is sent twice. Other processes import this module, so it imports little.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

import ray

from prompt_coevo.adapters.openrlhf.drift import ADVICE
from prompt_coevo.errors import HostError

if TYPE_CHECKING:
    from prompt_coevo.adapters.openrlhf.host import Dispatch, Reference, Response

TAG: Final = "coevo"
"""The entry of a response with the number that it was asked for under."""


@dataclass(frozen=True)
class Asked:
    """A prompt on its way to the vLLM actor, with the numbers of the rollouts that it is sampled for.

    `whole` says whether they are all of their group.
    """

    prompt: str
    numbers: tuple[int, ...]
    whole: bool


@dataclass(frozen=True)
class Parts:
    """The responses to a group, where the vLLM actors have put them: those to each prompt together.

    OpenRLHF goes through what a reference holds; then they are fetched, all at once.
    """

    references: tuple[Reference, ...]

    def __iter__(self) -> Iterator[Response]:
        """In the order of their numbers, so that none depends on which part is which."""
        found = [one for part in ray.get(list(self.references)) for one in part]
        return iter(sorted(found, key=lambda response: response[TAG]))


def numbered(asked: Asked, responses: Sequence[Response]) -> list[Response] | Parts:
    """What the vLLM actor answers: the responses with their numbers, or where they lie.

    Raises HostError if they are not as many as were asked for.
    """
    if len(responses) != len(asked.numbers):
        raise HostError(
            f"OpenRLHF's vLLM actor sampled {len(responses)} responses where {len(asked.numbers)} were "
            f"asked for; {ADVICE}"
        )
    found: list[Response] = [
        {**response, "prompt": str(response["prompt"]), TAG: number}
        for number, response in zip(asked.numbers, responses, strict=True)
    ]
    return found if asked.whole else Parts((ray.put(found),))


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
    `labels` has one entry per group. Raises HostError if OpenRLHF does not dispatch what it is given.
    """
    size = len(texts) // len(labels)
    members: dict[tuple[int, str], list[int]] = {}
    for number, text in enumerate(texts):
        members.setdefault((number // size, text), []).append(first + number)
    asked = {
        part: Asked(part[1], tuple(numbers), len(numbers) == size)
        for part, numbers in members.items()
    }
    parts: dict[tuple[int, str], Reference] = {}
    for count in sorted({len(one.numbers) for one in asked.values()}):
        same = [part for part, one in asked.items() if len(one.numbers) == count]
        kwargs = {**generate_kwargs, "n_samples_per_prompt": count}
        found = dispatch([asked[part] for part in same], [labels[n] for n, _ in same], **kwargs)
        if len(found) != len(same):
            raise HostError(f"OpenRLHF dispatched {len(found)} of {len(same)} prompts; {ADVICE}")
        parts |= zip(same, found, strict=True)
    groups = [[parts[part] for part in group] for _, group in groupby(asked, key=lambda p: p[0])]
    return [group[0] if len(group) == 1 else join.remote(*group) for group in groups]


@ray.remote(num_cpus=0)  # type: ignore[untyped-decorator]
def join(*parts: Parts) -> Parts:
    """One group of several parts, once all of them are there."""
    return Parts(tuple(reference for part in parts for reference in part.references))
