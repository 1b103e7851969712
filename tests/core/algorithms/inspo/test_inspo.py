"""Check Algorithm 1: an engine with INSPO, driven as an adapter drives it.

Rewards come from a rule (an instruction solves "q3" iff it names "k3") or from a table of each
instruction's value.
"""

from __future__ import annotations

import functools
import logging
import math
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from helpers.inspo_run import SEVEN, WORTH, Run, decisions, tagged, teacher, worth
from prompt_coevo import Coevolution, Settings, hookimpl, hookspecs
from prompt_coevo.candidates.background import Asked
from prompt_coevo.errors import HostError, SettingsError
from prompt_coevo.proposals import Proposal, Reply
from prompt_coevo.types import Candidate, MemberPlan, Rollout, Sampling

# Selection and attribution


def test_a_group_has_one_instruction_and_groups_differ(start: Any) -> None:
    run = start(initial_population=SEVEN)
    plan = run.engine.plan(["q1", "q2"] * 70, 4)
    groups = [plan[i : i + 4] for i in range(0, len(plan), 4)]
    assert all(len({a.instruction for a in group}) == 1 for group in groups)
    assert {a.instruction.text for a in plan} == set(SEVEN)
    of_one_question = {group[0].instruction for group in groups if group[0].question_id == "q1"}
    assert len(of_one_question) == 7


def test_equal_weights_are_sampled_alike(start: Any) -> None:
    run = start(initial_population=SEVEN)
    drawn = Counter(a.instruction.text for a in run.engine.plan(["q1"] * 2800, 1))
    chi_square = sum((drawn[name] - 400) ** 2 / 400 for name in SEVEN)
    assert chi_square < 16.8  # 99 % of a chi-square with 6 degrees of freedom


def test_instructions_are_sampled_by_their_weights(start: Any) -> None:
    run = start(judge=worth({"a": 1.0, "b": 0.8}), initial_population=("a", "b"), evolution="off")
    run.step()
    drawn = Counter(a.instruction.text for a in run.engine.plan(["q1"] * 4000, 1))
    assert drawn["a"] / 4000 == pytest.approx(math.e / (1 + math.e), abs=0.02)


def test_groups_of_one_step_make_one_entry_of_all_their_rollouts(start: Any) -> None:
    run = start(evolution="off")
    plan = run.engine.plan(["q1", "q1", "q2"], 2)
    rewards = [1.0, 0.0, 1.0, 1.0, 0.0, 0.6]
    run.engine.observe([Rollout(a, "", r) for a, r in zip(plan, rewards, strict=True)])
    run.engine.step_end(run.policy)
    assert run.window("start") == [pytest.approx(0.6)]


def test_an_entry_is_the_mean_over_rollouts_not_over_groups(start: Any) -> None:
    run = start(evolution="off")
    plan = run.engine.plan(["q1", "q2"], 2)
    rewards = [1.0, math.nan, 0.0, 0.0]
    run.engine.observe([Rollout(a, "", r) for a, r in zip(plan, rewards, strict=True)])
    run.engine.step_end(run.policy)
    assert run.window("start") == [pytest.approx(1 / 3)]


def test_rounds_before_one_update_make_one_entry(start: Any) -> None:
    run = start(evolution="off")
    for reward in (1.0, 0.0):
        run.engine.observe([Rollout(a, "", reward) for a in run.engine.plan(["q1"], 2)])
    run.engine.step_end(run.policy)
    assert run.window("start") == [0.5]


def test_only_sampled_instructions_get_entries(start: Any) -> None:
    run = start(judge=worth(WORTH), initial_population=SEVEN, evolution="off")
    run.step(groups=2)
    sampled = {a.instruction.text for a in run.plans[0]}
    assert {name for name in SEVEN if run.window(name)} == sampled
    assert 1 <= len(sampled) <= 2


@pytest.mark.parametrize(
    ("reward", "status"),
    [(math.nan, "ok"), (math.inf, "ok"), (0.0, "tool_error"), (0.0, "aborted"), (0.0, "no_reward")],
)
def test_unfit_rollouts_are_left_out_and_counted(start: Any, reward: float, status: Any) -> None:
    run = start(evolution="off")
    plan = run.engine.plan(["q1", "q2"], 1)
    run.engine.observe([Rollout(plan[0], "", reward, status), Rollout(plan[1], "", 1.0)])
    run.engine.step_end(run.policy)
    assert run.window("start") == [1.0]
    assert run.metric("unfit_rollouts") == 1
    assert run.state["buffer"]["questions"] == ["q2"]
    assert run.state["buffer"]["failures"] == []


def test_templated_rollouts_say_nothing_about_an_instruction(start: Any) -> None:
    class Helper:
        @hookimpl
        def coevo_plan_group(self, group_size: int) -> list[MemberPlan]:
            helped = MemberPlan(template=Candidate("use k1", "template"))
            return [helped, *[MemberPlan()] * (group_size - 1)]

    run = start(evolution="off", plugins={"helper": Helper()}, questions=2)
    run.step(size=2)
    assert run.window("start") == [0.0]  # "use k1" solved q1
    assert run.state["buffer"]["questions"] == ["q0", "q1"]


