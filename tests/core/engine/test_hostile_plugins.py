"""Check that plugins which are oddly written, return nonsense or raise cost a run no data."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from prompt_coevo import (
    Candidate,
    Coevolution,
    MemberPlan,
    Method,
    Rollout,
    Section,
    Settings,
    hookimpl,
    hookspecs,
    registry,
)
from prompt_coevo.candidates.leaks import LeakGuard
from prompt_coevo.candidates.source import CandidateSource, ProposerUnavailable
from prompt_coevo.candidates.trials import Trial, verify
from prompt_coevo.engine.identity import RunIdentity
from prompt_coevo.errors import PluginError, SettingsError
from prompt_coevo.proposals import Proposal, ProposalRequest, Reply
from prompt_coevo.settings import setting_fields

Offer = Callable[[registry.Kind, str, Any], None]


def engine_of(**plugins: object) -> Coevolution:
    return Coevolution.from_settings(Settings(reflection={"function": str}), plugins=plugins)


def veto(engine: Coevolution) -> str | None:
    candidate = Candidate("Think.", "template")
    return engine.context.check(
        hookspecs.coevo_check_candidate,
        candidate=candidate,
        parents=(candidate,),
        reply=Reply("Think."),
        known=set(),
        leak_guard=LeakGuard(),
    )


def test_a_hook_may_be_a_function_of_another_name() -> None:
    class Odd:
        coevo_check_candidate = hookimpl(lambda self: 1 / 0)
        coevo_metrics = hookimpl(lambda self: {"odd": 1.0})

    engine = engine_of(odd=Odd())
    assert veto(engine) == "a gate raised ZeroDivisionError: division by zero"
    assert engine.metrics()["coevo/odd"] == 1.0


def test_a_hook_may_have_a_name_of_its_own() -> None:
    class Named:
        loaded: Any = None

        @hookimpl(specname="coevo_state")
        def remember(self) -> dict[str, int]:
            return {"a": 1}

        @hookimpl(specname="coevo_load_state")
        def recall(self, state: dict[str, int]) -> None:
            self.loaded = state

    named = Named()
    engine_of(named=named).load_state_dict(engine_of(named=Named()).state_dict())
    assert named.loaded == {"a": 1}


@pytest.mark.parametrize("odd", [{2: 1, 10: 1}, {1: 1, "a": 2}, {"a": (1, 2)}])
def test_a_state_is_saved_as_json_changes_it(odd: Any) -> None:
    class Odd:
        @hookimpl
        def coevo_state(self) -> Any:
            return {"odd": odd}

    state = json.loads(json.dumps(engine_of(odd=Odd()).state_dict()))
    engine_of(odd=Odd()).load_state_dict(state)


def test_nobody_changes_a_state_that_was_given_out() -> None:
    class Live:
        def __init__(self) -> None:
            self.numbers: list[int] = []

        @hookimpl
        def coevo_state(self) -> Any:
            return {"numbers": self.numbers}

        @hookimpl
        def coevo_on_state_saved(self, state: Any) -> None:
            state["plugins"].clear()

    live = Live()
    state = engine_of(live=live).state_dict()
    live.numbers.append(1)
    engine_of(live=Live()).load_state_dict(state)


@pytest.mark.parametrize("answer", [{"a": None}, {"a": "x"}, [1], {"a": 10**400}])
def test_metrics_that_are_no_numbers_are_left_out(answer: Any) -> None:
    class Odd:
        @hookimpl
        def coevo_metrics(self) -> Any:
            return answer

    assert "coevo/hard_samples" in engine_of(odd=Odd()).metrics()


@pytest.mark.parametrize("kind", ["wrapper", "hookwrapper"])
def test_a_hook_wrapper_is_refused(kind: str) -> None:
    class Odd:
        @hookimpl(**{kind: True})  # type: ignore[call-overload]
        def coevo_observe(self, groups: Any) -> Any:
            yield

    with pytest.raises(
        PluginError, match="'odd' cannot be registered: coevo_observe is a hook wrapper"
    ):
        engine_of(odd=Odd())


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([None, None], "a list that is not a sequence of MemberPlan"),
        (2, "a int that is not a sequence of MemberPlan"),
        ([MemberPlan()], "returned 1 plans for a group of 2"),
        (
            [MemberPlan(template=Candidate("I", "instruction"))] * 2,
            "gives as template a candidate of",
        ),
        (
            [MemberPlan(instruction=Candidate("T", "template"))] * 2,
            "gives as instruction a candidate",
        ),
    ],
)
def test_a_plan_of_another_shape_is_refused(answer: Any, message: str) -> None:
    class Odd:
        @hookimpl
        def coevo_plan_group(self) -> Any:
            return answer

    with pytest.raises(PluginError, match=message):
        engine_of(odd=Odd()).plan(["q"], 2)


def test_a_property_is_not_looked_at() -> None:
    class Odd:
        @property
        def expensive(self) -> None:
            raise RuntimeError("nobody asked")

        @hookimpl
        def coevo_observe(self) -> None: ...

    engine = engine_of(odd=Odd())
    engine.observe([Rollout(one, "", 0.0) for one in engine.plan(["q"], 2)])


@pytest.mark.parametrize("answer", [True, [], [True, True]])
def test_a_verdict_of_another_shape_lets_nobody_join(answer: Any) -> None:
    class Odd:
        @hookimpl
        def coevo_verify(self) -> Any:
            return answer

    engine = engine_of(odd=Odd())
    one = Candidate("a", "template")
    assert verify(engine.context, "p2o", [Trial(one, one, (), (), ())]) == [False]


@pytest.mark.parametrize("count", [0, 2])
def test_another_number_of_proposals_is_no_answer(count: int) -> None:
    """Checks candidates requested synchronously and in the background."""
    parent = Candidate("a", "template")
    request = ProposalRequest("template", (parent,), ())
    proposals = [Proposal(request, ("b",), Reply("b", "stop"))] * count

    class Odd:
        @hookimpl
        def coevo_propose(self) -> Any:
            return proposals

    source = CandidateSource(engine_of(odd=Odd()).context, LeakGuard())
    for ask in (
        lambda: source.ask([request], set()),
        lambda: source.judge([request], proposals, set()),
    ):
        with pytest.raises(ProposerUnavailable, match=f"1 requests with {count} proposals"):
            ask()


# Methods


class Strength(Section):
    strength: float = 1.0
    """How much."""


def test_two_methods_have_two_sections(offer: Offer) -> None:
    offer("methods", "mine", Method("mine", plugin=object, section=Strength))
    offer("methods", "other", Method("other", plugin=object, section=Strength))
    assert Settings(algorithms="mine").section(Strength).strength == 1.0
    with pytest.raises(SettingsError, match="several have the section Strength; give each"):
        Settings(algorithms="mine,other")


@pytest.mark.parametrize("name", ["seed", "plugins", "section", "model_dump", "_x"])
def test_a_method_may_have_any_name(offer: Offer, name: str) -> None:
    offer("methods", name, Method(name, plugin=object, section=Strength))
    settings = Settings(seed=3, algorithms=name, plugins={name: {"strength": 2.0}})
    assert (settings.seed, settings.section(Strength).strength) == (3, 2.0)
    identity = RunIdentity.of(settings, None, "a host")
    assert (identity.meaning["seed"], identity.meaning[f"plugins.{name}.strength"]) == (3, 2.0)


def test_a_method_calls_itself_by_its_name(offer: Offer) -> None:
    offer("methods", "mine", Method("other", plugin=object, section=Strength))
    with pytest.raises(PluginError, match="calls itself 'other'; register it under that name"):
        Settings(algorithms="mine")


def test_a_method_that_is_none_harms_nobody_else(
    offer: Offer, caplog: pytest.LogCaptureFixture
) -> None:
    offer("methods", "broken", object())
    assert Settings().algorithms == ("stream",)
    assert "stream.tau" in dict(setting_fields())
    assert "the method 'broken' cannot be used" in caplog.text
    with pytest.raises(PluginError, match="broken"):
        Settings(algorithms="broken")


def test_settings_of_a_method_stand_in_one_place() -> None:
    function = {"function": str}
    with pytest.raises(
        SettingsError, match="plugins.stream sets nothing: the settings of the method"
    ):
        Coevolution.from_settings(Settings(reflection=function, plugins={"stream": {"tau": 0.1}}))
