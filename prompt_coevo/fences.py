"""The tags that fence texts in our prompts. Texts from outside must not contain them."""

from __future__ import annotations

import re

OWN_TAG = re.compile(
    r"<(/?(?:failure|question|response|reward|correct_answer|current_\w+|tried|template|history|ins|score)"
    r"(?:_\d+)?\s*>)",
    re.IGNORECASE,
)

FENCE = re.compile(r"<(/?(?:(?:ins|score)_\d+|current_\w+|tried)\s*>)", re.IGNORECASE)
"""The tags that fence a candidate. A plain <score>, which a user's prompt may contain, is not one."""
