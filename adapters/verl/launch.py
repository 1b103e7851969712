"""VeRL's command line with `+coevo=...`: it selects our trainer and checks the run before it starts."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Final

from prompt_coevo.extras import require

require("verl", extra="verl", purpose="the adapter for VeRL")

from hydra.experimental.callback import Callback  # noqa: E402
from omegaconf import DictConfig, OmegaConf, open_dict, read_write  # noqa: E402

from prompt_coevo.adapters.verl.hydra_group import offer_methods, read_settings  # noqa: E402
from prompt_coevo.errors import CoevoError, HostError  # noqa: E402

TRAINERS: Final = {
    "sync": "coevo",
    "colocate_async": "coevo_colocate_async",
    "separate_async": "coevo_separate_async",
}
"""VeRL's trainer modes, and the names under which our subclasses of those trainers are registered."""
_RESOLVER: Final = "coevo_trainer"
TRAINER_MODES: Final = {mode: f"${{{_RESOLVER}:{mode}}}" for mode in TRAINERS}
"""The values of `trainer.v1.trainer_mode` that select our trainers. Resolving one registers the trainer, so
a process that does not train imports nothing heavy."""


class LaunchCheck(Callback):
    """A hydra callback in the launching process, called once the whole configuration is known.

    `own_main` declares that a command other than main_ppo builds the trainer that the configuration names.
    """

    def __init__(self, own_main: bool = False) -> None:
        self._own_main = own_main

    def on_run_start(self, config: DictConfig, **_: object) -> None:
        """Replace the trainer that the command or the user's config file asks for by ours.

        The hydra group cannot do this, because its value would override the one in the config file.
        """
        v1 = OmegaConf.select(config, "trainer.v1")
        asked = None if v1 is None else OmegaConf.to_container(v1, resolve=False)["trainer_mode"]
        if asked in TRAINER_MODES:
            with read_write(config), open_dict(config):
                config.trainer.v1.trainer_mode = TRAINER_MODES[asked]

    def on_job_start(
        self, config: DictConfig, *, task_function: Callable[..., object], **_: object
    ) -> None:
        # Imported here, because VeRL loads this module in every process of every run.
        from prompt_coevo.adapters.common.dry_run import dry_run
        from prompt_coevo.adapters.common.refused import refused
        from prompt_coevo.adapters.verl.checks import check_config, check_main, check_mode
        from prompt_coevo.engine.coevolution import Coevolution

        try:
            if not self._own_main:
                check_main(task_function)
            mode = check_mode(config, TRAINER_MODES)
            settings = read_settings(config.coevo)
            check_config(config, settings, mode)
            Coevolution.check(settings)
        except CoevoError as error:
            # Hydra turns a callback's exceptions into warnings and continues; SystemExit gets through.
            raise refused(error) from None
        if settings.preflight.dry_run:
            from prompt_coevo.adapters.verl.dry_run import prepare

            dry_run(lambda: prepare(config, settings))


def store_group() -> None:
    """Register `+coevo=METHOD` for every method, with all settings as keys `coevo.*`."""
    OmegaConf.register_new_resolver(_RESOLVER, _register_trainer, replace=True)
    check = {"_target_": f"{__name__}.{LaunchCheck.__name__}", "own_main": False}
    offer_methods(hydra={"callbacks": {"coevo": check}})


def _register_trainer(mode: str) -> str:
    module = "trainer" if mode == "sync" else "asynchronous"
    try:
        import_module(f"prompt_coevo.adapters.verl.{module}")
    except ImportError as error:
        raise HostError(
            f"this VeRL lacks a part that +coevo needs ({error}); install a VeRL that this adapter "
            "supports, such as 0.9.1"
        ) from error
    return TRAINERS[mode]
