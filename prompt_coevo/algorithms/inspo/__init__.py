"""INSPO (arXiv 2512.01945): a population of instructions that learns with the policy."""

from typing import Final

from prompt_coevo.algorithms.inspo.settings import InspoSettings
from prompt_coevo.settings.method import Cost, Method, Workload


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


METHOD: Final = Method(
    "inspo",
    plugin="prompt_coevo.algorithms.inspo.plugin:Inspo",
    section=InspoSettings,
    provides=frozenset({"instruction"}),
    estimate=_estimate,
)
