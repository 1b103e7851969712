"""Shorten a wait: the replay buffer looks every 2 seconds for finished rollouts, here every 0.1.

For tests only. The time is a default argument that no setting reaches; `COEVO_TEST_POLL` sets it.
"""

from __future__ import annotations

import inspect
import os
from typing import Any


def poll_often(module: Any) -> None:
    """Lower the default `poll_interval` of `verl.trainer.ppo.v1.replay_buffer.ReplayBuffer`."""
    init = module.ReplayBuffer.__init__
    names = [
        name
        for name, parameter in inspect.signature(init).parameters.items()
        if parameter.default is not parameter.empty
    ]
    defaults = dict(zip(names, init.__defaults__, strict=True))
    defaults["poll_interval"] = float(os.environ.get("COEVO_TEST_POLL", "0.1"))
    init.__defaults__ = tuple(defaults.values())
