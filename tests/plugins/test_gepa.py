"""Check P2O's search by the real package gepa, with a rule-based policy."""

from __future__ import annotations

import json
import logging
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from helpers.keyed_policy import KeyedPolicy, engine_of, questions
from helpers.searches import Recorder, assert_only_failures_were_shown, learner
from prompt_coevo import Coevolution, Settings, hookimpl, hookspecs
from prompt_coevo.candidates.searches import SearchRequest, SearchResult
from prompt_coevo.errors import HostError, SettingsError
from prompt_coevo.extras import MissingExtraError
from prompt_coevo.testing.algorithm import AlgorithmLaws
from prompt_coevo.types import EMPTY_TEMPLATE, Question, Rollout, Sampling

DEV, MINIBATCH, FAMILIES = 6, 2, 5

LEARNER = learner(FAMILIES)


class TestGepa(AlgorithmLaws):
    settings: ClassVar = {
        "algorithms": "p2o,gepa",
        "p2o": {
            "overspend": "never",
            "minibatch_size": 2,
            "dev_size": 3,
            "search_budget": 40,
        },
    }


@pytest.fixture
def keyed_policy() -> Callable[..., KeyedPolicy]:
    return lambda count, **changes: KeyedPolicy(questions(count), **changes)


@pytest.fixture
def policy(keyed_policy: Any) -> Any:
    return keyed_policy(40, families=FAMILIES)


@pytest.fixture
def events() -> Recorder:
    return Recorder()


@pytest.fixture
def search(events: Recorder) -> Any:
    def run(
        policy: Any,
        reply: Callable[[str], str] = LEARNER,
        *,
        hard: int = 20,
        seed: int = 0,
        number: int = 0,
        output_dir: Path | None = None,
        plugins: dict[str, object] | None = None,
        proposals: int = 1,
        **p2o: Any,
    ) -> SearchResult:
        settings = Settings(
            seed=seed,
            algorithms="p2o,gepa",
            reflection={"function": reply},
            plugins={"gepa": {"proposals": proposals}},
            p2o={
                "overspend": "never",
                "minibatch_size": MINIBATCH,
                "dev_size": DEV,
                "search_budget": 100,
            }
            | p2o,
        )
        engine = Coevolution.from_settings(
            settings, output_dir=output_dir, plugins={"events": events, **(plugins or {})}
        )
        ids = tuple(sorted(policy.questions))[:hard]
        request = SearchRequest(number, ids, policy)
        result: SearchResult = engine.context.first_result(hookspecs.coevo_search, request=request)
        return result

    return run


# Results and costs


def test_it_finds_the_words_that_solve_the_questions(search: Any, policy: Any) -> None:
    result = search(policy)
    assert result.pool.candidates[0] is EMPTY_TEMPLATE
    assert not result.pool.scores[0].any()
    best = result.pool.candidates[int(result.pool.scores.mean(axis=1).argmax())]
    assert set(best.text.split()) == {f"k{n}" for n in range(FAMILIES)}
    assert result.pool.scores.max() == 1.0
    assert not result.failed
    assert result.stopped == "the budget is spent"


def test_the_first_proposal_by_hand(search: Any, policy: Any, events: Recorder) -> None:
    # ε on 6 dev questions, one proposal on 2: parent, child, child on dev. The budget of 16 pays no more.
    result = search(policy, search_budget=16)
    assert [len(batch) for batch in policy.batches] == [DEV, MINIBATCH, MINIBATCH, DEV]
    temperatures = [{request.sampling for request in batch} for batch in policy.batches]
    assert temperatures == [{Sampling(0.0)}, {Sampling(0.6)}, {Sampling(0.6)}, {Sampling(0.0)}]
    assert (result.spent, result.rollouts, result.overshoot) == (16, 16, 0)
    assert (result.waves, result.proposals, result.accepted) == (1, 1, 1)
    child = result.pool.candidates[1]
    assert child.parents == (EMPTY_TEMPLATE.id,)
    assert child.origin == "propose_improvement"
    [(trial, accepted)] = events.verified
    assert (trial.parent, trial.child, accepted) == (EMPTY_TEMPLATE, child, True)
    assert (trial.parent_rewards, trial.child_rewards) == ((0.0, 0.0), (1.0, 1.0))


