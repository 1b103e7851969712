"""Add our callback to every GRPOTrainer and RLOOTrainer in TRL's own tests, as a pytest plugin.

`COEVO_IN_TRL` says how: `idle` (no method), `active` (every second rollout runs under a template, and is
distilled), or `without`: no callback. Where the callback refuses a trainer the test is skipped, with the
sentence.
Where there is no GPU, trainers run on the CPU, which the tests leave to their machine.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

from prompt_coevo import hookimpl
from prompt_coevo.adapters.trl import attach
from prompt_coevo.errors import CoevoError
from prompt_coevo.types import Candidate, MemberPlan


class EverySecond:
    """Give every second member of every group a template."""

    @hookimpl
    def coevo_plan_group(self, group_size: int) -> list[MemberPlan]:
        hint = Candidate("Think of what you know.", "template")
        return [MemberPlan(template=hint if n % 2 else None) for n in range(group_size)]


def attached(init: Any) -> Any:
    def build(self: Any, *arguments: Any, **options: Any) -> None:
        init(self, *arguments, **options)
        active = os.environ["COEVO_IN_TRL"] == "active"
        plugins = {"every_second": EverySecond()} if active else None
        settings = {"algorithms": (), "ground_truth_column": None}
        try:
            attach(self, settings, plugins=plugins)
        except CoevoError as refused:
            pytest.skip(f"refused: {refused}")

    return build


def on_the_cpu(init: Any) -> Any:
    def build(self: Any, *arguments: Any, **options: Any) -> None:
        init(self, *arguments, **{"use_cpu": True, "bf16": False, **options})

    return build


def pytest_configure() -> None:
    if not torch.cuda.is_available():
        for config in (GRPOConfig, RLOOConfig):
            config.__init__ = on_the_cpu(config.__init__)
    if os.environ["COEVO_IN_TRL"] != "without":
        for trainer in (GRPOTrainer, RLOOTrainer):
            trainer.__init__ = attached(trainer.__init__)