def test_an_update_on_an_old_round_is_no_step(start: Any) -> None:
    run = start(
        judge=worth(WORTH), initial_population=SEVEN, evolution="off", prune_every=2, questions=70
    )
    run.step()
    for _ in range(3):
        run.engine.step_end(run.policy)
    assert len(run.population) == 7
    assert run.window("b") == [pytest.approx(0.7)]
    run.step()
    assert len(run.population) == 4
    assert run.state["step"] == 2


def test_a_round_cannot_be_planned_before_training_begins(make_engine: Any) -> None:
    engine = make_engine(algorithms=("inspo",), inspo={"instruction": "Think."})
    with pytest.raises(HostError, match="before training began"):
        engine.plan(["q1"], 1)


def test_rollouts_of_an_instruction_that_has_left_do_no_harm(start: Any) -> None:
    run = start(
        judge=worth(WORTH), initial_population=SEVEN, evolution="off", prune_every=1, questions=70
    )
    late = run.engine.plan(sorted(run.policy.questions), 1)
    run.step()
    left = run.population
    assert len(left) == 4
    run.engine.observe([Rollout(a, "", 1.0) for a in late])
    run.engine.step_end(run.policy)
    assert set(run.population) <= set(left)


# Pruning


def test_seven_four_two_one_and_seven_again(start: Any) -> None:
    run = start(initial_population=SEVEN)
    sizes = []
    for _ in range(16):
        run.step()
        sizes.append(len(run.population))
    assert sizes == [7] * 4 + [4] * 5 + [2] * 5 + [7, 7]
    changes = run.events("population_changed")
    at_15 = [(len(c["removed"]), len(c["added"])) for c in changes if c["step"] == 15]
    assert at_15 == [(1, 0), (0, 3), (0, 3)]  # pruned to one, then two rounds of three
    assert [len(c["removed"]) for c in changes if 0 < c["step"] < 15] == [3, 2]


def test_the_best_of_seven_survives(start: Any) -> None:
    run = start(judge=worth(WORTH), initial_population=SEVEN, evolution="off", questions=70)
    run.steps(5)
    assert run.population == ["b", "d", "f", "g"]
    run.steps(10)
    assert run.population == ["b"]


def test_pruning_goes_by_the_weights_of_this_step(start: Any) -> None:
    run = start(
        initial_population=("a", "b"),
        evolution="off",
        prune_every=2,
        window=1,
        selection_temperature=10,
    )
    run.judge = worth({"a": 1.0, "b": 0.0})
    run.step()
    run.judge = worth({"a": 0.0, "b": 1.0})
    run.step()
    assert run.population == ["b"]


def test_nothing_is_pruned_below_the_parents(start: Any) -> None:
    run = start(initial_population=SEVEN, evolution="off", parents=3, prune_every=1)
    run.steps(5)
    assert len(run.population) == 3


@pytest.mark.parametrize(
    ("first", "what"),
    [
        ({"initial_population": SEVEN}, "the instructions of inspo.initial_population"),
        ({"instruction": "Think."}, "the paraphrases"),
    ],
)
def test_without_pruning_a_full_population_would_never_evolve(
    first: dict[str, Any], what: str
) -> None:
    with pytest.raises(SettingsError, match=f"{what} fill the population for good"):
        Settings(algorithms="inspo", inspo={"prune": False, **first})
    Settings(algorithms="inspo", inspo={"prune": False, "evolution": "off", **first})


def test_without_pruning_a_population_is_filled(start: Any) -> None:
    run = start(initial_population=("a", "b", "c", "d", "e"), prune=False, evolve_every=2)
    run.steps(2)
    assert run.population[:5] == ["a", "b", "c", "d", "e"]
    assert len(run.population) == 7


# Evolution


def test_nine_evolutions_with_the_papers_settings(start: Any) -> None:
    asked = []

    def reply(prompt: str) -> str:
        asked.append(run.engine.policy_version.step)
        return teacher(prompt)

    run = start(reply, questions=4, rounds=1)
    run.steps(165)
    assert asked == [15, 30, 45, 60, 75, 90, 105, 120, 135]
    assert run.metric("evolutions") == 9


def test_there_is_no_evolution_at_the_last_step(start: Any) -> None:
    run = start(evolve_every=2)
    run.step()
    run.step(last=True)
    assert run.population == ["start"]
    assert run.metric("evolutions") == 0


def evolve_once(start: Any, texts: Sequence[str], **inspo: Any) -> Run:
    """Evolve once: of ten questions the parent "k0" solves one; the first step's reply has these texts."""
    run: Run = start(
        lambda prompt: tagged(texts),
        questions=10,
        initial_population=("k0",),
        **{"evolve_every": 1, "evolve_until": 2, "rounds": 1, **inspo},
    )
    run.step()
    return run


def test_a_child_joins_if_it_does_at_least_as_well_as_its_parent(start: Any) -> None:
    run = evolve_once(start, ["k1 k2", "k1", "nothing"])
    assert run.population == ["k0", "k1 k2", "k1"]
    verified = [(e["accepted"], sum(e["rewards"])) for e in run.events("candidate_verified")]
    assert verified == [(True, 2.0), (True, 1.0), (False, 0.0)]


def test_only_the_top_children_join_and_the_first_of_equals(start: Any) -> None:
    run = evolve_once(start, ["k1", "k1 k2 k3", "k4 k5", "k6 k7"], top_n=2)
    assert run.population == ["k0", "k1 k2 k3", "k4 k5"]


