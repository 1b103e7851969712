"""The tags that fence texts in our own prompts. No text from outside may hold one of them."""

from __future__ import annotations

import re

OWN_TAG = re.compile(
    r"<(/?(?:failure|question|response|reward|correct_answer|current_\w+|tried|template|history|ins|score)"
    r"(?:_\d+)?\s*>)",
    re.IGNORECASE,
)

FENCE = re.compile(r"<(/?(?:(?:ins|score)_\d+|current_\w+|tried)\s*>)", re.IGNORECASE)
"""Those that fence a candidate; a user's own <score> is none of them."""
