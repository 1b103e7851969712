"""What `+coevo=...` brings to VeRL's command line: our trainer, and a check before the run starts."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from prompt_coevo.doors.hydra_group import offer_methods, read_settings
from prompt_coevo.errors import CoevoError, HostError

TRAINER: Final = "coevo"
"""The name that our trainer is registered under."""
_RESOLVER: Final = "coevo_trainer"
TRAINER_MODE: Final = f"${{{_RESOLVER}:}}"
"""What `trainer.v1.trainer_mode` becomes. Looking it up registers the trainer, and so nothing heavy is
imported by a process that does not train."""


class LaunchCheck(Callback):
    """Runs in the launching process, once the whole configuration is known."""

    def on_job_start(self, config: DictConfig, **_: object) -> None:
        # Here, because VeRL loads this module in every process of every run.
        from prompt_coevo.adapters.verl.checks import check_config, check_mode
        from prompt_coevo.doors.dry_run import dry_run
        from prompt_coevo.doors.refused import refused
        from prompt_coevo.engine.coevolution import Coevolution

        try:
            check_mode(config, TRAINER_MODE)
            settings = read_settings(config.coevo)
            check_config(config, settings)
            Coevolution.check(settings)
        except CoevoError as error:
            # Hydra turns a callback's exceptions into warnings and goes on.
            raise refused(error) from None
        if settings.preflight.dry_run:
            from prompt_coevo.adapters.verl.dry_run import prepare

            dry_run(lambda: prepare(config, settings))


def store_group() -> None:
    """Offer `+coevo=METHOD` for every method, with all settings as keys `coevo.*`."""
    OmegaConf.register_new_resolver(_RESOLVER, _register_trainer, replace=True)
    check = {"_target_": f"{__name__}.{LaunchCheck.__name__}"}
    offer_methods(
        trainer={"v1": {"trainer_mode": TRAINER_MODE}}, hydra={"callbacks": {"coevo": check}}
    )


def _register_trainer() -> str:
    try:
        import_module("prompt_coevo.adapters.verl.trainer")
    except ImportError as error:
        raise HostError(
            f"this VeRL lacks a part that +coevo needs ({error}); install a VeRL that this adapter "
            "supports, such as 0.9.1"
        ) from error
    return TRAINER