def test_parent_and_children_are_verified_in_one_batch_on_the_same_questions(start: Any) -> None:
    run = evolve_once(start, ["k1", "k2"], verify_size=6)
    (batch,) = run.policy.batches
    assert len(batch) == 18
    assert {request.sampling for request in batch} == {Sampling()}
    asked = {
        text: [r.assignment.question_id for r in batch if r.assignment.instruction.text == text]
        for text in ("k0", "k1", "k2")
    }
    assert asked["k0"] == asked["k1"] == asked["k2"]
    assert len(set(asked["k0"])) == 6
    assert run.metric("verify_rollouts") == 18


def test_a_parent_is_verified_once_in_all_rounds(start: Any) -> None:
    calls = iter(range(9))
    run = start(
        lambda prompt: tagged([f"k{next(calls)} also"]),
        questions=10,
        evolve_every=1,
        rounds=3,
        verify_size=4,
    )
    run.step()
    assert [len(batch) for batch in run.policy.batches] == [8, 4, 4]


def test_a_verified_child_weighs_its_parent_and_the_gain(start: Any) -> None:
    run = start(
        lambda prompt: tagged(["k0 k1 k2"]),
        worth({"k0": 0.5}),
        questions=10,
        initial_population=("k0",),
        evolve_every=2,
        rounds=1,
    )
    run.steps(2)
    # Training says 0.5; the verification 0.1 for the parent and 0.3 for the child.
    assert run.prior("k0 k1 k2") == pytest.approx(0.7)
    assert run.window("k0") == [0.5, 0.5]
    assert run.window("k0 k1 k2") == []


def test_a_childs_weight_can_be_zero(start: Any) -> None:
    run = evolve_once(start, ["k1 k2"], child_weight="zero")
    assert run.prior("k1 k2") == 0.0


def test_a_child_is_the_best_only_after_it_was_sampled(start: Any) -> None:
    run = evolve_once(start, ["k0 k1 k2"])
    assert run.engine.context.first_result(hookspecs.coevo_best_instruction).text == "k0"
    run.steps(6)
    assert run.engine.context.first_result(hookspecs.coevo_best_instruction).text == "k0 k1 k2"


def test_evolution_drops_everybody_but_parents_and_children(start: Any) -> None:
    run = start(
        lambda prompt: tagged(["k1 k2"]),
        questions=40,
        initial_population=("k0", "a", "b", "c"),
        evolve_every=1,
        rounds=1,
    )
    run.step()
    assert run.population == ["k0", "k1 k2"]
    (change,) = [e for e in run.events("population_changed") if e["step"]]
    assert (len(change["added"]), len(change["removed"])) == (1, 3)


def test_several_parents_have_children(start: Any) -> None:
    parents = []

    def reply(prompt: str) -> str:
        parents.append(re.findall(r"<ins_0>\n(.*?)\n</ins_0>", prompt)[0])
        return ""

    run = start(
        reply,
        worth({"a": 0.9, "b": 0.8}),
        initial_population=("a", "b", "c", "d"),
        parents=2,
        evolve_every=1,
        rounds=20,
    )
    run.step()
    assert set(parents) == {"a", "b"}
    assert run.population == ["a", "b"]


def test_rounds_go_on_until_the_population_is_full(start: Any) -> None:
    calls = []

    def reply(prompt: str) -> str:
        calls.append(prompt)
        return tagged([f"try {len(calls)}", f"and {len(calls)}"])

    run = start(reply, evolve_every=1, evolve_until=2)
    run.step()
    assert len(calls) == 3
    assert len(run.population) == 7
    assert run.events("population_not_full") == []


def test_a_proposer_that_delivers_too_little_leaves_places_empty(start: Any) -> None:
    calls = iter(range(99))
    run = start(
        lambda prompt: tagged([f"try {next(calls)}"]), evolve_every=1, evolve_until=2, rounds=3
    )
    run.step()
    assert run.population == ["start", "try 0", "try 1", "try 2"]
    (event,) = run.events("population_not_full")
    assert (event["size"], event["population_size"]) == (4, 7)


def test_what_was_tried_in_an_evolution_is_not_tried_again(start: Any) -> None:
    calls = []

    def reply(prompt: str) -> str:
        calls.append(prompt)
        return tagged(["worse than k0", "k0"])

    run = start(
        reply,
        questions=10,
        initial_population=("k0",),
        evolve_every=1,
        evolve_until=2,
    )
    run.judge = lambda assignment: 0.0
    run.policy.answer = lambda request: Rollout(
        request.assignment, "", float(request.assignment.instruction.text == "k0")
    )
    run.step()
    assert len(calls) == 5
    assert len(run.events("candidate_verified")) == 1
    reasons = Counter(event["reason"] for event in run.events("candidate_checked"))
    assert reasons == {None: 1, "it equals a candidate that is already known": 9}


def test_a_reply_without_candidates_ends_after_all_rounds(start: Any) -> None:
    run = start(lambda prompt: "I cannot.", evolve_every=1, evolve_until=2)
    run.step()
    assert len(run.events("candidate_checked")) == 5
    assert run.population == ["start"]


def test_more_candidates_than_asked_for_are_not_looked_at(start: Any) -> None:
    run = evolve_once(start, [f"k{n}" for n in range(1, 10)], candidates_per_call=2)
    assert run.population == ["k0", "k1", "k2"]


