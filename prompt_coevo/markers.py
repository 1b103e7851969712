"""The pluggy markers (decorate a plugin's hooks with `hookimpl`) and the version of the interface."""

from __future__ import annotations

import logging
from typing import Final

import pluggy

from prompt_coevo.errors import PluginError
from prompt_coevo.visible import visible_record

PROJECT: Final = "prompt_coevo"
"""The name of the hooks and of the package's only logger."""

# Log lines quote servers, data sets and models, so control characters are made harmless.

logging.getLogger(PROJECT).addFilter(visible_record)

INTERFACE: Final = 2
"""The version of the plugin interface: hooks, methods and their arguments."""

hookspec: Final = pluggy.HookspecMarker(PROJECT)
hookimpl: Final = pluggy.HookimplMarker(PROJECT)


def check_interface(what: str, needed: int) -> None:
    """Raise PluginError if `what` was written for a newer interface than this one."""
    if needed > INTERFACE:
        raise PluginError(
            f"{what} needs interface {needed} of prompt_coevo, this version has {INTERFACE}; "
            "upgrade prompt-coevo, or install an older version of the plugin"
        )
