"""Groups under several prompts, which one vLLM actor samples as one request.

OpenRLHF takes what one reference holds for a group, and knows one prompt each. Other processes import this
module, so it imports little.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from prompt_coevo.adapters.openrlhf.contract import ADVICE, check_keys
from prompt_coevo.errors import HostError

if TYPE_CHECKING:
    from prompt_coevo.adapters.openrlhf.host import Dispatch, Reference, Response

TAG: Final = "coevo"
"""The entry of a response with the number that it was asked for under."""
T = TypeVar("T")


@dataclass(frozen=True)
class Asked:
    """A group on its way to the vLLM actor, in the place of its prompt: each of its prompts, with the
    numbers of the rollouts that are sampled under it."""

    prompts: Mapping[str, Sequence[int]]


def numbered(asked: Asked, responses: Sequence[Sequence[Response]]) -> list[Response]:
    """What the vLLM actor answers: the responses to each prompt, with their numbers and in their order.

    Raises HostError if they are not as many as were asked for, or if one lacks what this adapter reads.
    """
    found: list[Response] = []
    taken: set[int] = set()
    for numbers, some in zip(asked.prompts.values(), responses, strict=True):
        if len(some) != len(numbers):
            raise HostError(
                f"OpenRLHF's vLLM actor sampled {len(some)} responses where {len(numbers)} were asked "
                f"for; {ADVICE}"
            )
        for number, response in zip(numbers, some, strict=True):
            check_keys(response, "prompt", "observation_tokens", "rollout_log_probs")
            made: Response = {**response, "prompt": str(response["prompt"]), TAG: number}
            made["observation_tokens"] = _own(made["observation_tokens"], taken)
            made["rollout_log_probs"] = _own(made["rollout_log_probs"], taken)
            found.append(made)
    return sorted(found, key=lambda response: response[TAG])


def _own(values: T, taken: set[int]) -> T:
    """A list that no other response has: they are changed where they arrive, and an agent may answer with
    the same ones again."""
    if values is not None and id(values) in taken:
        return copy(values)
    taken.add(id(values))
    return values


def dispatch_groups(
    dispatch: Dispatch,
    texts: Sequence[str],
    labels: Sequence[object],
    generate_kwargs: Mapping[str, object],
    first: int,
) -> list[Reference]:
    """One reference per group, whatever number of prompts it has.

    `texts` are the prompts of all rollouts, group after group, which are numbered from `first` on;
    `labels` has one entry per group. Raises HostError if OpenRLHF does not dispatch what it is given.
    """
    size = len(texts) // len(labels)
    groups: list[dict[str, list[int]]] = [{} for _ in labels]
    for number, text in enumerate(texts):
        groups[number // size].setdefault(text, []).append(first + number)
    kwargs = {**generate_kwargs, "n_samples_per_prompt": size}
    found = dispatch(list(map(Asked, groups)), labels, **kwargs)
    if len(found) != len(groups):
        raise HostError(f"OpenRLHF dispatched {len(found)} of {len(groups)} prompts; {ADVICE}")
    return found
