"""Check that input from trainers and plugins is validated, ordered, and never assumed to be JSON."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.searches import SMALL_SEARCH
from prompt_coevo import Coevolution, Rollout, Settings, hookimpl
from prompt_coevo.algorithms.inspo.population import Population
from prompt_coevo.candidates.evaluation import Evaluator
from prompt_coevo.engine.state import plugin_states
from prompt_coevo.errors import HostError, StateError
from prompt_coevo.placement import Placement
from prompt_coevo.types import Candidate, Group, Sampling

P2O = SMALL_SEARCH


class Watcher:
    def __init__(self) -> None:
        self.groups: list[Group] = []
        self.covers: list[Any] = []

    @hookimpl
    def coevo_observe(self, groups: Any) -> None:
        self.groups += groups

    @hookimpl
    def coevo_after_templates_assigned(self, cover: Any, result: Any) -> None:
        self.covers.append((cover, result))


@pytest.fixture
def watched() -> tuple[Coevolution, Watcher]:
    watcher = Watcher()
    engine = Coevolution.from_settings(Settings(algorithms=()), plugins={"watcher": watcher})
    return engine, watcher


def test_a_group_may_come_back_in_parts(watched: tuple[Coevolution, Watcher]) -> None:
    engine, watcher = watched
    plan = engine.plan(["a", "b"], 3)
    engine.observe([Rollout(plan[4], "", 1.0), Rollout(plan[0], "", 1.0)])
    assert watcher.groups == []
    engine.observe([Rollout(plan[2], "", 0.0), Rollout(plan[1], "", 0.0)])
    (group,) = watcher.groups
    assert [one.assignment.member for one in group.rollouts] == [0, 1, 2]
    engine.observe([Rollout(plan[5], "", 0.0), Rollout(plan[3], "", 0.0)])
    assert [one.question_id for one in watcher.groups] == ["a", "b"]


def test_a_rollout_comes_once(watched: tuple[Coevolution, Watcher]) -> None:
    engine, _ = watched
    plan = engine.plan(["a"], 2)
    engine.observe([Rollout(plan[0], "", 1.0)])
    with pytest.raises(HostError, match="the rollout 0 of question 'a' in round 0 came back twice"):
        engine.observe([Rollout(plan[0], "", 1.0)])


def test_the_order_of_rollouts_decides_nothing() -> None:
    """Plain sums differ in the last bit: .3 + .2 + .1 is below .6, .1 + .2 + .3 is above it."""

    def hard(rewards: list[float]) -> list[str]:
        engine = Coevolution.from_settings(
            Settings(algorithms="p2o", p2o=P2O, reflection={"function": str})
        )
        plan = engine.plan(["q"], 3)
        engine.observe([Rollout(a, "", r) for a, r in zip(plan, rewards, strict=True)])
        return list(plugin_states(engine.state_dict())["p2o"]["hard"])

    assert hard([0.3, 0.2, 0.1]) == hard([0.1, 0.2, 0.3])


def test_shuffled_rollouts_give_the_same_groups(watched: tuple[Coevolution, Watcher]) -> None:
    engine, watcher = watched
    shuffler = random.Random(0)
    for _ in range(2):
        rollouts = [Rollout(a, "", a.member / 4) for a in engine.plan(["a", "b", "c"], 4)]
        shuffler.shuffle(rollouts)
        engine.observe(rollouts)
    first, second = watcher.groups[:3], watcher.groups[3:]
    assert [(g.question_id, [r.reward for r in g.rollouts]) for g in first] == [
        (g.question_id, [r.reward for r in g.rollouts]) for g in second
    ]
    assert [group.question_id for group in first] == ["a", "b", "c"]


@pytest.mark.parametrize("mix_up", [lambda r: r[::-1], lambda r: r[:-1], lambda r: r + r[:1]])
def test_answers_of_the_policy_in_another_order_are_refused(policy: Any, mix_up: Any) -> None:
    class Mixed:
        def rollout(self, requests: Any) -> Any:
            return mix_up(policy.rollout(requests))

    evaluator = Evaluator(Mixed(), Placement())  # type: ignore[arg-type]
    jobs = [(Candidate("k1", "template"), name) for name in ("q1", "q2", "q3")]
    with pytest.raises(HostError, match=r"policy\.rollout answered 3 requests with . rollouts"):
        evaluator.evaluate(jobs, Sampling())


@pytest.mark.parametrize("algorithm", ["p2o", "stream", "inspo"])
def test_rewards_of_another_type_reach_the_checkpoint(algorithm: str, policy: Any) -> None:
    settings = Settings(
        algorithms=algorithm,
        reflection={"function": str},
        **({"inspo": {"instruction": "I", "paraphrase": False}} if algorithm == "inspo" else {}),
    )
    engine = Coevolution.from_settings(settings)
    engine.begin(policy)
    for number_type in (np.float32, np.float64, np.int64, int, bool):
        plan = engine.plan(["q1", "q2"], 2)
        engine.observe([Rollout(a, "", number_type(0)) for a in plan])
    state = json.loads(json.dumps(engine.state_dict()))
    assert list(plugin_states(state)) == [algorithm, "journal"]
    Coevolution.from_settings(settings).load_state_dict(state)


def test_a_checkpoint_without_a_methods_state_is_refused() -> None:
    class Unwritable:
        @hookimpl
        def coevo_state(self) -> Any:
            return {"a": object()}

    values: dict[str, Any] = {"algorithms": "p2o", "p2o": P2O, "reflection": {"function": str}}
    state = Coevolution.from_settings(
        Settings(algorithms=()), plugins={"broken": Unwritable()}
    ).state_dict()
    told = """holds no state of 'p2o', which would start anew .* resume = "force" """
    with pytest.raises(StateError, match=told):
        Coevolution.from_settings(Settings(**values)).load_state_dict(state)


def test_two_plugins_metrics_of_one_name_do_not_collide_silently(tmp_path: Path) -> None:
    class Counter:
        def __init__(self, value: float) -> None:
            self.value = value

        @hookimpl
        def coevo_metrics(self) -> dict[str, float]:
            return {"count": self.value}

    engine = Coevolution.from_settings(
        Settings(algorithms=()),
        output_dir=tmp_path,
        plugins={"one": Counter(1.0), "two": Counter(2.0)},
    )
    assert engine.metrics() == engine.metrics() == {"coevo/count": 2.0}
    events = (tmp_path / "coevo" / "events.jsonl").read_text().splitlines()
    (event,) = (json.loads(line) for line in events)
    assert (event["event"], event["metric"], event["plugin"]) == ("metric_collides", "count", "one")


def train(engine: Coevolution, policy: Any) -> None:
    engine.observe([Rollout(a, "", 0.0) for a in engine.plan(sorted(policy.questions), 2)])
    engine.step_end(policy)


def test_a_hard_question_whose_row_is_gone_is_dropped(
    make_engine: Any, keyed_policy: Any, tmp_path: Path
) -> None:
    engine = make_engine(lambda _: "<template>k0 k1 k2</template>", tmp_path, p2o=P2O)
    train(engine, keyed_policy(12))
    smaller = keyed_policy(9)
    smaller.families = 3
    for _ in range(2):
        engine.epoch_end(smaller)
    assert engine.metrics()["coevo/cover_templates"] > 0
    events = [
        json.loads(line) for line in (tmp_path / "coevo/events.jsonl").read_text().splitlines()
    ]
    gone = [event["questions"] for event in events if event["event"] == "hard_questions_gone"]
    assert gone == [["q10", "q11", "q9"]]
    assert not [event for event in events if event["event"] in ("plugin_error", "search_failed")]


def test_listeners_hear_that_templates_are_gone(make_engine: Any, keyed_policy: Any) -> None:
    watcher = Watcher()
    policy = keyed_policy(12, families=3)
    engine = make_engine(
        lambda _: "<template>k0 k1 k2</template>",
        plugins={"watcher": watcher},
        p2o={**P2O, "min_hard": 12},
    )
    train(engine, policy)
    engine.epoch_end(policy)
    plan = engine.plan(sorted(policy.questions), 2)
    engine.observe([Rollout(a, "", 1.0) for a in plan])
    engine.epoch_end(policy)
    (found, result), last = watcher.covers
    assert found is not None
    assert result is not None
    assert last == (None, None)


def test_with_negative_rewards_an_unmeasured_instruction_is_no_parent() -> None:
    seen, unseen = Candidate("seen", "instruction"), Candidate("unseen", "instruction")
    population = Population([unseen, seen])
    population.observe({seen.id: -0.5})
    assert population.parents() == [seen]


def test_a_changed_assignment_is_refused(watched: tuple[Coevolution, Watcher]) -> None:
    engine, _ = watched
    plan = engine.plan(["a"], 2)
    with pytest.raises(HostError, match="never planned"):
        engine.observe([Rollout(replace(plan[0], question_id="b"), "", 1.0)])
