"""The moments of training: begin, steps, epochs, end."""

from __future__ import annotations

from prompt_coevo.testing.door.laboratory import Laboratory
from prompt_coevo.testing.door.laws.law import law
from prompt_coevo.testing.door.run import expect


@law()
def training_begins_and_ends_once(laboratory: Laboratory) -> None:
    """`begin` comes once, after a state was loaded and before anything is planned; `end` once, after
    everything else."""
    for run in (laboratory.main, laboratory.moved):
        names = [line["event"].removeprefix("probe_") for line in run.lines]
        names = [name for name in names if name != "asked"]
        for name in ("begun", "ended"):
            expect(names.count(name) == 1, f"{name} was told {names.count(name)} times")
        start = ["built", "loaded", "begun"] if run.job.resume_from else ["built", "begun"]
        expect(names[: len(start)] == start, f"a run began with {names[:3]}, not with {start}")
        expect(names[-1] == "ended", f"{names[-1]} was told after the end")


@law()
def every_update_is_a_step(laboratory: Laboratory) -> None:
    """`step_end` comes once after every update of the weights, and says of the last one alone that it
    is the last."""
    run = laboratory.main
    updates = run.record.updates
    steps = [line["step"] for line in run.told("stepped")]
    expect(steps == updates, f"the weights were updated {updates}, the engine heard of {steps}")
    last = [line["step"] for line in run.told("stepped") if line["last"]]
    expect(
        last == updates[-1:], f"the last update is {updates[-1:]}, but `last` was said at {last}"
    )


@law()
def an_epoch_ends_before_the_next_one(laboratory: Laboratory) -> None:
    """`epoch_end` comes between two epochs, and not after the last one."""
    run = laboratory.main
    expected = run.record.epochs[:-1]
    found = [line["step"] for line in run.told("epoch_over")]
    expect(bool(expected), "the run had one epoch only")
    expect(
        found == expected,
        f"epochs were over after {expected} updates, the engine heard it at {found}",
    )
