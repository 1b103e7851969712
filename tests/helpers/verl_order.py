"""Fix the order of VeRL's training rows."""

from __future__ import annotations

import functools
from typing import Any


def put_into_order(module: Any) -> None:
    """Train on rows in the order of their questions: sums in another order differ in their last bits.

    `module` is `verl.trainer.ppo.v1.replay_buffer`.
    """
    original = module.ReplayBuffer._materialize_batch

    @functools.wraps(original)
    def materialize(self: Any, partition: str, uids: list[str], rows: Any) -> Any:
        batch = original(self, partition, uids, rows)
        keys = [key.rsplit("_", 2) for key in batch.keys]
        places = [(uid, int(session)) for uid, session, _ in keys]
        batch.reorder(sorted(range(len(places)), key=places.__getitem__))
        return batch

    module.ReplayBuffer._materialize_batch = materialize
