"""Checks of a run that ended without error. Each is one sentence that holds or does not."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from prompt_coevo.smoke.parts import STEPS, Evidence, Variant


@dataclass(frozen=True)
class Check:
    """One check and its result."""

    holds: bool
    said: str


def checks(variant: Variant, found: Evidence) -> list[Check]:
    """Return all checks of a variant."""
    made = [_numbers(found), _moved(found)]
    made += [_population(found)] if "inspo" in variant.coevo else [_search(found), _ran(found)]
    return [*made, *_trained(found), *_apart(found)]


def _numbers(found: Evidence) -> Check:
    steps, numbers = len(found.losses), [*found.losses, *found.gradients]
    if not all(map(math.isfinite, numbers)):
        return Check(False, "a loss or a gradient is not finite")
    if steps != STEPS:
        return Check(False, f"{steps} steps were logged, and {STEPS} are expected")
    return Check(True, f"{steps} steps, losses finite")


def _moved(found: Evidence) -> Check:
    largest = max(found.gradients, default=0.0)
    return Check(largest > 0, f"gradient up to {largest:.2g}")


def _search(found: Evidence) -> Check:
    waves = found.metrics.get("cover_templates", 0.0)
    count = int(waves or found.metrics.get("templates_joined", 0.0))
    return Check(count > 0, f"the search found {count} template{'' if count == 1 else 's'}")


def _ran(found: Evidence) -> Check:
    return Check(found.templated > 0, f"up to {found.templated:.0%} of a step under templates")


def _population(found: Evidence) -> Check:
    evolved = int(found.metrics.get("evolutions", 0.0))
    tried = int(found.metrics.get("verify_rollouts", 0.0))
    return Check(
        evolved > 0 and tried > 0, f"{evolved} evolutions, {tried} rollouts of new instructions"
    )


def _trained(found: Evidence) -> Iterator[Check]:
    if found.prompts is not None:
        bare = found.prompts - found.strangers
        said = f"{bare} of {found.prompts} rows trained on the bare question"
        yield Check(0 < found.prompts == bare, said)


def _apart(found: Evidence) -> Iterator[Check]:
    """Report how far sampler and trainer differ. An acceptable size depends on precision and kernels, so
    only NaN or infinity fails."""
    if found.difference is not None:
        said = f"sampler and trainer apart in {found.measure} {found.difference:.3g}"
        yield Check(math.isfinite(found.difference), said)
