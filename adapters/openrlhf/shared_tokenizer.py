"""Send the tokenizer to the vLLM actors once.

OpenRLHF sends it with every prompt, and the actor unpickles it each time. A tokenizer with a vocabulary of
150 000 is 8 MB and takes longer to unpickle than a prompt to tokenize; a search asks for thousands of
prompts. Other processes import this module, so it imports little.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from ray import ObjectRef
    from transformers import PreTrainedTokenizerBase


T = TypeVar("T")


@dataclass(frozen=True)
class SharedTokenizer:
    """A reference to the tokenizer in Ray's store, in place of the tokenizer among a request's arguments.

    The wrapper is needed because Ray resolves references that are arguments themselves on every call.
    """

    place: ObjectRef[PreTrainedTokenizerBase]


class TokenizerCache:
    """An actor's tokenizers. Each is fetched once, however many requests wait for it."""

    def __init__(self) -> None:
        self._fetched: dict[
            ObjectRef[PreTrainedTokenizerBase], asyncio.Future[PreTrainedTokenizerBase]
        ] = {}

    def tokenizer(
        self, lent: SharedTokenizer | PreTrainedTokenizerBase
    ) -> Awaitable[PreTrainedTokenizerBase]:
        """Return the shared tokenizer; return anything else unchanged."""
        if not isinstance(lent, SharedTokenizer):
            return _as_it_is(lent)
        if lent.place not in self._fetched:
            self._fetched[lent.place] = asyncio.ensure_future(_fetched(lent.place))
        return self._fetched[lent.place]


async def _as_it_is(value: T) -> T:
    return value


async def _fetched(place: Awaitable[T]) -> T:
    return await place
