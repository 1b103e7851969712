"""The settings of a search against a policy that stays as it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from prompt_coevo.errors import SettingsError
from prompt_coevo.settings import Settings
from prompt_coevo.settings.sources import merged, read_environment, read_file

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
    _refuse_other(config, "inspo", section)
    if instruction is not None:
        section["instruction"] = instruction
    return Settings(**_with_file(config), **given, algorithms=("inspo",), inspo=section)


def for_templates(given: Mapping[str, Any], *, questions: int, config: Path | None) -> Settings:
    """One of P2O's searches, within a budget of rollouts that fits the number of questions unless the
    file or the environment sets one. Raises SettingsError."""
    _refuse_other(config, "p2o", {"search_backend": "waves"})
    given = {**_with_file(config), **given, "algorithms": ("p2o",)}
    settings = Settings(**given, p2o={"search_backend": "waves"})
    if settings.p2o.search_every != "epoch":
        raise SettingsError("p2o.search_every has no effect where nothing is trained; leave it out")
    if "search_budget" in settings.p2o.model_fields_set:
        return settings
    budget = max(_ROLLOUTS_PER_QUESTION, _ROLLOUTS_PER_QUESTION * questions)
    return Settings(**given, p2o={"search_backend": "waves", "search_budget": budget})


def reflection_of(
    said: Mapping[str, Any], policy: Mapping[str, Any], *, config: Path | None
) -> dict[str, Any]:
    """What is `said` of the reflection model; where neither that, nor the environment, nor the file names
    one, it is the `policy`. Raises SettingsError."""
    elsewhere = _named(config).get("reflection")
    known = {**(elsewhere if isinstance(elsewhere, Mapping) else {}), **said}
    if any(known.get(name) is not None for name in ("model", "function", "backend")):
        return dict(said)
    return {**{name: value for name, value in policy.items() if name not in known}, **said}


def _named(config: Path | None) -> dict[str, Any]:
    """What the environment and the file say, not checked yet."""
    environment = read_environment(Settings.opened(), [])
    return merged(environment, read_file(config or environment.get("config_file")))


def _refuse_other(config: Path | None, method: str, fixed: Mapping[str, Any]) -> None:
    """A value that would silently do nothing."""
    named = _named(config)
    algorithms = named.get("algorithms", method)
    names = algorithms.split(",") if isinstance(algorithms, str) else algorithms
    if list(names) != [method]:
        raise SettingsError(
            f"algorithms has no effect on evolve, whose --kind says that it is {method}; leave it out"
        )
    section = named.get(method)
    for name, value in fixed.items():
        if isinstance(section, Mapping) and str(section.get(name, value)) != str(value):
            told = "--rounds says" if name == "evolve_until" else "evolve needs"
            raise SettingsError(
                f"{method}.{name} = {section[name]} has no effect on evolve: {told} {value}; leave it out"
            )


def _with_file(config: Path | None) -> dict[str, Any]:
    return {} if config is None else {"config_file": config}
