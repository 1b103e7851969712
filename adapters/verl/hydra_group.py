"""`+coevo=METHOD` on the command line of a host that hydra configures: the settings next to its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, DictConfig, OmegaConf

from prompt_coevo.errors import SettingsError
from prompt_coevo.settings import Settings, method_choices, setting_fields

_SECRET: Final = "api_key"


def offer_methods(**others: Mapping[str, object]) -> None:
    """A hydra group `coevo` with every method, and all settings as keys `coevo.*`.

    `others` is what a choice sets in the host's own sections, by their names.
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
    """The `coevo` block as Settings; what the user left alone comes from their other sources.

    Raises SettingsError with all that is wrong.
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
    """All settings as keys without a value, so that hydra shows and completes them."""
    keys = OmegaConf.create()
    for name, field in setting_fields():
        if name != f"reflection.{_SECRET}":
            OmegaConf.update(keys, name, {} if field.default == {} else MISSING)
    # Hydra would stop at the first name that it does not know; ours tell all, with what was meant.
    OmegaConf.set_struct(keys, False)
    return keys


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Without the keys that have no value."""
    found = {
        name: _given(value) if isinstance(value, Mapping) else value
        for name, value in values.items()
    }
    return {name: value for name, value in found.items() if value not in (MISSING, {})}
