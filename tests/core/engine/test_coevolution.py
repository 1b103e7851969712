"""Check an adapter's calls, the state, and what plugins may do to them."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from prompt_coevo import Coevolution, Settings, hookimpl, hookspecs
from prompt_coevo.engine.state import plugin_states
from prompt_coevo.errors import HostError, PluginError, SettingsError, StateError
from prompt_coevo.types import Assignment, Candidate, MemberPlan, OfRound, Rollout

INSTRUCTION = Candidate("Think.", "instruction")


class Idle:
    """Takes part and does nothing."""

    @hookimpl
    def coevo_observe(self) -> None: ...


@pytest.fixture
def bare() -> Coevolution:
    return Coevolution.from_settings(Settings(algorithms=()), plugins={"idle": Idle()})


def test_without_an_algorithm_nothing_is_placed(bare: Coevolution) -> None:
    plan = bare.plan(["a", "b"], 3)
    assert [(a.question_id, a.group, a.member) for a in plan] == [
        ("a", 0, 0), ("a", 0, 1), ("a", 0, 2), ("b", 1, 0), ("b", 1, 1), ("b", 1, 2),
    ]  # fmt: skip
    assert {a.rollout_prompt("x") for a in plan} == {"x"}
    bare.observe([Rollout(a, "", 1.0) for a in plan])
    assert bare.metrics() == {}


def test_rounds_are_counted(bare: Coevolution) -> None:
    assert [bare.plan(["a"], 1)[0].round for _ in range(3)] == [0, 1, 2]


def test_rounds_may_come_back_late_and_in_any_order(bare: Coevolution) -> None:
    plans = [bare.plan(["a"], 2) for _ in range(3)]
    for plan in reversed(plans):
        bare.observe([Rollout(a, "", 1.0) for a in plan])


def test_an_assignment_that_travelled_as_json_is_recognised(bare: Coevolution) -> None:
    plan = [Assignment.from_json(json.loads(json.dumps(a.to_json()))) for a in bare.plan(["a"], 2)]
    bare.observe([Rollout(a, "", 1.0) for a in plan])


@pytest.mark.parametrize(
    "change", [{"question_id": "b"}, {"member": 5}, {"round": 9}, {"instruction": INSTRUCTION}]
)
def test_an_assignment_that_was_never_planned_is_refused(
    bare: Coevolution, change: dict[str, Any]
) -> None:
    plan = bare.plan(["a"], 2)
    with pytest.raises(HostError, match="never planned"):
        bare.observe([Rollout(replace(plan[0], **change), "", 1.0)])


def test_a_round_cannot_be_observed_twice(bare: Coevolution) -> None:
    rollouts = [Rollout(a, "", 1.0) for a in bare.plan(["a"], 2)]
    bare.observe(rollouts)
    with pytest.raises(HostError, match="never planned"):
        bare.observe(rollouts)


class Instructor:
    """A third-party plugin that gives every question one instruction and records its calls."""

    def __init__(self) -> None:
        self.groups: list[Any] = []
        self.calls: list[str] = []
        self.loaded: Any = None

    @hookimpl
    def coevo_plan_group(self, question_id: str, group_size: int) -> list[MemberPlan] | None:
        return [MemberPlan(instruction=INSTRUCTION)] * group_size if question_id == "a" else None

    @hookimpl
    def coevo_observe(self, groups: Any) -> None:
        self.groups += groups

    @hookimpl
    def coevo_step_end(self) -> None:
        self.calls.append("step")

    @hookimpl
    def coevo_epoch_end(self) -> None:
        self.calls.append("epoch")

    @hookimpl
    def coevo_state(self) -> dict[str, Any]:
        return {"seen": len(self.groups)}

    @hookimpl
    def coevo_load_state(self, state: dict[str, Any]) -> None:
        self.loaded = state["seen"]

    @hookimpl
    def coevo_metrics(self) -> dict[str, float]:
        return {"seen": float(len(self.groups))}


def with_plugins(
    settings: Settings | None = None, output_dir: Path | None = None, **plugins: object
) -> Coevolution:
    return Coevolution.from_settings(
        settings or Settings(algorithms=()),
        output_dir=output_dir,
        plugins=plugins or {"idle": Idle()},
    )


def test_a_strangers_plugin_takes_part(policy: Any) -> None:
    plugin = Instructor()
    engine = with_plugins(mine=plugin)
    plan = engine.plan(["a", "b"], 2)
    assert [a.instruction for a in plan] == [INSTRUCTION, INSTRUCTION, None, None]
    engine.observe([Rollout(a, "", float(a.member)) for a in plan])
    assert [(group.question_id, group.mean_reward) for group in plugin.groups] == [
        ("a", 0.5),
        ("b", 0.5),
    ]
    engine.step_end(policy)
    engine.epoch_end(policy)
    assert plugin.calls == ["step", "epoch"]
    assert engine.metrics() == {"coevo/seen": 2.0}


def test_state_goes_to_the_plugin_it_came_from() -> None:
    plugin, other = Instructor(), Instructor()
    engine = with_plugins(mine=plugin)
    engine.observe([Rollout(a, "", 1.0) for a in engine.plan(["a"], 1)])
    state = engine.state_dict()
    resumed = with_plugins(mine=other)
    resumed.load_state_dict(state)
    assert other.loaded == 1
    assert resumed.plan(["a"], 1)[0].round == 1


def test_a_resumed_run_is_another_attempt(policy: Any) -> None:
    engine = with_plugins()
    engine.step_end(policy)
    assert engine.policy_version == (0, 1)
    resumed = with_plugins()
    resumed.load_state_dict(engine.state_dict())
    assert resumed.policy_version == (1, 1)


def test_a_killed_attempt_is_not_reused(tmp_path: Path) -> None:
    def start() -> Coevolution:
        return with_plugins(output_dir=tmp_path)

    state = start().state_dict()
    killed = start()
    killed.load_state_dict(state)
    killed.context.note("something")
    resumed = start()
    resumed.load_state_dict(state)
    assert resumed.policy_version.attempt > killed.policy_version.attempt


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 99}, "has state schema 99, this version of prompt_coevo reads schema 3"),
        ({"round": 5}, "damaged: its checksum is wrong"),
        ({"checksum": "x"}, "damaged: its checksum is wrong"),
    ],
)
def test_a_state_that_does_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    state = {**with_plugins().state_dict(), **change}
    with pytest.raises(StateError, match=message):
        with_plugins().load_state_dict(state, "checkpoint-8/coevo_state.json")


def test_something_else_than_a_state_is_refused() -> None:
    with pytest.raises(StateError, match="is not a prompt_coevo state"):
        with_plugins().load_state_dict({"model": 1})


def test_state_of_a_plugin_that_is_missing_is_refused() -> None:
    state = with_plugins(mine=Instructor()).state_dict()
    told = """holds the state of 'mine', which is not active .* resume = "force" """
    with pytest.raises(StateError, match=told):
        with_plugins().load_state_dict(state)


def test_a_plugin_that_cannot_read_its_state_is_named() -> None:
    class Other(Instructor):
        @hookimpl
        def coevo_state(self) -> dict[str, Any]:
            return {}

    state = with_plugins(mine=Other()).state_dict()
    with pytest.raises(StateError, match="state of 'mine' that it cannot read"):
        with_plugins(mine=Instructor()).load_state_dict(state)


class Broken:
    """Raise in every hook that it can."""

    @hookimpl
    def coevo_plan_group(self) -> None:
        raise RuntimeError("plan")

    @hookimpl
    def coevo_observe(self) -> None:
        raise RuntimeError("observe")

    @hookimpl
    def coevo_step_end(self) -> None:
        raise RuntimeError("step")

    @hookimpl
    def coevo_metrics(self) -> None:
        raise RuntimeError("metrics")

    @hookimpl
    def coevo_state(self) -> None:
        raise RuntimeError("state")

    @hookimpl
    def coevo_on_state_saved(self) -> None:
        raise RuntimeError("saved")


@pytest.mark.parametrize("error", [RuntimeError("size mismatch"), OSError(), AssertionError()])
def test_a_plugin_that_refuses_its_state_in_whatever_way_is_named(error: Exception) -> None:
    class Picky:
        @hookimpl
        def coevo_state(self) -> dict[str, int]:
            return {"a": 1}

        @hookimpl
        def coevo_load_state(self, state: Any) -> None:
            raise error

    settings = Settings(algorithms=())
    state = Coevolution.from_settings(settings, plugins={"picky": Picky()}).state_dict()
    again = Coevolution.from_settings(settings, plugins={"picky": Picky()})
    with pytest.raises(StateError, match="holds a state of 'picky' that it cannot read"):
        again.load_state_dict(state)


def test_a_plugin_that_raises_is_reported_and_passed_over(tmp_path: Path, policy: Any) -> None:
    good = Instructor()
    engine = Coevolution.from_settings(
        Settings(algorithms=()), output_dir=tmp_path, plugins={"good": good, "broken": Broken()}
    )
    plan = engine.plan(["a"], 1)
    assert plan[0].instruction == INSTRUCTION
    engine.observe([Rollout(a, "", 1.0) for a in plan])
    engine.step_end(policy)
    assert engine.metrics() == {"coevo/seen": 1.0}
    assert plugin_states(engine.state_dict()) == {"good": {"seen": 1}}
    errors = [
        (event["plugin"], event["hook"])
        for line in (tmp_path / "coevo" / "events.jsonl").read_text().splitlines()
        if (event := json.loads(line))["event"] == "plugin_error"
    ]
    assert ("broken", "coevo_observe") in errors
    assert ("broken", "coevo_on_state_saved") in errors


class Careless:
    """Answer with values that cannot be logged or written."""

    @hookimpl
    def coevo_metrics(self) -> dict[str, float]:
        return {"good": 1, "bad": math.nan}

    @hookimpl
    def coevo_state(self) -> dict[str, Any]:
        return {"bad": {1, 2}}


def test_a_careless_plugin_costs_neither_logs_nor_checkpoint() -> None:
    engine = with_plugins(careless=Careless(), good=Instructor())
    assert engine.metrics() == {"coevo/good": 1.0, "coevo/seen": 0.0}
    assert plugin_states(engine.state_dict()) == {"good": {"seen": 0}}


def test_the_wrong_number_of_templates_is_an_error() -> None:
    class Short:
        @hookimpl
        def coevo_plan_group(self) -> list[MemberPlan]:
            return []

    with pytest.raises(PluginError, match="'short' returned 0 plans for a group of 3"):
        with_plugins(short=Short()).plan(["a"], 3)


def test_a_plugin_may_be_a_dataclass_which_cannot_be_hashed() -> None:
    @dataclass
    class Sums:
        rollouts: int = 0

        @hookimpl
        def coevo_observe(self, groups: Any) -> None:
            self.rollouts += sum(len(group.rollouts) for group in groups)

    sums = Sums()
    engine = with_plugins(sums=sums)
    engine.observe([Rollout(a, "", 1.0) for a in engine.plan(["a"], 3)])
    assert sums.rollouts == 3


def test_a_misspelt_hook_is_an_error() -> None:
    class Misspelt:
        @hookimpl
        def coevo_obserb(self) -> None: ...

    with pytest.raises(PluginError, match=r"'misspelt' cannot be registered.*coevo_obserb"):
        with_plugins(misspelt=Misspelt())


def test_a_hook_with_an_unknown_argument_is_an_error() -> None:
    class Greedy:
        @hookimpl
        def coevo_observe(self, everything: Any) -> None: ...

    with pytest.raises(PluginError, match="everything"):
        with_plugins(greedy=Greedy())


def test_names_that_do_not_exist_name_the_known_ones() -> None:
    with pytest.raises(SettingsError, match="'p3o': there is no such method; did you mean p2o"):
        Settings(algorithms=("p3o",))
    with pytest.raises(
        SettingsError,
        match="proposer = 'oracle': there is no such proposer; known: history",
    ):
        with_plugins(Settings(reflection={"function": len}, stream={"proposer": "oracle"}))


def test_a_gate_of_a_plugin_can_veto_and_one_that_raises_does(make_engine: Any) -> None:
    class Gate:
        @hookimpl
        def coevo_check_candidate(self, candidate: Candidate) -> str | None:
            if candidate.text == "boom":
                raise RuntimeError("oops")
            return "too loud" if candidate.text.isupper() else None

    engine = make_engine(plugins={"gate": Gate()})

    def veto(text: str) -> str | None:
        found: str | None = engine.context.check(
            hookspecs.coevo_check_candidate,
            candidate=Candidate(text, "template"),
            parents=(INSTRUCTION,),
            reply=type("Reply", (), {"finish_reason": "stop"}),
            known=set(),
            leak_guard=None,
        )
        return found

    assert veto("quiet") is None
    assert veto("LOUD") == "too loud"
    assert veto("boom") == "a gate raised RuntimeError: oops"
    assert veto("") == "it is empty"


def test_the_readable_state_is_the_checkpoints(tmp_path: Path, policy: Any) -> None:
    engine = with_plugins(output_dir=tmp_path)
    state = engine.state_dict()
    assert json.loads((tmp_path / "coevo" / "state.json").read_text()) == state


def test_metrics_are_numbers(make_engine: Any, policy: Any) -> None:
    metrics = make_engine().metrics()
    assert metrics["coevo/reflection_calls"] == 0
    assert all(isinstance(value, float) and math.isfinite(value) for value in metrics.values())


def test_an_unwritable_output_directory_shows_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "coevo").write_text("a file where a folder should be")
    with pytest.raises(SettingsError, match="cannot be written to"):
        with_plugins(output_dir=tmp_path)


def test_metrics_are_plain_numbers_that_every_writer_of_json_takes() -> None:
    class Counts:
        @hookimpl
        def coevo_metrics(self) -> dict[str, float]:
            return {"total": 3.0, "share": OfRound(0.5)}

    engine = Coevolution.from_settings(Settings(algorithms=()), plugins={"counts": Counts()})
    metrics = engine.metrics()
    assert {type(value) for value in metrics.values()} == {float}
    assert engine.metrics_of_round == {"coevo/share"}
