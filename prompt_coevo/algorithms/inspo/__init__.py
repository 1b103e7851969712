"""INSPO (arXiv 2512.01945): a population of instructions that learns with the policy."""

from typing import Final

from prompt_coevo.algorithms.inspo.settings import InspoSettings
from prompt_coevo.settings.method import Cost, Foresight, Method, Workload


def _estimate(section: InspoSettings, workload: Workload) -> Cost:
    if section.evolution == "off":
        return Cost("in the whole run", 0, 0)
    evolutions = len(range(section.evolve_every, section.evolve_until, section.evolve_every))
    tried = section.rounds * section.candidates_per_call + section.parents
    if section.reflection == "overlapped":  # every round meets other weights: its parent runs again
        tried = section.rounds * (section.candidates_per_call + 1)
    rollouts = evolutions * tried * section.verify_size if section.verify == "blocking" else 0
    if section.evolution != "online":
        rollouts += (evolutions + 1) * section.population_size * section.verify_size
    return Cost(
        "in the whole run", rollouts, evolutions * section.rounds, ", and those for the paraphrases"
    )


def _foresee(section: InspoSettings, workload: Workload) -> Foresight:
    shown = section.failures_per_reflection
    if section.evolution == "off":
        return Foresight(shown=shown)
    every, until = section.evolve_every, section.evolve_until
    if section.evolution != "online":
        return Foresight(len(range(every, until, every)), shown=shown)
    if workload.steps is None:
        return Foresight(shown=shown, unknown="steps")
    # A step counts if it used a new generation round, and nothing evolves after the last one.
    steps = int(workload.steps / max(1.0, workload.updates_per_round))
    evolutions = len(range(every, min(until, steps), every))
    if evolutions:
        return Foresight(evolutions, shown=shown)
    never = (
        f"no instruction will ever evolve, because the run has {steps} steps with new rollouts and the "
        f"first evolution comes after {every} (inspo.evolve_every); lower it, or train longer"
    )
    return Foresight(0, never, shown=shown)


METHOD: Final = Method(
    "inspo",
    plugin="prompt_coevo.algorithms.inspo.plugin:Inspo",
    section=InspoSettings,
    provides=frozenset({"instruction"}),
    estimate=_estimate,
    foresee=_foresee,
)
