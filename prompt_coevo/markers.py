"""The pluggy markers: decorate a plugin's hooks with `hookimpl`."""

from __future__ import annotations

from typing import Final

import pluggy

PROJECT: Final = "prompt_coevo"

hookspec: Final = pluggy.HookspecMarker(PROJECT)
hookimpl: Final = pluggy.HookimplMarker(PROJECT)
