"""The dry run (`coevo.preflight.dry_run=true`), in the process that would launch Ray."""

from __future__ import annotations

from omegaconf import DictConfig
from verl.trainer.ppo.utils import create_rl_dataset
from verl.utils.config import omega_conf_to_dataclass

from prompt_coevo.adapters.common.dry_run import Prepared
from prompt_coevo.adapters.verl.checks import workload
from prompt_coevo.adapters.verl.questions import open_on
from prompt_coevo.settings import Settings


def prepare(config: DictConfig, settings: Settings) -> Prepared:
    """Read model and training dataset as the trainer does. Raises whatever reading them raises."""
    model = omega_conf_to_dataclass(config.actor_rollout_ref.model)
    dataset = create_rl_dataset(
        config.data.train_files,
        config.data,
        model.tokenizer,
        model.processor,
        is_train=True,
        max_samples=config.data.get("train_max_samples", -1),
    )
    questions, engine = open_on(dataset, config, settings, None, model.tokenizer, model.hf_config)
    return Prepared(engine, questions, workload(config, len(dataset), len(questions)))
