"""The hydra group `coevo`: the settings of the engine as keys of VeRL's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, DictConfig, OmegaConf

from prompt_coevo.errors import SettingsError
from prompt_coevo.settings import Settings, method_choices
from prompt_coevo.settings.section import Section

TRAINER: Final = "coevo"
"""The name that our trainer is registered under."""
_RESOLVER: Final = "coevo_trainer"
TRAINER_MODE: Final = f"${{{_RESOLVER}:}}"
"""What `trainer.v1.trainer_mode` becomes. Looking it up registers the trainer, and so nothing heavy is
imported by a process that does not train."""
_SECRET: Final = "api_key"


def store_group() -> None:
    """Offer `+coevo=p2o`, `+coevo=inspo` and `+coevo=both`."""
    OmegaConf.register_new_resolver(_RESOLVER, _register_trainer, replace=True)
    for name, algorithms in method_choices().items():
        ConfigStore.instance().store(
            group="coevo",
            name=name,
            package="_global_",
            provider="prompt_coevo",
            node={
                "trainer": {"v1": {"trainer_mode": TRAINER_MODE}},
                "hydra": {
                    "callbacks": {
                        "coevo": {"_target_": "prompt_coevo.adapters.verl.launch.LaunchCheck"}
                    }
                },
                "coevo": {**_unset(Settings.opened()), "algorithms": algorithms},
            },
        )


def read_settings(block: DictConfig) -> Settings:
    """The `coevo` block as Settings; what the user left alone comes from their other sources.

    Raises SettingsError.
    """
    values = _given(OmegaConf.to_container(block, resolve=True))
    if _SECRET in values.get("reflection", {}):
        raise SettingsError(
            "coevo.reflection.api_key would be printed and logged with VeRL's configuration; set the "
            "provider's environment variable or PROMPT_COEVO_REFLECTION__API_KEY"
        )
    return Settings(**values)


def _register_trainer() -> str:
    import_module("prompt_coevo.adapters.verl.trainer")
    return TRAINER


def _unset(model: type[Any]) -> dict[str, Any]:
    """All settings as keys without a value, so that VeRL's strict configuration knows them."""
    keys: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        kind = field.annotation
        if name == _SECRET:
            continue
        if isinstance(kind, type) and issubclass(kind, Section):
            keys[name] = _unset(kind)
        else:
            keys[name] = {} if field.default == {} else MISSING
    return keys


def _given(values: Any) -> dict[str, Any]:
    found = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            value = _given(value)
        if value not in (MISSING, {}):
            found[name] = value
    return found
