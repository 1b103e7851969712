"""The settings of a search against a policy that stays as it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from prompt_coevo.errors import SettingsError
from prompt_coevo.settings import Settings

_ROLLOUTS_PER_QUESTION: Final = 20
"""Of a search for templates, where no budget is set. (The paper's is for 5 000 questions.)"""


def for_instruction(
    given: Mapping[str, Any], *, instruction: str | None, rounds: int, config: Path | None
) -> Settings:
    """INSPO's evolution, `rounds` times in a row. `given` are settings, stronger than the file's.

    Raises SettingsError.
    """
    section: dict[str, Any] = {
        "evolution": "before",
        "verify": "blocking",
        "evolve_every": 1,
        "evolve_until": 1 + rounds,
    }
    if instruction is not None:
        section["instruction"] = instruction
    return Settings(**_with_file(config), **given, algorithms=("inspo",), inspo=section)


def for_templates(given: Mapping[str, Any], *, questions: int, config: Path | None) -> Settings:
    """One of P2O's searches, within a budget of rollouts that fits the number of questions unless the
    file or the environment sets one. Raises SettingsError."""
    given = {**_with_file(config), **given, "algorithms": ("p2o",)}
    settings = Settings(**given, p2o={"search_backend": "waves"})
    if settings.p2o.search_every != "epoch":
        raise SettingsError("p2o.search_every has no effect where nothing is trained; leave it out")
    if "search_budget" in settings.p2o.model_fields_set:
        return settings
    budget = max(_ROLLOUTS_PER_QUESTION, _ROLLOUTS_PER_QUESTION * questions)
    return Settings(**given, p2o={"search_backend": "waves", "search_budget": budget})


def _with_file(config: Path | None) -> dict[str, Any]:
    return {} if config is None else {"config_file": config}
