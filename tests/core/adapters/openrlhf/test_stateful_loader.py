"""Check that the engine's state is saved next to the dataloader's."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from prompt_coevo import Coevolution, Settings
from prompt_coevo.adapters.common.trackers.tables import Tables
from prompt_coevo.adapters.common.trackers.texts import Texts
from prompt_coevo.adapters.openrlhf.stateful_loader import (
    METRICS,
    STATE,
    TEXTS,
    Progress,
    StatefulLoader,
)
from prompt_coevo.errors import StateError


class Loader:
    """Stand in for the parts of a StatefulDataLoader that the adapter uses."""

    batch_size = 2

    def __init__(self) -> None:
        self.state: dict[str, Any] = {"place": 0}

    def __len__(self) -> int:
        return 3

    def __iter__(self) -> Any:
        return iter("abc")

    def state_dict(self) -> dict[str, Any]:
        return dict(self.state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.state = state


def stateful(saved: bool = True) -> StatefulLoader:
    engine = Coevolution.from_settings(Settings(reflection={"function": str}))
    return StatefulLoader(Loader(), engine, lambda progress: saved)


def test_it_is_the_dataloader() -> None:
    loader = stateful()
    assert (list(loader), len(loader), loader.batch_size) == (["a", "b", "c"], 3, 2)


def test_the_state_comes_back() -> None:
    before, after = stateful(), stateful()
    before._engine.plan(["a"], 2)
    before.progress.step_due = True
    before._loader.state["place"] = 2
    after.load_state_dict(before.state_dict())
    assert after._engine.plan(["a"], 2)[0].round == 1
    assert after.progress == Progress(step_due=True)
    assert after._loader.state == {"place": 2}


def test_a_state_that_is_not_kept_is_not_made() -> None:
    state = stateful(saved=False).state_dict()
    assert STATE not in state
    assert METRICS in state


def test_without_ours_it_starts_anew_and_saves_always(caplog: pytest.LogCaptureFixture) -> None:
    loader = stateful(saved=False)
    loader.load_state_dict({"place": 1})
    assert caplog.messages == [
        "the checkpoint has no state of prompt_coevo: co-evolution starts anew"
    ]
    assert STATE in loader.state_dict()


@pytest.mark.parametrize("ours", [None, "x", {}, {"progress": {"unknown": 1}}, {"progress": {}}])
def test_a_state_of_another_form_is_refused(ours: Any) -> None:
    with pytest.raises(StateError, match="is not one that prompt_coevo wrote"):
        stateful().load_state_dict({STATE: ours})


def test_texts_travel_when_they_are_due_and_are_no_state(tmp_path: Path) -> None:
    settings = Settings(reflection={"function": str})
    engine = Coevolution.from_settings(settings, output_dir=tmp_path)
    loader = StatefulLoader(Loader(), engine, lambda progress: True, Texts(engine))  # type: ignore[arg-type]
    assert TEXTS not in loader.state_dict()
    engine.context.note("search_skipped", reason="few")
    state = loader.state_dict()
    assert pickle.loads(pickle.dumps(state[TEXTS])) == Tables([], [])
    assert TEXTS not in loader.state_dict()
    other = stateful()
    other.load_state_dict(state)
    assert TEXTS not in other._loader.state  # type: ignore[attr-defined]
