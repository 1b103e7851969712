"""The types of OpenRLHF that this adapter relies on. Ray and torch are imported for type checking only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final, NotRequired, TypeAlias, TypedDict

if TYPE_CHECKING:
    from ray import ObjectRef
    from ray.actor import ActorClass
    from torch import Tensor

TOOL_ERROR: Final = "coevo_tool_error"
"""The entry of a response's `extra_logs` by which an agent reports an outage of its tool: above 0, the
rollout does not count."""


def class_of(actor: ActorClass) -> type:
    """Return the class behind a Ray actor class, which cannot be subclassed itself."""
    found: type = actor.__ray_metadata__.modified_class
    return found


Arguments: TypeAlias = SimpleNamespace
"""OpenRLHF's arguments, grouped: `--data.max_len` is `data.max_len`."""


class Response(TypedDict):
    """An executor's response for one rollout: the keys that we read. There are more."""

    prompt: str
    observation_tokens: list[int]
    action_ranges: list[tuple[int, int]]
    rollout_log_probs: list[float] | None
    reward: NotRequired[float | Tensor | list[float] | None]
    scores: NotRequired[float | Tensor | list[float] | None]
    extra_logs: NotRequired[Mapping[str, float | Tensor] | None]
    coevo: NotRequired[int]


Reference: TypeAlias = "ObjectRef[list[Response]]"
"""A reference to the future responses to one prompt, or to one group."""
Dispatch: TypeAlias = Callable[..., list[Reference]]
"""Sends rendered prompts with their labels to the vLLM engines; returns one reference each, in order."""
