"""Replace the policy's words: a test's function may decide what the server answers.

`COEVO_TEST_SCRIPT` names it as `module:function`. It gets the prompt's text with special tokens and the
sampled text without, and returns the text to answer with, or None to keep what was sampled.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module

Script = Callable[[str, str], str | None]


def load_script() -> Script | None:
    """Return the function, or None if there is none."""
    name = os.environ.get("COEVO_TEST_SCRIPT")
    if not name:
        return None
    module, _, function = name.partition(":")
    return getattr(import_module(module), function)  # type: ignore[no-any-return]
