"""Check that a removed feature says so in one sentence, and names its replacement."""

from __future__ import annotations

import importlib
import re
from types import SimpleNamespace
from typing import Any

import pytest

from prompt_coevo import registry, removed
from prompt_coevo.algorithms.p2o.settings import P2OSettings
from prompt_coevo.algorithms.stream.settings import StreamSettings
from prompt_coevo.cli import main
from prompt_coevo.engine.plugins import Plugins
from prompt_coevo.errors import PluginError, SettingsError
from prompt_coevo.settings import Settings


@pytest.mark.parametrize("name", removed.SETTINGS)
def test_a_setting(name: str) -> None:
    values: Any = 1
    for part in reversed(name.split(".")):
        values = {part: values}
    with pytest.raises(SettingsError) as refused:
        Settings(**values)
    assert f"{name} was removed: {removed.SETTINGS[name]}" in refused.value.problems


def test_settings_of_the_stream_are_refused_under_p2o() -> None:
    of_the_stream = StreamSettings.model_fields.keys() - P2OSettings.model_fields.keys()
    of_the_stream -= {"comparison"}  # which is younger than the method's own section
    for name in of_the_stream:
        assert f"set stream.{name}" in removed.SETTINGS[f"p2o.{name}"]


@pytest.mark.parametrize("name", removed.SETTINGS)
def test_a_setting_of_the_environment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"PROMPT_COEVO_{name.upper().replace('.', '__')}", "1")
    with pytest.raises(SettingsError) as refused:
        Settings()
    assert f"{name} was removed: {removed.SETTINGS[name]}" in str(refused.value)


@pytest.mark.parametrize("name", removed.HOOKS)
def test_a_hook(name: str) -> None:
    with pytest.raises(PluginError, match=f"{name} was removed: "):
        Plugins().register(SimpleNamespace(**{name: lambda: None}), "stranger")


@pytest.mark.parametrize("name", removed.NAMES)
def test_a_name(name: str) -> None:
    kind, _, own = name.partition(".")
    with pytest.raises(SettingsError, match=f"{own} was removed: {removed.NAMES[name]}"):
        registry.load(kind, own, "retriever")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", removed.COMMANDS)
def test_a_command(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    *command, last = name.split()
    calls = [[*command, last]]
    if last.startswith("-"):
        calls += [[*command, "FOLDER", f"{last}=3"], [*command, "--port", "9", last, "3"]]
    for arguments in calls:
        monkeypatch.setattr("sys.argv", ["prompt-coevo", *arguments])
        with pytest.raises(SystemExit):
            main()
        assert capsys.readouterr().err == (
            f"error: prompt-coevo {name} was removed: {removed.COMMANDS[name]}\n"
        )


@pytest.mark.parametrize("name", removed.MODULES)
def test_a_module(name: str) -> None:
    for old in (name, f"{name}.part"):
        with pytest.raises(ModuleNotFoundError) as refused:
            importlib.import_module(old)
        assert str(refused.value) == f"{name} is now {removed.MODULES[name]}"
    importlib.import_module(re.match(r"[\w.]+", removed.MODULES[name]).group())  # type: ignore[union-attr]
    with pytest.raises(ModuleNotFoundError, match="No module named 'prompt_coevo.nothing'"):
        importlib.import_module("prompt_coevo.nothing")
