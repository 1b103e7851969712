"""Judge from the numbers whether templates helped or did harm, or that this cannot be told."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from prompt_coevo.algorithms.hard_questions.outcomes import Outcomes
from prompt_coevo.types import Summary

Word: TypeAlias = Literal["helped", "cannot be told", "did harm"]

_Z: Final = NormalDist().inv_cdf(0.99)
"""For 98 % intervals, so that runs without an effect seldom get a verdict (benchmarks/verdict.py)."""
_FEWEST: Final = 10
_TEMPLATES: Final = 3
_LONGEST: Final = 120
_BOUND: Final = "; a lower bound, because what is learned on one question serves those like it"


class Interval(NamedTuple):
    """A number with its 98 % confidence interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:+.2f} (98 %: {self.low:+.2f} to {self.high:+.2f})"


def wilson(share: float, trials: int, z: float) -> tuple[float, float]:
    """Return Wilson's score interval, `z` standard deviations wide, for a share of so many trials."""
    z2 = z * z
    middle = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    spread = math.sqrt(share * (1 - share) / trials + z2 / (4 * trials * trials))
    half = z / (1 + z2 / trials) * spread
    return max(0.0, middle - half), min(1.0, middle + half)


class Shares(NamedTuple):
    """The mean success (0 to 1) over groups of like questions, and the number of groups; if they are
    weighted, the number of unweighted groups that would be as informative."""

    mean: float
    groups: int

    @classmethod
    def of(cls, successes: Sequence[float], weights: Sequence[float]) -> Shares | None:
        """Average over groups; return None if there are none."""
        if not successes:
            return None
        as_many = sum(weights) ** 2 / sum(one * one for one in weights)
        return cls(min(1.0, fmean(successes, weights)), max(1, int(as_many + 1e-9)))

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's interval with the groups as trials. It is wide enough, because a success between 0 and 1
        varies less than one that is 0 or 1."""
        return wilson(self.mean, self.groups, _Z)


def difference(one: Shares, other: Shares) -> Interval:
    """Return `one - other` with Newcombe's hybrid score interval (1998, method 10)."""
    (low, high), (other_low, other_high) = one.interval, other.interval
    value = one.mean - other.mean
    below = math.hypot(one.mean - low, other_high - other.mean)
    above = math.hypot(high - one.mean, other.mean - other_low)
    return Interval(value, value - below, value + above)


def mean_gain(gains: Sequence[float]) -> Interval | None:
    """Return the mean over questions with a normal interval; None if they are few or all the same."""
    if len(gains) < _FEWEST or not (spread := stdev(gains)):
        return None
    mean, half = fmean(gains), _Z * spread / math.sqrt(len(gains))
    return Interval(mean, mean - half, mean + half)


@dataclass(frozen=True)
class Compared:
    """Success without a template: of questions that may have templates (`used`) and of the comparison group
    (`never`). None if no such question was measured again."""

    used: Shares | None
    never: Shares | None

    @property
    def effect(self) -> Interval | None:
        return difference(self.used, self.never) if self.used and self.never else None

    @property
    def word(self) -> Word:
        """Judge by the effect's interval: helped or did harm only if it excludes 0."""
        if (effect := self.effect) is None or effect.low <= 0 <= effect.high:
            return "cannot be told"
        return "helped" if effect.low > 0 else "did harm"


@dataclass(frozen=True)
class Verdict:
    """The verdict on a run's outcomes. `compared` is None if there is no comparison group, and `why_not`
    says why. `signs` are signs of a hacked reward."""

    outcomes: Outcomes
    step: int
    compared: Compared | None
    why_not: str
    signs: Sequence[str] = ()

    @property
    def word(self) -> Word:
        return self.compared.word if self.compared else "cannot be told"

    @property
    def sentence(self) -> str:
        """Say in one sentence whether templates helped, and by how much."""
        if self.compared is None:
            return f"whether it helped cannot be told: {self.why_not}"
        used, never, effect = self.compared.used, self.compared.never, self.compared.effect
        if used is None or never is None or effect is None:
            side = "the comparison group" if used else "the questions that may have templates"
            return f"whether it helped cannot be told: no hard question of {side} was met again"
        told = {
            "helped": "it helped",
            "did harm": "it did harm",
            "cannot be told": "whether it helped cannot be told",
        }[self.word]
        return (
            f"{told}: without a template hard questions succeed at {used.mean:.2f} now, those of the "
            f"comparison group, which never had one, at {never.mean:.2f}: {effect}, over {used.groups} and "
            f"{never.groups} groups of like questions{_BOUND if self.word == 'helped' else ''}"
        )

    def lines(self) -> Iterator[str]:
        """Yield the numbers, one sentence each."""
        solved = self.outcomes.solved()
        held = self.outcomes.held_for(solved, self.step)
        since = f" (for {held:.0f} updates, in the median)" if solved else ""
        yield (
            f"questions that were hard at some time: {self.outcomes.found_hard}; solved without a template "
            f"now: {len(solved)}{since}"
        )
        under, without = self.outcomes.shares()
        gain = mean_gain(self.outcomes.gains())
        if under is not None and without is not None:
            mean = f"; by question {gain}" if gain else ""
            yield (
                f"on hard questions {under:.2f} of the rollouts with a template succeeded, {without:.2f} "
                f"of those without one in the same groups{mean}"
            )
        for text, count in self.outcomes.solvers()[:_TEMPLATES]:
            yield f"template that solved {count} of these before: {_brief(text)}"
        yield from self.signs

    def told(self, came: Summary) -> Summary:
        """Return the run's summary with the verdict added, in front if there is one."""
        if not self.outcomes.found_hard:
            return came
        text, lines = came.text, tuple(self.lines())
        if self.word != "cannot be told":
            text = f"{self.sentence}. {text}"
        elif came.for_nothing:  # the reason stands alone in the first line
            lines = (self.sentence, *lines)
        else:
            text = f"{text}; {self.sentence}"
        return Summary(
            text,
            came.for_nothing or self.word == "did harm",
            lines,
            self.to_json(),
        )

    def metrics(self) -> dict[str, float]:
        """Return the metrics known while training runs."""
        numbers = {
            "hard_so_far": float(self.outcomes.found_hard),
            "hard_solved_since": float(len(self.outcomes.solved())),
        }
        if self.compared and (effect := self.compared.effect):
            numbers.update(effect=effect.value, effect_low=effect.low, effect_high=effect.high)
        return numbers

    def to_json(self) -> dict[str, Any]:
        """Return the verdict and its numbers as JSON values."""
        compared, (under, without) = self.compared, self.outcomes.shares()
        gain, solved = mean_gain(self.outcomes.gains()), self.outcomes.solved()
        return {
            "verdict": self.word,
            "sentence": self.sentence,
            "hard": self.outcomes.found_hard,
            "solved_without_a_template": len(solved),
            "held_for_steps": self.outcomes.held_for(solved, self.step),
            "success": compared and compared.used and compared.used._asdict(),
            "comparison_success": compared and compared.never and compared.never._asdict(),
            "effect": compared and compared.effect and compared.effect._asdict(),
            "success_with_templates": under,
            "success_without": without,
            "gain_of_templates": gain and gain._asdict(),
            "templates": [
                {"text": text, "solved": count} for text, count in self.outcomes.solvers()
            ],
            "signs": list(self.signs),
        }


def _brief(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."
