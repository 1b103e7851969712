"""Where settings come from.

pydantic-settings reads the environment. What it has for the rest cannot keep two promises:

- All mistakes are told at once, each with its place. It merges and checks in one step, which ends at the
  first source that cannot be read.
- No file that is named is silently without effect. Its sources of YAML and TOML pass over a path where
  nothing is, a folder or a pipe, and take `false`, 0 and a list of pairs for names and values.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml
from pydantic import BaseModel
from pydantic_settings import BaseSettings, EnvSettingsSource
from pydantic_settings.exceptions import SettingsError as SourceError

from prompt_coevo.errors import SettingsError
from prompt_coevo.registry import DISABLE_PLUGINS_VARIABLE, RETRIEVAL_TOKEN_VARIABLE
from prompt_coevo.settings.mistakes import Source, did_you_mean, near_names
from prompt_coevo.settings.presets import preset_text
from prompt_coevo.settings.reflection import is_model_name
from prompt_coevo.settings.section import Section

ENV_PREFIX: Final = "PROMPT_COEVO_"
AGENT_SECTION: Final = "search_agent"
"""The part of a preset or a settings file for the search agent, whose settings are separate."""
SUFFIXES: Final = (".toml", ".yaml", ".yml")
"""Of a settings file."""
# These are read elsewhere.
_NO_SETTINGS: Final = {DISABLE_PLUGINS_VARIABLE, RETRIEVAL_TOKEN_VARIABLE}
V = TypeVar("V")


def read_sources(
    model: type[BaseSettings], arguments: Mapping[str, Any], found: list[str]
) -> list[Source]:
    """Read all values, the strongest first; what cannot be read is added to `found`."""
    stronger = [_given(arguments), read_environment(model, found)]

    def read_named(setting: str, read: Callable[[Any], dict[str, Any]]) -> Any:
        where = next((one[setting] for one in stronger if one.get(setting) is not None), None)
        values = {}
        try:
            values = read(where)
        except SettingsError as error:
            found.append(str(error))
        stronger.append(values)
        return where

    path = read_named("config_file", read_file)
    if "config_file" in stronger[-1]:
        found.append(
            f"config_file has no effect in a settings file; leave it out (in the file {path})"
        )
    name = read_named("preset", read_preset)
    labels = ("", "the environment", f"the file {path}", f"the preset {name}")
    return list(zip(labels, map(_with_model, stronger), strict=True))


def _given(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Take sections given as objects for what was set in them, so that sources merge by value."""
    plugins = arguments.get("plugins")
    if isinstance(plugins, Mapping):
        arguments = {**arguments, "plugins": {one: _set_in(plugins[one]) for one in plugins}}
    return {name: _set_in(value) for name, value in arguments.items()}


def _set_in(value: V) -> V | dict[str, Any]:
    if isinstance(value, Section):
        return {name: getattr(value, name) for name in value.model_fields_set}
    return value


def _with_model(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Take a model's name in the place of the section `reflection` for its model."""
    name = values.get("reflection")
    return {**values, "reflection": {"model": name}} if is_model_name(name) else values


def read_preset(name: str | None) -> dict[str, Any]:
    """A preset's values, without the search agent's; none for None. Raises SettingsError."""
    return {} if name is None else _without_agent(tomllib.loads(preset_text(str(name))))


def read_file(path: str | Path | None) -> dict[str, Any]:
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


def _without_agent(values: dict[str, V]) -> dict[str, V]:
    return {name: value for name, value in values.items() if name != AGENT_SECTION}


def _read_file(path: str | Path) -> dict[str, Any]:
    if not isinstance(path, str | Path):
        raise SettingsError(
            f"config_file must be the path of a file, but is a {type(path).__name__}"
        )
    path = Path(path)
    try:
        text = path.read_text("utf-8")
        values = tomllib.loads(text) if path.suffix == ".toml" else yaml.load(text, _Yaml)
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
        raise SettingsError(
            f"the settings file {path} has a name that is no text: {no_texts[0]!r}; put it in quotes"
        )
    return values


class _Yaml(yaml.SafeLoader):
    """Refuses a name that stands twice, of which YAML would take the last without a word."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if key.id != "scalar" or key.tag.endswith(":merge"):
                continue
            if (key.tag, key.value) in seen:
                line = key.start_mark.line + 1
                raise yaml.YAMLError(f"{key.value} stands there twice, again in line {line}")
            seen.add((key.tag, key.value))
        return node


def read_yaml(text: str) -> Any:
    """Parse a YAML text. Raises ValueError with the mistake, in one line."""
    try:
        return yaml.load(text, _Yaml)
    except Exception as error:  # a date without such a day, too deep: each its own kind
        raise ValueError(_one_line(error)) from None


def read_environment(model: type[BaseSettings], found: list[str]) -> dict[str, Any]:
    """Read the `PROMPT_COEVO_*` variables; what is wrong with one is added to `found`."""
    source = EnvSettingsSource(model)
    good: dict[str, str | None] = {}
    for name, value in os.environ.items():
        key = name.lower()
        if not key.startswith(ENV_PREFIX.lower()) or name in _NO_SETTINGS:
            continue
        if key == f"{ENV_PREFIX}REFLECTION".lower() and is_model_name(value):
            value = json.dumps({"model": value})
        # One at a time, because the source stops at the first that it cannot read.
        source.env_vars = {key: value}
        try:
            if key in good:
                found.append(f"the environment variable {name} stands there twice; leave one out")
            elif source():
                good[key] = value
            else:
                found.append(_about_idle(name, model))
        except SourceError as error:
            told = _one_line(error.__cause__)
            found.append(f"the environment variable {name} cannot be read: {told}")
        except RecursionError:
            found.append(
                f"the environment variable {name} holds lists in lists too deep to be read"
            )
    source.env_vars = good
    return source()


def _about_idle(name: str, model: type[BaseModel]) -> str:
    """Say what to do about a variable that would silently do nothing."""
    setting, *further = name[len(ENV_PREFIX) :].lower().split("__")
    known = setting in model.model_fields
    if known and not further:
        hint = "; leave it out"
    else:
        near = [setting] if known else near_names(setting, (), model)
        hint = did_you_mean(near, model.model_fields)
    return f"the environment variable {name} sets nothing{hint}"


def merged(*sources: Mapping[str, Any]) -> dict[str, Any]:
    """The values of several sources, the strongest first, sections merged by value."""
    values: dict[str, Any] = {}
    for source in reversed(sources):
        for name, value in source.items():
            old = values.get(name)
            if isinstance(old, Mapping) and isinstance(value, Mapping):
                value = merged(value, old)
            values[name] = value
    return values


def _one_line(error: BaseException | None) -> str:
    return " ".join(str(error).split()) or type(error).__name__
