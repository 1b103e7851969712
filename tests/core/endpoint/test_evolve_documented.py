"""docs/evolve.md: its command and its output, against the server of the tests."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from helpers.answering import MAGIC, answer, sums
from prompt_coevo.cli import main
from standins.openai_server import openai_server

PAGE = (Path(__file__).parents[3] / "docs" / "evolve.md").read_text("utf-8")


def block(language: str, place: int = 0) -> str:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)[place]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    sums(tmp_path / "data.jsonl")
    return tmp_path


def test_the_command_prints_what_the_page_shows(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    (line,) = [line for line in block("bash").splitlines() if line.startswith("prompt-coevo")]
    words = shlex.split(line)
    words[words.index("--instruction") + 1] = "Add."
    with openai_server(answer) as server:
        monkeypatch.setenv("OPENAI_API_BASE", server.base)
        monkeypatch.setattr("sys.argv", words)
        with pytest.raises(SystemExit) as ended:
            main()
    said = capsys.readouterr()
    assert not ended.value.code, said.err
    assert MAGIC in said.out
    assert block("text").splitlines() == said.err.splitlines()[: len(block("text").splitlines())]