@pytest.mark.parametrize("budget", [16, 17, 25, 40, 99, 333])
def test_the_budget_is_kept_and_used(search: Any, policy: Any, budget: int) -> None:
    result = search(policy, search_budget=budget)
    assert budget - (2 * MINIBATCH + DEV) < result.spent <= budget
    assert result.overshoot == 0
    assert result.rollouts == policy.rollouts <= result.spent


def test_the_accounts_are_gepas(search: Any, policy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import gepa

    results = []
    optimize = gepa.optimize
    monkeypatch.setattr(gepa, "optimize", lambda **kw: results.append(optimize(**kw)))
    assert search(policy, search_budget=300).spent == results[0].total_metric_calls


@pytest.mark.parametrize("budget", [16, 40, 99, 333])
@pytest.mark.parametrize("at_once", [3, 16])
def test_proposals_at_once_keep_the_budget_and_wait_less(
    search: Any, keyed_policy: Any, budget: int, at_once: int
) -> None:
    """The policy was once called 119 times where gepa itself needs 10."""
    one = keyed_policy(40, families=FAMILIES)
    search(one, search_budget=budget, calls_per_hard="unlimited")
    several = keyed_policy(40, families=FAMILIES)
    result = search(several, search_budget=budget, proposals=at_once, calls_per_hard="unlimited")
    assert not result.failed
    assert result.overshoot == 0
    assert budget - (2 * MINIBATCH + DEV) < result.spent <= budget
    assert len(several.batches) <= len(one.batches)
    if budget > 300:
        assert len(several.batches) < len(one.batches) / (2 if at_once == 16 else 1)


def test_a_budget_below_one_dev_evaluation(search: Any, policy: Any) -> None:
    result = search(policy, search_budget=5)
    assert result.pool.candidates == ()
    assert result.stopped == "the budget cannot pay for one evaluation on the dev questions"
    assert result.failed
    assert policy.rollouts == 0


def test_requests_come_in_batches(search: Any, policy: Any) -> None:
    search(policy, search_budget=300)
    for batch in policy.batches:
        assert len({request.assignment.template for request in batch}) == 1
        assert len({request.sampling for request in batch}) == 1
    dev = [batch for batch in policy.batches if batch[0].sampling == Sampling(0.0)]
    assert {len(batch) for batch in dev} == {DEV}


def test_the_split_is_that_of_waves(search: Any, policy: Any) -> None:
    engine = engine_of(LEARNER, p2o={"overspend": "never", "dev_size": DEV, "search_budget": 100})
    request = SearchRequest(0, tuple(sorted(policy.questions))[:20], policy)
    waves = engine.context.first_result(hookspecs.coevo_search, request=request)
    assert search(policy).pool.sample_ids == waves.pool.sample_ids


def test_the_scores_are_those_of_the_dev_questions(search: Any, policy: Any) -> None:
    pool = search(policy, search_budget=300).pool
    for template, row in zip(pool.candidates, pool.scores, strict=True):
        keys = template.text.split()
        assert row.tolist() == [
            float(f"k{int(q.removeprefix('q')) % FAMILIES}" in keys) for q in pool.sample_ids
        ]


def test_more_questions_in_a_minibatch_than_there_are(search: Any, keyed_policy: Any) -> None:
    result = search(keyed_policy(3, families=FAMILIES), hard=3, minibatch_size=50)
    assert not result.failed
    assert result.accepted > 0


def test_one_seed_one_search(search: Any, keyed_policy: Any) -> None:
    def batches(seed: int, number: int = 0) -> list[Any]:
        policy = keyed_policy(40, families=FAMILIES)
        search(policy, seed=seed, number=number, search_budget=300)
        return policy.batches  # type: ignore[no-any-return]

    assert batches(0) == batches(0)
    assert batches(0) != batches(1)
    assert batches(0) != batches(0, number=1)


# Proposals


def test_a_rejected_proposal_costs_the_parents_half(
    search: Any, policy: Any, events: Recorder, tmp_path: Path
) -> None:
    result = search(policy, lambda prompt: "<template> </template>", output_dir=tmp_path)
    assert result.accepted == 0
    assert result.proposals == len(events.reasons)
    assert set(events.reasons) == {"it is empty"}
    assert result.spent == DEV + result.proposals * MINIBATCH
    assert {request.assignment.template for batch in policy.batches for request in batch} == {
        EMPTY_TEMPLATE
    }
    journal = [json.loads(line) for line in (tmp_path / "coevo/events.jsonl").open()]
    rejected = [event for event in journal if event.get("reason") == "it is empty"]
    assert len(rejected) == result.proposals


def test_a_known_template_is_not_tried_again(search: Any, policy: Any, events: Recorder) -> None:
    result = search(policy, lambda prompt: "<template>k0 k1 k2 k3</template>")
    assert result.accepted == 1
    assert set(events.reasons) == {None, "it equals a candidate that is already known"}
    assert len(events.verified) == 1


def test_coevo_verify_decides(search: Any, policy: Any) -> None:
    class Nobody:
        @hookimpl
        def coevo_verify(self, trials: Any) -> list[bool]:
            return [False] * len(trials)

    result = search(policy, plugins={"nobody": Nobody()})
    assert result.accepted == 0
    assert result.proposals > 1


def test_only_failures_are_shown(search: Any, policy: Any, events: Recorder) -> None:
    search(policy, search_budget=300)
    assert_only_failures_were_shown(events)


def test_a_parent_without_failures_is_not_reflected_on(search: Any, policy: Any) -> None:
    calls = []

    def all_at_once(prompt: str) -> str:
        calls.append(prompt)
        return "<template>k0 k1 k2 k3 k4</template>"

    assert search(policy, all_at_once).accepted == 1
    assert len(calls) == 1


def test_rollouts_unfit_to_judge_by_decide_nothing(search: Any, policy: Any) -> None:
    def outage(request: Any) -> Rollout:
        return Rollout(request.assignment, "", float("nan"), status="tool_error")

    policy.answer = outage
    calls: list[str] = []
    result = search(policy, lambda prompt: calls.append(prompt) or "")
    assert not result.failed
    assert result.accepted == 0
    assert not calls
    assert not result.pool.scores.any()


# Scores are perishable


class _Forgetful:
    """A policy that solves everything under its first weights and nothing under later ones."""

    def __init__(self) -> None:
        self.questions = {f"q{n}": Question(f"q{n}", f"what is {n}?") for n in range(20)}
        self.updated = False
        self.templates: list[str] = []

    def question(self, question_id: str) -> Question:
        return self.questions[question_id]

    def rollout(self, requests: Any) -> list[Rollout]:
        self.templates += [request.assignment.template.text for request in requests]
        solved = [not self.updated and bool(r.assignment.template.text) for r in requests]
        return [Rollout(r.assignment, "", float(s)) for r, s in zip(requests, solved, strict=True)]


def test_a_second_search_asks_the_policy_again(search: Any, tmp_path: Path) -> None:
    policy = _Forgetful()

    def again(prompt: str) -> str:
        return "<template>magic</template>"

    first = search(policy, again, output_dir=tmp_path)
    assert [c.text for c in first.pool.candidates] == ["", "magic"]
    assert first.pool.scores[1].all()
    policy.updated, policy.templates = True, []
    second = search(policy, again, output_dir=tmp_path)
    assert {"", "magic"} == set(policy.templates)
    assert second.accepted == 0
    assert not second.pool.scores.any()


def test_dev_and_train_scores_are_not_mixed(search: Any, keyed_policy: Any) -> None:
    # Both parts number their questions from 0; gepa's own cache would mix them up.
    result = search(keyed_policy(4, families=4), hard=4, minibatch_size=2, search_budget=200)
    for template, row in zip(result.pool.candidates, result.pool.scores, strict=True):
        keys = template.text.split()
        assert row.tolist() == [float(q.replace("q", "k") in keys) for q in result.pool.sample_ids]


# When something fails


def test_a_failing_reflection_model_ends_the_search(
    search: Any, policy: Any, events: Recorder
) -> None:
    calls = []

    def broken(prompt: str) -> str:
        calls.append(prompt)
        raise ConnectionError("no route")

    result = search(policy, broken)
    assert result.stopped == "the reflection model failed: ConnectionError: no route"
    assert result.failed
    assert len(calls) == len(events.errors) == 1  # gepa would ask twice
    assert result.pool.candidates == (EMPTY_TEMPLATE,)


def test_an_evaluator_that_raises_ends_the_search_with_what_it_has(
    search: Any, keyed_policy: Any
) -> None:
    result = search(keyed_policy(40, families=FAMILIES, fail_after=4), search_budget=600)
    assert result.stopped == "the evaluation failed: RuntimeError: the sampler is gone"
    assert result.failed
    assert result.accepted == 1
    assert result.pool.scores.shape == (2, DEV)
    assert result.spent == 16
    at_once = search(keyed_policy(40, fail_after=0))
    assert at_once.failed
    assert at_once.pool.scores.shape == (0, DEV)


def test_a_gepa_that_raises_ends_the_search(
    search: Any, policy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other_version(**arguments: Any) -> None:
        raise TypeError("unexpected keyword argument")

    monkeypatch.setattr("gepa.optimize", other_version)
    result = search(policy)
    assert result.failed
    assert result.stopped == "gepa failed: TypeError: unexpected keyword argument"


def test_a_host_that_cannot_go_on_is_not_held_up(search: Any, policy: Any) -> None:
    def lost(requests: Any) -> Any:
        raise HostError("the ranks are out of step")

    policy.rollout = lost
    with pytest.raises(HostError, match="out of step"):
        search(policy)


def test_a_host_error_from_a_listener_is_not_swallowed(search: Any, policy: Any) -> None:
    class Lost:
        @hookimpl
        def coevo_after_candidate_checked(self) -> None:
            raise HostError("the ranks are out of step")

    with pytest.raises(HostError, match="out of step"):
        search(policy, plugins={"lost": Lost()})


# What stays unchanged


def test_it_touches_neither_console_nor_disk_nor_random_numbers(
    search: Any,
    policy: Any,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    before = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index, union-attr]
    search(policy)
    after = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index, union-attr]
    assert before == after
    assert capfd.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())


