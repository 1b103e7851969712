"""Check a trainer's command that has our flags in front of it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from prompt_coevo.adapters.openrlhf.command import run_command
from prompt_coevo.errors import HostError

HOST = """
import sys

if __name__ == "__main__":
    print("host", *sys.argv[1:])
"""


@pytest.fixture(autouse=True)
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "small_host_command.py").write_text(HOST)
    monkeypatch.syspath_prepend(tmp_path)


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> list[Mapping[str, object]]:
    """Run the command and return the settings that were installed."""
    monkeypatch.setattr(sys, "argv", ["command", *arguments])
    installed: list[Mapping[str, object]] = []
    run_command("small_host_command", installed.append)
    return installed


def test_the_host_gets_the_rest(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    installed = run(monkeypatch, "--lr", "1", "--coevo.method", "p2o", "--seed", "2")
    assert installed == [{"algorithms": ["p2o"]}]
    assert capsys.readouterr().out == "host --lr 1 --seed 2\n"


def test_without_flags_nothing_is_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--lr", "1") == []
    assert capsys.readouterr().out == "host --lr 1\n"


def test_help_is_ours_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--coevo.help") == []
    assert capsys.readouterr().out.startswith("--coevo.method")


def test_an_error_of_ours_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(settings: Mapping[str, object]) -> None:
        raise HostError("no")

    monkeypatch.setattr(sys, "argv", ["command", "--coevo.method", "p2o"])
    with pytest.raises(SystemExit, match="error: no"):
        run_command("small_host_command", refuse)
