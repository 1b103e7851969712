"""Replace the module `socket` where a module looks for a free port.

Both Ray frameworks bind to port 0, note the number, close the socket, and bind to it in another process.
Meanwhile any connection on a busy machine may be given that port, and the run ends. The kernel assigns
none below 32768 by itself.
"""

from __future__ import annotations

import random
import socket as real
import sys
from typing import Any

LASTING = range(20_000, 32_000)
_random = random.SystemRandom()


class LastingSocket(real.socket):
    """Bind to port 0 with a port that stays free until something asks for its number."""

    def bind(self, address: Any) -> None:
        host, port = address
        if port:
            super().bind(address)
            return
        while True:
            try:
                super().bind((host, _random.choice(LASTING)))
            except OSError:
                continue
            return


socket = LastingSocket


def last(module: Any) -> None:
    """Make a module find its free ports here. It uses nothing else of `socket`."""
    module.socket = sys.modules[__name__]
