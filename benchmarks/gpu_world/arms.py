"""What is compared: the bare trainer, P2O, the stream, and the stream with guesses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tier import Tier

from prompt_coevo import Settings
from prompt_coevo.demo.teacher import FactsTeacher


def _stream(tier: Tier) -> Mapping[str, Any]:
    return {"stream": {"tau": 0.01}, "ground_truth_column": "answer"}


def _waves(tier: Tier) -> Mapping[str, Any]:
    scaled = {
        "dev_size": tier.dev_size,
        "beam_width": tier.beam_width,
        "search_budget": tier.search_budget,
    }
    return {"preset": "demo-p2o", "p2o": {"calls_per_hard": "unlimited", **scaled}}


_SEARCHES: Final[Mapping[str, Callable[[Tier], Mapping[str, Any]]]] = {
    "waves": _waves,
    "stream": _stream,
    "random": _stream,
}
ARMS: Final = ("grpo", *_SEARCHES)


def settings(arm: str, tier: Tier, seed: int) -> Settings | None:
    """Of the arm; None for the bare trainer."""
    if arm not in _SEARCHES:
        return None
    kind = "random" if arm == "random" else "reasoning"
    teacher = FactsTeacher(kind, seed=seed)
    teacher.size = tier.size
    return Settings(**_SEARCHES[arm](tier), seed=seed, reflection={"function": teacher})
