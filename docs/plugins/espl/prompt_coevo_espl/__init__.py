"""Let system prompts compete on the same questions, and breed the winners: E-SPL (arXiv 2602.14697)."""

from typing import Final

from prompt_coevo import Cost, Method, Workload
from prompt_coevo_espl.settings import EsplSettings


def _estimate(section: EsplSettings, workload: Workload) -> Cost:
    note = ", or twice as many with crossover" if section.crossover_share else ""
    return Cost(f"every {section.evolve_every} steps", 0, 1, note)


METHOD: Final = Method(
    "espl",
    plugin="prompt_coevo_espl.plugin:Espl",
    section=EsplSettings,
    provides=frozenset({"instruction"}),
    estimate=_estimate,
)
