"""Check settings that are sent to other processes."""

from __future__ import annotations

import json
import pickle
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from prompt_coevo import Method, Section
from prompt_coevo.adapters.openrlhf.sent_settings import received, sent
from prompt_coevo.settings import Settings


def test_actors_get_what_the_environment_and_files_say_here_but_no_key(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "coevo.toml").write_text("[p2o]\ntau = 0.25\n")
    monkeypatch.setenv("PROMPT_COEVO_SEED", "7")
    monkeypatch.setenv("PROMPT_COEVO_REFLECTION__API_KEY", "sk-1")
    values = {
        "preset": "demo-p2o",
        "config_file": str(tmp_path / "coevo.toml"),
        "algorithms": ["p2o"],
    }
    settings = Settings(**values)
    monkeypatch.delenv("PROMPT_COEVO_SEED")
    monkeypatch.delenv("PROMPT_COEVO_REFLECTION__API_KEY")
    (tmp_path / "coevo.toml").unlink()
    values = sent(settings)
    assert "sk-1" not in json.dumps(values.values)
    monkeypatch.setenv("PROMPT_COEVO_SEED", "8")
    monkeypatch.setenv("PROMPT_COEVO_REFLECTION__API_KEY", "sk-2")
    there = received(values)
    assert there.reflection.api_key is not None
    assert there.reflection.api_key.get_secret_value() == "sk-2"
    assert (there.p2o, there.seed, there.gates) == (settings.p2o, 7, settings.gates)


def test_a_key_in_a_methods_section_is_not_sent(offer: Any) -> None:
    class Own(Section):
        token: SecretStr | None = None
        size: int = 1

    offer("methods", "mine", Method("mine", plugin=object, section=Own))
    own = {"token": "sk-1", "size": 2}
    settings = Settings(algorithms="mine", plugins={"mine": own})
    assert "sk-1" not in json.dumps(sent(settings).values) + repr(settings)
    assert received(sent(settings)).plugins["mine"]["size"] == 2
    assert sent(Settings(algorithms="mine")).values["plugins"] == {"mine": {}}


def test_arguments_that_a_trainer_prints_hold_no_password() -> None:
    address = "http://user:pass-word-1@host:8000/v1"
    arguments = Namespace(coevo=sent(Settings(reflection={"model": "a/b", "api_base": address})))
    assert "pass-word-1" not in f"{arguments} {vars(arguments)}"
    assert "http://host:8000/v1" in repr(arguments)
    arrived = pickle.loads(pickle.dumps(arguments.coevo))
    assert received(arrived).reflection.api_base == address
