"""The common sections, where values come from, and what a `Method` is. The defaults are the papers' values.

The names below are loaded when they are first used: the command line shows presets without them. Those
that know every built-in method lie above the methods, in `algorithms/all_settings.py`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prompt_coevo.algorithms.all_settings import (
        Settings,
        method_choices,
        parse_section,
        setting_fields,
    )
    from prompt_coevo.settings.method import Method, may_distill

__all__ = ["Method", "Settings", "may_distill", "method_choices", "parse_section", "setting_fields"]

_IN_METHOD = ("Method", "may_distill")


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "settings.method" if name in _IN_METHOD else "algorithms.all_settings"
    return getattr(import_module(f"prompt_coevo.{module}"), name)
