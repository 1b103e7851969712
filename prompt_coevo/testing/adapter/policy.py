"""Laws about policy rollouts outside the training batch, including rollouts whose reward raises."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from prompt_coevo.testing.adapter.laboratory import Laboratory
from prompt_coevo.testing.adapter.law import law
from prompt_coevo.testing.adapter.rollouts import check_equal_ranks, check_reward
from prompt_coevo.testing.adapter.run import Asked, Run
from prompt_coevo.testing.checks import same


@law()
def policy_rollouts_are_placed_and_in_order(lab: Laboratory) -> None:
    """Every request comes back in order with its own assignment, sampled with the prompt that the
    assignment places and rewarded as in training."""
    run = lab.main
    sampled = {(tuple(row.prompt_ids), row.text) for row in run.sampled("policy")}
    assert run.asked, "no policy rollout was answered"
    for asked in run.asked:
        wanted = [assignment for assignment, _ in asked.requests]
        found = [answer.assignment for answer in asked.answers]
        assert found == wanted, "the answers have other assignments than the requests"
        for answer in asked.answers:
            assert (run.placed(answer.assignment), answer.text) in sampled, (
                f"{answer.text!r} was not sampled with the prompt that the request for question "
                f"{answer.assignment.question_id} places"
            )
            check_reward(run, answer)


@law()
def greedy_is_greedy(lab: Laboratory) -> None:
    """At temperature 0, equal requests get equal answers, within a batch and in two consecutive batches."""
    batches = [(asked.step, _greedy_texts(lab.main, asked)) for asked in lab.main.asked]
    for (step, one), (next_step, other) in pairwise(batches):
        if step == next_step:
            same(one, other, "two greedy batches with the same weights differ")


@law("live greedy")
def policy_rollouts_are_by_the_live_weights(lab: Laboratory) -> None:
    """Inside every call of the engine, also right after a load, rollouts use the current weights: greedy
    answers equal those that the harness decodes itself."""
    for run in (lab.main, lab.killed, lab.moved):
        for asked in run.asked:
            live = run.record.greedy.get(asked.step)
            assert live, f"the engine counts {asked.step} updates, the host does not"
            for question_id, text in _greedy_texts(run, asked).items():
                assert text == live[question_id], (
                    f"after update {asked.step} the policy answers question {question_id} with "
                    f"{text!r}, but its weights write {live[question_id]!r}"
                )
    written = list(lab.main.record.greedy.values())
    assert any(one != other for one, other in pairwise(written)), (
        "no update changed what is written greedily, so this proves nothing: raise the learning rate"
    )


@law("temperatures")
def requests_have_their_temperature(lab: Laboratory) -> None:
    """Within one batch, temperature 0 is greedy, None is the temperature of training, and any other value
    is used as requested."""
    run = lab.main
    wanted = Counter(
        (run.placed(assignment), run.record.temperature if temperature is None else temperature)
        for asked in run.asked
        for assignment, temperature in asked.requests
    )
    found = Counter((tuple(row.prompt_ids), row.temperature) for row in run.sampled("policy"))
    wrong = (wanted - found).total()
    assert found == wanted, f"{wrong} of {wanted.total()} requests had another temperature"


@law()
def sampled_rollouts_are_drawn_anew(lab: Laboratory) -> None:
    """Equal sampled requests get different answers, within a batch and in two consecutive batches."""
    drawn = [
        [
            answer.text
            for (_, temperature), answer in zip(asked.requests, asked.answers, strict=True)
            if temperature is None
        ]
        for asked in lab.main.asked
    ]
    assert any(len(set(texts)) > 1 for texts in drawn), "all requests without a temperature agree"
    twins = [(one, other) for one, other in zip(drawn[::2], drawn[1::2], strict=True) if one]
    assert any(one != other for one, other in twins), (
        "the same batch has the same answers again, each time: random numbers are used twice"
    )


@law("host state")
def policy_rollouts_leave_the_host_alone(lab: Laboratory) -> None:
    """A policy rollout leaves the trainer's random state, weights, mode and metrics unchanged."""
    around = lab.main.record.around_policy
    assert around, "the record holds no state around a policy rollout"
    for before, after in around:
        missing = {"random", "weights", "mode", "metrics"} - set(before)
        assert not missing, f"the record does not tell the host's {', '.join(sorted(missing))}"
        changed = sorted(name for name in before if before[name] != after[name])
        assert not changed, f"a policy rollout changed the host's {', '.join(changed)}"


@law()
def a_run_that_asks_trains_as_one_that_does_not(lab: Laboratory) -> None:
    """With policy rollouts between the steps, the trainer samples the same rows and ends with the same
    weights as without them."""
    assert not lab.silent.asked, "the silent run asked for rollouts"
    _check_training(lab.main, lab.silent, "with policy rollouts")


@law()
def the_policy_knows_all_questions(lab: Laboratory) -> None:
    """From the beginning, the policy knows every training question once, with its row's prompt and ground
    truth."""
    rows = [(row["id"], row["prompt"], row["answer"]) for row in lab.main.job.rows]
    expected = sorted(rows, key=lambda one: one[0])
    for line in lab.main.told("begun", "ended"):
        found = [(one["id"], one["prompt"], one["truth"]) for one in line["questions"]]
        found.sort(key=lambda one: str(one[0]))
        same(found, expected, "the policy's questions are not those of the dataset")


@law("failing rewards")
def a_reward_that_raises_ends_the_call_alone(lab: Laboratory) -> None:
    """Where the reward raises in rollouts for the engine, every call for rollouts raises, and the trainer
    trains as if it had not been asked."""
    _check_calls(lab.failing)
    _check_training(lab.failing, lab.silent, "after calls that failed")


@law("failing rewards", "ranks")
def ranks_stay_in_step_where_a_reward_raises(lab: Laboratory) -> None:
    """Where the reward raises on one of two processes, every call for rollouts raises, and both processes
    train on with equal weights, as with a reward that works."""
    run = lab.failing_on_a_rank
    _check_calls(run)
    _check_training(run, lab.on_two_ranks, "after calls that failed")
    check_equal_ranks(run)


def _check_calls(run: Run) -> None:
    assert not run.asked, (
        "a call for rollouts was answered, though their reward raised: let the call raise"
    )
    assert run.told("refused"), "no call for rollouts was made, or the reward did not raise in it"


def _check_training(run: Run, other: Run, when: str) -> None:
    """Check that both runs made the same updates, on the same samples, to the same weights."""
    one, two = run.record, other.record
    same(one.updates, two.updates, f"{when} the host makes other updates")
    assert run.sampled("train") == other.sampled("train"), f"{when} the host samples other rows"
    assert one.weights == two.weights, f"{when} the host ends with other weights"


def _greedy_texts(run: Run, asked: Asked) -> dict[str, str]:
    """Return the greedy answers to bare questions. Check that equal requests have equal answers."""
    texts: dict[tuple[str, tuple[int, ...]], str] = {}
    for (assignment, temperature), answer in zip(asked.requests, asked.answers, strict=True):
        if temperature == 0:
            name = assignment.question_id
            text = texts.setdefault((name, run.placed(assignment)), answer.text)
            assert text == answer.text, f"two greedy answers to question {name} in one batch differ"
    bare = {name: run.encode(run.prompt(name)) for name, _ in texts}
    return {name: text for (name, ids), text in texts.items() if ids == bare[name]}
