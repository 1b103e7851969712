"""Let a TRL trainer's completions not depend on the prompt, and give half of each group a template.

Then a run with templates and one without train on the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from trl import GRPOTrainer, RLOOTrainer

from helpers.trl_world import TASKS, FixedTemplates, right_hint
from prompt_coevo import hookimpl
from prompt_coevo.adapters.trl import CoevoCallback
from prompt_coevo.types import Group

HALF = {f"q{n}": ["", right_hint(task), "", "note please"] for n, task in enumerate(TASKS)}
"""Half of each group is templated, by texts of several lengths."""
WORDS = (8, 40)
"""The ids from which completions are drawn: words, no marks of the chat template."""


class Ghost:
    """Answers by a sequence of its own: for a trainer class to inherit from, before the trainer."""

    def _generate_single_turn(self, prompt_ids: Sequence[Any], *_: Any, **__: Any) -> Any:
        asked = self.__dict__["asked"] = self.__dict__.get("asked", 0) + 1
        rank = self.accelerator.process_index  # type: ignore[attr-defined]
        numbers = torch.Generator().manual_seed(100 * asked + rank)
        lengths = torch.randint(1, 12, (len(prompt_ids),), generator=numbers).tolist()
        end = self.processing_class.eos_token_id  # type: ignore[attr-defined]
        ids = [
            [*torch.randint(*WORDS, (length,), generator=numbers).tolist(), end]
            for length in lengths
        ]
        return ids if isinstance(self, RLOOTrainer) else (ids, None)


class GhostGRPO(Ghost, GRPOTrainer):
    pass


class GhostRLOO(Ghost, RLOOTrainer):
    pass


def odd(completion_ids: Any, **_: Any) -> list[float]:
    """A reward with other values in each group."""
    return [float(sum(ids) % 5) for ids in completion_ids]


class Watch:
    """Collects the templates of observed rollouts."""

    def __init__(self, under: set[str]) -> None:
        self._under = under

    @hookimpl
    def coevo_observe(self, groups: Sequence[Group]) -> None:
        rollouts = [rollout for group in groups for rollout in group.rollouts]
        self._under.update(
            one.assignment.template.text
            for one in rollouts
            if one.assignment.templated and one.assignment.template
        )


def give_templates(trainer: Any) -> set[str]:
    """Attach the templates; return those that were observed, by rank 0, as training goes."""
    under: set[str] = set()
    plugins = {"templates": FixedTemplates(HALF), "watch": Watch(under)}
    settings = {"algorithms": (), "question_id_column": "id"}
    trainer.add_callback(CoevoCallback(trainer, settings, plugins=plugins))
    return under
