"""Fuzz dataset rows, completions, and data returned by a trainer's processes."""

from __future__ import annotations

import asyncio
import json
from functools import cache
from typing import Any, Final

from fuzz.source import Source
from fuzz.target import Target
from prompt_coevo import Coevolution, Settings
from prompt_coevo.adapters.common.columns import index_columns
from prompt_coevo.adapters.common.completion_texts import completion_text
from prompt_coevo.adapters.openrlhf.row_lookup import RowLookup
from prompt_coevo.adapters.openrlhf.stateful_loader import Progress, StatefulLoader
from prompt_coevo.adapters.verl.prompt_exchange import PromptExchange
from prompt_coevo.errors import DatasetError, HostError, StateError
from prompt_coevo.types import Assignment, Candidate, Rollout

_CHAT: Final = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "what is 1?"}]},
]
_ROWS: Final = (
    {"prompt": "what is 0?", "answer": "0", "id": 0},
    {"prompt": _CHAT, "answer": ["1", "one"], "id": "a"},
    {"prompt": _CHAT[1:], "answer": None, "id": None},
)


def dataset(data: bytes) -> None:
    """Refuse a dataset before training, or train on it to the end."""
    source = Source(data, deep=False)
    own_id = source.pick((None, None, "id", "absent"))
    settings = Settings(question_id_column=own_id, row_columns=("id",) if source.flag() else ())
    rows = source.wrong([dict(row) for row in _ROWS])
    try:
        index = index_columns(rows, settings)
    except DatasetError:
        return
    instruction, template = Candidate("I", "instruction"), Candidate("T", "template")
    for question_id in index.ids():
        question = index.question(question_id)
        planned = Assignment(question_id, instruction=instruction, template=template)
        planned.rollout_prompt(question.prompt)
        planned.train_prompt(question.prompt)
    index.ids_of(rows)
    index.shared_system_message()
    index.longest_prompts()
    RowLookup([[json.dumps(row, default=str)] for row in rows], "rows").check(index)


def completion(data: bytes) -> None:
    """Read a completion in a trainer's forms: a text or messages."""
    source = Source(data)
    messages = [
        {"role": source.pick(("assistant", "tool")), "content": content}
        for content in (source.text(), None, [{"type": "text", "text": source.text()}])
        if source.below(4)
    ]
    assert isinstance(completion_text(messages if messages else source.text()), str)


def assignment(data: bytes) -> None:
    """Refuse an assignment that came back damaged; one that is read can be sent again."""
    source = Source(data)
    whole = Assignment(
        "q1", 1, 2, 3, Candidate("Think.", "instruction"), Candidate("Add.", "template")
    )
    sent = json.loads(json.dumps(whole.to_json()))
    received = sent if source.below(8) == 0 else source.wrong(sent)
    try:
        back = Assignment.from_json(received)
    except HostError:
        return
    assert Assignment.from_json(back.to_json()) == back or received != received
    back.rollout_prompt("what is 1?")
    back.rollout_prompt(_CHAT)
    hash(back.question_id)


def reported(data: bytes) -> None:
    """Report a rollout with any status and any number as its reward."""
    source = Source(data)
    status = source.text() if source.flag() else None
    reward = source.pick((0.0, 1, True, float("nan"), float("inf"), -1e308, 10**30))
    try:
        rollout = Rollout.scored(Assignment("q"), source.text(), reward, (0, 0), status)
    except HostError:
        return
    assert not rollout.fit or abs(rollout.reward) < float("inf")


def loader_state(data: bytes) -> None:
    """Load the state beside a dataloader's, or refuse it in one sentence."""
    source = Source(data)
    loader = _loader()
    whole = {
        "prompt_coevo": {"engine": _engine_state(), "progress": Progress().to_json()},
        "place": 3,
    }
    state = source.wrong(whole)
    if not isinstance(state, dict):
        return  # torchdata's, which is no dictionary
    try:
        loader.load_state_dict(state)
    except StateError:
        return
    assert isinstance(loader.progress, Progress)


def exchange(data: bytes) -> None:
    """Exchange ids only for the prompt that was rolled out."""
    source = Source(data)
    rolled, trained = [source.value(1)], [source.value(1)]

    class Agent:
        async def encode(self, messages: Any, **_: Any) -> list[int]:
            return [len(str(message)) for message in messages]

    agent = Agent()
    one = PromptExchange(agent, ["encode", "absent"], rolled, trained)
    ids = asyncio.run(agent.encode(rolled if source.flag() else [source.value(1)]))
    found = one.trained_ids([*ids, *source.bytes(2)])
    assert found is None or all(type(number) is int for number in found)


class _Loader:
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Accept anything."""


@cache
def _engine() -> Coevolution:
    return Coevolution.from_settings(Settings(reflection={"function": str}))


@cache
def _loader() -> StatefulLoader:
    loader: Any = _Loader()
    return StatefulLoader(loader, _engine(), lambda progress: True)


@cache
def _engine_state() -> dict[str, Any]:
    state: dict[str, Any] = json.loads(json.dumps(_engine().state_dict()))
    return state


TARGETS = {
    "rows.dataset": Target(dataset, (bytes(range(60)), b"\0" * 9, bytes([2, 1, 3] * 20)), 0.15),
    "rows.completions": Target(completion, (bytes(range(40)), b"\1" * 20), 6.0),
    "rows.assignments": Target(assignment, (bytes(range(60)), b"\0", bytes([1, 3, 2] * 9)), 2.0),
    "rows.rewards": Target(reported, (bytes(range(20)), b"\0", b"\1\0ok"), 6.0),
    "rows.loader": Target(loader_state, (bytes(range(60)), b"\0\1", bytes([1, 2, 2] * 9)), 0.3),
    "rows.exchange": Target(exchange, (bytes(range(60)), b""), 0.1),
}
