from __future__ import annotations

from typing import Any

from prompt_coevo.adapters.common.due import Due


class Engine:
    """Record its calls."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def step_end(self, policy: Any, *, last: bool = False) -> None:
        self.told.append("last step" if last else "step")

    def epoch_end(self, policy: Any) -> None:
        self.told.append("epoch")


def settle(due: Due, **options: bool) -> list[str]:
    engine: Any = Engine()
    due.settle(engine, policy=None, **options)  # type: ignore[arg-type]
    told: list[str] = engine.told
    return told


def test_nothing_is_due_at_the_start() -> None:
    assert settle(Due()) == []


def test_the_step_comes_before_the_epoch_and_both_are_told_once() -> None:
    due = Due(step_due=True, epoch_due=True)
    assert settle(due) == ["step", "epoch"]
    assert settle(due) == []


def test_no_epoch_is_closed_after_the_last_step() -> None:
    assert settle(Due(step_due=True, epoch_due=True), last=True) == ["last step"]


def test_it_travels_as_json() -> None:
    due = Due(epoch_due=True)
    assert due.to_json() == {"step_due": False, "epoch_due": True}
    assert Due(**due.to_json()) == due