def test_failures_of_the_newest_step_are_shown(start: Any) -> None:
    prompts = []

    def reply(prompt: str) -> str:
        prompts.append(prompt)
        return ""

    run = start(reply, evolve_every=2, rounds=1, failures_per_reflection=3)
    run.step()
    run.step(size=2, groups=3)
    shown = re.findall(r"what is (\d+)\?", prompts[0])
    assert sorted(shown) == ["0", "1", "10"]
    assert f"<correct_answer>\nanswer {shown[0]}\n</correct_answer>" in prompts[0]


def test_without_failures_an_evolution_is_skipped_and_says_so(
    start: Any, caplog: pytest.LogCaptureFixture
) -> None:
    run = start(lambda prompt: 1 / 0, lambda assignment: 1.0, evolve_every=1, evolve_until=2)
    with caplog.at_level(logging.WARNING, logger="prompt_coevo"):
        run.step()
    assert run.skipped == ["the replay buffer holds no failures to reflect on"]
    assert run.population == ["start"]
    assert "no failures to reflect on" in caplog.text


def test_a_failing_reflection_model_leaves_the_population(start: Any) -> None:
    run = start(
        lambda prompt: 1 / 0,
        worth(WORTH),
        initial_population=SEVEN,
        evolve_every=5,
        evolve_until=6,
        questions=70,
    )
    run.steps(5)
    assert run.population == ["b", "d", "f", "g"]
    assert run.skipped == ["the reflection model failed: ZeroDivisionError: division by zero"]
    assert len(run.events("reflection_error")) == 1
    run.step()
    assert all(a.instruction.text in "bdfg" for a in run.plans[-1])


def test_the_evolution_after_a_failed_one_works(start: Any) -> None:
    calls = iter(range(99))

    def reply(prompt: str) -> str:
        return teacher(prompt) if next(calls) else str(1 / 0)

    run = start(reply, evolve_every=2)
    run.steps(2)
    assert len(run.population) == 1
    run.steps(2)
    assert len(run.population) == 7


def test_a_sampler_that_fails_costs_an_evolution_and_not_the_training(
    start: Any, keyed_policy: Any
) -> None:
    run = start(policy=keyed_policy(10, fail_after=0), evolve_every=2)
    run.steps(3)
    assert run.population == ["start"]
    (event,) = run.events("evolution_skipped")
    assert event["reason"] == "the verification failed: RuntimeError: the sampler is gone"
    run.policy.fail_after = None
    run.step()
    assert len(run.population) > 1


def test_a_host_that_cannot_go_on_is_not_held_up(start: Any, keyed_policy: Any) -> None:
    def lost(requests: Any) -> Any:
        raise HostError("the ranks are out of step")

    run = start(evolve_every=1)
    run.policy.rollout = lost
    with pytest.raises(HostError, match="out of step"):
        run.step()


def test_verification_that_measures_nothing_lets_nobody_join(start: Any) -> None:
    run = start(evolve_every=1, evolve_until=2, rounds=1, questions=10)
    run.judge = lambda assignment: 0.0
    run.policy.answer = lambda request: Rollout(request.assignment, "", 0.0, "tool_error")
    run.step()
    assert run.population == ["start"]
    assert {event["accepted"] for event in run.events("candidate_verified")} == {False}


def test_a_stranger_may_let_in_what_was_not_measured(start: Any) -> None:
    class Lenient:
        @hookimpl
        def coevo_verify(self, algorithm: str, trials: Any) -> list[bool]:
            return [True for _ in trials]

    run = start(
        evolve_every=1, evolve_until=2, rounds=1, questions=10, plugins={"lenient": Lenient()}
    )
    run.judge = lambda assignment: 0.5
    run.policy.answer = lambda request: Rollout(request.assignment, "", math.nan)
    run.step()
    assert len(run.population) == 5
    assert {run.prior(text) for text in run.population[1:]} == {0.5}
    run.step()
    assert all(math.isfinite(value) for value in run.engine.metrics().values())


# Gates


def test_what_is_known_is_dropped_before_any_rollout(start: Any) -> None:
    run = evolve_once(start, ["k0", "k1", "k1"])
    assert run.population == ["k0", "k1"]
    assert [event["reason"] for event in run.events("candidate_checked")] == [
        "it equals a candidate that is already known",
        None,
        "it equals a candidate that is already known",
    ]


TAGGED_INSTRUCTION = "Search with <search>words</search>."


def test_the_tags_of_the_parent_are_kept(start: Any) -> None:
    lost, kept = "Think of k1 k2.", "Think. <search>words</search>"
    run = start(
        lambda prompt: tagged([lost, kept]),
        initial_population=(TAGGED_INSTRUCTION,),
        evolve_every=1,
        evolve_until=2,
        rounds=1,
    )
    run.step()
    assert lost not in run.population
    assert kept in run.population
    reasons = [event["reason"] for event in run.events("candidate_checked")]
    missing = "the required tag '<search> ... </search>' of its parent is missing"
    assert reasons == [missing, None]


def test_a_question_shown_to_the_proposer_must_not_come_back(start: Any) -> None:
    run = evolve_once(start, ["The answer 1 is this", "k1"], gates={"leak_truth_chars": 7})
    assert run.population == ["k0", "k1"]
    assert run.events("candidate_checked")[0]["reason"] == (
        "it contains the ground truth of a training question"
    )


