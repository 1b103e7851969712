"""The episode of a search agent, turn by turn, as in Search-R1 (arXiv:2503.09516).

A state machine on text: it samples nothing, searches nothing and knows no token. Whoever drives it
samples a turn, feeds it, runs the search that it asks for and appends what `observe` returns:

    >>> from prompt_coevo.retrieval.retriever import Hit
    >>> episode = SearchEpisode()
    >>> episode.feed("<think> I do not know. </think> <search> mayor of Bonn </search>")
    Search(query='mayor of Bonn')
    >>> print(episode.observe([Hit("7", '"Bonn"\\nIts mayor is Ada.', 1.0, 1)]).strip())
    <information>Doc 1(Title: "Bonn") Its mayor is Ada.</information>
    >>> episode.feed("<answer> Ada </answer>")
    Answer(text='Ada')
    >>> episode.ended
    'answer'

What differs from Search-R1: in a `<think>` no tags count but, where that is never closed, a search;
tags in passages are made harmless; an observation is closed after it was shortened; an empty query or
answer is invalid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from prompt_coevo.errors import CoevoError
from prompt_coevo.retrieval.agent.tags import UnclosedThink, first_action, neutralise
from prompt_coevo.retrieval.outcomes import Outage, Outcome, Refused
from prompt_coevo.retrieval.retriever import Hit

INVALID_TURN: Final = (
    "\nMy last action was not valid: I must put a query between search tags or the final answer "
    "between answer tags. Let me try again.\n"
)
"""Hint appended to a turn without an action. It holds no tag, so nobody can mistake it for an action."""

UNAVAILABLE: Final = "Search is not available at the moment."
NOTHING_FOUND: Final = "No passage was found."


@dataclass(frozen=True)
class Search:
    """The turn asks for a search."""

    query: str


@dataclass(frozen=True)
class Answer:
    """The turn gives the final answer."""

    text: str


@dataclass(frozen=True)
class Invalid:
    """The turn does neither."""


Action: TypeAlias = Search | Answer | Invalid


class EpisodeError(CoevoError, RuntimeError):
    """The episode was driven out of turn."""


class SearchEpisode:
    """The turns of one question: at most `max_turns` with an observation and a last one without.

    That is how Search-R1 counts. The last turn can only answer: do not run its search. The episode ends
    with an answer ("answer"), after the last turn ("turns"), or when the driver says so (`end`, usually
    "length").

    `reserved` strings never occur in an observation; they are usually the tokenizer's special tokens.
    `unclosed_think` decides how to treat a search in a `<think>` that its turn never closes.
    """

    def __init__(
        self,
        max_turns: int = 4,
        *,
        reserved: Sequence[str] = (),
        unclosed_think: UnclosedThink = "search",
    ) -> None:
        if max_turns < 0:
            raise ValueError(f"max_turns must be 0 or more, but is {max_turns}")
        self._max_turns = max_turns
        self._reserved = tuple(reserved)
        self._unclosed_think = unclosed_think
        self._actions: list[Action] = []
        self._waiting: Action | None = None
        self.ended: str | None = None
        """Why the episode is over; None while it runs."""
        self.searches = 0
        """Number of observed searches, including refused ones and outages."""
        self.outage = False
        """True if a search failed through no fault of the model; the status is then `tool_error`."""

    def feed(self, text: str) -> Action:
        """Take the text sampled in this turn, with its stop string, and return the requested action.

        The first action counts. Text after it, such as the rest of a token that continues beyond the end of
        the tag, is ignored; its sampled ids stay in the trajectory. Look at `ended` before running a
        search. Raises EpisodeError if it is not the model's turn.
        """
        if self.ended is not None:
            raise EpisodeError(f"the episode has ended ({self.ended}), so it takes no other turn")
        if self._waiting is not None:
            raise EpisodeError("the last turn waits for its observation; call observe() first")
        action = parse_turn(text, unclosed_think=self._unclosed_think)
        self._actions.append(action)
        if isinstance(action, Answer):
            self.end("answer")
        elif len(self._actions) > self._max_turns:
            self.end("turns")
        else:
            self._waiting = action
        return action

    def observe(
        self, outcome: Outcome | None = None, shorten: Callable[[str], str] | None = None
    ) -> str:
        """Return the text to append after the turn: the search result, or a hint after an invalid turn.

        An invalid turn has no outcome. `shorten` cuts the body to the token budget before the closing
        `</information>` is added. Raises EpisodeError if no turn waits, or if the outcome does not fit the
        turn's action.
        """
        if self._waiting is None:
            raise EpisodeError("no turn waits for an observation; call feed() first")
        if isinstance(self._waiting, Search) != (outcome is not None):
            raise EpisodeError(
                f"the turn was {self._waiting}: a search needs an outcome, an invalid turn has none"
            )
        self._waiting = None
        if outcome is None:
            return INVALID_TURN
        self.searches += 1
        self.outage = self.outage or isinstance(outcome, Outage)
        body = self._harmless(_body(outcome))
        if shorten is not None:
            body = self._harmless(shorten(body))
        return f"\n\n<information>{body}</information>\n\n"

    def end(self, reason: str) -> None:
        """Stop here, for a reason such as "length". An episode that has already ended keeps its reason."""
        self._waiting = None
        self.ended = self.ended or reason

    @property
    def answer(self) -> str | None:
        """Return the model's final answer, or None if it gave none."""
        last = self._actions[-1] if self._actions else None
        return last.text if isinstance(last, Answer) else None

    @property
    def turns(self) -> int:
        """Return the number of the model's turns so far."""
        return len(self._actions)

    def _harmless(self, body: str) -> str:
        return neutralise(body, self._reserved)


def parse_turn(text: str, *, unclosed_think: UnclosedThink = "search") -> Action:
    """Return the action that one turn of the model asks for. `unclosed_think` never affects an answer."""
    action = first_action(text, unclosed_think=unclosed_think)
    if action is None or not action.body:
        return Invalid()
    return Search(action.body) if action.name == "search" else Answer(action.body)


def _body(outcome: Outcome) -> str:
    if isinstance(outcome, Outage):
        return UNAVAILABLE
    if isinstance(outcome, Refused):
        return f"The search was refused: {outcome.reason}"
    if not outcome:
        return NOTHING_FOUND
    return "\n".join(_described(number, hit) for number, hit in enumerate(outcome, start=1))


def _described(number: int, hit: Hit) -> str:
    """Format a passage like Search-R1; the first line of the contents is the title."""
    title, _, text = hit.contents.partition("\n")
    return f"Doc {number}(Title: {title}) {text}"
