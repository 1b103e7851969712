"""INSPO (arXiv 2512.01945): a population of instructions that learns with the policy."""

from collections.abc import Iterator
from typing import Final

from prompt_coevo.algorithms.inspo.settings import InspoSettings
from prompt_coevo.settings.method import Cost, Foresight, Method, Workload


def _estimate(section: InspoSettings, workload: Workload) -> Cost:
    if section.evolution == "off":
        return Cost("in the whole run", 0, 0)
    evolutions = _evolutions(section, workload)
    if evolutions is None:  # assume as many as the longest run has
        evolutions = len(range(section.evolve_every, section.evolve_until, section.evolve_every))
    tried = section.rounds * section.candidates_per_call + section.parents
    if section.reflection == "overlapped":  # new weights every round: the parent runs again
        tried = section.rounds * (section.candidates_per_call + 1)
    rollouts = evolutions * tried * section.verify_size if section.verify == "blocking" else 0
    if section.evolution != "online":
        rollouts += (evolutions + 1) * section.population_size * section.verify_size
    calls, when = evolutions * section.rounds, "in the whole run"
    note = ", and those for the paraphrases"
    return Cost(when, rollouts, calls, note, calls, "by its schedule", when)


def _foresee(section: InspoSettings, workload: Workload) -> Foresight:
    shown = section.failures_per_reflection
    if section.evolution == "off":
        return Foresight(shown=shown)
    evolutions = _evolutions(section, workload)
    remarks = tuple(_dear(section, workload))
    if evolutions is None:
        return Foresight(None, None, remarks, shown, unknown="steps")
    if evolutions:
        return Foresight(evolutions, None, remarks, shown)
    never = (
        f"no instruction will ever evolve, because the run has {_steps(workload)} steps with new rollouts "
        f"and the first evolution comes after {section.evolve_every} (inspo.evolve_every); lower it, or "
        "train longer"
    )
    return Foresight(0, never, remarks, shown)


def _evolutions(section: InspoSettings, workload: Workload) -> int | None:
    """Count the evolutions of the run; None if that depends on its length, which is not known."""
    every, until = section.evolve_every, section.evolve_until
    if section.evolution != "online":
        return len(range(every, until, every))
    steps = _steps(workload)
    # Nothing evolves after the last step.
    return None if steps is None else len(range(every, min(until, steps), every))


def _steps(workload: Workload) -> int | None:
    """Count the steps that use a new generation round; only these count for INSPO."""
    if workload.steps is None:
        return None
    return int(workload.steps / max(1.0, workload.updates_per_round))


def _dear(section: InspoSettings, workload: Workload) -> Iterator[str]:
    """Compare the cost of verification with that of training, if both are known."""
    if workload.epochs is None and workload.steps is not None:
        return  # one number would be for the whole run, the other for an epoch
    rollouts = _estimate(section, workload).rollouts
    trained = int(workload.rollouts * (workload.epochs or 1))
    if rollouts > trained > 0:
        whose = "an epoch's training" if workload.epochs is None else "training"
        fitting = max(1, section.verify_size * trained // rollouts)
        yield (
            f"candidates may be verified by {rollouts} rollouts in the whole run, "
            f"{rollouts / trained:.1f} times the {trained} of {whose}; inspo.verify_size = {fitting} "
            "makes about as many"
        )


METHOD: Final = Method(
    "inspo",
    plugin="prompt_coevo.algorithms.inspo.plugin:Inspo",
    section=InspoSettings,
    provides=frozenset({"instruction"}),
    estimate=_estimate,
    foresee=_foresee,
)
