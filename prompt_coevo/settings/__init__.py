"""All settings, one section a file; a method brings its own. The defaults are the papers' values.

The names below are loaded when they are first used: the command line shows presets without them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prompt_coevo.settings.method import Method, may_distil
    from prompt_coevo.settings.model import Settings, method_choices, parse_section, setting_fields

__all__ = ["Method", "Settings", "may_distil", "method_choices", "parse_section", "setting_fields"]

_IN_METHOD = ("Method", "may_distil")


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "method" if name in _IN_METHOD else "model"
    return getattr(import_module(f"{__name__}.{module}"), name)
