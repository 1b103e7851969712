"""Where settings come from."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import BaseModel
from pydantic_settings import BaseSettings, EnvSettingsSource
from pydantic_settings.exceptions import SettingsError as SourceError

from prompt_coevo.errors import SettingsError
from prompt_coevo.registry import DISABLE_PLUGINS_VARIABLE, RETRIEVAL_TOKEN_VARIABLE
from prompt_coevo.removed import SETTINGS
from prompt_coevo.settings.mistakes import did_you_mean, near_names
from prompt_coevo.settings.presets import preset_text
from prompt_coevo.settings.reflection import is_model_name

ENV_PREFIX: Final = "PROMPT_COEVO_"
AGENT_SECTION: Final = "search_agent"
"""The part of a preset or a settings file for the search agent, whose settings are separate."""
SUFFIXES: Final = (".toml", ".yaml", ".yml")
"""Of a settings file."""
# These are read elsewhere.
_NO_SETTINGS: Final = {DISABLE_PLUGINS_VARIABLE, RETRIEVAL_TOKEN_VARIABLE}


def read_preset(name: Any) -> dict[str, Any]:
    """A preset's values, without the search agent's; none for None. Raises SettingsError."""
    return {} if name is None else _without_agent(tomllib.loads(preset_text(str(name))))


def read_file(path: Any) -> dict[str, Any]:
    """The values of a YAML or TOML file, without the agent's; none for None. Raises SettingsError."""
    return {} if path is None else _without_agent(_read_file(path))


def read_agent(place: str | Path) -> dict[str, Any]:
    """The section `search_agent` of a preset, by its name, or of a YAML or TOML file, by its path.

    Raises SettingsError, also if there is none.
    """
    if not isinstance(place, str | Path):
        raise SettingsError(f"preset must be a name or a path, but is a {type(place).__name__}")
    is_file = Path(place).suffix in SUFFIXES
    values = _read_file(place) if is_file else tomllib.loads(preset_text(str(place)))
    section = values.get(AGENT_SECTION)
    if not isinstance(section, dict):
        raise SettingsError(
            f"preset = {str(place)!r} has no section {AGENT_SECTION} with names and values; write one, or "
            "leave preset out"
        )
    return section


def _without_agent(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != AGENT_SECTION}


def _read_file(path: Any) -> dict[str, Any]:
    if not isinstance(path, str | Path):
        raise SettingsError(
            f"config_file must be the path of a file, but is a {type(path).__name__}"
        )
    path = Path(path)
    try:
        text = path.read_text("utf-8")
        values = tomllib.loads(text) if path.suffix == ".toml" else yaml.safe_load(text)
    except OSError as error:
        raise SettingsError(f"the settings file {path} cannot be read: {error.strerror}") from None
    except Exception as error:  # no UTF-8, a wrong tag, lists too deep: each its own kind
        told = _one_line(error)
        raise SettingsError(f"the settings file {path} cannot be parsed: {told}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise SettingsError(f"the settings file {path} must hold names and values at its top level")
    if no_texts := [name for name in values if not isinstance(name, str)]:
        raise SettingsError(f"the settings file {path} has a name that is no text: {no_texts[0]!r}")
    return values


def read_yaml(text: str) -> Any:
    """Parse a YAML text. Raises ValueError with the mistake, in one line."""
    try:
        return yaml.safe_load(text)
    except Exception as error:  # a date without such a day, too deep: each its own kind
        raise ValueError(_one_line(error)) from None


def read_environment(model: type[BaseSettings], found: list[str]) -> dict[str, Any]:
    """The values of `PROMPT_COEVO_*` variables. What is wrong with one is added to `found`.

    A variable that would silently do nothing is wrong, too.
    """
    found += idle_variables(os.environ, model)
    source = EnvSettingsSource(model)
    good: dict[str, str | None] = {}
    for name, value in source.env_vars.items():
        if not name.upper().startswith(ENV_PREFIX):
            continue
        if name.upper() == f"{ENV_PREFIX}REFLECTION" and is_model_name(value):
            value = json.dumps({"model": value})
        # One at a time, because the source stops at the first that it cannot read.
        source.env_vars = {name: value}
        try:
            source()
        except SourceError as error:
            found.append(
                f"the environment variable {name.upper()} cannot be read: {_one_line(error.__cause__)}"
            )
        except RecursionError:
            found.append(
                f"the environment variable {name.upper()} holds lists in lists too deep to be read"
            )
        else:
            good[name] = value
    source.env_vars = good
    return source()


def idle_variables(names: Iterable[str], model: type[BaseModel]) -> list[str]:
    """A sentence about each `PROMPT_COEVO_*` variable that would silently do nothing."""
    sentences = []
    for name in names:
        if not name.upper().startswith(ENV_PREFIX) or name in _NO_SETTINGS:
            continue
        field = name[len(ENV_PREFIX) :].split("__")[0].lower()
        if field in SETTINGS:
            sentences.append(f"{field} was removed: {SETTINGS[field]} (the variable {name})")
        elif field not in model.model_fields:
            hint = did_you_mean(near_names(field, (), model), model.model_fields)
            sentences.append(f"the environment variable {name} sets nothing{hint}")
    return sentences


def merged(*sources: Mapping[str, Any]) -> dict[str, Any]:
    """The values of several sources, the strongest first, sections merged by value."""
    values: dict[str, Any] = {}
    for source in reversed(sources):
        for name, value in source.items():
            old = values.get(name)
            if isinstance(old, Mapping) and isinstance(value, Mapping):
                values[name] = merged(value, old)
            else:
                values[name] = value
    return values


def _one_line(error: BaseException | None) -> str:
    return " ".join(str(error).split()) or type(error).__name__
