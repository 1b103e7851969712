"""Laws about the moments of training and about checkpoints: a resumed run continues as if never
interrupted."""

from __future__ import annotations

from prompt_coevo.testing.adapter.laboratory import Laboratory
from prompt_coevo.testing.adapter.law import law
from prompt_coevo.testing.adapter.run import Line, Run, probe_lines
from prompt_coevo.testing.checks import same

_VOLATILE = ("time", "attempt")


@law()
def training_begins_and_ends_once(lab: Laboratory) -> None:
    """`begin` comes once, after any state was loaded and before anything is planned; `end` comes once,
    after everything else."""
    for run in (lab.main, lab.moved):
        names = [line["event"] for line in run.lines if line["event"] != "asked"]
        for name in ("begun", "ended"):
            assert names.count(name) == 1, f"{name} was told {names.count(name)} times"
        start = ["built", "loaded", "begun"] if run.job.resume_from else ["built", "begun"]
        same(names[: len(start)], start, "a run began otherwise")
        assert names[-1] == "ended", f"{names[-1]} was told after the end"


@law()
def every_update_is_a_step(lab: Laboratory) -> None:
    """`step_end` comes once after every weight update and marks only the last one as last."""
    updates, told = lab.main.record.updates, lab.main.told("stepped")
    steps = [line["step"] for line in told]
    assert steps == updates, f"the weights were updated {updates}, the engine heard of {steps}"
    last = [line["step"] for line in told if line["last"]]
    assert last == updates[-1:], f"the last of {updates} is the last update, not {last}"


@law()
def an_epoch_ends_before_the_next_one(lab: Laboratory) -> None:
    """`epoch_end` comes between two epochs, and not after the last one."""
    expected = lab.main.record.epochs[:-1]
    found = [line["step"] for line in lab.main.told("epoch_over")]
    assert expected, "the run had one epoch only"
    assert found == expected, f"epochs ended after {expected} updates, the engine heard of {found}"


@law()
def the_state_travels_in_the_checkpoint(lab: Laboratory) -> None:
    """A checkpoint copied to another place contains the engine's state as of that checkpoint's update."""
    for run, start in _resumed(lab):
        loaded = [(line["step"], line["evaluation"]) for line in run.told("loaded")]
        expected = [(lab.steps_in_checkpoint(start), lab.main.evaluation_text(start))]
        same(loaded, expected, f"resumed after update {start}, the engine loaded another state")


@law()
def a_resumed_run_goes_on_where_it_was(lab: Laboratory) -> None:
    """After a resume, the counts of rounds, steps and epochs continue, and an epoch that ended at the
    checkpoint is reported."""
    for run, start in _resumed(lab):
        rest = _after(lab, start)
        for event in ("stepped", "epoch_over", "planned"):
            expected, found = (
                [_count(line) for line in lines if line["event"] == event]
                for lines in (rest, run.lines)
            )
            assert found == expected, (
                f"resumed after update {start}, the engine heard of {event} at {found}, not {expected}"
            )


@law("exact resume")
def a_resumed_run_decides_as_the_whole_one(lab: Laboratory) -> None:
    """A killed and resumed run plans, observes, asks and decides like the uninterrupted one."""
    for run, start in _resumed(lab):
        expected, found = (
            [{name: line[name] for name in line if name not in _VOLATILE} for line in lines]
            for lines in (_after(lab, start), _after_begin(run))
        )
        same(expected, found, f"resumed after update {start}, the run continues differently")


def _resumed(lab: Laboratory) -> list[tuple[Run, int]]:
    """Return the resumed runs, each with the update that it resumes after."""
    record = lab.main.record
    return [(lab.killed, min(record.checkpoints)), (lab.moved, record.epochs[0])]


def _count(line: Line) -> int:
    """Return the number of the round planned or of the step reported."""
    return int(line["plan"][0]["round"] if line["event"] == "planned" else line["step"])


def _after(lab: Laboratory, update: int) -> list[Line]:
    """Return the probe's lines in the main run after the checkpoint of this update was saved."""
    journal, steps = lab.main.record.journal, lab.steps_in_checkpoint(update)
    saved = [
        number
        for number, line in enumerate(journal)
        if line["event"] == "state_saved" and line["step"] == steps
    ]
    assert saved, f"no state was saved after update {update}"
    return probe_lines(journal[saved[-1] :])


def _after_begin(run: Run) -> list[Line]:
    """Drop what only a resumed run has at its beginning, its greedy rollouts; return the remaining probe
    lines."""
    begun = next(number for number, line in enumerate(run.lines) if line["event"] == "begun")
    rest = run.lines[begun + 1 :]
    while rest and rest[0]["event"] == "asked" and _only_greedy(rest[0]):
        rest = rest[1:]
    return rest


def _only_greedy(line: Line) -> bool:
    return all(request["temperature"] == 0 for request in line["requests"])
