"""Check every hook through the engine, with one plugin that implements them all."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.searches import SMALL_SEARCH
from prompt_coevo import Coevolution, Settings, hookimpl, hookspecs
from prompt_coevo.candidates.leaks import LeakGuard
from prompt_coevo.candidates.searches import SearchResult
from prompt_coevo.candidates.trials import ScoredPool
from prompt_coevo.engine.state import plugin_states
from prompt_coevo.proposals import Proposal, Reply
from prompt_coevo.types import EMPTY_TEMPLATE, Candidate, PolicyVersion, Rollout

P2O = SMALL_SEARCH


class Everything:
    """Implement every hook that takes part in a P2O run, and count the calls."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.seen: dict[str, Any] = {}

    def _count(self, name: str, **arguments: Any) -> None:
        self.calls[name] += 1
        self.seen[name] = arguments

    def propose(self, requests: Any) -> list[Proposal]:
        self._count("propose")
        return [Proposal(request, ("k0 k1 k2 k3 k4",), Reply("…", "stop")) for request in requests]

    @hookimpl
    def coevo_check_candidate(
        self, candidate: Any, parents: Any, reply: Any, known: Any, leak_guard: LeakGuard
    ) -> None:
        self._count("check_candidate", leak=leak_guard.find("answer 3"), known=known)

    @hookimpl
    def coevo_verify(self, algorithm: str, trials: Any) -> list[bool]:
        self._count("verify", algorithm=algorithm)
        return [True for _ in trials]

    @hookimpl
    def coevo_after_candidate_checked(self, candidate: Any, proposal: Any, reason: Any) -> None:
        self._count("after_candidate_checked", reason=reason)

    @hookimpl
    def coevo_after_candidate_verified(self, trial: Any, accepted: bool) -> None:
        self._count("after_candidate_verified", gain=trial.gain, accepted=accepted)

    @hookimpl
    def coevo_after_population_changed(self, population: Any, added: Any, removed: Any) -> None:
        self._count("after_population_changed", population=population)

    @hookimpl
    def coevo_after_templates_assigned(self, cover: Any, result: SearchResult) -> None:
        self._count("after_templates_assigned", cover=cover, result=result)

    @hookimpl
    def coevo_on_state_saved(self, state: dict[str, Any]) -> None:
        self._count("on_state_saved", state=state)


def run_an_epoch(engine: Coevolution, policy: Any) -> None:
    engine.observe([Rollout(a, "", 0.0) for a in engine.plan(sorted(policy.questions), 2)])
    engine.step_end(policy)
    engine.epoch_end(policy)
    engine.state_dict()


def test_a_plugin_can_do_everything(keyed_policy: Any, tmp_path: Path, offer: Any) -> None:
    plugin = Everything()
    offer("proposers", "mine", lambda context: plugin)
    engine = Coevolution.from_settings(
        Settings(algorithms="p2o", p2o={**P2O, "proposer": "mine"}),
        output_dir=tmp_path,
        plugins={"everything": plugin},
    )
    run_an_epoch(engine, keyed_policy(12, families=5))
    assert plugin.seen["verify"] == {"algorithm": "p2o"}
    assert plugin.seen["check_candidate"]["leak"] is None
    assert plugin.seen["after_candidate_verified"] == {"gain": 1.0, "accepted": True}
    assert [c.text for c in plugin.seen["after_templates_assigned"]["cover"].templates] == [
        "k0 k1 k2 k3 k4"
    ]
    assert plugin_states(plugin.seen["on_state_saved"]["state"])["p2o"]["searches"] == 1
    assert plugin.calls["propose"] > 0
    assert plugin.calls["after_candidate_checked"] > 0


def test_events_of_a_population_reach_the_listeners_and_the_journal(tmp_path: Path) -> None:
    plugin = Everything()
    engine = Coevolution.from_settings(
        Settings(reflection={"function": str}), output_dir=tmp_path, plugins={"everything": plugin}
    )
    new = Candidate("Think.", "instruction")
    engine.context.notify(
        hookspecs.coevo_after_population_changed, population=[new], added=[new], removed=[]
    )
    assert plugin.seen["after_population_changed"]["population"] == [new]
    (line,) = (tmp_path / "coevo" / "events.jsonl").read_text().splitlines()
    assert json.loads(line)["added"][0]["text"] == "Think."


class OtherSearch:
    """Find templates without Algorithm 3, and propose none."""

    @hookimpl
    def coevo_search(self, request: Any) -> SearchResult:
        dev = request.hard_ids[:2]
        template = Candidate("k0 k1 k2 k3 k4", "template")
        pool = ScoredPool(
            (EMPTY_TEMPLATE, template), dev, np.array([[0.0, 0], [1, 1]]), PolicyVersion()
        )
        return SearchResult(pool, "found at once", rollouts=4)


