"""Replace OpenRLHF's trainers by ours, in the process that parses the command line."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping

from prompt_coevo.adapters.common.dry_run import dry_run
from prompt_coevo.adapters.common.refused import refused
from prompt_coevo.adapters.openrlhf.checks import check_arguments
from prompt_coevo.adapters.openrlhf.contract import check_names, check_version
from prompt_coevo.adapters.openrlhf.host import Arguments
from prompt_coevo.adapters.openrlhf.sent_settings import sent
from prompt_coevo.engine.coevolution import Coevolution
from prompt_coevo.errors import CoevoError
from prompt_coevo.settings import Settings


def install(values: Mapping[str, object]) -> None:
    """Make the command that runs next in this process check its arguments and train with the engine.

    OpenRLHF looks up its trainers and `hierarchize` when they are needed, so replacing these names is
    enough. Raises SettingsError, HostError, PluginError or MissingExtraError.
    """
    check_version()
    settings = Settings(**values)
    Coevolution.check(settings)
    check_names()

    import openrlhf.trainer.ppo_trainer as sync
    import openrlhf.trainer.ppo_trainer_async as asynchronous
    import openrlhf.trainer.ray.vllm_engine as engine
    import openrlhf.utils as utils
    import openrlhf.utils.config as config
    import ray

    from prompt_coevo.adapters.openrlhf import nodes, rewards, trainer

    hierarchize = config.hierarchize

    def with_coevo(flat: Namespace) -> Arguments:
        args: Arguments = hierarchize(flat)
        try:
            check_arguments(args)
        except CoevoError as error:
            raise refused(error) from None
        if settings.preflight.dry_run:
            from prompt_coevo.adapters.openrlhf.dry_run import prepare

            dry_run(lambda: prepare(args, settings))
        args.coevo = sent(settings)
        return args

    config.hierarchize = with_coevo
    utils.get_strategy = nodes.on_alike_nodes(utils.get_strategy)
    engine.RolloutRayActor = ray.remote(rewards.CoevoRolloutActor)
    sync.PPOTrainer = ray.remote(trainer.CoevoTrainer)
    asynchronous.PPOTrainerAsync = ray.remote(trainer.CoevoTrainerAsync)
