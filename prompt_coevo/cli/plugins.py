"""`prompt-coevo plugins`: the components and plugins found here, their origin and their hooks."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint
from typing import get_args

import typer

from prompt_coevo import hookspecs, registry
from prompt_coevo.cli.output import show
from prompt_coevo.engine.plugins import Plugins
from prompt_coevo.errors import CoevoError
from prompt_coevo.markers import PROJECT
from prompt_coevo.registry import DISABLE_PLUGINS_VARIABLE
from prompt_coevo.visible import in_a_line


def plugins(as_json: bool = typer.Option(False, "--json", help="Print JSON.")) -> None:
    """List the components that settings can name, and the installed plugins with their hooks.

    A plugin that cannot be loaded is listed with the reason; the exit status is then 2.

    Examples: prompt-coevo plugins; PROMPT_COEVO_DISABLE_PLUGINS=all prompt-coevo plugins
    """
    installed = [_plugin(entry) for entry in registry.installed(PROJECT)]
    components = [
        {"kind": kind, "name": name, "from": registry.origin(kind, name)}
        for kind in get_args(registry.Kind)
        for name in registry.names(kind)
    ]
    if as_json:
        show([json.dumps({"plugins": installed, "components": components}, indent=2)])
    else:
        show(_lines(installed, components))
    if any("problem" in one for one in installed):
        raise typer.Exit(2)


def _plugin(entry: EntryPoint) -> dict[str, str | list[str]]:
    package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "unknown"
    told = {"name": entry.name, "place": entry.value, "package": package}
    manager = Plugins()
    try:
        manager.load(entry)
    except CoevoError as error:
        return {**told, "hooks": [], "problem": str(error)}
    specified = [getattr(hookspecs, name) for name in dir(hookspecs) if name.startswith("coevo_")]
    hooks = [hook.__name__ for hook in specified if manager.implements(entry.name, hook)]
    return {**told, "hooks": hooks}


def _lines(
    installed: list[dict[str, str | list[str]]], components: list[dict[str, str]]
) -> list[str]:
    lines = ["Installed plugins" if installed else "Installed plugins: none"]
    for one in installed:
        lines.append(f"  {in_a_line(one['name'])}  {one['package']}  {one['place']}")
        if "problem" in one:
            lines.append(f"    not loaded: {in_a_line(one['problem'])}")
        else:
            lines.append(f"    hooks: {', '.join(one['hooks']) or 'none'}")
    lines.append("Components, by the names that settings give them")
    width = max(len(one["name"]) for one in components)
    kind = ""
    for part in components:
        if part["kind"] != kind:
            kind = part["kind"]
            lines.append(f"  {kind}")
        lines.append(f"    {in_a_line(part['name']):{width}}  {in_a_line(part['from'])}")
    lines.append(f"{DISABLE_PLUGINS_VARIABLE} switches plugins off: the named ones, or all.")
    return lines
