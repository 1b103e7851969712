"""Rollouts of the policy, outside the training batch."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from prompt_coevo.testing.door.laboratory import Laboratory
from prompt_coevo.testing.door.laws.law import law
from prompt_coevo.testing.door.laws.rollouts import check_reward
from prompt_coevo.testing.door.run import Asked, Run, expect


@law()
def policy_rollouts_are_placed_and_in_order(laboratory: Laboratory) -> None:
    """Every request comes back with its own assignment, sampled with the prompt that it places and
    rewarded as in training, in the order of the requests."""
    run = laboratory.main
    sampled = {(tuple(row.prompt_ids), row.text) for row in run.sampled("policy")}
    expect(bool(run.asked), "no policy rollout was answered")
    for asked in run.asked:
        wanted = [assignment for assignment, _ in asked.requests]
        found = [answer.assignment for answer in asked.answers]
        expect(found == wanted, "the answers have other assignments than the requests")
        for answer in asked.answers:
            expect(
                (run.placed(answer.assignment), answer.text) in sampled,
                f"{answer.text!r} was not sampled with the prompt that the request for question "
                f"{answer.assignment.question_id} places",
            )
            check_reward(run, answer)


@law()
def greedy_is_greedy(laboratory: Laboratory) -> None:
    """At temperature 0 equal requests of a batch, and of two batches in a row, have equal answers."""
    run = laboratory.main
    for asked in run.asked:
        _greedy_texts(run, asked)
    for one, other in pairwise(run.asked):
        if one.step == other.step:
            expect(
                _greedy_texts(run, one) == _greedy_texts(run, other),
                "two greedy batches with the same weights differ",
            )


@law("live greedy")
def policy_rollouts_are_by_the_live_weights(laboratory: Laboratory) -> None:
    """Inside every call of the engine, right after a load too, rollouts are by the weights as they
    are then: greedy answers are those that the harness decodes itself."""
    for run in (laboratory.main, laboratory.killed, laboratory.moved):
        for asked in run.asked:
            live = run.record.greedy.get(asked.step, {})
            expect(bool(live), f"the engine counts {asked.step} updates, the host does not")
            for question_id, text in _plain(_greedy_texts(run, asked)).items():
                expect(
                    text == live[question_id],
                    f"after update {asked.step} the policy answers question {question_id} with "
                    f"{text!r}, but its weights write {live[question_id]!r}",
                )
    written = list(laboratory.main.record.greedy.values())
    expect(
        any(one != other for one, other in pairwise(written)),
        "no update changed what is written greedily, so this proves nothing: raise the learning rate",
    )


@law("temperatures")
def requests_have_their_temperature(laboratory: Laboratory) -> None:
    """0 is greedy, None is the temperature that training samples with, others are as they are asked
    for, in one batch."""
    run = laboratory.main
    wanted = Counter(
        (run.placed(assignment), run.record.temperature if temperature is None else temperature)
        for asked in run.asked
        for assignment, temperature in asked.requests
    )
    found = Counter((tuple(row.prompt_ids), row.temperature) for row in run.sampled("policy"))
    wrong = sum((wanted - found).values())
    expect(found == wanted, f"{wrong} of {sum(wanted.values())} requests had another temperature")


@law()
def sampled_rollouts_are_drawn_anew(laboratory: Laboratory) -> None:
    """Where a request is sampled, equal requests have different answers: within a batch, and in two
    batches in a row."""
    drawn = [
        [
            answer.text
            for (_, temperature), answer in zip(asked.requests, asked.answers, strict=True)
            if temperature is None
        ]
        for asked in laboratory.main.asked
    ]
    expect(any(len(set(texts)) > 1 for texts in drawn), "all requests without a temperature agree")
    twins = [(one, other) for one, other in zip(drawn[::2], drawn[1::2], strict=True) if one]
    expect(
        any(one != other for one, other in twins),
        "the same batch has the same answers again, each time: random numbers are used twice",
    )


@law("host state")
def policy_rollouts_leave_the_host_alone(laboratory: Laboratory) -> None:
    """Random numbers, weights, mode and metrics of the host are after a policy rollout what they were
    before it."""
    around = laboratory.main.record.around_policy
    expect(bool(around), "the record holds no state around a policy rollout")
    for before, after in around:
        missing = {"random", "weights", "mode", "metrics"} - set(before)
        expect(not missing, f"the record does not tell the host's {', '.join(sorted(missing))}")
        changed = sorted(name for name in before if before[name] != after[name])
        expect(not changed, f"a policy rollout changed the host's {', '.join(changed)}")


@law()
def a_run_that_asks_trains_as_one_that_does_not(laboratory: Laboratory) -> None:
    """With policy rollouts between the steps the host samples the same rows and ends with the same
    weights as without."""
    asking, silent = laboratory.main, laboratory.silent
    expect(not silent.asked, "the silent run asked for rollouts")
    expect(
        asking.sampled("train") == silent.sampled("train"),
        "a run with policy rollouts samples other rows than one without",
    )
    expect(
        asking.record.weights == silent.record.weights,
        "a run with policy rollouts ends with other weights than one without",
    )


@law()
def the_policy_knows_all_questions(laboratory: Laboratory) -> None:
    """From the beginning on the policy names every training question once, with the prompt and the
    ground truth of its row."""
    run = laboratory.main
    rows = {row["id"]: row for row in run.job.rows}
    for line in run.told("begun", "ended"):
        names = [one["id"] for one in line["questions"]]
        expect(
            sorted(names) == sorted(rows), f"the policy's questions are {names}, not {list(rows)}"
        )
        for one in line["questions"]:
            row = rows[one["id"]]
            expect(
                (one["prompt"], one["truth"]) == (row["prompt"], row["answer"]),
                f"question {one['id']} is {one['prompt']!r} with the answer {one['truth']!r}",
            )


def _greedy_texts(run: Run, asked: Asked) -> dict[tuple[str, tuple[int, ...]], str]:
    """The greedy answers by question and prompt. Raises Broken if one has two."""
    texts: dict[tuple[str, tuple[int, ...]], str] = {}
    for (assignment, temperature), answer in zip(asked.requests, asked.answers, strict=True):
        if temperature == 0:
            key = (assignment.question_id, run.placed(assignment))
            expect(
                texts.setdefault(key, answer.text) == answer.text,
                f"two greedy answers to question {assignment.question_id} in one batch differ",
            )
    return {
        (name, ids): text
        for (name, ids), text in texts.items()
        if ids == run.encode(run.prompt(name))
    }


def _plain(texts: dict[tuple[str, tuple[int, ...]], str]) -> dict[str, str]:
    return {question_id: text for (question_id, _), text in texts.items()}
