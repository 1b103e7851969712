"""Check that a budget holds when a killed run resumes in another output directory."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import Any

import pytest

from helpers.families import Families, Teacher, epoch
from prompt_coevo import Coevolution, Settings
from prompt_coevo.adapters.common.checkpoint import STATE_FILE, load_state, save_state
from prompt_coevo.engine.state import read_state
from prompt_coevo.errors import StateError

CAP = 16


def life(
    folder: Path, checkpoint: Path | None, teacher: Teacher, until: int, **settings: Any
) -> Path:
    """Resume from a checkpoint, write one after the first update, and kill the run after `until`."""
    killed = False

    def alive(prompt: str) -> str:
        if killed:  # a thread that a kill would have ended
            raise SystemExit
        return teacher(prompt)

    reflection = {"function": alive, "max_calls": CAP} | settings.pop("reflection", {})
    given = Settings(reflection=reflection, preflight={"reflection": "off"}, **settings)
    engine, policy = Coevolution.from_settings(given, output_dir=folder), Families(count=64)
    if checkpoint is not None:
        assert load_state(engine, checkpoint)
    engine.begin(policy)
    written = folder / "checkpoint-1"
    updates = itertools.chain.from_iterable(epoch(engine, policy, shuffle) for shuffle in range(9))
    for number, _ in zip(range(until), updates, strict=False):
        if number == 0:
            save_state(engine, written)
    killed = True
    return written


@pytest.mark.parametrize("updates", [2, 4, 7])
def test_the_cap_holds_wherever_a_run_goes_on(updates: int, tmp_path: Path) -> None:
    teacher, checkpoint = Teacher(lambda prompt: "<template>of no use</template>"), None
    for number in range(8):
        checkpoint = life(tmp_path / str(number), checkpoint, teacher, updates)
    assert CAP / 2 < len(teacher.prompts) <= CAP


def test_so_it_does_where_the_whole_folder_was_moved_or_copied(tmp_path: Path) -> None:
    teacher = Teacher(lambda prompt: "<template>of no use</template>")
    life(tmp_path / "0", None, teacher, 3)
    for number in range(8):
        copied = tmp_path / "copies" / str(number)
        shutil.copytree(tmp_path / str(number), copied, ignore=shutil.ignore_patterns("lock"))
        life(tmp_path / str(number + 1), copied / "checkpoint-1", teacher, 3)
    assert len(teacher.prompts) <= CAP


def test_without_the_ledger_it_is_refused_unless_forced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    teacher = Teacher()
    checkpoint = life(tmp_path / "a", None, teacher, 3)
    life(tmp_path / "a", checkpoint, teacher, 1)
    again = life(tmp_path / "b", checkpoint, teacher, 2)
    again = shutil.copytree(again, tmp_path / "copied" / "checkpoint-1")
    asked = len(teacher.prompts)
    with pytest.raises(StateError, match=r"reflection\.max_calls may be exceeded") as refused:
        life(tmp_path / "c", again, teacher, 1)
    assert f"copy the file to {tmp_path / 'c' / 'coevo'}" in str(refused.value)
    assert len(teacher.prompts) == asked
    assert "may be exceeded" not in caplog.text
    life(tmp_path / "d", again, teacher, 1, resume="force")
    assert "reflection.max_calls may be exceeded" in caplog.text


def test_an_adapter_that_does_not_know_where_its_checkpoint_lies_is_refused_too(
    tmp_path: Path,
) -> None:
    """Such as OpenRLHF's adapter, which loads the state without the ledger's paths."""
    checkpoint = life(tmp_path / "a", None, Teacher(), 3)
    settings = Settings(
        reflection={"function": Teacher(), "max_calls": CAP}, preflight={"reflection": "off"}
    )
    engine = Coevolution.from_settings(settings, output_dir=tmp_path / "b")
    with pytest.raises(StateError, match=r"reflection\.max_calls may be exceeded"):
        engine.load_state_dict(read_state(checkpoint / STATE_FILE))


def test_a_lost_ledger_in_the_same_folder_is_refused_too(tmp_path: Path) -> None:
    teacher, checkpoint = Teacher(), None
    for _ in range(2):
        checkpoint = life(tmp_path / "a", checkpoint, teacher, 3)
    (tmp_path / "a" / "coevo" / "calls.jsonl").unlink()
    with pytest.raises(StateError, match=r"reflection\.max_calls may be exceeded"):
        life(tmp_path / "a", checkpoint, teacher, 1)


@pytest.mark.parametrize("kept", [0, 1])
def test_so_is_an_emptied_or_cut_one(kept: int, tmp_path: Path) -> None:
    teacher, checkpoint = Teacher(), None
    for _ in range(2):
        checkpoint = life(tmp_path / "a", checkpoint, teacher, 3)
    calls = tmp_path / "a" / "coevo" / "calls.jsonl"
    calls.write_text("".join(calls.read_text("utf-8").splitlines(keepends=True)[:kept]), "utf-8")
    with pytest.raises(StateError, match="is neither whole in"):
        life(tmp_path / "a", checkpoint, teacher, 1)


def test_in_its_own_folder_a_run_goes_on(tmp_path: Path) -> None:
    teacher, checkpoint = Teacher(), None
    for updates in (1, 1, 2, 3):
        checkpoint = life(tmp_path / "a", checkpoint, teacher, updates)
    assert len(teacher.prompts) <= CAP


def test_without_a_budget_nothing_is_refused(tmp_path: Path) -> None:
    teacher = Teacher()
    checkpoint = life(tmp_path / "a", None, teacher, 3, reflection={"max_calls": None})
    copied = shutil.copytree(checkpoint, tmp_path / "copied" / "checkpoint-1")
    life(tmp_path / "b", copied, teacher, 1, reflection={"max_calls": None})
