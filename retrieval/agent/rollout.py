"""One rollout of a search agent in tokens, shared by the drivers of all trainers.

Until `over`, a driver samples a turn of at most `turn_tokens` and passes it to `sampled`; if that returns a
query, it asks the tool and passes the outcome to `observed`. `play` does so for a single episode.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from prompt_coevo.retrieval.agent.episode import Answer, Search, SearchEpisode
from prompt_coevo.retrieval.agent.settings import SearchAgentSettings
from prompt_coevo.retrieval.agent.tags import STOP_STRINGS
from prompt_coevo.retrieval.agent.tool import SearchTool
from prompt_coevo.retrieval.agent.trajectory import Trajectory
from prompt_coevo.retrieval.outcomes import Outcome
from prompt_coevo.tokens import encode

Turn: TypeAlias = tuple[Sequence[int], Sequence[float] | None]
"""The ids of a turn and their log-probs (None if unknown)."""


class SearchRollout:
    """An episode and its tokens. `room` is the most tokens that may follow the prompt."""

    def __init__(
        self, prompt_ids: Sequence[int], tokenizer: Any, settings: SearchAgentSettings, room: int
    ) -> None:
        self.trajectory = Trajectory(prompt_ids)
        self._tokenizer = tokenizer
        self._settings = settings
        self._limit = len(prompt_ids) + room
        self.episode = SearchEpisode(
            settings.max_turns,
            # Special tokens, which a passage must not produce.
            reserved=[str(token) for token in getattr(tokenizer, "all_special_tokens", [])],
            unclosed_think=settings.unclosed_think,
        )
        if room < 1:
            self.episode.end("length")

    @property
    def over(self) -> bool:
        return self.episode.ended is not None

    @property
    def turn_tokens(self) -> int:
        """Return the most tokens that the next turn may have."""
        return min(self._settings.turn_tokens, self.trajectory.room(self._limit))

    @property
    def status(self) -> str:
        """Return `tool_error` after an outage: this rollout must not be used to judge anything."""
        return "tool_error" if self.episode.outage else "ok"

    def sampled(self, ids: Sequence[int], log_probs: Sequence[float] | None = None) -> str | None:
        """Take a turn. Tokens after its first stop string are dropped, as if sampling had stopped there.

        Returns the query to search for. If it is None, do not call `observed`.
        """
        end = self._turn_end(ids[: self.turn_tokens])
        self.trajectory.sampled(ids[:end], None if log_probs is None else log_probs[:end])
        action = self.episode.feed(self._decode(ids[:end]))
        if self.over or isinstance(action, Answer):
            return None
        if isinstance(action, Search):
            return action.query
        self._append(self.episode.observe())
        return None

    def observed(self, outcome: Outcome) -> None:
        """Append the search result."""
        self._append(self.episode.observe(outcome, self._shortened))

    def _append(self, text: str) -> None:
        ids = encode(self._tokenizer, text)
        if self.trajectory.room(self._limit) <= len(ids):
            self.episode.end("length")  # nothing is ever cut
            return
        self.trajectory.observed(ids)

    def _turn_end(self, ids: Sequence[int]) -> int:
        """Return the number of tokens up to the end of the first stop string."""
        if not self._stops(ids):
            return len(ids)
        low, high = 1, len(ids)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._stops(ids[:middle]) else (middle + 1, high)
        return low

    def _stops(self, ids: Sequence[int]) -> bool:
        text = self._decode(ids)
        return any(stop in text for stop in STOP_STRINGS)

    def _shortened(self, text: str) -> str:
        ids = encode(self._tokenizer, text)
        most = self._settings.observation_tokens
        return text if len(ids) <= most else self._decode(ids[:most])

    def _decode(self, ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=False)
        return text


async def play(
    rollout: SearchRollout, tool: SearchTool, sample: Callable[[list[int], int], Awaitable[Turn]]
) -> None:
    """Take turns until the episode is over. `sample` gets the ids so far and the most new tokens."""
    while not rollout.over:
        ids, log_probs = await sample(rollout.trajectory.ids, rollout.turn_tokens)
        query = rollout.sampled(ids, log_probs)
        if query is not None:
            rollout.observed(await tool.asearch(query))
