"""What this adapter leans on in OpenRLHF. Nothing is imported here but for the types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NotRequired, TypeAlias, TypedDict

if TYPE_CHECKING:
    from ray import ObjectRef
    from torch import Tensor

TOOL_ERROR: Final = "coevo_tool_error"
"""The entry of a response's `extra_logs` with which an agent reports an outage: above 0, its rollout
does not count."""


def class_of(actor: Any) -> Any:
    """The class behind a Ray actor class, which itself cannot be subclassed."""
    return actor.__ray_metadata__.modified_class


Arguments: TypeAlias = SimpleNamespace
"""OpenRLHF's arguments in their groups: `--data.max_len` is `data.max_len`."""


class Response(TypedDict):
    """What an executor says of one rollout, as far as we look at it; it has more."""

    prompt: str
    observation_tokens: list[int]
    action_ranges: list[tuple[int, int]]
    rollout_log_probs: list[float] | None
    reward: NotRequired[float | Tensor | list[float] | None]
    scores: NotRequired[float | Tensor | list[float] | None]
    extra_logs: NotRequired[Mapping[str, float | Tensor] | None]
    coevo: NotRequired[int]


Reference: TypeAlias = "ObjectRef[list[Response]]"
"""Where the responses to one prompt, or to one group, will be."""
Dispatch: TypeAlias = Callable[..., list[Reference]]
"""Sends rendered prompts with their labels to the vLLM engines: one reference each, in their order."""
