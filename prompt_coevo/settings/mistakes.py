"""Describe all mistakes in settings at once, one sentence each, with the name that was probably meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from prompt_coevo import registry
from prompt_coevo.settings.section import Contradictions, fields_of

Path: TypeAlias = tuple[str, ...]
Source: TypeAlias = tuple[str, Mapping[str, Any]]
"""Where values stand ("the file coevo.yaml"; "" for the caller's own), and the values."""

_ALIASES: Final[Mapping[str, str]] = {
    "method": "algorithms",
    "methods": "algorithms",
    "model": "reflection.model",
    "teacher": "reflection.model",
}
"""Settings by other names that people use for them."""
# A value that is taken out may bare another wrong one, as in a list; then that is the end.
_ROUNDS: Final = 4


def mistakes_of(
    check: Callable[[Mapping[str, Any], Contradictions], object],
    model: type[BaseModel],
    values: Mapping[str, Any],
    *,
    prefix: str = "",
    sources: Sequence[Source] = (),
) -> list[str]:
    """All that is wrong with `values`, in sentences.

    `check` validates values of `model`, with what sections contradict collected in its second argument.
    What is refused by itself is told and taken out, and the rest is looked at again: a wrong number must
    not hide that two others contradict each other. A contradiction that names a setting whose value was
    taken out may be none, so it is left out. `prefix` goes in front of all names; `sources`, the
    strongest first, say where a value stands.
    """
    told: list[str] = []
    refused: set[str] = set()
    contradictions = Contradictions()
    for _ in range(_ROUNDS):
        contradictions = Contradictions()
        try:
            check(values, contradictions)
        except ValidationError as error:
            by_setting = _by_setting(error, values)
            for path, problems in by_setting.items():
                sentence, meant = _sentence(path, problems, model, prefix)
                told.append(sentence + _place(path, sources))
                refused |= {path[-1], *map(_last, meant)} if path else set()
                values = _without(values, path)
            if () in by_setting:
                break  # nothing can be taken out for it, so it would be told again
        else:
            break
    return told + [one for one in contradictions.sentences if not _names_any(one, refused)]


def describe(error: ValidationError, model: type[BaseModel], values: Mapping[str, Any]) -> str:
    """Describe the errors of one failed validation of `values`, one sentence each."""
    found = _by_setting(error, values)
    return "; ".join(_sentence(path, problems, model, "")[0] for path, problems in found.items())


def near_names(name: str, section: Path, model: type[BaseModel]) -> list[str]:
    """The settings, with their full paths, that an unknown name in a section of `model` may stand for.

    Another spelling in the same section comes first, then the same name elsewhere, then what looks alike.
    The section of an installed method stands under `plugins`.
    """
    if not section and "plugins" in model.model_fields and name in registry.names("methods"):
        return [f"plugins.{name}"]
    here = _model_at(model, section)
    own = list(here.model_fields) if here is not None else []
    wanted = _plain(name)
    if same := [one for one in own if _plain(one) == wanted]:
        return [".".join((*section, same[0]))]
    paths = [path for path, _ in fields_of(model) if path != ".".join((*section, name))]
    if elsewhere := [path for path in paths if _plain(_last(path)) == wanted]:
        return elsewhere
    if not section and (alias := _ALIASES.get(wanted)) in paths:
        return [str(alias)]
    if near := difflib.get_close_matches(wanted, own, n=1):
        return [".".join((*section, *near))]
    by_name = {_last(path): path for path in reversed(paths)}
    return [by_name[one] for one in difflib.get_close_matches(wanted, by_name, n=1, cutoff=0.85)]


def did_you_mean(near: Sequence[str], known: Iterable[str] = ()) -> str:
    """The end of a sentence about an unknown name."""
    if near:
        return f"; did you mean {' or '.join(near)}?"
    listed = ", ".join(sorted(known))
    return f"; known: {listed}" if listed else ""


def _by_setting(
    error: ValidationError, values: Mapping[str, Any]
) -> dict[Path, list[ErrorDetails]]:
    """Group pydantic's errors by setting: several members of a union may refuse the same value."""
    found: dict[Path, list[ErrorDetails]] = {}
    for problem in error.errors(include_url=False, include_context=False):
        location = tuple(map(str, problem["loc"]))
        end, place = 0, values
        while end < len(location) and isinstance(place, Mapping) and location[end] in place:
            place, end = place[location[end]], end + 1
        found.setdefault(location[:end] or location, []).append(problem)
    return found


def _sentence(
    path: Path, problems: Sequence[ErrorDetails], model: type[BaseModel], prefix: str
) -> tuple[str, list[str]]:
    """About one setting; and the names that were probably meant, if it is an unknown one."""
    first = problems[0]
    name = ".".join((prefix, *path) if prefix else path)
    if first["type"] == "extra_forbidden":
        section = _model_at(model, path[:-1])
        meant = near_names(path[-1], path[:-1], model)
        told = [f"{prefix}.{one}" for one in meant] if prefix else meant
        if "." in path[-1] and path[-1] in dict(fields_of(model)):
            nested = path[-1].replace(".", ": {") + ": ...}" * path[-1].count(".")
            return f"unknown setting {name}; a section holds its settings: {nested}", []
        known = list(section.model_fields) if section is not None else []
        return f"unknown setting {name}{did_you_mean(told, known)}", meant
    if first["type"] in ("model_type", "model_attributes_type", "dict_type") and len(problems) == 1:
        given = first["input"]
        got = f" (got {given!r})" if _is_showable(name, given) else ""
        if name == "reflection" and isinstance(given, str):
            got = ', or a model with its provider: reflection = "openai/gpt-5"'
        elif name == "reflection" and callable(given):
            got = ", for example {'function': that function}"
        return f"{name} is a section: give it names and values{got}", []
    messages = [problem["msg"].removeprefix("Value error, ") for problem in problems]
    message = messages[0]
    if not name or message.startswith(name):
        return message, []
    separator = " " if first["type"] == "value_error" else ": "
    # "input should be 'epoch'" and "input should be a valid integer" are one sentence.
    further = [one.removeprefix("Input should be ") for one in messages[1:]]
    joined = " or ".join([message[0].lower() + message[1:], *further])
    given = first["input"]
    got = f" (got {given!r})" if _is_showable(name, given) else ""
    return f"{name}{separator}{joined}{got}", []


def _place(path: Path, sources: Sequence[Source]) -> str:
    """Where a wrong value stands, if that is not the caller's own."""
    for label, values in sources:
        place: object = values
        for name in path:
            if not isinstance(place, Mapping) or name not in place:
                break
            place = place[name]
        else:
            return f" (in {label})" if label else ""
    return ""


def _without(values: Mapping[str, Any], path: Path) -> dict[str, Any]:
    left = dict(values)
    if len(path) > 1 and isinstance(inner := left.get(path[0]), Mapping):
        left[path[0]] = _without(inner, path[1:])
    elif path:
        left.pop(path[0], None)
    return left


def _names_any(sentence: str, names: set[str]) -> bool:
    return bool(names & set(re.findall(r"\w+", sentence)))


def _is_showable(name: str, value: object) -> bool:
    """Not what may be a key: one in the place of the section `reflection`, too."""
    if isinstance(value, str) and _last(name) == "reflection":
        return False
    return isinstance(value, (str, int, float)) and "key" not in name


def _last(path: str) -> str:
    return path.rpartition(".")[2]


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")


def _model_at(model: type[BaseModel], location: Path) -> type[BaseModel] | None:
    for name in location:
        field = model.model_fields.get(name)
        kind = field.annotation if field is not None else None
        if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
            return None
        model = kind
    return model
