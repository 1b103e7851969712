"""The hydra group `coevo`: `+coevo=METHOD` and our settings on the command line of a hydra trainer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, DictConfig, OmegaConf

from prompt_coevo.errors import SettingsError
from prompt_coevo.lines import JSON
from prompt_coevo.settings import Settings, method_choices, setting_fields

_SECRET: Final = "api_key"


def offer_methods(**others: Mapping[str, object]) -> None:
    """Register a hydra group `coevo` with one choice per method and all settings as keys `coevo.*`.

    `others` maps the trainer's own sections to the values that every choice sets there.
    """
    for name, algorithms in method_choices().items():
        settings = OmegaConf.merge(_unset(), {"algorithms": algorithms})
        ConfigStore.instance().store(
            group="coevo",
            name=name,
            package="_global_",
            provider="prompt_coevo",
            node={**others, "coevo": settings},
        )


def read_settings(block: DictConfig) -> Settings:
    """Build Settings from the `coevo` block; keys left unset come from the other sources.

    Raises SettingsError with all mistakes at once.
    """
    values = _given(OmegaConf.to_container(block, resolve=True))
    reflection = values.get("reflection")
    if not isinstance(reflection, dict) or _SECRET not in reflection:
        return Settings(**values)
    secret = (
        "coevo.reflection.api_key would be printed and logged with the trainer's configuration; set "
        "the provider's environment variable or PROMPT_COEVO_REFLECTION__API_KEY"
    )
    del reflection[_SECRET]
    try:
        Settings(**values)
    except SettingsError as error:
        raise SettingsError(secret, *error.problems) from None
    raise SettingsError(secret)


def _unset() -> DictConfig:
    """Build all settings as keys without a value, so that hydra shows and completes them."""
    keys = OmegaConf.create()
    for name, field in setting_fields():
        if name != f"reflection.{_SECRET}":
            OmegaConf.update(keys, name, {} if field.default == {} else MISSING)
    # Hydra would stop at the first unknown name; Settings reports all of them, with suggestions.
    OmegaConf.set_struct(keys, False)
    return keys


def _given(values: Mapping[str, JSON]) -> dict[str, JSON]:
    """Drop the keys that have no value."""
    found = {
        name: _given(value) if isinstance(value, Mapping) else value
        for name, value in values.items()
    }
    return {name: value for name, value in found.items() if value not in (MISSING, {})}
