"""Fuzz settings from files, the environment, command lines, a job's arguments and our own commands."""

from __future__ import annotations

import json
import os
from functools import cache
from typing import Any, Final
from unittest.mock import patch

from fuzz.source import Source, as_json, as_text
from fuzz.target import Target, scratch
from prompt_coevo import Settings
from prompt_coevo.adapters.common.flags import Flags
from prompt_coevo.adapters.openrlhf.contract import check_version
from prompt_coevo.adapters.openrlhf.sent_settings import Sent, received, sent
from prompt_coevo.cli import app
from prompt_coevo.errors import CoevoError, SettingsError
from prompt_coevo.settings import setting_fields
from prompt_coevo.settings.presets import preset_text
from prompt_coevo.settings.sources import read_file

_TOML: Final = preset_text("both").encode()
_YAML: Final = b"p2o:\n  tau: 0.1\nseed: 3\nalgorithms: [p2o]\nplacement: {instruction: prefix}\n"


def toml_file(data: bytes) -> None:
    _from_file("settings.toml", data)


def yaml_file(data: bytes) -> None:
    _from_file("settings.yaml", data)


def environment(data: bytes) -> None:
    """Read environment variables with our prefix and arbitrary values."""
    source = Source(data)
    variables = {}
    for _ in range(1 + source.below(3)):
        name = source.pick(_names()).upper().replace(".", "__")
        if not source.below(6):
            name = source.text(8).upper()
        variables[f"PROMPT_COEVO_{name}"] = _value(source)
    # Characters that no variable can contain.
    variables = {
        _variable(name): _variable(value) for name, value in variables.items() if "=" not in name
    }
    with patch.dict(os.environ, variables):
        _made()


def arguments(data: bytes) -> None:
    """Read arguments of any type from a program."""
    source = Source(data)
    given: dict[str, Any] = {}
    for _ in range(1 + source.below(3)):
        *sections, last = source.pick(_names()).split(".")
        place = given
        for section in sections:
            inner = place.setdefault(section, {})
            if not isinstance(inner, dict):
                return
            place = inner
        place[last] = source.value() if source.flag() else source.pick(_TYPICAL)
    _made(**given)


def flags(data: bytes) -> None:
    """Read a trainer's command line and leave its own arguments unchanged."""
    source = Source(data)
    words = []
    for _ in range(1 + source.below(4)):
        name = source.pick(_names()) if source.below(5) else source.text(12)
        equals = source.pick(("=", " ", ""))
        words += f"--coevo.{name}{equals}{_value(source)}".split(" ", 1)
        words += source.pick(([], ["--theirs", "1"], [source.text()]))
    try:
        found = Flags.from_arguments(words)
        assert all(word in words for word in found.others)
        if found.settings is not None:
            Settings(**found.settings)
    except CoevoError:
        return


def job(data: bytes) -> None:
    """Read damaged settings that were sent to another process."""
    source = Source(data)
    values = json.loads(json.dumps(sent(Settings(p2o={"tau": 0.1}, seed=3, preset="p2o")).values))
    wrong = source.wrong(values)
    if not isinstance(wrong, dict):
        return
    try:
        settings = received(Sent(wrong))
    except SettingsError:
        return
    assert received(sent(settings)) == settings


def command(data: bytes) -> None:
    """Run our read-only commands; each gives an exit status and a sentence."""
    source = Source(data)
    config = scratch() / "command.yaml"
    config.write_bytes(source.bytes())
    words = source.pick(
        (
            ["settings", "--config", str(config)],
            ["settings", "--preset", _word(source), "--questions", _word(source)],
            ["presets", "show", _word(source)],
            ["presets", _word(source)],
            [_word(source), _word(source)],
            ["settings", f"--{_word(source)}", _word(source)],
        )
    )
    if words[0] in ("demo", "retrieval"):
        return
    sink = (scratch() / "command.out").open("w", errors="surrogateescape")
    with sink, patch("sys.stdout", sink), patch("sys.stderr", sink):
        try:
            app(words)
        except (CoevoError, SystemExit):
            return


def versions(data: bytes) -> None:
    """Check the version that another package reports."""
    with patch("prompt_coevo.adapters.openrlhf.contract.version", lambda _: as_text(data)):
        try:
            check_version()
        except CoevoError:
            return


def _from_file(name: str, data: bytes) -> None:
    path = scratch() / name
    path.write_bytes(data)
    try:
        values = read_file(path)
    except SettingsError:
        return
    assert isinstance(values, dict)
    _made(config_file=path)


def _made(**given: Any) -> None:
    try:
        settings = Settings(**given)
    except CoevoError:
        return
    settings.model_dump(mode="json", exclude={"reflection": {"function"}})


def _value(source: Source) -> str:
    match source.below(4):
        case 0:
            return source.text()
        case 1:
            try:
                return json.dumps(source.value())
            except RecursionError:
                return "["
        case 2:
            return str(source.pick(_TYPICAL))
        case _:
            return source.pick(("[" * 999, "{", "[1", "2001-99-99", "null", "1e999", "!!int x"))


def _variable(text: str) -> str:
    """Return the text as the operating system would store it."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()


def _word(source: Source) -> str:
    return source.text(12) or "x"


@cache
def _names() -> list[str]:
    # A function is what no file or environment can give.
    return ["preset", *sorted(name for name, _ in setting_fields() if "function" not in name)]


_TYPICAL: Final = (
    0,
    1,
    3,
    -1,
    0.5,
    True,
    "p2o",
    "inspo",
    "stream",
    "best",
    [0.5, 2.0],
    ["a"],
)

TARGETS = {
    "settings.toml": Target(
        toml_file, (_TOML, b"seed = 3\n[p2o]\ntau = 0.1\n", b"a = " + b"[" * 2000), 0.3
    ),
    "settings.yaml": Target(
        yaml_file,
        (
            _YAML,
            as_json({"inspo": {"instruction": "x"}, "algorithms": "inspo"}),
            b"a: 2001-99-99\n",
        ),
        0.2,
    ),
    "settings.environment": Target(environment, (bytes(range(40)), b"\0\1\3\3", b"\1\2" * 9), 0.1),
    "settings.arguments": Target(arguments, (bytes(range(40)), b"\0\1\0\2", b"\1\2" * 9), 0.1),
    "settings.flags": Target(flags, (bytes(range(40)), b"\0\1\0\2", b"\1\2\3" * 9), 0.05),
    "settings.job": Target(job, (bytes(range(40)), b"\0\1", b"\1\2\2" * 9), 0.1),
    "settings.command": Target(command, (bytes(range(40)), b"\4seed\0", b"\0\2p2o" * 3), 0.03),
    "settings.versions": Target(versions, (b"1.16.0", b"0.9.0.dev1+cpu", b""), 5.0),
}
