"""Groups with several prompts, which one vLLM actor samples as one request.

OpenRLHF treats the responses behind one reference as a group, with one prompt per reference. Other
processes import this module, so it imports little.
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
"""The entry of a response with the number of its rollout."""
T = TypeVar("T")


@dataclass(frozen=True)
class Asked:
    """A group on its way to the vLLM actor, in place of a single prompt: its prompts, each with the numbers
    of the rollouts that are sampled under it."""

    prompts: Mapping[str, Sequence[int]]


def numbered(asked: Asked, responses: Sequence[Sequence[Response]]) -> list[Response]:
    """Number the responses to each prompt and return them in the order of their numbers.

    Raises HostError if their count is not what was asked for, or if one lacks a key that we read.
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
    """Return a list that no other response shares: lists are changed where they arrive, and an agent may
    return the same one twice."""
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
    """Dispatch one request per group, however many prompts it has, and return their references.

    `texts` are the prompts of all rollouts, group after group, numbered from `first` on; `labels` has one
    entry per group. Raises HostError if OpenRLHF does not dispatch all groups.
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