@pytest.mark.parametrize(
    ("inspo", "gates", "reason"),
    [
        ({"instruction": "Think."}, {"required_tags": ("<search>",)}, "'<search>' is missing"),
        ({"instruction": "one two three"}, {"max_candidate_tokens": 2}, "longer than 2 tokens"),
        ({"instruction": " "}, {}, "it is empty"),
        ({"initial_population": ("a", "```")}, {}, "a code fence does not close"),
    ],
)
def test_an_instruction_that_fails_the_gates_shows_before_training(
    start: Any, inspo: Any, gates: Any, reason: str
) -> None:
    with pytest.raises(SettingsError, match=f"does not pass the gates .*{re.escape(reason)}"):
        start(gates=gates, **inspo)


# The initial population


def test_one_instruction_and_its_paraphrases(start: Any) -> None:
    run = start(instruction="Think.")
    assert run.population == ["Think.", *(f"Think. wording{n}" for n in range(6))]
    (event,) = run.events("population_changed")
    origins = [added["origin"] for added in event["added"]]
    assert origins == ["user", *["paraphrase"] * 6]


def test_paraphrases_are_asked_for_again_and_only_as_many_as_are_missing(start: Any) -> None:
    asked = []

    def reply(prompt: str) -> str:
        asked.append(re.findall(r"Write (\d+) other", prompt)[0])
        return tagged([f"Version {len(asked)}", "Think.", "unclosed ```"])

    run = start(reply, instruction="Think.")
    assert asked == ["6", "5", "4", "3", "2"]
    assert run.population == ["Think.", *(f"Version {n}" for n in range(1, 6))]


def test_failing_paraphrases_do_not_stop_the_run(start: Any) -> None:
    run = start(lambda prompt: 1 / 0, instruction="Think.")
    assert run.population == ["Think."]
    (event,) = run.events("paraphrases_failed")
    assert "ZeroDivisionError" in event["reason"]
    run.step()


def test_a_given_list_is_the_population(start: Any) -> None:
    run = start(lambda prompt: 1 / 0, initial_population=("a", "b", "c"))
    assert run.population == ["a", "b", "c"]


def test_paraphrases_can_be_left_out_and_then_no_model_is_needed(start: Any) -> None:
    run = start(instruction="Think.", paraphrase=False, evolution="off", model={})
    run.steps(5)
    assert run.population == ["Think."]


@pytest.mark.parametrize(
    "inspo", [{"instruction": "Think.", "paraphrase": False}, {"initial_population": ("Think.",)}]
)
def test_the_proposer_paraphrase_is_for_evolutions_where_paraphrases_are_left_out(
    start: Any, inspo: Any
) -> None:
    run = start(proposer="paraphrase", evolve_every=2, **inspo)
    assert run.population == ["Think."]
    run.steps(2)
    assert run.population == ["Think.", *(f"Think. wording{n}" for n in range(3))]


def from_dataset(message: str | None, **settings: Any) -> Coevolution:
    inspo = {"paraphrase": False, "evolution": "off", **settings.pop("inspo", {})}
    return Coevolution.from_settings(
        Settings(algorithms=("inspo",), inspo=inspo, **settings), system_message=lambda: message
    )


def test_the_datasets_system_message_is_the_first_instruction(policy: Any) -> None:
    engine = from_dataset("Be brief.")
    engine.begin(policy)
    (assignment,) = engine.plan(["q1"], 1)
    prompt = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]
    assert assignment.rollout_prompt(prompt) == prompt


def test_a_given_instruction_goes_before_the_datasets(policy: Any) -> None:
    engine = from_dataset("Be brief.", inspo={"instruction": "Think."})
    assert engine.context.first_result(hookspecs.coevo_best_instruction).text == "Think."


@pytest.mark.parametrize(
    ("message", "placement"), [(None, "system"), ("Be brief.", "prefix"), (None, "prefix")]
)
def test_without_any_instruction_there_is_nothing_to_evolve(
    message: str | None, placement: str
) -> None:
    with pytest.raises(SettingsError, match="no instruction to start from: set inspo.instruction"):
        from_dataset(message, placement={"instruction": placement})


def test_an_instruction_twice_is_refused(start: Any) -> None:
    with pytest.raises(SettingsError, match="twice in the population: 'a'"):
        start(initial_population=("a", "b", "a"))


@pytest.mark.parametrize(
    "inspo", [{"instruction": "Think.", "evolution": "off"}, {"paraphrase": False}]
)
def test_a_missing_reflection_model_shows_before_training(start: Any, inspo: Any) -> None:
    with pytest.raises(SettingsError, match="no reflection model is set"):
        start(model={}, **inspo)


def test_a_proposer_that_does_not_exist(start: Any) -> None:
    known = "known: history, paraphrase, propose_improvement, reflection"
    with pytest.raises(SettingsError, match=f"'oracle': there is no such proposer; {known}"):
        start(proposer="oracle")


# Ablations


def test_without_verification_what_passes_the_gates_joins_while_there_is_room(start: Any) -> None:
    texts = [f"worse {n}" for n in range(8)]
    run = evolve_once(start, texts, verify="off", candidates_per_call=8)
    assert run.population == ["k0", *texts[:6]]
    assert run.policy.batches == []
    assert run.prior("worse 0") == run.window("k0")[0]


def test_the_proposer_can_be_paraphrase(start: Any) -> None:
    prompts = []

    def reply(prompt: str) -> str:
        prompts.append(prompt)
        return tagged(f"other {n}" for n in range(6))

    run = start(reply, proposer="paraphrase", evolve_every=1, evolve_until=2)
    run.step()
    assert "what is" not in prompts[0]
    assert "<ins_0>\nstart\n</ins_0>" in prompts[0]
    assert run.population[0] == "start"
    assert len(run.population) > 1


