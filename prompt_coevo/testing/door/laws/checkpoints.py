"""Checkpoints: the state travels in them, and a resumed run goes on as if nothing had happened."""

from __future__ import annotations

from typing import Any

from prompt_coevo.testing.door.laboratory import Laboratory
from prompt_coevo.testing.door.laws.law import law
from prompt_coevo.testing.door.run import Run, expect

_VOLATILE = ("time", "attempt")


@law()
def the_state_travels_in_the_checkpoint(laboratory: Laboratory) -> None:
    """A checkpoint that is copied to another place brings the engine's state with it, and it is that of
    the checkpoint's own update."""
    for run, start in _resumed(laboratory):
        loaded = run.told("loaded")
        expect(len(loaded) == 1, f"the state was loaded {len(loaded)} times after a resume")
        expected = laboratory.steps_in_checkpoint(start), laboratory.main.evaluation_text(start)
        expect(
            (loaded[0]["step"], loaded[0]["evaluation"]) == expected,
            f"a run resumed after update {start} goes on from the state of update "
            f"{loaded[0]['step']}, or from another one",
        )


@law()
def a_resumed_run_goes_on_where_it_was(laboratory: Laboratory) -> None:
    """After a resume rounds, steps and epochs are counted on, and the end of an epoch that the
    checkpoint stands at is made up for."""
    for run, start in _resumed(laboratory):
        rest = _after(laboratory, start)
        for event in ("stepped", "epoch_over"):
            expected = [line["step"] for line in rest if _is(line, event)]
            found = [line["step"] for line in run.told(event)]
            expect(
                found == expected,
                f"resumed after update {start}, the engine heard of {event} at {found}, not {expected}",
            )
        rounds = [line["plan"][0]["round"] for line in rest if _is(line, "planned")]
        found = [line["plan"][0]["round"] for line in run.told("planned")]
        expect(found == rounds, f"a resumed run planned the rounds {found}, not {rounds}")


@law("exact resume")
def a_resumed_run_decides_as_the_whole_one(laboratory: Laboratory) -> None:
    """A run that was killed and resumed plans, observes, asks and decides as the uninterrupted one."""
    for run, start in _resumed(laboratory):
        expected = [_told(line) for line in _after(laboratory, start)]
        found = [_told(line) for line in _after_begin(run)]
        for one, other in zip(expected, found, strict=False):
            expect(
                one == other,
                f"resumed after update {start}, the run goes on with {one['event']} at step "
                f"{one['step']} in another way than the uninterrupted one",
            )
        expect(
            len(expected) == len(found),
            f"{len(found)} calls after a resume, {len(expected)} without",
        )


def _resumed(laboratory: Laboratory) -> list[tuple[Run, int]]:
    """The resumed runs and after which update they go on."""
    record = laboratory.main.record
    return [(laboratory.killed, min(record.checkpoints)), (laboratory.moved, record.epochs[0])]


def _after(laboratory: Laboratory, update: int) -> list[dict[str, Any]]:
    """The probe's lines of the main run after the checkpoint of this update was saved."""
    journal = laboratory.main.record.journal
    steps = laboratory.steps_in_checkpoint(update)
    saved = [
        number
        for number, line in enumerate(journal)
        if line["event"] == "state_saved" and line["step"] == steps
    ]
    expect(bool(saved), f"no state was saved after update {update}")
    return [line for line in journal[saved[-1] :] if line["event"].startswith("probe_")]


def _after_begin(run: Run) -> list[dict[str, Any]]:
    """The probe's lines after those that only a resumed run has."""
    begun = next(n for n, line in enumerate(run.lines) if _is(line, "begun"))
    rest = run.lines[begun + 1 :]
    while rest and _is(rest[0], "asked") and _only_greedy(rest[0]):
        rest = rest[1:]
    return rest


def _only_greedy(line: dict[str, Any]) -> bool:
    return all(request["temperature"] == 0 for request in line["requests"])


def _told(line: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name not in _VOLATILE}


def _is(line: dict[str, Any], event: str) -> bool:
    return bool(line["event"] == f"probe_{event}")
