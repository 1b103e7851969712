"""Parse Python in one piece: Python 3.11 counts the depth of all threads' parses in one place.

What a garbage collection runs amid a parse may hand over to a thread that parses too, as every traceback
that is printed does. The first parse then ends with a SystemError (python/cpython issue 106905). From
Python 3.12 on no collection begins amid a parse.
"""

from __future__ import annotations

import ast
import functools
import gc
import threading
from typing import Any

_one_at_a_time = threading.RLock()


def parse_in_one_piece() -> None:
    """Make `ast.parse` hold the garbage collector, in this process."""
    parse = ast.parse

    @functools.wraps(parse)
    def whole(*arguments: Any, **named: Any) -> Any:
        with _one_at_a_time:
            collects = gc.isenabled()
            gc.disable()
            try:
                return parse(*arguments, **named)
            finally:
                if collects:
                    gc.enable()

    ast.parse = whole