def test_the_proposer_can_be_history(start: Any) -> None:
    prompts = []

    def reply(prompt: str) -> str:
        prompts.append(prompt)
        return tagged([f"new {len(prompts)}"])

    run = start(
        reply,
        worth(WORTH),
        proposer="history",
        initial_population=SEVEN,
        prune_every=1,
        evolve_every=3,
        rounds=1,
        questions=70,
    )
    run.steps(3)
    shown = re.findall(r"<ins_\d+>\n(.*?)\n</ins_\d+>\n<score_\d+>(\d+)<", prompts[0])
    assert shown == [
        ("a", "10"), ("e", "20"), ("c", "30"), ("g", "40"), ("f", "50"), ("d", "60"), ("b", "70"),
    ]  # fmt: skip


def test_the_history_holds_what_was_verified_and_refused(start: Any) -> None:
    run = evolve_once(start, ["k1 k2 k3", "useless"])
    assert run.state["history"] == [
        ["k0", pytest.approx(0.1)],
        ["k1 k2 k3", pytest.approx(0.3)],
        ["useless", 0.0],
    ]


def test_an_evolution_before_training_leaves_its_best(start: Any) -> None:
    run = start(
        evolution="before", evolve_every=10, evolve_until=45, questions=12, initial_population=SEVEN
    )
    assert run.metric("evolutions") == 4
    (found,) = run.population
    assert len(found.split()) > 3  # a key was added several times
    asked = len(run.policy.batches)
    run.steps(20)
    assert {a.instruction.text for plan in run.plans for a in plan} == {found}
    assert len(run.policy.batches) == asked
    assert run.metric("evolutions") == 4


def test_an_evolution_after_training_leaves_its_best(start: Any) -> None:
    run = start(evolution="after", evolve_every=2, evolve_until=9, questions=12)
    run.steps(9)
    assert run.population == ["start"]
    assert run.policy.batches == []
    run.step(last=True)
    assert run.metric("evolutions") == 4
    (found,) = run.population
    assert len(found.split()) > 3
    assert run.engine.context.first_result(hookspecs.coevo_best_instruction).text == found
    assert (run.folder / "coevo/best_instruction.txt").read_text("utf-8") == found


def test_an_evolution_before_training_whose_sampler_fails_leaves_what_there_was(
    start: Any, keyed_policy: Any
) -> None:
    run = start(
        policy=keyed_policy(12, fail_after=0),
        evolution="before",
        evolve_every=10,
        evolve_until=45,
        questions=12,
        initial_population=SEVEN,
    )
    (event,) = run.events("evolution_skipped")
    assert event["reason"] == "the rollouts failed: RuntimeError: the sampler is gone"
    assert not run.events("plugin_error")
    assert run.population == [SEVEN[0]]
    run.steps(2)
    assert {a.instruction.text for plan in run.plans for a in plan} == {SEVEN[0]}


def test_an_evolution_before_training_is_not_repeated_on_resume(start: Any) -> None:
    run = start(evolution="before", evolve_every=10, evolve_until=25, questions=12)
    resumed = start(
        evolution="before",
        evolve_every=10,
        evolve_until=25,
        questions=12,
        state=run.checkpoint(),
    )
    assert resumed.population == run.population
    assert resumed.policy.batches == []


# The result


def test_the_best_instruction_is_published(start: Any) -> None:
    run = start(judge=worth({"a": 0.1, "b": 0.9}), initial_population=("a", "b"), evolution="off")
    file = run.folder / "coevo/best_instruction.txt"
    assert file.read_text("utf-8") == "a"
    run.step()
    assert file.read_text("utf-8") == "b"
    run.judge = worth({"a": 1.0})
    run.steps(5)
    assert file.read_text("utf-8") == "a"


@pytest.mark.parametrize(("choice", "text"), [("best", "b"), ("none", None)])
def test_what_the_hosts_evaluation_runs_under(start: Any, choice: str, text: str | None) -> None:
    run = start(
        judge=worth({"b": 0.9}),
        initial_population=("a", "b"),
        evolution="off",
        validation_instruction=choice,
    )
    run.step()
    instruction = run.engine.evaluation_instruction()
    assert (instruction and instruction.text) == text


def test_a_resumed_run_publishes_into_a_new_folder(start: Any, tmp_path: Path) -> None:
    run = start(evolution="off")
    run.step()
    resumed = start(evolution="off", state=run.checkpoint(), folder=tmp_path / "new")
    assert (resumed.folder / "coevo/best_instruction.txt").read_text("utf-8") == "start"


def test_the_metrics(start: Any) -> None:
    run = start(judge=worth({"a": 0.2, "b": 0.6}), initial_population=("a", "b"), evolution="off")
    run.step()
    metrics = run.engine.metrics()
    assert metrics == {
        "coevo/population": 2,
        "coevo/best_instruction_weight": pytest.approx(0.6),
        "coevo/mean_instruction_weight": pytest.approx(0.4),
        "coevo/evolutions": 0,
        "coevo/verify_rollouts": 0,
        "coevo/unfit_rollouts": 0,
    }


# Overlap