def test_another_search_takes_the_place_of_algorithm_3(make_engine: Any, policy: Any) -> None:
    engine = make_engine(plugins={"other": OtherSearch()}, p2o={"overspend": "never"})
    run_an_epoch(engine, policy)
    plan = engine.plan(["q1"], 2)
    assert {a.template.text for a in plan} == {"k0 k1 k2 k3 k4"}
    assert policy.batches == []
    assert engine.metrics()["coevo/search_rollouts"] == 4


@pytest.mark.parametrize("answer", [None, RuntimeError("no idea")])
def test_a_proposer_that_does_not_answer_ends_the_search(
    make_engine: Any, policy: Any, answer: Exception | None, tmp_path: Path
) -> None:
    class Silent:
        @hookimpl(tryfirst=True)
        def coevo_propose(self, requests: Any) -> Any:
            if answer is not None:
                raise answer

    engine = make_engine(
        lambda prompt: "<template>k0 k1 k2 k3 k4</template>",
        tmp_path,
        {"silent": Silent()},
        p2o=P2O,
    )
    run_an_epoch(engine, policy)  # the built-in proposer answers in its place
    events = [
        json.loads(line) for line in (tmp_path / "coevo/events.jsonl").read_text().splitlines()
    ]
    assert any(event["event"] == "templates_assigned" for event in events)
    assert any(event["event"] == "plugin_error" for event in events) == (answer is not None)


def test_the_answers_have_the_names_of_their_plugins_in_the_order_of_asking() -> None:
    class Answers:
        def __init__(self, answer: Any) -> None:
            self.answer = answer

        @hookimpl
        def coevo_state(self) -> Any:
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

    class Early(Answers):
        @hookimpl(tryfirst=True)
        def coevo_state(self) -> Any:
            return self.answer

    given = {"early": Early(0), "one": Answers(1), "none": Answers(None), "two": Answers(2)}
    engine = Coevolution.from_settings(
        Settings(algorithms=()), plugins={**given, "bad": Answers(RuntimeError("not today"))}
    )
    plugins = engine.context.plugins
    assert list(plugins.by_plugin(hookspecs.coevo_state).items()) == [
        ("early", 0),
        ("two", 2),
        ("one", 1),
    ]
    assert plugins.first(hookspecs.coevo_state) == 0
    with pytest.raises(RuntimeError, match="not today"):
        plugins.only("bad", hookspecs.coevo_state)


class Curriculum:
    """A user's algorithm whose instruction grows with training."""

    def __init__(self) -> None:
        self.policies: list[Any] = []

    @hookimpl
    def coevo_train_begin(self, policy: Any) -> None:
        self.policies.append(policy)

    @hookimpl
    def coevo_train_end(self, policy: Any) -> None:
        self.policies.remove(policy)

    @hookimpl
    def coevo_best_instruction(self) -> Candidate:
        return Candidate("Think " * len(self.policies), "instruction")

    @hookimpl
    def coevo_evaluation_instruction(self) -> Candidate:
        return Candidate("Answer.", "instruction")


def test_another_algorithm_gives_the_instructions(make_engine: Any, policy: Any) -> None:
    plugin = Curriculum()
    engine = make_engine(plugins={"curriculum": plugin}, p2o=P2O)
    engine.begin(policy)
    assert plugin.policies == [policy]
    assert engine.evaluation_instruction() == Candidate("Answer.", "instruction")
    run_an_epoch(engine, policy)
    searched = [request.assignment for batch in policy.batches for request in batch]
    assert {assignment.instruction.text for assignment in searched} == {"Think "}
    engine.end(policy)
    assert plugin.policies == []


def test_nobody_gives_an_instruction(make_engine: Any, policy: Any) -> None:
    engine = make_engine(p2o=P2O)
    engine.begin(policy)
    assert engine.evaluation_instruction() is None
    run_an_epoch(engine, policy)
    assert {r.assignment.instruction for batch in policy.batches for r in batch} == {None}


def test_a_plugin_that_raises_when_training_begins_does_no_harm(
    make_engine: Any, policy: Any
) -> None:
    class Broken:
        @hookimpl
        def coevo_train_begin(self, policy: Any) -> None:
            raise RuntimeError("not today")

    plugin = Curriculum()
    make_engine(plugins={"broken": Broken(), "curriculum": plugin}).begin(policy)
    assert plugin.policies == [policy]
