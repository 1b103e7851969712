"""Check a run in which each file operation fails once in turn: its behaviour and its files."""

from __future__ import annotations

import errno
import json
from io import FileIO
from pathlib import Path
from typing import Any, Final

import pytest

from helpers.failing_disk import FailingDisk
from prompt_coevo import Coevolution, Settings
from prompt_coevo.adapters.common.checkpoint import load_state, save_state
from prompt_coevo.engine.journal import Journal
from prompt_coevo.errors import CoevoError
from prompt_coevo.file_lock import sign
from prompt_coevo.testing.scripted_world import (
    QUESTIONS,
    ScriptedPolicy,
    helpful_reply,
    rolled_out,
    rule,
)
from prompt_coevo.types import Rollout

SETTINGS: Final[dict[str, Any]] = {
    "algorithms": "p2o,inspo",
    "p2o": {
        "overspend": "never",
        "minibatch_size": 2,
        "dev_size": 2,
        "search_budget": 12,
        "calls_per_hard": 0.1,
    },
    "inspo": {
        "instruction": "Think.",
        "population_size": 2,
        "evolve_every": 1,
        "rounds": 1,
        "verify_size": 2,
        "candidates_per_call": 1,
        "failures_per_reflection": 1,
    },
}
QUESTION_IDS: Final = list(QUESTIONS)[:6]


class Life:
    """Run briefly with a checkpoint in the middle, and record what the adapter wrote."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.policy = ScriptedPolicy(rule)
        self.asked = 0
        self.plans: list[Any] = []

    def reply(self, prompt: str) -> str:
        self.asked += 1
        return helpful_reply(prompt)

    def engine(self) -> Coevolution:
        settings = Settings(**SETTINGS, reflection={"function": self.reply})
        return Coevolution.from_settings(settings, output_dir=self.folder)

    def epoch(self, engine: Coevolution) -> None:
        plan = engine.plan(QUESTION_IDS, 2)
        self.plans.append([one.to_json() for one in plan])
        rollouts: list[Rollout] = [rolled_out(one, rule) for one in plan]
        engine.observe(rollouts)
        engine.step_end(self.policy)
        engine.epoch_end(self.policy)

    def live(self) -> Coevolution:
        with self.policy.open():
            engine = self.engine()
            engine.begin(self.policy)
            self.epoch(engine)
            save_state(engine, self.folder / "checkpoint")
            self.epoch(engine)
            engine.end(self.policy)
        return engine

    def go_on(self) -> Coevolution:
        """Resume from the checkpoint if there is one; otherwise start from scratch."""
        with self.policy.open():
            engine = self.engine()
            if (self.folder / "checkpoint" / "coevo_state.json").exists():
                assert load_state(engine, self.folder / "checkpoint")
                engine.begin(self.policy)
            else:
                engine.begin(self.policy)
                self.epoch(engine)
            self.epoch(engine)
            # As a trainer does: the next checkpoint writes over what a write that failed has left.
            save_state(engine, self.folder / "checkpoint")
        return engine


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], list[Any]]:
    """Return the file operations of an undisturbed life, and its plans."""
    folder = tmp_path_factory.mktemp("undisturbed")
    life = Life(folder)
    with FailingDisk(folder).watching() as disk:
        engine = life.live()
    assert engine.metrics()["coevo/reflection_calls"] > 3
    assert "template" in json.dumps(life.plans[1])
    return disk.operations, life.plans


SENTENCES: Final = (
    "cannot be written to",
    "cannot be written",
    "cannot be read",
    "the ledger of calls",
)


@pytest.mark.parametrize("cut", [False, True])
def test_no_operation_that_fails_once_loses_anything(
    cut: bool, undisturbed: tuple[list[str], list[Any]], tmp_path: Path
) -> None:
    operations, plans = undisturbed
    assert {"open", "write", "fsync", "replace", "mkdir"} <= set(operations)
    told: dict[str, int] = {}
    for number, operation in enumerate(operations):
        if cut and operation != "write":
            continue
        folder = tmp_path / str(number)
        folder.mkdir()
        life = Life(folder)
        try:
            with FailingDisk(folder, cut=cut).failing(at=number):
                engine = life.live()
        except CoevoError as error:
            assert_plain(error)
            told["ended by a sentence"] = told.get("ended by a sentence", 0) + 1
        else:
            told["went on"] = told.get("went on", 0) + 1
            assert_accounted_for(life, engine)
        # Whatever failed: the next start reads all that is there, and nothing is left half done.
        again = life.go_on()
        assert_accounted_for(life, again)
        assert_readable(folder)
        if not refused_calls(folder):
            assert life.plans[-1] == plans[1]
    print(f"{sum(told.values())} operations failed, cut {cut}: {told}")
    assert told["went on"] > 0.7 * sum(told.values())


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_disk_that_fails_for_good_ends_with_a_sentence_or_not_at_all(
    error: int, undisturbed: tuple[list[str], list[Any]], tmp_path: Path
) -> None:
    operations, _ = undisturbed
    for number in range(0, len(operations), 7):
        folder = tmp_path / str(number)
        folder.mkdir()
        life = Life(folder)
        try:
            with FailingDisk(folder, error=error).failing(at=number, lasting=True):
                life.live()
        except CoevoError as ended:
            assert_plain(ended)
        again = life.go_on()
        assert_accounted_for(life, again)
        assert_readable(folder)


def assert_plain(error: CoevoError) -> None:
    assert any(sentence in str(error) for sentence in SENTENCES), error


def assert_accounted_for(life: Life, engine: Coevolution) -> None:
    """Assert that all calls the model saw are accounted for, and at most one that it did not see."""
    counted = engine.metrics().get("coevo/reflection_calls", 0)
    assert life.asked <= counted <= life.asked + 1


def refused_calls(folder: Path) -> bool:
    """Tell whether a call was skipped, or its reply unused, because it could not be written down."""
    events = Journal(folder / "coevo").read()
    return any("cannot be written" in json.dumps(event) for event in events)


def assert_readable(folder: Path) -> None:
    journal = Journal(folder / "coevo")
    assert any(event["event"] in ("run_begins", "resumed") for event in journal.read())
    left = [path.name for path in folder.rglob("*") if path.name.endswith(".tmp")]
    assert left == []
    for path in folder.rglob("coevo_state.json"):
        json.loads(path.read_text())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device /dev/full")
def test_a_lock_on_a_full_disk_holds_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with FileIO("/dev/full", "r+") as file:
        sign(file)
    assert "/dev/full cannot be written" in caplog.text
