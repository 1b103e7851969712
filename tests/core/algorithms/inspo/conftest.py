"""Run INSPO without a trainer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.inspo_run import Run, teacher
from prompt_coevo.types import Assignment


@pytest.fixture
def start(make_engine: Any, keyed_policy: Any, tmp_path: Path) -> Callable[..., Run]:
    def begin(
        reply: Callable[[str], str] = teacher,
        judge: Callable[[Assignment], float] | None = None,
        *,
        questions: int = 40,
        plugins: dict[str, object] | None = None,
        folder: Path = tmp_path,
        model: dict[str, Any] | None = None,
        gates: dict[str, Any] | None = None,
        policy: Any = None,
        state: dict[str, Any] | None = None,
        **inspo: Any,
    ) -> Run:
        if "instruction" not in inspo:
            inspo = {"initial_population": ("start",), **inspo}
        engine = make_engine(
            reply,
            folder,
            plugins,
            algorithms=("inspo",),
            inspo=inspo,
            reflection={"function": reply} if model is None else model,
            gates=gates or {},
        )
        run = Run(engine, policy or keyed_policy(questions), folder, judge)
        if state is not None:
            engine.load_state_dict(state)
        engine.begin(run.policy)
        return run

    return begin
