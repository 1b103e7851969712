"""VeRL's asynchronous trainers with the engine built in.

They sample ahead: groups of several rounds are in flight and are observed when they are trained on, with
the policy version that each rollout began with. VeRL's checkpoint holds the groups in flight, so ours holds
their plans.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

import transfer_queue as tq
from omegaconf import OmegaConf
from verl.trainer.ppo.v1 import (
    PPOTrainerColocateAsync,
    PPOTrainerSeparateAsync,
    register_trainer,
)
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

from prompt_coevo.adapters.common.checkpoint import writing
from prompt_coevo.adapters.verl.contract import check_telling
from prompt_coevo.adapters.verl.launch import TRAINERS
from prompt_coevo.adapters.verl.rollouts import over, tags_of
from prompt_coevo.adapters.verl.saved_plans import plans_from_json, plans_to_json
from prompt_coevo.adapters.verl.trainer import TRAIN, Coevolving
from prompt_coevo.engine.state import read_state, write_json
from prompt_coevo.errors import HostError
from prompt_coevo.markers import PROJECT
from prompt_coevo.types import Assignment

logger = logging.getLogger(PROJECT)
PLANS_FILE: Final = "coevo_plans.json"


class Asynchronous(Coevolving):
    """The part that both asynchronous trainers share.

    A search in waves runs when a step begins, alongside the groups that are sampled ahead.
    """

    def _build_replay_buffer(self) -> ReplayBuffer:
        buffer = super()._build_replay_buffer()
        check_telling(buffer)
        if not OmegaConf.select(self.config, "algorithm.filter_groups.enable"):
            self._watch_dropping(buffer)  # for groups that are too old or failed
        return buffer

    # Hooks

    def _reissue_inflight_prompts(self, *args: object, **kwargs: object) -> int:
        self._dispatcher.under_way.resume(self._resumed)
        # Here, because a resumed run plans before its first step, and the last step's decisions must count.
        # A finished run owes its end only; nothing would use the results of a search.
        if not self._is_last_step(self.global_steps - 1):
            self._due.settle(self._engine, self._policy)
        count: int = super()._reissue_inflight_prompts(*args, **kwargs)
        return count

    def _about_to_drop(self, uids: set[str], finished: set[str]) -> None:
        super()._about_to_drop(uids, finished)
        # Dynamic sampling dropped the others: nothing is lost, and VeRL's metrics report it.
        too_old = len(finished & self.replay_buffer._stale_terminal_keys(self.global_steps, TRAIN))
        failed = len(uids - finished)
        if not (too_old or failed):
            return
        self._engine.context.note("groups_dropped", too_old=too_old, failed=failed)
        logger.warning(
            "VeRL dropped %d groups before training on them: %d are too old, %d have a failed rollout",
            too_old + failed,
            too_old,
            failed,
        )

    # Checkpoints

    def _save_checkpoint(self) -> None:
        plans = plans_to_json(self._dispatcher.under_way.all())
        path = self._checkpoint() / PLANS_FILE
        with writing("the plans of the groups sampled ahead", path):
            write_json(path, plans)
        super()._save_checkpoint()

    def _load_checkpoint(self) -> None:
        self._resumed: dict[str, list[Assignment]] = {}
        super()._load_checkpoint()
        if not self.global_steps:
            return
        held = over(tags_of(TRAIN))  # VeRL restarts the others, so they are planned again
        if self._due.step_due:  # the checkpoint has our state
            plans = _read_plans(self._checkpoint() / PLANS_FILE)
            self._resumed = {uid: plan for uid, plan in plans.items() if uid in held}
        self._drop(held - self._resumed.keys())

    def _drop(self, strangers: set[str]) -> None:
        """Drop groups that were sampled without a plan of ours; VeRL samples replacements."""
        if not strangers:
            return
        if not hasattr(self, "_restored_tq_prompt_count"):
            raise HostError(
                "the checkpoint holds groups that were sampled without +coevo, which cannot be replaced in "
                "this VeRL, because it does not count what it restores; resume without +coevo, or install "
                "VeRL 0.9.1"
            )
        rows = [key for key in tags_of(TRAIN) if key.split("_")[0] in strangers]
        tq.kv_clear(keys=rows, partition_id=TRAIN)
        self._restored_tq_prompt_count -= len(strangers)
        logger.warning(
            "the checkpoint holds %d groups that were sampled without +coevo; they are dropped",
            len(strangers),
        )


@register_trainer(TRAINERS["colocate_async"])
class CoevoColocateAsync(Asynchronous, PPOTrainerColocateAsync):
    """Trainer and rollout on the same devices; sampling ahead pauses while a step trains."""

    mode = "colocate_async"


@register_trainer(TRAINERS["separate_async"])
class CoevoSeparateAsync(Asynchronous, PPOTrainerSeparateAsync):
    """Rollout on separate devices, which keep sampling while a step trains."""

    mode = "separate_async"


def _read_plans(path: Path) -> dict[str, list[Assignment]]:
    return plans_from_json(read_state(path)) if path.exists() else {}
