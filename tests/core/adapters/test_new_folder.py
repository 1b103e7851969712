"""Check that a budget holds when a killed run resumes in another output directory."""

from __future__ import annotations

import errno
import itertools
import shutil
import subprocess
import sys
import threading
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from helpers.families import Families, Teacher, epoch
from prompt_coevo import Coevolution, Settings, files
from prompt_coevo.adapters.common.checkpoint import STATE_FILE, load_state, save_state
from prompt_coevo.engine import run_lock
from prompt_coevo.engine.state import read_state
from prompt_coevo.errors import StateError
from prompt_coevo.lines import Lines

CAP = 16


def life(
    folder: Path,
    checkpoint: Path | None,
    teacher: Teacher,
    until: int,
    saves: bool = True,
    **settings: Any,
) -> Path:
    """Resume from a checkpoint, write one after the first update, and kill the run after `until`."""
    killed, others = False, set(threading.enumerate())

    def alive(prompt: str) -> str:
        if killed:  # a thread that a kill would have ended; its call was sent
            teacher.prompts.append(prompt)
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
        if number == 0 and saves:
            save_state(engine, written)
    killed = True
    for thread in set(threading.enumerate()) - others:
        thread.join()
    return written


def cannot_append(patched: pytest.MonkeyPatch, folder: Path, error: BaseException) -> None:
    """Raise the error where something would be appended to a file of the folder."""
    append = files.append

    def fail(path: Path, data: bytes, *, sync: bool = False) -> None:
        if path.is_relative_to(folder):
            raise error
        append(path, data, sync=sync)

    patched.setattr(files, "append", fail)


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


@pytest.mark.parametrize("source", ["the folder", "a copy each time"])
def test_so_it_does_where_jobs_are_killed_before_they_save(source: str, tmp_path: Path) -> None:
    """Each resumes from the first checkpoint, and the calls of those between are in other folders."""
    teacher = Teacher(lambda prompt: "<template>of no use</template>")
    checkpoint = life(tmp_path / "0", None, teacher, 2)
    first = len(teacher.prompts)
    for number in range(1, 6):
        if source != "the folder":
            copied = tmp_path / "copies" / str(number)
            shutil.copytree(tmp_path / "0", copied, ignore=shutil.ignore_patterns("lock"))
            checkpoint = copied / "checkpoint-1"
        life(tmp_path / str(number), checkpoint, teacher, number + 2, saves=False)
    assert first < len(teacher.prompts) <= CAP


def test_a_copy_of_the_whole_folder_goes_on_beside_the_original(tmp_path: Path) -> None:
    """So does a ledger that was copied by hand, as a message advises; OpenRLHF finds that alone."""
    teacher = Teacher(lambda prompt: "<template>of no use</template>")
    checkpoint = life(tmp_path / "a", None, teacher, 2)
    copied = shutil.copytree(tmp_path / "a", tmp_path / "b", ignore=shutil.ignore_patterns("lock"))
    life(copied, copied / "checkpoint-1", teacher, 3, saves=False)
    (tmp_path / "c" / "coevo").mkdir(parents=True)
    shutil.copy(tmp_path / "a" / "coevo" / "calls.jsonl", tmp_path / "c" / "coevo")
    life(tmp_path / "c", checkpoint, teacher, 9, saves=False)
    assert CAP / 2 < len(teacher.prompts) <= CAP


