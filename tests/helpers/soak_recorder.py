"""Record the decisions of a run's engine, and the replies it takes from its ledger.

The lines go to `record.jsonl` in the folder that `COEVO_TEST_SOAK` names; without it nothing is written.
Everything is recorded around the engine, in whichever process has one, so it is the same under every
trainer: `start` (an attempt, and what its checkpoint knew of the ledger), `plan`, `reused` and `saved`.
Ray's processes install it through `soak_in_verl` and `soak_in_openrlhf`.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from standins.on_import import when_imported


def install() -> None:
    """Wait for the modules of interest."""
    if os.environ.get("COEVO_TEST_SOAK"):
        when_imported("prompt_coevo.engine.coevolution", _note_decisions)
        when_imported("prompt_coevo.reflection.ledger", _note_reuse)


def note(event: str, **fields: Any) -> None:
    """Write one line."""
    from prompt_coevo.lines import Lines

    path = Path(os.environ["COEVO_TEST_SOAK"]) / "record.jsonl"
    Lines(path).append([{"event": event, **fields}])


def _note_decisions(module: Any) -> None:
    engine = module.Coevolution
    if getattr(engine, "recorded", False):  # one of two ways to be loaded was here before
        return
    engine.recorded = True
    plan, load, state_dict = engine.plan, engine.load_state_dict, engine.state_dict
    open_ledger = engine._open_ledger
    loaded: list[str] = []

    @functools.wraps(plan)
    def noted_plan(self: Any, question_ids: Sequence[str], group_size: int) -> Any:
        number, decided = self._round, plan(self, question_ids, group_size)
        texts = [
            [
                one.question_id,
                one.instruction.text if one.instruction else "",
                one.template.text if one.template else "",
            ]
            for one in decided
        ]
        note("plan", attempt=self.policy_version.attempt, round=number, plan=texts)
        return decided

    @functools.wraps(load)
    def noted_load(self: Any, state: Mapping[str, Any], *where: str, **more: str) -> None:
        loaded[:] = [str(state.get("checksum"))]
        load(self, state, *where, **more)

    @functools.wraps(open_ledger)
    def noted_open(
        self: Any,
        *,
        continues: str | None = None,
        since: int = 0,
        under_way: Collection[int] = (),
    ) -> None:
        open_ledger(self, continues=continues, since=since, under_way=under_way)
        note(
            "start",
            attempt=self.policy_version.attempt,
            checksum=None if continues is None else loaded[0],
            since=since,
            under_way=sorted(under_way),
            line=self.context.ledger.position,
        )

    @functools.wraps(state_dict)
    def noted_state(self: Any) -> dict[str, Any]:
        state: dict[str, Any] = state_dict(self)
        note("saved", checksum=state["checksum"])
        return state

    engine.plan, engine.load_state_dict, engine.state_dict = noted_plan, noted_load, noted_state
    engine._open_ledger = noted_open


def _note_reuse(module: Any) -> None:
    ledger = module.Ledger
    if getattr(ledger, "recorded", False):
        return
    ledger.recorded = True
    earlier = ledger.earlier_answer

    @functools.wraps(earlier)
    def noted(self: Any, request: str) -> Any:
        found = earlier(self, request)
        if found is not None:
            note("reused", call=found[0], request=request)
        return found

    ledger.earlier_answer = noted
