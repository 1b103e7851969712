"""A run that is killed and goes on from its checkpoint in another output directory: its budget holds."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest

from helpers.families import Families, Teacher, epoch
from prompt_coevo import Coevolution, Settings
from prompt_coevo.adapters.common.checkpoint import load_state, save_state

CAP = 16


def life(folder: Path, checkpoint: Path | None, teacher: Teacher, until: int) -> Path:
    """Go on from a checkpoint; write one after the first update, and be killed after `until`."""
    killed = False

    def alive(prompt: str) -> str:
        if killed:  # a thread that a kill would have ended
            raise SystemExit
        return teacher(prompt)

    settings = Settings(
        reflection={"function": alive, "max_calls": CAP}, preflight={"reflection": "off"}
    )
    engine, policy = Coevolution.from_settings(settings, output_dir=folder), Families(count=64)
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


def test_without_the_ledger_it_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    teacher = Teacher()
    checkpoint = life(tmp_path / "a", None, teacher, 3)
    life(tmp_path / "a", checkpoint, teacher, 1)
    assert "is not there" not in caplog.text
    again = life(tmp_path / "b", checkpoint, teacher, 2)
    assert "is not there" not in caplog.text
    shutil.rmtree(tmp_path / "b" / "coevo")
    life(tmp_path / "c", again, teacher, 1)
    assert f"copy the file to {tmp_path / 'c' / 'coevo'}" in caplog.text
    assert (
        "what it spent after the checkpoint is not counted, and reflection.max_calls" in caplog.text
    )
