"""Random numbers that spread clients over servers and over time."""

from __future__ import annotations

import random
from typing import Final

# The global generator is the training run's: how often a server fails must not change what the run draws.
# And it is often seeded alike on all ranks: with it, they would all ask the same server at the same moment.
JITTER: Final = random.SystemRandom()
