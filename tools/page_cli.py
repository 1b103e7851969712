"""The page of the command line, from the commands as typer has them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import typer

from prompt_coevo.cli import app

_BEGINNING = """\
# The command line

<!-- Made by tools/pages.py from the commands themselves. -->

`prompt-coevo` comes with the package; what a command needs besides, it names. Its errors are one
sentence, with exit status 2. `--help` behind any command says what stands here.
"""


def cli_page() -> str:
    command = typer.main.get_command(app)
    return "\n".join([_BEGINNING, *(f"{line}" for line in _sections(command, "prompt-coevo"))])


def _sections(command: Any, name: str) -> Iterator[str]:
    below = getattr(command, "commands", {})
    yield f"## `{name}`"
    yield ""
    yield _help(command)
    yield ""
    arguments = "".join(f" {_argument(one)}" for one in command.params if _is_argument(one))
    yield "```text"
    yield f"{name}{arguments}{' COMMAND' if below else ''} [OPTIONS]"
    yield "```"
    yield ""
    rows = [_row(one) for one in command.params if not one.hidden]
    if rows:
        yield from ["| | default | |", "|---|---|---|", *rows, ""]
    for inner in below.values():
        if not inner.hidden:
            yield from _sections(inner, f"{name} {inner.name}")


def _help(command: Any) -> str:
    text = inspect.cleandoc(command.help or "").replace("\f", "").replace("\b\n", "")
    return text.strip()


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def _argument(parameter: Any) -> str:
    name = parameter.metavar or parameter.name.upper()
    return name if parameter.required else f"[{name}]"


def _row(parameter: Any) -> str:
    if _is_argument(parameter):
        names = f"`{_argument(parameter)}`"
    else:
        value = "" if parameter.is_flag else f" {parameter.metavar or parameter.name.upper()}"
        names = ", ".join(f"`{option}{value}`" for option in parameter.opts)
        names += "".join(f", `{option}`" for option in parameter.secondary_opts)
    return f"| {names} | {_default(parameter)} | {_cell(parameter.help or '')} |"


def _default(parameter: Any) -> str:
    value = parameter.default
    if parameter.required:
        return "needed"
    if value is None or callable(value) or value in (False, [], (), ""):
        return ""
    return f"`{getattr(value, 'value', value)}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
