"""Checks of a run that ended without error. Each is one sentence that holds or does not.

The numbers that decide are the constants below, and `STEPS`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Final

from prompt_coevo.preflight.page import plural
from prompt_coevo.smoke.parts import STEPS, Evidence, Variant

LEAST_TEMPLATES: Final = 1
MOST_STRANGERS: Final = 0
"""Rows in the loss whose prompt is not the bare question."""
GHOST_OF_BARE: Final = 2.0
"""A ghost may end that many times as far from a bare run as another bare run does,"""
GHOST_OF_TRAINING: Final = 0.01
"""or this part of the way that training goes."""
GHOST_AT_MOST: Final = 0.2
"""In no case more than this part: bare runs that differ so much show nothing. Trained on its templates, a
ghost ended at 0.5."""


@dataclass(frozen=True)
class Check:
    """One check and its result."""

    holds: bool
    said: str


def checks(variant: Variant, found: Evidence) -> list[Check]:
    """Return all checks of one run of a variant."""
    made = [_numbers(found), _moved(found)]
    if "inspo" in variant.coevo:
        made.append(_population(found))
    elif variant.coevo:
        made += [_search(found)] if variant.course != "ghost" else []
        made.append(_ran(found))
    return [*made, *_trained(found), *_apart(found)]


def resumed(found: Evidence, times: int) -> Check:
    """Check that a run was resumed once, from a checkpoint, by the trainer and by this package."""
    return Check(found.before > 0 and times == 1, f"killed, resumed after step {found.before}")


def no_trace(templated: float, again: float, trained: float) -> Check:
    """Check distances from a bare run: of the run with templates, of another bare run, of the untrained."""
    limit = max(GHOST_OF_BARE * again, GHOST_OF_TRAINING * trained)
    said = (
        f"with templates {templated:.2g} from the bare trainer's weights, another bare run {again:.2g}, "
        f"training goes {trained:.2g}"
    )
    return Check(templated <= min(limit, GHOST_AT_MOST * trained), said)


def speed(without: Evidence, found: Evidence) -> Check:
    """Report how long a step takes. An acceptable time depends on the machine, so nothing fails."""
    ours, bare = median(found.seconds), median(without.seconds)
    said = f"{ours:.3g} s a step, {bare:.3g} s without the plugin: {ours / bare:.2f} times"
    return Check(True, said)


def _numbers(found: Evidence) -> Check:
    steps, numbers = len(found.losses), [*found.losses, *found.gradients]
    if not all(map(math.isfinite, numbers)):
        return Check(False, "a loss or a gradient is not finite")
    if found.before + steps != STEPS:
        return Check(False, f"{steps} steps were logged, and {STEPS - found.before} are expected")
    return Check(True, f"{plural(steps, 'step')}, losses finite")


def _moved(found: Evidence) -> Check:
    largest = max(found.gradients, default=0.0)
    return Check(largest > 0, f"gradient up to {largest:.2g}")


def _search(found: Evidence) -> Check:
    waves = found.metrics.get("cover_templates", 0.0)
    count = int(waves or found.metrics.get("templates_joined", 0.0))
    return Check(count >= LEAST_TEMPLATES, f"the search found {plural(count, 'template')}")


def _ran(found: Evidence) -> Check:
    return Check(found.templated > 0, f"up to {found.templated:.0%} of a step under templates")


def _population(found: Evidence) -> Check:
    evolved = int(found.metrics.get("evolutions", 0.0))
    tried = int(found.metrics.get("verify_rollouts", 0.0))
    said = f"{plural(evolved, 'evolution')}, {plural(tried, 'rollout')} of new instructions"
    return Check(evolved > 0 and tried > 0, said)


def _trained(found: Evidence) -> Iterator[Check]:
    if found.prompts is not None:
        bare = found.prompts - found.strangers
        said = f"{bare} of {found.prompts} rows trained on the bare question"
        yield Check(found.prompts > 0 and found.strangers <= MOST_STRANGERS, said)


def _apart(found: Evidence) -> Iterator[Check]:
    """Report how far sampler and trainer differ. An acceptable size depends on precision and kernels, so
    only NaN or infinity fails."""
    if found.difference is not None:
        said = f"sampler and trainer apart in {found.measure} {found.difference:.3g}"
        yield Check(math.isfinite(found.difference), said)
