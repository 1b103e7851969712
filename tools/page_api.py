"""The page of the Python interface: what is public, with docstrings where the site is built."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any, Final

import prompt_coevo

_BEGINNING: Final = """\
# Python

<!-- Made by tools/pages.py. -->

What a program, a plugin or a door may import. The [site](../CONTRIBUTING.md#the-site) shows every
name with its arguments and docstring below; in the repository there are the names alone.
[Hooks](hooks.md) have a page of their own, and so has a door's [order of calls](adapters.md).
Everything else may change without notice.
"""
OTHERS: Final = {
    "Errors": ("prompt_coevo.errors", "prompt_coevo.extras"),
    "Words of plugins": ("prompt_coevo.context", "prompt_coevo.proposals", "prompt_coevo.registry"),
    "For doors": (
        "prompt_coevo.doors.open_engine",
        "prompt_coevo.doors.columns",
        "prompt_coevo.doors.questions",
        "prompt_coevo.doors.policy",
        "prompt_coevo.doors.distill",
    ),
    "Test kits": (
        "prompt_coevo.testing.door.suite",
        "prompt_coevo.testing.algorithm",
        "prompt_coevo.testing.proposer",
        "prompt_coevo.testing.retriever",
        "prompt_coevo.testing.language_model",
    ),
    "Retrieval": ("prompt_coevo.retrieval.retriever", "prompt_coevo.retrieval.client.client"),
    "TRL": ("prompt_coevo.adapters.trl.launch",),
}
"""Modules whose public names are shown, by heading."""
_FRAMEWORKS: Final = (
    "prompt_coevo.adapters",
)  # their packages are not there where the page is made


def api_page() -> str:
    lines = [_BEGINNING, "## `prompt_coevo`", "", "| name | |", "|---|---|"]
    names = list(prompt_coevo.__all__)
    lines += [f"| `{name}` | {_first_line(getattr(prompt_coevo, name))} |" for name in names]
    for name in names:
        lines += ["", f"::: {_home(getattr(prompt_coevo, name), name)}"]
    for heading, modules in OTHERS.items():
        lines += ["", f"## {heading}"]
        for module in modules:
            if not module.startswith(_FRAMEWORKS):
                import_module(module)
            lines += ["", f"::: {module}"]
    return "\n".join([*lines, ""])


def _home(thing: Any, name: str) -> str:
    """Where it is defined; what has no such place is shown where it is taken from."""
    module = getattr(thing, "__module__", "")
    if not module.startswith("prompt_coevo."):
        module = f"prompt_coevo.{prompt_coevo._HOME[name]}"
    return f"{module}.{name}"


def _first_line(thing: Any) -> str:
    text = (inspect.getdoc(thing) or "").partition("\n\n")[0] if not _is_marker(thing) else ""
    return " ".join(text.split()).replace("|", "\\|") or "marks a hook's implementation"


def _is_marker(thing: Any) -> bool:
    return not (inspect.isclass(thing) or inspect.isfunction(thing))
