"""Check every byte that a GRPOTrainer with the stream writes and logs for planted secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.planted_secrets import found_below, found_in, saying_all, variables
from helpers.trl_runs import EPOCHS, events, know_all
from prompt_coevo.adapters.trl import attach
from standins.openai_server import openai_server


def test_no_byte_of_the_run_and_its_log_holds_a_secret(
    make_trainer: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def teach(body: dict[str, Any]) -> str:
        return know_all(body["messages"][-1]["content"])

    with openai_server(saying_all(teach)) as server:
        for name, value in variables(server.base).items():
            monkeypatch.setenv(name, value)
        trainer = make_trainer(**EPOCHS, save_strategy="steps", save_steps=4)
        settings = {
            "question_id_column": "id",
            "stream": {"tau": 0.5},
            "preflight": {"reflection": "off"},
        }
        attach(trainer, settings, reflection="openai/teacher")
        trainer.train()
        assert server.requests
    assert any("[api key]" in str(event) for event in events(trainer))
    assert list(Path(trainer.args.output_dir).glob("checkpoint-*"))
    assert found_below(Path(trainer.args.output_dir)) == []
    shown = capfd.readouterr()
    assert list(found_in({"the log": caplog.text, "stdout": shown.out, "stderr": shown.err})) == []
