"""Ctrl-C in the middle of a run, for real."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from helpers.answering import answer, sums
from prompt_coevo.cli import main
from standins.openai_server import openai_server


def _run(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["prompt-coevo", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code


AT_ONCE = 4
LATER = 40
"""The call from which on the server waits for us."""


def test_ctrl_c_leaves_a_folder_that_can_be_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, go_on, lock = threading.Event(), threading.Event(), threading.Lock()
    calls: list[str] = []

    def waiting(body: dict[str, Any]) -> str:
        with lock:
            calls.append(json.dumps(body["messages"]))
            many = len(calls) > LATER
        if many:
            reached.set()
            go_on.wait()
        return answer(body)

    with openai_server(waiting) as server:
        command = [
            *(sys.executable, "-P", "-c", "from prompt_coevo.cli import main; main()"),
            *("evolve", str(sums(tmp_path / "data.jsonl")), "--policy", "openai/policy"),
            *("--api-base", server.base, "--reward", "number", "--instruction", "Add."),
            *("--rounds", "1", "--concurrency", str(AT_ONCE), "--out", str(tmp_path / "out")),
        ]
        environment = {
            **os.environ,
            "OPENAI_API_KEY": "sk-test-0123456789",
            "PROMPT_COEVO_PREFLIGHT__REFLECTION": "off",
        }
        first = subprocess.Popen(
            command,
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
            # A shell that started the tests in the background has SIGINT ignored, here too.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        assert reached.wait(300)
        first.send_signal(signal.SIGINT)
        said = first.communicate()[1]
        assert first.returncode == 130, said
        assert "the same command goes on in" in said
        assert "Traceback" not in said
        go_on.set()
        paid = LATER  # those that were answered
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        _run(command[4:], monkeypatch)
        cost = json.loads((tmp_path / "out" / "result.json").read_text())["cost"]
        # One that was written down, and cut off before it went out, counts as well.
        assert len(calls) <= cost["calls"] <= len(calls) + AT_ONCE
        _run([*command[4:-1], str(tmp_path / "whole")], monkeypatch)
    undisturbed = json.loads((tmp_path / "whole" / "result.json").read_text())
    resumed = json.loads((tmp_path / "out" / "result.json").read_text())
    assert resumed["best"] == undisturbed["best"]
    assert resumed["after"] == undisturbed["after"]
    lost = resumed["cost"]["calls"] - undisturbed["cost"]["calls"]
    assert 0 < lost <= AT_ONCE
    assert paid < undisturbed["cost"]["calls"]
