"""Names of the demo's arms, for a command line that shows them without what makes them."""

from __future__ import annotations

from typing import Final

ARM_NAMES: Final = (
    "grpo",
    "grpo-twice",
    "stream",
    "waves",
    "waves-bare",
    "same-template",
    "no-distillation",
    "band",
    "templated",
    "exact-teacher",
    "poor-teacher",
    "random-teacher",
    "filler-teacher",
    "static",
    "inspo",
    "inspo-before",
    "inspo-after",
    "inspo-constant",
    "inspo-no-verify",
    "inspo-paraphrase",
    "inspo-history",
    "both",
)

SUITES: Final[dict[str, tuple[str, ...]]] = {
    "p2o": ARM_NAMES[: ARM_NAMES.index("static")],
    "inspo": ("static", *(name for name in ARM_NAMES if name.startswith("inspo"))),
    "both": ("grpo", "static", "stream", "inspo", "both"),
}
"""Arms that belong into one table."""