def test_its_log_is_ours_at_debug(
    search: Any, policy: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    search(policy)
    assert any(record.message.startswith("gepa: Iteration") for record in caplog.records)
    assert {record.name for record in caplog.records if "gepa" in record.message} == {
        "prompt_coevo"
    }
    assert {record.levelno for record in caplog.records} == {logging.DEBUG}


# Choosing it


def test_a_missing_package_shows_before_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prompt_coevo.extras.find_spec", lambda package: None)
    reflection = {"function": LEARNER}
    with pytest.raises(MissingExtraError) as missing:
        Coevolution.check(Settings(algorithms="p2o,gepa", reflection=reflection))
    assert str(missing.value) == (
        "the method gepa needs the package 'gepa', which is not installed; "
        "run: pip install 'gepa>=0.1.4,<0.2'"
    )


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"algorithms": "gepa"}, 'it needs both: set algorithms = "p2o,gepa"'),
        (
            {"algorithms": "inspo,gepa", "inspo": {"instruction": "Think."}},
            'it needs both: set algorithms = "p2o,gepa"',
        ),
        ({"algorithms": "stream,gepa"}, 'it needs both: set algorithms = "p2o,gepa"'),
    ],
)
def test_it_is_refused_without_a_search_to_replace(settings: Any, sentence: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(sentence)):
        Coevolution.check(Settings(**settings, reflection={"function": LEARNER}))


