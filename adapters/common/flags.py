"""`--coevo.*` flags: the engine's settings on a trainer's command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, get_origin

from prompt_coevo.errors import SettingsError
from prompt_coevo.lines import JSON
from prompt_coevo.registry import nearest
from prompt_coevo.settings import Settings, method_choices, setting_fields
from prompt_coevo.settings.sources import read_yaml

PREFIX: Final = "--coevo."
_KEY: Final = "reflection.api_key"


@dataclass(frozen=True)
class Flags:
    """A parsed command line. `settings` is None if it has no `--coevo.*` flag."""

    others: list[str]
    settings: dict[str, JSON] | None
    wants_help: bool = False

    @classmethod
    def from_arguments(cls, arguments: Sequence[str]) -> Flags:
        """Parse `--coevo.x.y value` or `--coevo.x.y=value`; several values make a list, a later flag wins.

        Raises SettingsError for a flag without a value, a secret, an unknown method, or a section with a
        value; the error then also lists what is wrong with the other flags.
        """
        others: list[str] = []
        ours: dict[str, list[str]] = {}
        current: list[str] = others
        for argument in arguments:
            if argument.startswith(PREFIX):
                name, equals, value = argument[len(PREFIX) :].partition("=")
                current = ours[name] = []
                if equals:
                    current.append(value)
            elif argument.startswith("--"):
                current = others
                others.append(argument)
            else:
                current.append(argument)
        if "help" in ours:
            return cls(others, None, wants_help=True)
        return cls(others, _nested(ours) if ours else None)


def help_text() -> str:
    """Return all `--coevo.*` flags with the defaults and descriptions of the settings."""
    lines = [
        f"{PREFIX}method {{{','.join(method_choices())}}}",
        "    Switches co-evolution on; short for --coevo.algorithms.",
    ]
    for name, field in setting_fields():
        if name != _KEY:
            default = "" if field.default is None else f" (default: {field.default})"
            meaning = " ".join((field.description or "").split())
            lines += [f"{PREFIX}{name}", f"    {meaning}{default}"]
    return "\n".join(lines)


def _nested(flags: dict[str, list[str]]) -> dict[str, JSON]:
    nested: dict[str, JSON] = {}
    found: list[str] = []
    lists = {name for name, field in setting_fields() if get_origin(field.annotation) is tuple}
    for name, texts in flags.items():
        try:
            if name == _KEY:
                raise SettingsError(
                    "--coevo.reflection.api_key would be printed with the command's other arguments; set "
                    "the provider's environment variable or PROMPT_COEVO_REFLECTION__API_KEY"
                )
            if not texts:
                raise SettingsError(f"{PREFIX}{name} needs a value: {PREFIX}{name} VALUE")
            if name == "method":
                nested["algorithms"] = _algorithms(texts)
                continue
            values = [_value(text) for text in texts]
            put(nested, name, values if len(values) > 1 or name in lists else values[0])
        except SettingsError as error:
            found += error.problems
    if found:
        # Report the mistakes in the other values in the same error.
        raise SettingsError(*found, *_mistakes(nested))
    return nested


def put(nested: dict[str, JSON], name: str, value: JSON, prefix: str = PREFIX) -> None:
    """Set `a.b` in nested values. Raises SettingsError if a value would replace a section, or a section a
    value; the error shows the names as typed, after `prefix`."""
    *sections, last = name.split(".")
    place = nested
    for section in sections:
        inner = place.setdefault(section, {})
        if not isinstance(inner, dict):
            raise SettingsError(
                f"{prefix}{name} cannot be set, because {prefix}{section} has a value already; leave that "
                "out"
            )
        place = inner
    if isinstance(place.get(last), dict):
        raise SettingsError(f"{prefix}{name} is a section, which has no value; leave that out")
    place[last] = value


def _mistakes(nested: dict[str, JSON]) -> tuple[str, ...]:
    try:
        Settings(**nested)
    except SettingsError as error:
        return error.problems
    return ()


def _algorithms(texts: list[str]) -> list[str]:
    methods = method_choices()
    if len(texts) != 1 or texts[0] not in methods:
        given = " ".join(texts)
        hint = nearest(given, methods, "")
        raise SettingsError(
            f"{PREFIX}method must be one of {', '.join(methods)}, but is {given!r}{hint}"
        )
    return methods[texts[0]]


def _value(text: str) -> JSON:
    """Parse numbers, booleans and null; keep everything else as text."""
    try:
        value = read_yaml(text)
    except ValueError:
        return text
    return value if value is None or isinstance(value, (bool, int, float)) else text
