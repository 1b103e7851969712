"""Where settings come from, and what is wrong with them in a sentence."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import BaseModel, ValidationError

from prompt_coevo.errors import SettingsError
from prompt_coevo.registry import DISABLE_PLUGINS_VARIABLE, RETRIEVAL_TOKEN_VARIABLE

ENV_PREFIX: Final = "PROMPT_COEVO_"
# These are read elsewhere.
_NO_SETTINGS: Final = {DISABLE_PLUGINS_VARIABLE, RETRIEVAL_TOKEN_VARIABLE}


def preset_names() -> list[str]:
    """The presets that come with the package."""
    files = (resources.files("prompt_coevo") / "presets").iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


def preset_text(name: str) -> str:
    """The TOML text of a preset. Raises SettingsError if there is none of that name."""
    if name not in preset_names():
        raise SettingsError(
            f"there is no preset {name!r}; known presets: {', '.join(preset_names())}"
        )
    return (resources.files("prompt_coevo") / "presets" / f"{name}.toml").read_text("utf-8")


def read_preset(name: Any) -> dict[str, Any]:
    """A preset's values; none for None. Raises SettingsError."""
    return {} if name is None else tomllib.loads(preset_text(str(name)))


def read_file(path: Any) -> dict[str, Any]:
    """The values of a YAML or TOML file; none for None. Raises SettingsError."""
    if path is None:
        return {}
    if not isinstance(path, str | Path):
        raise SettingsError(
            f"config_file must be the path of a file, but is a {type(path).__name__}"
        )
    path = Path(path)
    try:
        text = path.read_text("utf-8")
        values = _toml(text) if path.suffix == ".toml" else read_yaml(text)
    except OSError as error:
        raise SettingsError(f"the settings file {path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise SettingsError(f"the settings file {path} cannot be parsed: {error}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise SettingsError(f"the settings file {path} must hold names and values at its top level")
    if no_texts := [name for name in values if not isinstance(name, str)]:
        raise SettingsError(f"the settings file {path} has a name that is no text: {no_texts[0]!r}")
    return values


def read_yaml(text: str) -> Any:
    """What a YAML text says. Raises ValueError with what is wrong with it, in one line."""
    try:
        return yaml.safe_load(text)
    except (
        Exception
    ) as error:  # a date without such a day, a wrong tag, too deep: each its own kind
        raise ValueError(_one_line(error)) from None


def check_environment(names: Iterable[str], model: type[BaseModel]) -> None:
    """Raise SettingsError for a `PROMPT_COEVO_*` variable that would silently do nothing."""
    for name in names:
        if not name.upper().startswith(ENV_PREFIX) or name in _NO_SETTINGS:
            continue
        field = name[len(ENV_PREFIX) :].split("__")[0].lower()
        if field not in model.model_fields:
            raise SettingsError(
                f"the environment variable {name} sets nothing{_did_you_mean(field, model)}"
            )


def describe(error: ValidationError, model: type[BaseModel], prefix: str = "") -> str:
    """All problems of a failed validation, one sentence each."""
    return "; ".join(_sentences(error, model, prefix))


def _toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(_one_line(error)) from None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _sentences(error: ValidationError, model: type[BaseModel], prefix: str) -> Iterator[str]:
    for problem in error.errors(include_url=False, include_context=False):
        location = tuple(map(str, problem["loc"]))
        name = ".".join((prefix, *location) if prefix else location)
        if problem["type"] == "extra_forbidden":
            section = _model_at(model, location[:-1])
            yield f"unknown setting {name}{_did_you_mean(location[-1], section, location[:-1])}"
            continue
        message = problem["msg"].removeprefix("Value error, ")
        if not name or message.startswith(name):
            yield message
            continue
        separator = " " if problem["type"] == "value_error" else ": "
        got = f" (got {problem['input']!r})" if _is_showable(name, problem["input"]) else ""
        yield f"{name}{separator}{message[0].lower()}{message[1:]}{got}"


def _is_showable(name: str, value: Any) -> bool:
    return isinstance(value, (str, int, float)) and "key" not in name


def _model_at(model: type[BaseModel], location: tuple[str, ...]) -> type[BaseModel] | None:
    for name in location:
        field = model.model_fields.get(name)
        if field is None or not isinstance(field.annotation, type):
            return None
        if not issubclass(field.annotation, BaseModel):
            return None
        model = field.annotation
    return model


def _did_you_mean(name: str, model: type[BaseModel] | None, section: tuple[str, ...] = ()) -> str:
    if model is None:
        return ""
    close = difflib.get_close_matches(name, list(model.model_fields), n=1)
    if close:
        return f"; did you mean {'.'.join((*section, *close))}?"
    return f"; known: {', '.join(sorted(model.model_fields))}"