def test_settings_of_the_paper_lend_it_theirs() -> None:
    settings = Settings(preset="p2o", algorithms="p2o,gepa", reflection={"function": LEARNER})
    Coevolution.check(settings)


def test_calls_are_limited_by_the_number_of_hard_questions(search: Any, keyed_policy: Any) -> None:
    prompts: list[str] = []

    def reply(prompt: str) -> str:
        prompts.append(prompt)
        return f"<template>useless {len(prompts)}</template>"

    search(keyed_policy(4), reply, hard=4)
    assert len(prompts) == 4
    result = search(keyed_policy(4), reply, hard=4, calls_per_hard=2.5)
    assert len(prompts) == 4 + 10
    assert result.stopped == "the calls of this search are used up (p2o.calls_per_hard)"


def test_a_whole_epoch(policy: Any) -> None:
    engine = engine_of(
        LEARNER,
        algorithms="p2o,gepa",
        p2o={"overspend": "never", "search_budget": 200, "dev_size": DEV},
    )
    plan = engine.plan(sorted(policy.questions), 4)
    engine.observe([Rollout(assignment, "wrong", 0.0) for assignment in plan])
    engine.step_end(policy)
    engine.epoch_end(policy)
    assert engine.metrics()["coevo/search_rollouts"] == policy.rollouts > 0
    assert all(assignment.templated for assignment in engine.plan(sorted(policy.questions), 4))