@pytest.fixture
def overlap(start: Any) -> Callable[..., Run]:
    def begin(reply: Callable[[str], str] = teacher, **changes: Any) -> Run:
        settings = {"evolve_every": 4, "overlap_steps": 2, "rounds": 1, "reflection": "overlapped"}
        run: Run = start(reply, questions=12, **{**settings, **changes})
        return run

    return begin


def wait_for_the_answer(run: Run) -> None:
    """Wait until the request in flight has been answered, according to the state."""
    while run.state["schedule"]["in_flight"]["asked"]["answer"] is None:
        time.sleep(0.01)


def test_a_reply_is_used_at_its_step_and_never_earlier(overlap: Any) -> None:
    replied = threading.Event()

    def reply(prompt: str) -> str:
        replied.set()
        return teacher(prompt)

    run = overlap(reply)
    sizes = []
    for number in range(1, 8):
        run.step()
        if number == 4:
            assert replied.wait(300)
            wait_for_the_answer(run)
        sizes.append(len(run.population))
    assert sizes == [1, 1, 1, 1, 1, 4, 4]


def test_a_late_reply_is_waited_for(overlap: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    awaited = threading.Event()
    answer = Asked.answer

    def noted(asked: Asked, within: float) -> Any:
        awaited.set()
        return answer(asked, within)

    def slow(prompt: str) -> str:
        assert awaited.wait(300)
        time.sleep(0.3)
        return teacher(prompt)

    monkeypatch.setattr(Asked, "answer", noted)
    run = overlap(slow)
    run.steps(6)
    assert len(run.population) == 4
    (event,) = run.events("reflection_awaited")
    assert event["took_s"] >= 0.3
    assert 0 < event["waited_s"] <= event["took_s"]


def test_the_speed_of_a_reply_changes_no_decision(overlap: Any, tmp_path: Path) -> None:
    @functools.wraps(teacher)  # a request says which function it is for, by its name
    def slow(prompt: str) -> str:
        time.sleep(0.1)
        return teacher(prompt)

    decided = []
    for name, reply in (("fast", teacher), ("slow", slow)):
        run = overlap(reply, folder=tmp_path / name, rounds=2, overlap_steps=1)
        run.steps(10)
        decided.append((decisions(run), run.choices))
    assert decided[0] == decided[1]


def test_each_round_has_its_own_wait(overlap: Any) -> None:
    calls = iter(range(9))
    run = overlap(
        lambda prompt: tagged([f"try {next(calls)}"]), rounds=2, overlap_steps=1, evolve_until=8
    )
    sizes = []
    for _ in range(7):
        run.step()
        sizes.append(len(run.population))
    assert sizes == [1, 1, 1, 1, 2, 3, 3]


class Stuck:
    """A proposer that does not reply before `release` is set."""

    def __init__(self) -> None:
        self.release = threading.Event()

    def propose(self, requests: Any) -> list[Proposal]:
        self.release.wait(300)
        return [Proposal(request, ("k1",), Reply("…", "stop")) for request in requests]


def test_a_reply_that_takes_too_long_is_given_up(overlap: Any, offer: Any) -> None:
    stuck = Stuck()
    offer("proposers", "stuck", lambda context: stuck)
    run = overlap(model={"total_timeout_s": 0.1}, proposer="stuck")
    run.steps(6)
    stuck.release.set()
    assert run.population == ["start"]
    assert run.skipped == ["there was no reply within 1.1 s"]
    run.steps(2)
    wait_for_the_answer(run)
    run.steps(2)
    assert run.population == ["start", "k1"]


def test_a_failing_reply_leaves_the_population(overlap: Any) -> None:
    run = overlap(lambda prompt: 1 / 0)
    run.steps(6)
    assert run.population == ["start"]
    assert run.skipped == ["the reflection model failed: ZeroDivisionError: division by zero"]


def test_a_reply_after_the_last_step_is_dropped(overlap: Any) -> None:
    run = overlap()
    run.steps(5)
    run.step(last=True)
    assert run.population == ["start"]
    assert [event["reason"] for event in run.events("reflection_dropped")] == ["training is over"]
    assert run.state["schedule"]["in_flight"] is None


def test_the_last_evolutions_reply_is_used_after_the_evolving_steps(overlap: Any) -> None:
    run = overlap(evolve_until=5)
    run.steps(6)
    assert len(run.population) == 4


def test_nothing_is_asked_for_that_could_not_be_used(overlap: Any) -> None:
    asked: list[str] = []

    def reply(prompt: str) -> str:
        asked.append(prompt)
        return tagged([f"start k{len(asked)}"])

    run = overlap(reply, rounds=9, overlap_steps=2)
    begun = []
    for step in range(1, 10):
        run.step()
        flight = run.state["schedule"]["in_flight"]
        begun += [step] if flight and flight["asked"]["use_at"] == step + 2 else []
    # At 8 the second round of the first evolution lands and the second evolution begins.
    assert begun == [4, 6, 8]
    wait_for_the_answer(run)
    assert len(asked) == 3
    assert run.events("reflection_dropped") == []


def test_a_round_that_the_next_evolution_overtakes_is_dropped_and_says_so(overlap: Any) -> None:
    run = overlap(lambda prompt: "", rounds=9, overlap_steps=3)
    run.steps(8)  # the second round was requested at 7, for step 10
    assert [event["reason"] for event in run.events("reflection_dropped")] == [
        "the next evolution begins"
    ]
    assert run.state["schedule"]["in_flight"]["asked"]["use_at"] == 11


def test_parents_that_were_pruned_meanwhile_do_not_come_back(overlap: Any) -> None:
    run = overlap(
        judge=worth({"start": 0.9, "other": 0.1}),
        initial_population=("start", "other"),
        prune_every=5,
        window=1,
    )
    run.steps(4)
    run.judge = worth({"start": 0.0, "other": 1.0})
    run.step()
    assert run.population == ["other"]
    run.step()
    first, *children = run.population
    assert first == "other"
    assert [child.split()[0] for child in children] == ["start"] * 3


class Silent:
    """A configured proposer that returns no answer."""

    def propose(self, requests: Any) -> list[Proposal]:
        raise RuntimeError("no idea")


def test_nobody_answers_and_the_run_was_resumed_meanwhile(overlap: Any, offer: Any) -> None:
    offer("proposers", "silent", lambda context: Silent())
    settings = {"proposer": "silent", "overlap_steps": 2}
    run = overlap(**settings)
    run.steps(4)
    resumed = overlap(**settings, state=run.checkpoint())
    resumed.steps(2)
    assert resumed.skipped == ["no proposer answered"]


# State


LONG = {
    "initial_population": ("start", "b", "c", "d"),
    "prune_every": 3,
    "evolve_every": 6,
    "evolve_until": 17,
    "rounds": 2,
}


@pytest.mark.parametrize("overlap_steps", [None, 1, 3])
@pytest.mark.parametrize("proposer", ["reflection", "history"])
def test_a_run_killed_after_any_step_decides_as_the_uninterrupted_one(
    start: Any, tmp_path: Path, overlap_steps: int | None, proposer: str
) -> None:
    inspo: dict[str, Any] = {**LONG, "proposer": proposer}
    if overlap_steps:
        inspo |= {"reflection": "overlapped", "overlap_steps": overlap_steps}

    def reply(prompt: str) -> str:
        if "<ins_0>" in prompt:
            return teacher(prompt)
        return tagged(f"{len(prompt)} k{n}" for n in range(4))

    def train(name: str, killed_at: int | None) -> Run:
        settings = {"folder": tmp_path / name, "questions": 12, **inspo}
        run: Run = start(reply, **settings)
        for number in range(1, 20):
            run.step(last=number == 19)
            if number == killed_at:
                plans = run.plans
                run = start(reply, state=run.checkpoint(), **settings)
                run.plans = plans
        return run

    whole = train("whole", None)
    assert len(whole.events("candidate_verified")) >= 4
    for killed_at in range(1, 19):
        resumed = train(f"killed-{killed_at}", killed_at)
        assert resumed.choices == whole.choices
        assert decisions(resumed) == decisions(whole)


def test_a_round_may_be_observed_before_a_kill_and_weighed_after_it(start: Any) -> None:
    run = start(evolution="off")
    run.engine.observe([Rollout(a, "", 0.5) for a in run.engine.plan(["q1"], 2)])
    resumed = start(evolution="off", state=run.checkpoint())
    resumed.engine.step_end(resumed.policy)
    assert resumed.window("start") == [0.5]
    assert resumed.state["step"] == 1


def test_a_resumed_run_pays_for_the_replies_that_it_had_used(start: Any, tmp_path: Path) -> None:
    def train(name: str, resume: bool) -> Run:
        replies = iter(f"version {n}" for n in range(9))
        settings = {
            "folder": tmp_path / name,
            "proposer": "paraphrase",  # its prompts are always the same
            "evolve_every": 2,
            "rounds": 1,
        }

        def reply(prompt: str) -> str:
            return tagged([next(replies)])

        run: Run = start(reply, lambda assignment: 0.5, **settings)
        run.steps(2)
        if resume:
            run = start(reply, run.judge, state=run.checkpoint(), **settings)
        run.steps(2)
        return run

    assert train("whole", False).population == ["start", "version 1"]
    assert train("resumed", True).population == ["start", "version 1"]


def test_a_killed_run_reuses_the_replies_after_its_checkpoint(start: Any) -> None:
    replies = iter(f"version {n}" for n in range(9))

    def reply(prompt: str) -> str:
        return tagged([next(replies)])

    run = start(reply, evolve_every=2, evolve_until=3, rounds=1)
    run.step()
    state = run.checkpoint()
    run.step()
    resumed = start(reply, evolve_every=2, evolve_until=3, rounds=1, state=state)
    resumed.step()
    assert run.population == resumed.population == ["start", "version 0"]
    assert next(replies) == "version 1"


def test_rounds_do_not_go_on_after_the_evolving_steps(overlap: Any) -> None:
    calls = iter(range(9))
    run = overlap(
        lambda prompt: tagged([f"try {next(calls)}"]), rounds=3, overlap_steps=1, evolve_until=6
    )
    run.steps(9)
    assert len(run.population) == 2


def test_a_childs_prior_stands_on_its_parents_weight_of_that_step(overlap: Any) -> None:
    """The child was requested at step 4 and used at step 6."""
    reward = 0.2
    run = overlap(judge=lambda assignment: reward, window=1)
    run.steps(4)
    reward = 0.8
    run.steps(2)
    event = next(event for event in run.events("candidate_verified") if event["accepted"])
    gain = (sum(event["rewards"]) - sum(event["parent_rewards"])) / len(event["rewards"])
    assert run.prior(run.population[1]) == pytest.approx(0.8 + gain)