def test_a_fork_of_a_run_that_is_alive_takes_nothing_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a budget; the other process is stood in for by the answer of the lock."""
    free = {"reflection": {"max_calls": None}}
    checkpoint = life(tmp_path / "a", None, Teacher(), 2, **free)
    ledger = tmp_path / "a" / "coevo" / "calls.jsonl"
    before = ledger.read_text("utf-8")
    with monkeypatch.context() as patched:
        patched.setattr(run_lock, "kept", lambda folder: nullcontext("process 1"))
        life(tmp_path / "b", checkpoint, Teacher(), 2, **free)
    assert ledger.read_text("utf-8") == before
    life(tmp_path / "a", checkpoint, Teacher(), 1, **free)
    assert ledger.read_text("utf-8").startswith(before)


def test_under_another_identity_it_is_the_same_account(tmp_path: Path) -> None:
    teacher = Teacher(lambda prompt: "<template>of no use</template>")
    checkpoint = life(tmp_path / "a", None, teacher, 2)
    changed = life(tmp_path / "a", checkpoint, teacher, 2, seed=5, resume="force")
    life(tmp_path / "b", changed, teacher, 5, saves=False, seed=5)
    first = shutil.copytree(changed, tmp_path / "a" / "first")
    life(tmp_path / "d", first, teacher, 9, saves=False, resume="force")
    assert len(teacher.prompts) <= CAP


def test_replies_that_came_after_the_checkpoint_are_used_again(tmp_path: Path) -> None:
    """In another folder as in the same one."""
    asked = []
    for folder, resumed_in in (("a", "a"), ("b", "c")):
        checkpoint = life(tmp_path / folder, None, Teacher(), 3)
        life(tmp_path / resumed_in, checkpoint, Teacher(), 3)
        lines = Lines(tmp_path / resumed_in / "coevo" / "calls.jsonl").read()
        asked.append(
            Counter(line["request"] for line in lines if line and line["event"] == "asked")
        )
    assert asked[0] == asked[1]
    assert asked[0].total() < CAP


def test_where_the_run_went_on_and_that_is_gone_it_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint = life(tmp_path / "a", None, Teacher(), 2)
    life(tmp_path / "b", checkpoint, Teacher(), 2)
    shutil.rmtree(tmp_path / "b")
    for folder in ("a", "b", "c"):
        with pytest.raises(
            StateError, match="which is not there or has other calls, so reflection"
        ):
            life(tmp_path / folder, checkpoint, Teacher(), 1)
    again = life(tmp_path / "a", checkpoint, Teacher(), 2, resume="force")
    assert "may be exceeded" in caplog.text
    life(tmp_path / "a", again, Teacher(), 1)  # it is asked once


def test_so_it_is_where_the_first_folder_was_renamed_since(tmp_path: Path) -> None:
    life(tmp_path / "a", None, Teacher(), 2)
    life(tmp_path / "b", tmp_path / "a" / "checkpoint-1", Teacher(), 2)
    shutil.rmtree(tmp_path / "b")
    (tmp_path / "a").rename(tmp_path / "renamed")
    with pytest.raises(StateError, match="which is not there or has other calls, so reflection"):
        life(tmp_path / "c", tmp_path / "renamed" / "checkpoint-1", Teacher(), 1)


def test_a_folder_that_came_back_from_a_scratch_disk_goes_on(tmp_path: Path) -> None:
    """A job copies its folder to another disk, resumes there, and copies it back."""
    teacher = Teacher(lambda prompt: "<template>of no use</template>")
    life(tmp_path / "home", None, teacher, 2)
    for until in (3, 4, 5, 9):
        life(tmp_path / "scratch", tmp_path / "home" / "checkpoint-1", teacher, until)
        shutil.rmtree(tmp_path / "home")
        (tmp_path / "scratch").rename(tmp_path / "home")
    life(tmp_path / "home", tmp_path / "home" / "checkpoint-1", teacher, 3)
    assert CAP / 2 < len(teacher.prompts) <= CAP


def test_calls_behind_those_of_another_run_are_not_made(tmp_path: Path) -> None:
    """The new folder has another run's ledger: a second resume would not find calls made there."""
    checkpoint = life(tmp_path / "a", None, Teacher(), 3)
    life(tmp_path / "b", None, Teacher(), 2, seed=99)
    with pytest.raises(StateError, match="has calls of another run.*another output directory"):
        life(tmp_path / "b", checkpoint, Teacher(), 2)


