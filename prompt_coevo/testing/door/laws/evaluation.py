"""The host's own evaluation, its dataset and its log."""

from __future__ import annotations

from prompt_coevo.testing.door.laboratory import Laboratory
from prompt_coevo.testing.door.laws.law import law
from prompt_coevo.testing.door.run import Run, expect


@law("evaluation")
def evaluation_runs_under_its_instruction_alone(laboratory: Laboratory) -> None:
    """The host evaluates with the dataset's prompts under the evaluation instruction of the moment,
    without any template, also right after a resume."""
    runs = (laboratory.main, laboratory.killed, laboratory.moved)
    for run in runs:
        _check_evaluations(run)
    texts = {runs[0].evaluation_text(one.update) for one in runs[0].record.evaluated}
    expect(len(texts) > 1, "the evaluation instruction never changed, so this proves nothing")


@law()
def the_dataset_stays_as_it_is(laboratory: Laboratory) -> None:
    """No row of the host's dataset is changed, however often it is placed, evaluated or asked for."""
    for run in (laboratory.main, laboratory.judged):
        pairs = zip(run.job.rows, run.record.dataset, strict=True)
        for before, after in pairs:
            expect(before == after, f"the row {before} of the dataset is {after} after training")


@law()
def the_engines_metrics_reach_the_log(laboratory: Laboratory) -> None:
    """The numbers of `Coevolution.metrics` are in the host's own log, and change with the run."""
    run = laboratory.main
    name = "coevo/probe_groups"
    found = [line[name] for line in run.record.logged if name in line]
    groups = sum(len(plan) for plan in run.plan.values()) / run.job.group_size
    expect(bool(found), f"{name} is in none of the {len(run.record.logged)} lines of the log")
    expect(
        found[-1] == groups and found == sorted(found) and found[0] < found[-1],
        f"{name} was logged as {found}, but {groups:g} groups were observed",
    )


def _check_evaluations(run: Run) -> None:
    expect(bool(run.record.evaluated), "the record holds no evaluation")
    for one in run.record.evaluated:
        text = run.evaluation_text(one.update)
        expected = sorted(run.evaluated(row["id"], text) for row in run.job.rows)
        found = sorted(tuple(ids) for ids in one.prompt_ids)
        expect(
            found == expected,
            f"the evaluation after update {one.update} did not sample with the dataset's prompts "
            f"under the instruction {text!r}",
        )
