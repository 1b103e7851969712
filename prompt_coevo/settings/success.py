"""Which reward decides whether a rollout succeeded, and on what scale: the section `success`."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from prompt_coevo.settings.section import Section


class SuccessSettings(Section):
    """The reward that decides whether a rollout succeeded. The loss keeps the trainer's own reward."""

    reward: str | None = None
    """TRL: the name of a reward function, or `sum` for the weighted sum. VeRL: a key of the reward's
    dictionary, such as `acc`, or `reward`. OpenRLHF: a key of `extra_logs`, `scores` or `reward`.
    Default: the only reward function, or of several the one with a name such as `accuracy_reward`;
    VeRL's reward; OpenRLHF's `scores`, else its reward."""
    low: float = Field(default=0.0)
    """The deciding reward of an answer that is wrong."""
    high: float = Field(default=1.0)
    """The deciding reward of an answer that is right. Thresholds such as `stream.tau` are on the scale
    from `low`, which is 0, to `high`, which is 1."""

    def problems(self) -> Iterator[str]:
        if not self.low < self.high:
            yield f"success.low = {self.low:g} must be below success.high = {self.high:g}"