def test_another_run_in_the_first_folder_does_not_hide_where_this_one_went(tmp_path: Path) -> None:
    teacher = Teacher(lambda prompt: "<template>of no use</template>")
    checkpoint = life(tmp_path / "a", None, teacher, 2)
    life(tmp_path / "b", checkpoint, teacher, 4, saves=False)
    kept = shutil.copytree(checkpoint, tmp_path / "a" / "kept")
    life(tmp_path / "a", None, Teacher(), 2, seed=99)
    for number in range(3):
        life(tmp_path / f"c{number}", kept, teacher, 5, saves=False)
    assert len(teacher.prompts) <= CAP


def test_the_same_command_begun_again_in_the_first_folder_counts_there(tmp_path: Path) -> None:
    checkpoint = life(tmp_path / "a", None, Teacher(), 2)
    life(tmp_path / "b", checkpoint, Teacher(), 2)
    again = life(tmp_path / "a", None, Teacher(), 2)
    life(tmp_path / "a", again, Teacher(), 1)
    life(tmp_path / "c", again, Teacher(), 1)


def test_a_kill_while_the_ledger_is_moved_costs_no_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before the old file names the new one; then another folder is used, and then this one."""
    teacher = Teacher(lambda prompt: "<template>of no use</template>")
    checkpoint = life(tmp_path / "a", None, teacher, 2)
    with monkeypatch.context() as patched:
        cannot_append(patched, tmp_path / "a", KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            life(tmp_path / "b", checkpoint, teacher, 1)
    for folder in ("c", "b", "d", "b"):
        life(tmp_path / folder, checkpoint, teacher, 5, saves=False)
    assert len(teacher.prompts) <= CAP


def test_a_folder_that_was_renamed_counts_as_it_is(tmp_path: Path) -> None:
    teacher = Teacher(lambda prompt: "<template>of no use</template>")
    life(tmp_path / "a", None, teacher, 2)
    for number in range(8):
        renamed = (tmp_path / "a").rename(tmp_path / f"renamed{number}")
        life(renamed, renamed / "checkpoint-1", teacher, 3)
        renamed.rename(tmp_path / "a")
    assert len(teacher.prompts) <= CAP


def test_another_run_where_the_folder_was_is_not_counted(tmp_path: Path) -> None:
    """A folder is archived, and the same command starts again under its name."""
    life(tmp_path / "a", None, Teacher(), 2)
    archived = (tmp_path / "a").rename(tmp_path / "archived")
    life(tmp_path / "a", None, Teacher(), 3)
    calls = (tmp_path / "a" / "coevo" / "calls.jsonl").read_text("utf-8")
    life(archived, archived / "checkpoint-1", Teacher(), 1)
    assert (tmp_path / "a" / "coevo" / "calls.jsonl").read_text("utf-8") == calls


def test_beside_a_run_that_is_still_alive_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life(tmp_path / "a", None, Teacher(), 2)
    copied = shutil.copytree(tmp_path / "a", tmp_path / "b")
    shutil.rmtree(tmp_path / "a")  # this process has its lock
    hold = (
        "import fcntl, sys; fcntl.flock(f := open(sys.argv[1], 'a'), 2); print(flush=True); input()"
    )
    monkeypatch.setattr(run_lock, "_PATIENCE_S", 0.1)
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(copied / "coevo" / "lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as alive:
        assert alive.stdout
        assert alive.stdout.readline()
        with pytest.raises(StateError, match="is still alive in"):
            life(tmp_path / "c", copied / "checkpoint-1", Teacher(), 1)
        alive.communicate(b"\n")
    life(tmp_path / "c", copied / "checkpoint-1", Teacher(), 1)


def test_from_a_folder_that_cannot_be_written_it_goes_on_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    teacher = Teacher(lambda prompt: "<template>of no use</template>")
    checkpoint = life(tmp_path / "a", None, teacher, 3)
    cannot_append(monkeypatch, tmp_path / "a", OSError(errno.EROFS, "Read-only file system"))
    life(tmp_path / "b", checkpoint, teacher, 9)
    assert "cannot be written, so a run that resumes from" in caplog.text
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
    assert f"copy it to {tmp_path / 'c' / 'coevo'}" in str(refused.value)
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
