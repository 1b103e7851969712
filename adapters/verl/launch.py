"""`+coevo=...` on VeRL's command line: a hydra group, and a check before the run starts."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from hydra.core.config_store import ConfigStore
from hydra.experimental.callback import Callback
from omegaconf import MISSING, DictConfig, OmegaConf

from prompt_coevo.errors import CoevoError, SettingsError
from prompt_coevo.settings import Settings, method_choices, setting_fields

TRAINER: Final = "coevo"
"""The name that our trainer is registered under."""
_RESOLVER: Final = "coevo_trainer"
TRAINER_MODE: Final = f"${{{_RESOLVER}:}}"
"""What `trainer.v1.trainer_mode` becomes. Looking it up registers the trainer, and so nothing heavy is
imported by a process that does not train."""
_SECRET: Final = "api_key"


class LaunchCheck(Callback):
    """Runs in the launching process, once the whole configuration is known."""

    def on_job_start(self, config: DictConfig, **_: object) -> None:
        # Here, because VeRL loads this module in every process of every run.
        from prompt_coevo.adapters.verl.checks import check_config, check_mode
        from prompt_coevo.engine.coevolution import Coevolution

        try:
            check_mode(config, TRAINER_MODE)
            settings = read_settings(config.coevo)
            check_config(config, settings)
            Coevolution.check(settings)
        except CoevoError as error:
            # Hydra turns a callback's exceptions into warnings and goes on.
            raise SystemExit(f"error: {error}") from None


def store_group() -> None:
    """Offer `+coevo=METHOD` for every method, with all settings as keys `coevo.*`."""
    OmegaConf.register_new_resolver(_RESOLVER, _register_trainer, replace=True)
    check = {"_target_": f"{__name__}.{LaunchCheck.__name__}"}
    for name, algorithms in method_choices().items():
        ConfigStore.instance().store(
            group="coevo",
            name=name,
            package="_global_",
            provider="prompt_coevo",
            node={
                "trainer": {"v1": {"trainer_mode": TRAINER_MODE}},
                "hydra": {"callbacks": {"coevo": check}},
                "coevo": OmegaConf.merge(_unset(), {"algorithms": algorithms}),
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


def _unset() -> DictConfig:
    """All settings as keys without a value, so that VeRL's strict configuration knows them."""
    keys = OmegaConf.create()
    for name, field in setting_fields():
        if name != f"reflection.{_SECRET}":
            OmegaConf.update(keys, name, {} if field.default == {} else MISSING)
    return keys


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Without the keys that have no value."""
    found = {
        name: _given(value) if isinstance(value, Mapping) else value
        for name, value in values.items()
    }
    return {name: value for name, value in found.items() if value not in (MISSING, {})}
