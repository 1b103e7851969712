"""Rollouts that ride along behind a generation round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from prompt_coevo.testing.door.laboratory import Laboratory
from prompt_coevo.testing.door.laws.law import law
from prompt_coevo.testing.door.laws.rollouts import check_reward
from prompt_coevo.testing.door.run import Answer, Ids, Run, expect
from prompt_coevo.types import Assignment


@law("riders")
def riders_come_back_as_they_were_wanted(laboratory: Laboratory) -> None:
    """A rider comes back at most once, with its own assignment, sampled with the prompt that this
    places and rewarded as in training."""
    run = laboratory.riding
    back = list(_back(run))
    expect(bool(back), "no rider came back")
    wanted = Counter(assignment for assignment, _ in _wanted(run))
    found = Counter(replace(one.assignment, round=0, group=0, member=0) for one in back)
    expect(not found - wanted, "riders came back that nobody wanted, or one of them twice")
    sampled = {(tuple(row.prompt_ids), row.text) for row in run.sampled("policy")}
    for answer in back:
        expect(
            (run.placed(answer.assignment), answer.text) in sampled,
            f"the rider {answer.text!r} was not sampled with the prompt that its assignment to "
            f"question {answer.assignment.question_id} places",
        )
        check_reward(run, answer)


@law("riders", "temperatures")
def riders_have_their_temperature(laboratory: Laboratory) -> None:
    """A rider is sampled as it is asked for; None is the temperature that training samples with."""
    run = laboratory.riding
    wanted: Counter[tuple[Ids, float]] = Counter(
        (run.placed(assignment), run.record.temperature if temperature is None else temperature)
        for assignment, temperature in _wanted(run)
    )
    found = Counter((tuple(row.prompt_ids), row.temperature) for row in run.sampled("policy"))
    expect(not found - wanted, "riders had another temperature than they were wanted at")


@law("riders")
def a_round_with_riders_is_trained_on_as_one_without(laboratory: Laboratory) -> None:
    """With riders behind its rounds the host samples the same rows, trains on the same sequences and
    ends with the same weights as without."""
    riding, silent = laboratory.riding, laboratory.silent
    expect(any(_back(riding)), "no rider came back, so this proves nothing")
    expect(
        riding.sampled("train") == silent.sampled("train"),
        "a run with riders samples other rows for its batches than one without",
    )
    expect(
        _trained(riding) == _trained(silent),
        "a run with riders trains on other sequences than one without",
    )
    expect(
        riding.record.weights == silent.record.weights,
        "a run with riders ends with other weights than one without",
    )


def _wanted(run: Run) -> Iterator[tuple[Assignment, float | None]]:
    for line in run.told("wanted"):
        for one in line["requests"]:
            yield Assignment.from_json(one["assignment"]), one["temperature"]


def _back(run: Run) -> Iterator[Answer]:
    for line in run.told("rode"):
        yield from map(Answer.read, line["rollouts"])


def _trained(run: Run) -> Counter[tuple[int, Ids]]:
    return Counter((row.update, tuple(row.ids)) for row in run.record.trained)
