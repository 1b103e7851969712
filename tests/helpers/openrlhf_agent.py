"""A user's agent file for `--train.agent_func_path`: two turns, with feedback in between.

The reward is 1 for a second turn with an even number of words, so that dynamic filtering takes some groups
away. `COEVO_TEST_AGENT=edits` edits the observation in `reset`.
"""

from __future__ import annotations

import os
from typing import Any

import torch
from openrlhf.utils.agent import AgentInstanceBase, MultiTurnAgentExecutor

FEEDBACK = "<user> note please <end> <assistant>"


class Turns(AgentInstanceBase):  # type: ignore[misc]
    """One episode."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self._turns = 0

    async def reset(self, states: dict[str, Any], **_: Any) -> dict[str, Any]:
        if os.environ.get("COEVO_TEST_AGENT") == "edits":
            return {**states, "observation": states["observation"] + FEEDBACK}
        return states

    async def step(self, state_dict: dict[str, Any], **_: Any) -> dict[str, Any]:
        self._turns += 1
        done = self._turns == 2
        reward = torch.tensor(even(state_dict["action_text"]) if done else 0.0)
        return {
            "rewards": reward,
            "scores": reward,
            "environment_feedback": "" if done else FEEDBACK,
            "done": done,
            "sampling_params": state_dict["sampling_params"],
            "extra_logs": {"turns": float(self._turns)},
        }


def even(text: str) -> float:
    """Return 1 if a turn has an even number of words, else 0."""
    return float(len(text.replace("<end>", "").split()) % 2 == 0)


class AgentExecutor(MultiTurnAgentExecutor):  # type: ignore[misc]
    """The class that OpenRLHF looks for in the file."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__(Turns)
