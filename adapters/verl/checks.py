"""Refusals of configurations that cannot work, in one sentence each, and the prompt length limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import DictConfig, OmegaConf

from prompt_coevo.adapters.common.length_gate import PromptLimit, tokens_needed
from prompt_coevo.errors import HostError
from prompt_coevo.extras import MissingExtraError
from prompt_coevo.settings import Settings, may_distill
from prompt_coevo.settings.method import Workload
from prompt_coevo.tokens import Tokenizer

if TYPE_CHECKING:
    from verl.utils.dataset.rl_dataset import RLHFDataset


def check_main(main: Callable[..., object]) -> None:
    """Raise HostError if a command is not `verl.trainer.main_ppo`: others build their own trainers.

    They read the same configuration, so nothing else would show that they train without the adapter.
    """
    known = find_spec("verl.trainer.main_ppo")
    code = getattr(main, "__code__", None)
    file = Path(code.co_filename).resolve() if code else main
    if known is None or known.origin is None or file != Path(known.origin).resolve():
        raise HostError(
            f"+coevo works with python -m verl.trainer.main_ppo, and {file} may build another trainer, "
            "which would ignore it; for DAPO's dynamic sampling set algorithm.filter_groups.enable=True "
            "with main_ppo, for sampling ahead trainer.v1.trainer_mode=separate_async; if this command "
            "calls main_ppo's run_ppo with its TaskRunner, add hydra.callbacks.coevo.own_main=True"
        )


def check_mode(config: DictConfig, ours: Mapping[str, str]) -> str:
    """Return VeRL's name of the trainer that a command asks for.

    `ours` maps VeRL's names to the values of `trainer_mode` that select our trainers. Raises HostError,
    before Ray starts, for a command or a trainer that this adapter does not support.
    """
    if not config.trainer.use_v1:
        raise HostError(
            "+coevo works with VeRL's V1 trainer, and trainer.use_v1=False asks for the deprecated "
            "one; leave it out"
        )
    asked = OmegaConf.to_container(config.trainer.v1, resolve=False)["trainer_mode"]
    modes = {value: mode for mode, value in ours.items()}
    if asked in ours:  # hydra's --multirun never calls `on_run_start`
        raise HostError(
            f"trainer.v1.trainer_mode={asked} would be VeRL's own trainer in a run of several jobs; write "
            f"trainer.v1.trainer_mode='{ours[asked]}'"
        )
    if asked not in modes:
        raise HostError(
            f"+coevo does not support trainer.v1.trainer_mode={asked}; it supports {', '.join(ours)}"
        )
    if find_spec("transfer_queue") is None:
        raise MissingExtraError(
            "VeRL's V1 trainer needs the package 'TransferQueue', which is not installed; "
            "run: pip install TransferQueue"
        )
    return modes[asked]


def check_config(config: DictConfig, settings: Settings, mode: str = "sync") -> None:
    """Raise HostError for a configuration that the adapter cannot serve."""
    rollout = config.actor_rollout_ref.rollout
    if rollout.n < 2:
        raise HostError(
            f"actor_rollout_ref.rollout.n={rollout.n} makes no groups: it must be at least 2"
        )
    if (
        mode == "sync"
        and (OmegaConf.select(config, "trainer.v1.sync.parameter_sync_step") or 1) > 1
    ):
        raise HostError(
            "trainer.v1.sync.parameter_sync_step above 1 trains on parts of a round, and +coevo needs "
            "whole rounds; leave it out"
        )
    if OmegaConf.select(config, "skip.rollout_tq.enable"):
        raise HostError(
            "skip.rollout_tq.enable replays stored rollouts, which ran under other prompts; switch it "
            "off"
        )
    if config.algorithm.adv_estimator == "remax":
        raise HostError(
            "algorithm.adv_estimator=remax needs a greedy rollout of every question, which VeRL's V1 "
            "trainer does not sample; take another estimator, such as grpo"
        )
    sampler = OmegaConf.select(config, "trainer.v1.sampler.custom_sampler.path")
    if mode != "sync":
        _check_asynchronous(config, mode, sampler)
    if OmegaConf.select(config, "algorithm.filter_groups.enable") and sampler:
        raise HostError(
            "algorithm.filter_groups with trainer.v1.sampler.custom_sampler would drop groups where "
            "+coevo cannot see them, so no question would ever be hard; leave one of them out"
        )
    if may_distill(settings):
        _check_distillation(config)


def _check_asynchronous(config: DictConfig, mode: str, sampler: str | None) -> None:
    if sampler:
        raise HostError(
            f"trainer.v1.sampler.custom_sampler with trainer.v1.trainer_mode={mode} may drop groups where "
            "+coevo cannot see them, and their plans would pile up; leave one of them out"
        )
    reward = config.reward.reward_model
    if reward.enable and not reward.enable_resource_pool:
        raise HostError(
            f"a reward model on the rollout's devices with trainer.v1.trainer_mode={mode} would put the "
            "rollout servers to sleep while they sample ahead; set "
            "reward.reward_model.enable_resource_pool=True"
        )


def _check_distillation(config: DictConfig) -> None:
    if OmegaConf.select(config, "algorithm.rollout_correction.bypass_mode"):
        raise HostError(
            "algorithm.rollout_correction.bypass_mode takes old log-probs from the sampler, which ran "
            "under the template, but distillation needs those on the question: switch it off, or set "
            "coevo.context_distillation=False"
        )
    if config.actor_rollout_ref.rollout.get("enable_rollout_routing_replay"):
        raise HostError(
            "actor_rollout_ref.rollout.enable_rollout_routing_replay records the experts of every "
            "token of the templated prompt, but distillation trains on another prompt; "
            "switch it off, or set coevo.context_distillation=False"
        )


def agent_loops(config: DictConfig) -> set[str]:
    """Return the agent loops that a worker knows. Raises HostError if the default is none of them."""
    # Imported here, because only the trainer asks, and the launching process can do without.
    from verl.experimental.agent_loop.agent_loop import _agent_loop_registry, resolve_config_path

    agent = config.actor_rollout_ref.rollout.agent
    names = set(_agent_loop_registry)
    if agent.agent_loop_config_path:
        path = resolve_config_path(agent.agent_loop_config_path)
        names |= {loop.name for loop in OmegaConf.load(path)}
    if agent.default_agent_loop not in names:
        raise HostError(
            "actor_rollout_ref.rollout.agent.default_agent_loop="
            f"{agent.default_agent_loop} is not registered; known: {', '.join(sorted(names))}"
        )
    return names


def prompt_limit(config: DictConfig, tokenizer: Tokenizer, dataset: RLHFDataset) -> PromptLimit:
    """Return the prompt limit. VeRL cuts a longer prompt at the left, instruction first, with a warning."""
    template = dict(config.data.get("apply_chat_template_kwargs") or {})
    if tools := getattr(dataset, "tool_schemas", None):
        template["tools"] = tools
    room = config.actor_rollout_ref.rollout.prompt_length
    return PromptLimit(
        lambda prompts: tokens_needed(tokenizer, prompts, **template),
        lambda: room,
        "data.max_prompt_length is",
        "set data.filter_overlong_prompts=True",
    )


def workload(config: DictConfig, rows: int, questions: int) -> Workload:
    """Return the size of a run with so many rows in its dataset; an epoch has no partial batch."""
    per_epoch = rows // config.data.train_batch_size
    epochs, given = config.trainer.total_epochs, config.trainer.total_training_steps
    steps = per_epoch * epochs if given is None else min(given, per_epoch * epochs)
    return Workload(
        questions=questions,
        group_size=config.actor_rollout_ref.rollout.n,
        epochs=steps / per_epoch if per_epoch else None,
        steps=steps,
        rows=rows,
    )
