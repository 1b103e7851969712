"""VeRL's trainers with the engine built in: the part that all share, and the synchronous one. No method of
VeRL is copied."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

from omegaconf import DictConfig, OmegaConf, open_dict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1 import AgentLoopManagerTQ, PPOTrainer, PPOTrainerSync, register_trainer
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
from verl.utils.config import omega_conf_to_dataclass

from prompt_coevo.adapters.common.checkpoint import load_state, save_state
from prompt_coevo.adapters.common.due import Due
from prompt_coevo.adapters.common.late_texts import LateTexts
from prompt_coevo.adapters.common.patching import swapped, wrap
from prompt_coevo.adapters.common.success import Success
from prompt_coevo.adapters.common.trackers.texts import Texts, Writing
from prompt_coevo.adapters.verl.checks import check_config, workload
from prompt_coevo.adapters.verl.contract import check_distilled, check_dropping, check_names
from prompt_coevo.adapters.verl.distill import Extra
from prompt_coevo.adapters.verl.dumps import RanUnder
from prompt_coevo.adapters.verl.generation import Dispatcher
from prompt_coevo.adapters.verl.hydra_group import read_settings
from prompt_coevo.adapters.verl.launch import TRAINERS
from prompt_coevo.adapters.verl.policy import VerlPolicy
from prompt_coevo.adapters.verl.questions import open_on
from prompt_coevo.adapters.verl.ratio import (
    UnderTemplate,
    correcting_the_sampler,
    effect,
    measuring_plain_rows,
    punish_nothing,
)
from prompt_coevo.adapters.verl.rollouts import (
    ADVICE,
    BEGAN_WITH,
    collect,
    distilled,
    session,
    texts_of,
    unpunished,
)
from prompt_coevo.adapters.verl.second_pass import after_rollout_prompts
from prompt_coevo.adapters.verl.trackers import open_trackers
from prompt_coevo.errors import CoevoError, HostError
from prompt_coevo.markers import PROJECT
from prompt_coevo.settings import may_distill
from prompt_coevo.types import Assignment, PolicyVersion, Rollout

logger = logging.getLogger(PROJECT)

TRAIN: Final = "train"
"""VeRL's partition for rows to train on."""
STALENESS: Final = "coevo/staleness"
"""The metric for how many updates the sampling weights are behind the trained ones, on average."""


