"""VeRL's synchronous trainer with the engine in it. No method of VeRL is copied."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any, Final

from omegaconf import DictConfig, OmegaConf, open_dict
from verl.experimental.agent_loop.agent_loop import _agent_loop_registry, resolve_config_path
from verl.trainer.ppo.v1.trainer_base import register_trainer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils.config import omega_conf_to_dataclass

from prompt_coevo.adapters.verl.dispatch import Dispatcher
from prompt_coevo.adapters.verl.group import TRAINER, read_settings
from prompt_coevo.adapters.verl.harvest import collect, session
from prompt_coevo.adapters.verl.launch import check_config
from prompt_coevo.adapters.verl.length_gate import length_gate
from prompt_coevo.adapters.verl.questions import index_questions
from prompt_coevo.adapters.verl.ratio import DistillRatio
from prompt_coevo.adapters.verl.rollouts import VerlPolicy
from prompt_coevo.doors.vocabulary_gate import VocabularyGate
from prompt_coevo.engine.coevolution import Coevolution
from prompt_coevo.engine.state import read_state, write_json
from prompt_coevo.errors import HostError
from prompt_coevo.markers import PROJECT
from prompt_coevo.tokens import encode, vocabulary_size
from prompt_coevo.types import Assignment, Rollout

logger = logging.getLogger(PROJECT)

STATE_FILE: Final = "coevo_state.json"
_TRAIN: Final = "train"


@register_trainer(TRAINER)
class CoevoTrainer(PPOTrainerSync):
    """Plans, observes, distils and searches around the steps of the synchronous trainer.

    A step's `step_end` and `epoch_end` run when the next step begins: the rollout replicas are awake
    with the new weights then, and the checkpoint, which VeRL writes earlier, is always the state before
    them. A resumed run therefore makes up for them with the same decisions.
    """

    def __init__(self, config: DictConfig) -> None:
        # The base class asks for its mode in many places, and it is a synchronous trainer.
        with open_dict(config):
            config.trainer.v1.trainer_mode = "sync"
        self._settings = read_settings(config.coevo)
        check_config(config, self._settings)
        self._steps_closed = 0
        self._dropped: list[Rollout] = []
        super().__init__(config)

    # Set-up

    def _build_replay_buffer(self) -> Any:
        buffer = super()._build_replay_buffer()
        if hasattr(buffer, "_clear_groups"):
            buffer._clear_groups = partial(self._around_clear_groups, buffer._clear_groups)
        return buffer

    def _init_dataloader(self) -> None:
        super()._init_dataloader()
        config, settings = self.config, self._settings
        questions = index_questions(self.train_dataset, settings, _agent_loops(config))
        # A copy, because proposers count in the background while the trainer tokenises.
        read = partial(encode, copy.deepcopy(self.tokenizer))
        model = omega_conf_to_dataclass(config.actor_rollout_ref.model)
        placement = settings.placement.build()
        self._engine = Coevolution.from_settings(
            settings,
            output_dir=Path(config.trainer.default_local_dir),
            count_tokens=lambda text: len(read(text)),
            initial_policy=config.actor_rollout_ref.model.path,
            system_message=questions.shared_system_message,
            plugins={
                "verl_length_gate": length_gate(self, questions, placement),
                "verl_vocabulary_gate": VocabularyGate(read, vocabulary_size(model.hf_config)),
            },
        )
        self._questions = questions
        self._policy = VerlPolicy(self, questions, lambda: self._engine.policy_version)
        self._ratio = DistillRatio(settings, config.actor_rollout_ref.rollout.calculate_log_probs)

    def fit(self, agent_loop_manager: Any) -> None:
        rollout = self.config.actor_rollout_ref.rollout
        self.agent_loop_manager = Dispatcher(
            agent_loop_manager,
            self._engine,
            self._questions,
            rollout.agent.default_agent_loop,
            rollout.n,
        )
        if not self.config.trainer.get("val_only", False):
            self._engine.begin(self._policy)
        super().fit(self.agent_loop_manager)

    # Moments of a step

    def on_step_begin(self) -> None:
        super().on_step_begin()
        self._close_steps(self.global_steps - 1, last=False)

    def on_step_end(self) -> None:
        super().on_step_end()
        if self._is_last(self.global_steps):
            self._close_steps(self.global_steps, last=True)
            self._engine.end(self._policy)
        self._pending_sync_metrics = {
            **(getattr(self, "_pending_sync_metrics", None) or {}),
            **self._engine.metrics(),
        }

    def _compute_old_log_prob(self, batch: Any, metrics: dict[str, Any]) -> Any:
        batch = super()._compute_old_log_prob(batch, metrics)
        metrics.update(
            self._ratio.apply(batch.keys, self._distilled(_real(batch)), batch.partition_id)
        )
        return batch

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        batch = super()._compute_advantage(batch, metrics)
        self._engine.observe([*self._dropped, *self._collect(_real(batch))])
        self._dropped.clear()
        self.agent_loop_manager.forget_all()
        return batch

    # Checkpoints

    def _save_checkpoint(self) -> None:
        # First, because the file that a resume looks for is the last thing the host writes.
        folder = self._checkpoint_folder()
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / STATE_FILE, self._engine.state_dict())
        super()._save_checkpoint()

    def _load_checkpoint(self) -> None:
        super()._load_checkpoint()
        if self.global_steps == 0:
            return
        path = self._checkpoint_folder() / STATE_FILE
        if not path.exists():
            self._steps_closed = self.global_steps
            logger.warning("%s does not exist: co-evolution starts anew", path)
            return
        self._steps_closed = self.global_steps - 1
        self._engine.load_state_dict(read_state(path), where=f"the state file {path}")

    def _checkpoint_folder(self) -> Path:
        trainer = self.config.trainer
        resumed = trainer.resume_from_path if trainer.resume_mode == "resume_path" else None
        if resumed and f"global_step_{self.global_steps}" == Path(resumed).name:
            return Path(resumed)
        return Path(trainer.default_local_dir) / f"global_step_{self.global_steps}"

    # Their parts

    def _close_steps(self, done: int, *, last: bool) -> None:
        """Tell the engine of the steps that are over: one, or none right after a start."""
        for step in range(self._steps_closed + 1, done + 1):
            final = last and step == done
            self._engine.step_end(self._policy, last=final)
            if step % self.steps_per_epoch == 0 and not final:
                self._engine.epoch_end(self._policy)
        self._steps_closed = done

    def _is_last(self, step: int) -> bool:
        epochs: int = self.config.trainer.total_epochs
        return bool(step >= self.total_training_steps or step // self.steps_per_epoch >= epochs)

    def _distilled(self, keys: Collection[str]) -> list[str]:
        planned = self._planned(keys)
        sessions = {key: session(key) for key in keys}
        return [key for key, (uid, member) in sessions.items() if planned[uid][member].distilled]

    def _planned(self, keys: Collection[str]) -> dict[str, list[Assignment]]:
        groups: dict[str, list[Assignment]] = self.agent_loop_manager.groups(
            {session(key)[0] for key in keys}
        )
        return groups

    def _collect(self, keys: Collection[str]) -> list[Rollout]:
        planned = self._planned(keys)
        version = self._engine.policy_version
        return collect(list(keys), _TRAIN, planned, self.tokenizer, version)

    def _around_clear_groups(
        self, original: Callable[..., Any], partition_id: str, uids: Collection[str]
    ) -> Any:
        """Dynamic sampling drops groups whose rewards are all equal, and those that all failed are
        what P2O looks for."""
        if partition_id == _TRAIN:
            finished = set(uids) & self.replay_buffer.finished_keys[partition_id]
            rows = self.replay_buffer.partitions[partition_id]
            self._dropped += self._collect([key for key in rows if session(key)[0] in finished])
        return original(partition_id, uids)


def _real(batch: Any) -> list[str]:
    """The keys of a batch without those that fill it up."""
    return [
        key
        for key, tag in zip(batch.keys, batch.tags, strict=True)
        if not tag.get("is_padding", False)
    ]


def _agent_loops(config: DictConfig) -> set[str]:
    """The names that an agent loop worker knows. Raises HostError if the default is none of them."""
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
