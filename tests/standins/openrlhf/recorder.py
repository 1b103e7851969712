"""Record what the actor's loss gets, in the actor's own process; replaces nothing.

One line per row and update goes to the file that `COEVO_TEST_ACTOR_LOG` names. `step` is the number of
the optimizer's step to which the row belongs, from 1, and continues after a resumption. `position` is the
row's place in the actor's replay buffer, before it is shuffled: with one actor, group `g` of `n` samples
has the positions from `g * n`. `sequences` has no padding; per-token values are for all of its tokens
but the first, and `log_probs` are those that the loss compares with `action_log_probs`.
"""

from __future__ import annotations

import functools
import os
from typing import Any

from standins import json_lines

_PER_TOKEN = (
    "action_mask", "action_log_probs", "rollout_log_probs", "base_action_log_probs", "advantages",
    "returns",
)  # fmt: skip


def record_positions(module: Any) -> None:
    """Wrap `NaiveReplayBuffer.collate_fn` of `openrlhf.trainer.ppo_utils.replay_buffer`."""
    buffer = module.NaiveReplayBuffer
    collate_fn = buffer.collate_fn

    @functools.wraps(collate_fn)
    def collate(self: Any, batch: list[Any]) -> Any:
        experience = collate_fn(self, batch)
        places = {id(item): place for place, item in enumerate(self.items)}
        items = batch[0] if self.dynamic_batch else batch
        experience.positions = [places[id(item)] for item in items]
        return experience

    buffer.collate_fn = collate


def record_loss(module: Any) -> None:
    """Wrap `ActorPPOTrainer.training_step` of `openrlhf.trainer.ray.ppo_actor`."""
    if not os.environ.get("COEVO_TEST_ACTOR_LOG"):
        return
    trainer = module.ActorPPOTrainer
    training_step = trainer.training_step

    @functools.wraps(training_step)
    def recorded(self: Any, experience: Any, *arguments: Any, **options: Any) -> Any:
        def write(_: Any, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
            log_probs, old_log_probs, advantages = inputs
            given = {
                **{name: getattr(experience, name) for name in _PER_TOKEN},
                "log_probs": log_probs,
                "action_log_probs": old_log_probs,
                "advantages": advantages,
                "action_mask": named["action_mask"],
                "rollout_log_probs": named["rollout_log_probs"],
            }
            step = self.actor.model.global_steps + 1
            json_lines.append("COEVO_TEST_ACTOR_LOG", _rows(step, experience, given))

        hook = self.actor_loss_fn.register_forward_pre_hook(write, with_kwargs=True)
        try:
            return training_step(self, experience, *arguments, **options)
        finally:
            hook.remove()

    trainer.training_step = recorded


def _rows(step: int, experience: Any, given: dict[str, Any]) -> list[dict[str, Any]]:
    lengths = experience.attention_mask.sum(1).tolist()
    return [
        {
            "master_port": int(os.environ["MASTER_PORT"]),
            "step": step,
            "position": experience.positions[number],
            "prompts": experience.prompts[number],
            "labels": experience.labels[number],
            "rewards": float(experience.rewards[number]),
            "info": {name: float(values[number]) for name, values in experience.info.items()},
            "sequences": experience.sequences[number, :length].tolist(),
            "actions_in_padding": int(given["action_mask"][number, length - 1 :].sum()),
            **{name: _cut(values, number, length - 1) for name, values in given.items()},
        }
        for number, length in enumerate(lengths)
    ]


def _cut(values: Any, number: int, length: int) -> list[Any] | None:
    if values is None:
        return None
    row = values[number, :length].detach()
    return (row.float() if row.is_floating_point() else row.int()).tolist()