class Coevolving(PPOTrainer):
    """Plans, observes, distils and searches around the steps of one of VeRL's trainers, which follows this
    class among the bases.

    A step's `step_end` and `epoch_end` run when the next step begins, because by then the rollout
    replicas are awake with the new weights. VeRL writes the checkpoint earlier, so it always holds the
    state before them, and a resumed run makes up for them with the same decisions.
    """

    mode: ClassVar[str]
    """VeRL's name for the trainer that this class extends."""

    def __init__(self, config: DictConfig) -> None:
        # VeRL's base classes read their mode from the configuration in many places.
        with open_dict(config):
            config.trainer.v1.trainer_mode = self.mode
        self._settings = read_settings(config.coevo)
        check_config(config, self._settings, self.mode)
        check_names(self.mode, distils=may_distill(self._settings))
        self._due = Due()
        self._ran_under = RanUnder()
        self._has_ended = self._has_observed = self._has_checked = False
        self._under_template: UnderTemplate = {}
        super().__init__(config)

    # Set-up

    def _build_replay_buffer(self) -> ReplayBuffer:
        buffer: ReplayBuffer = super()._build_replay_buffer()
        dropping = (
            "algorithm.filter_groups.enable",
            "trainer.v1.sampler.sync_refill_failed_groups",
        )
        if any(OmegaConf.select(self.config, name) for name in dropping):
            self._watch_dropping(buffer)
        return buffer

    def _watch_dropping(self, buffer: ReplayBuffer) -> None:
        check_dropping(buffer)
        wrap(buffer, "_clear_groups", self._around_clear_groups)

    def _init_dataloader(self) -> None:
        super()._init_dataloader()
        config = self.config
        self._questions, self._engine = open_on(
            self.train_dataset,
            config,
            self._settings,
            Path(config.trainer.default_local_dir),
            self.tokenizer,
            omega_conf_to_dataclass(config.actor_rollout_ref.model).hf_config,
        )
        self._success = Success(self._settings.success, "the reward's dictionary")
        self._texts, self._writing = Texts(self._engine), Writing()

    def fit(self, agent_loop_manager: AgentLoopManagerTQ) -> None:
        rollout = self.config.actor_rollout_ref.rollout
        self._dispatcher = Dispatcher(
            agent_loop_manager,
            self._engine,
            self._questions,
            rollout,
            keeps_prompts=self._settings.distill_forward,
        )
        self._policy = VerlPolicy(self, self._dispatcher, self._sampled_by, self._success)
        if not self.config.trainer.get("val_only", False):
            rows, questions = len(self.train_dataset), len(self._questions)
            self._engine.begin(self._policy, workload(self.config, rows, questions))
        try:
            super().fit(self._dispatcher)
        except CoevoError:
            raise
        except Exception:
            self._policy.check_living()  # says in one sentence what VeRL says in many lines
            raise

    # Hooks of a step

    def on_step_begin(self) -> None:
        super().on_step_begin()
        self._has_observed = False
        self._ran_under.clear()
        self._due.settle(self._engine, self._policy)

    def on_step_end(self) -> None:
        super().on_step_end()
        if not self._has_observed:
            raise HostError(
                "VeRL ended a step without computing advantages, so +coevo never saw its rollouts; "
                f"{ADVICE}"
            )
        self._due = self._due_after_step()
        if self._is_last_step():
            self._finish()
        self._pending_sync_metrics = {
            **(getattr(self, "_pending_sync_metrics", None) or {}),
            **self._engine.metrics(),
        }
        if tables := self._texts.due(self.global_steps, last=self._is_last_step()):
            self._writing.write(tables, self.global_steps, open_trackers(self.logger))

    def on_train_end(self) -> None:
        """End a run that had no step left to do: it may have been killed after its last checkpoint."""
        super().on_train_end()
        self._finish()

    def _finish(self) -> None:
        """Settle what is due and end the engine's run, once."""
        if not self._has_ended:
            self._has_ended = True
            self._due.settle(self._engine, self._policy, last=True)
            self._engine.end(self._policy)

    def _compute_old_log_prob(self, batch: KVBatchMeta, metrics: dict[str, float]) -> KVBatchMeta:
        """Compute old log-probs under the trained prompts.

        With `distill_forward`, distilled rows get another forward pass, under the prompts they were sampled
        with.
        """
        old_log_prob = super()._compute_old_log_prob
        distilled = self._distilled(batch)
        with measuring_plain_rows(batch.keys, distilled):
            batch = old_log_prob(batch, metrics)
        self._under_template = {}
        if distilled and self._settings.distill_forward:

            def compute(rows: KVBatchMeta) -> KVBatchMeta:
                # Other rows of other lengths, so they are balanced anew; their metrics would overwrite
                # those of the batch.
                with swapped(self, "_get_required_batch_multiple", self._forward_multiple):
                    rows = self._balance_batch(rows, {})
                old_log_prob(rows, {})
                return rows

            found = after_rollout_prompts(distilled, batch, compute)
            self._under_template = dict(zip(distilled, found.unbind(), strict=True))
            metrics.update(effect(distilled, batch.partition_id, self._under_template))
        return batch

    def _forward_multiple(self, dp_size: int) -> int:
        """Return the batch multiple for a forward pass: VeRL pads to whole mini-batches, but whole
        micro-batches suffice here, and dynamic batch sizes need not even these."""
        rollout = self.config.actor_rollout_ref.rollout
        by_tokens = rollout.log_prob_use_dynamic_bsz
        return dp_size * (1 if by_tokens else int(rollout.log_prob_micro_batch_size_per_gpu))

    def _compute_advantage(self, batch: KVBatchMeta, metrics: dict[str, float]) -> KVBatchMeta:
        distilled = self._distilled(batch)
        if distilled and not self._has_checked:
            check_distilled(distilled, batch.partition_id)
            self._has_checked = True
        with correcting_the_sampler(batch.keys, distilled, self._under_template):
            batch = super()._compute_advantage(batch, metrics)
        self._under_template = {}
        self._observe(_real(batch), metrics)
        return batch

    def _observe(self, keys: list[str], metrics: dict[str, float]) -> None:
        """Observe the rows that are about to be trained on."""
        texts = self._late_texts()
        rollouts = self._collect(keys, texts)
        sampled_by = [one.policy_version.step for one in rollouts if one.status != "aborted"]
        if self.config.trainer.get("rollout_data_dir"):
            self._ran_under.note(self._planned(keys))
        punish_nothing(unpunished(keys, rollouts, self._planned(keys)), TRAIN)
        under_way = self._dispatcher.under_way
        under_way.observe(rollouts, {session(key)[0] for key in keys})
        del rollouts  # close() fetches the texts of all rollouts that are still held
        texts.close()
        self._has_observed = True
        now = self._engine.policy_version.step
        ages = [now - step for step in sampled_by]
        metrics[STALENESS] = sum(ages) / len(ages) if ages else 0.0

    def _dump_generations(self, *args: Any, **fields: Any) -> None:
        folder, columns = fields.get("dump_path"), fields.get("reward_extra_infos_dict")
        if columns is not None and folder == self.config.trainer.get("rollout_data_dir"):
            fields["reward_extra_infos_dict"] = self._ran_under.columns(columns)
        super()._dump_generations(*args, **fields)

    # Checkpoints

    def _save_checkpoint(self) -> None:
        # First, because VeRL writes the file that a resume looks for last.
        save_state(self._engine, self._checkpoint())
        super()._save_checkpoint()

    def _load_checkpoint(self) -> None:
        super()._load_checkpoint()
        if self.global_steps and load_state(self._engine, self._checkpoint()):
            self._due = self._due_after_step()

    def _checkpoint(self) -> Path:
        """Return the folder of this step's checkpoint, to write or to resume from."""
        trainer, name = self.config.trainer, f"global_step_{self.global_steps}"
        resumed = trainer.resume_from_path if trainer.resume_mode == "resume_path" else None
        if resumed and Path(resumed).name == name:
            return Path(resumed)
        return Path(trainer.default_local_dir) / name

    def _due_after_step(self) -> Due:
        """Return what is due after a step. A resumed run owes the same: VeRL writes checkpoints earlier."""
        return Due(step_due=True, epoch_due=self.global_steps % self.steps_per_epoch == 0)

    # Helpers

    def _is_last_step(self, step: int | None = None) -> bool:
        """Check that no step follows the given one, by default the current one."""
        step, epochs = self.global_steps if step is None else step, self.config.trainer.total_epochs
        return bool(step >= self.total_training_steps or step // self.steps_per_epoch >= epochs)

    def _late_texts(self) -> LateTexts:
        return LateTexts(partial(texts_of, partition=TRAIN, tokenizer=self.tokenizer))

    def _collect(self, keys: list[str], texts: LateTexts) -> list[Rollout]:
        return collect(keys, TRAIN, self._planned(keys), texts, self._sampled_by, self._success)

    def _sampled_by(self, extra: Extra) -> PolicyVersion:
        """Return the weights that a rollout began with, from its extra fields.

        VeRL numbers weights by global steps; during a step they have the number of the previous one.
        """
        attempt, step = self._engine.policy_version
        now = self.global_steps - 1
        behind = max(0, now - int(extra.get(BEGAN_WITH, now)))
        return PolicyVersion(attempt, max(0, step - behind))

    def _distilled(self, batch: KVBatchMeta) -> list[str]:
        keys = _real(batch)
        return distilled(keys, self._planned(keys))

    def _planned(self, keys: list[str]) -> dict[str, list[Assignment]]:
        return self._dispatcher.under_way.planned({session(key)[0] for key in keys})

    def _around_clear_groups(
        self, original: Callable[..., object], partition_id: str, uids: Collection[str]
    ) -> object:
        """Observe groups before dynamic sampling drops them because all their rewards are equal: a search
        for templates looks for the groups without a success."""
        if partition_id == TRAIN:
            finished = set(uids) & self.replay_buffer.finished_keys[partition_id]
            self._about_to_drop(set(uids), finished)
            rows = self.replay_buffer.partitions[partition_id]
            dropped = [key for key in rows if session(key)[0] in finished]
            texts = self._late_texts()
            self._dispatcher.under_way.came_back(self._collect(dropped, texts), uids)
            texts.close()  # fetches all that are still held: the rows are about to be deleted
        return original(partition_id, uids)

    def _about_to_drop(self, uids: set[str], finished: set[str]) -> None:
        """Check the samplers if VeRL drops failed groups; `finished` groups are observed by the caller.

        VeRL samples replacements for failed groups, endlessly if their server has died.
        """
        if uids - finished:
            self._policy.check_living()


@register_trainer(TRAINERS["sync"])
class CoevoTrainer(Coevolving, PPOTrainerSync):
    """The synchronous trainer: it samples a round, observes it as a whole and trains on it. Nothing is in
    flight when the step ends."""

    mode = "sync"

    def _observe(self, keys: list[str], metrics: dict[str, float]) -> None:
        super()._observe(keys, metrics)
        if lost := len(self._dispatcher.under_way.all()):
            self._engine.context.note("groups_dropped", too_old=0, failed=lost)
            logger.warning(
                "%d groups that were sampled did not come back, so their questions are not measured: all "
                "their rollouts failed, or a custom sampler dropped them; to drop groups, take "
                "algorithm.filter_groups instead",
                lost,
            )
        self._dispatcher.under_way.clear()


def _real(batch: KVBatchMeta) -> list[str]:
    """Return the keys of a batch without padding rows."""
    tagged = zip(batch.keys, batch.tags, strict=True)
    return [key for key, tag in tagged if not tag.get("is_padding", False)]
