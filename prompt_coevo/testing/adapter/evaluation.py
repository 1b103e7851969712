"""Laws about the trainer's evaluation, dataset and log."""

from __future__ import annotations

from prompt_coevo.testing.adapter.laboratory import Laboratory
from prompt_coevo.testing.adapter.law import law
from prompt_coevo.testing.checks import same


@law("evaluation")
def evaluation_runs_under_its_instruction_alone(lab: Laboratory) -> None:
    """The trainer evaluates on the dataset's prompts under the current evaluation instruction, without a
    template, also right after a resume."""
    for run in (lab.main, lab.killed, lab.moved):
        assert run.record.evaluated, "the record holds no evaluation"
        for one in run.record.evaluated:
            text = run.evaluation_text(one.update)
            expected = sorted(run.evaluated(row["id"], text) for row in run.job.rows)
            assert sorted(map(tuple, one.prompt_ids)) == expected, (
                f"the evaluation after update {one.update} did not sample with the dataset's prompts "
                f"under the instruction {text!r}"
            )
    texts = {lab.main.evaluation_text(one.update) for one in lab.main.record.evaluated}
    assert len(texts) > 1, "the evaluation instruction never changed, so this proves nothing"


@law()
def the_dataset_stays_as_it_is(lab: Laboratory) -> None:
    """No row of the trainer's dataset changes, however often it is placed, evaluated or asked for."""
    for run in (lab.main, lab.judged):
        same(list(run.job.rows), list(run.record.dataset), "training changed the dataset")


@law()
def the_engines_metrics_reach_the_log(lab: Laboratory) -> None:
    """The numbers in `Coevolution.metrics` appear in the trainer's own log and change as the run
    proceeds."""
    run, name = lab.main, "coevo/probe_groups"
    found = [line[name] for line in run.record.logged if name in line]
    groups = sum(len(plan) for plan in run.plan.values()) / run.job.group_size
    assert found, f"{name} is in none of the {len(run.record.logged)} lines of the log"
    rises = found == sorted(found) and found[0] < found[-1] == groups
    assert rises, f"{name} was logged as {found}, but {groups:g} groups were observed"
