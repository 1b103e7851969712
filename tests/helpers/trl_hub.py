"""Fixtures for scripts: a folder laid out like the hub, and a server in place of OpenAI's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from datasets import config

from helpers.trl_scripts import TEMPLATE, lay_out
from standins.openai_server import Server, openai_server


@pytest.fixture(scope="session")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hub")
    lay_out(folder)
    return folder


@pytest.fixture
def template_server() -> Iterator[Server]:
    with openai_server(f"<template>{TEMPLATE}</template>") as server:
        yield server


@pytest.fixture
def as_on_the_hub(
    hub: Path, tmp_path: Path, template_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Return the folder that scripts run in, with a server in place of OpenAI's that returns a template."""
    for one in hub.iterdir():
        (tmp_path / one.name).symlink_to(one)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setenv("OPENAI_API_BASE", template_server.base)
    monkeypatch.setenv("OPENAI_API_KEY", "nobody's")
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
