"""Check third-party methods, plugins and components: chosen by name, called in order, or refused."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
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
    registry,
)
from prompt_coevo.adapters.common.flags import Flags, help_text
from prompt_coevo.engine.identity import RunIdentity
from prompt_coevo.errors import DatasetError, PluginError, SettingsError
from prompt_coevo.placement import Placement
from prompt_coevo.proposals import Reply
from prompt_coevo.settings.method import Cost, may_distill
from prompt_coevo.settings.reflection import ReflectionSettings
from prompt_coevo.testing.scripted_world import ScriptedPolicy

Offer = Callable[[registry.Kind, str, Any], None]


class LoudSettings(Section):
    volume: int = 1
    """How many exclamation marks."""
    places: int = 2
    """How many members of a group."""


class Loud:
    """Give every member another instruction, and some a template with its own placement."""

    def __init__(self, context: Any) -> None:
        self.settings = context.settings.section(LoudSettings)
        self.state = {"seen": 0}

    @hookimpl
    def coevo_plan_group(self, question_id: str, group_size: int) -> Sequence[MemberPlan]:
        marks = "!" * self.settings.volume
        return [
            MemberPlan(
                instruction=Candidate(f"{question_id} {member}{marks}", "instruction"),
                template=Candidate("psst", "template") if member < self.settings.places else None,
                distill=member == 0,
                placement=Placement(template_layout="{{question}} {{template}}"),
            )
            for member in range(group_size)
        ]

    @hookimpl
    def coevo_state(self) -> dict[str, int]:
        return self.state


LOUD = Method(
    "loud",
    plugin=Loud,
    section=LoudSettings,
    provides=frozenset({"instruction", "template"}),
    may_distill=True,
    estimate=lambda section, workload: Cost("each step", section.volume, 0),
)


@pytest.fixture
def loud(offer: Offer) -> None:
    offer("methods", "loud", LOUD)


@pytest.fixture
def module() -> Iterator[ModuleType]:
    """Register an importable third-party module."""
    made = ModuleType("strangers_module")
    sys.modules[made.__name__] = made
    yield made
    del sys.modules[made.__name__]


def engine_of(settings: Settings, output_dir: Path | None = None, **plugins: object) -> Coevolution:
    return Coevolution.from_settings(settings, output_dir=output_dir, plugins=plugins)


# One registration


@pytest.mark.usefixtures("loud")
def test_a_method_plans_every_member_of_a_group() -> None:
    engine = engine_of(Settings(algorithms="loud", plugins={"loud": {"volume": 3}}))
    first, second, third = engine.plan(["q"], 3)
    assert [one.instruction.text for one in (first, second, third)] == [
        "q 0!!!",
        "q 1!!!",
        "q 2!!!",
    ]
    assert first.rollout_prompt("x") == "q 0!!!\n\nx psst"
    assert first.train_prompt("x") == "q 0!!!\n\nx"
    assert second.train_prompt("x") == second.rollout_prompt("x") == "q 1!!!\n\nx psst"
    assert third.templated is False


@pytest.mark.usefixtures("loud")
def test_a_methods_section_comes_from_all_sources(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "a.toml").write_text("[plugins.loud]\nvolume = 5\nplaces = 5\n")
    monkeypatch.setenv("PROMPT_COEVO_PLUGINS__LOUD__VOLUME", "7")
    settings = Settings(algorithms="loud", config_file=tmp_path / "a.toml")
    assert settings.section(LoudSettings) == LoudSettings(volume=7, places=5)
    given = Settings(algorithms="loud", plugins={"loud": LoudSettings(places=4)})
    assert given.section(LoudSettings) == LoudSettings(volume=7, places=4)
    assert settings.resolved()["plugins"] == {"loud": {"volume": 7, "places": 5}}
    assert may_distill(settings)


@pytest.mark.usefixtures("loud")
def test_mistakes_in_a_methods_section_are_told_like_all_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "a.toml").write_text("[plugins.loud]\nvolum = 5\n")
    monkeypatch.setenv("PROMPT_COEVO_PLUGINS__LOUD__PLACES", "x")
    monkeypatch.setenv("PROMPT_COEVO_LOUD__VOLUME", "1")
    with pytest.raises(SettingsError) as raised:
        Settings(algorithms="loud,p2", sede=1, loud={}, config_file=tmp_path / "a.toml")
    wrong = (
        "plugins.loud.places: input should be a valid integer, unable to parse string as an integer"
    )
    assert raised.value.problems == (
        "the environment variable PROMPT_COEVO_LOUD__VOLUME sets nothing; did you mean plugins.loud?",
        "unknown setting sede; did you mean seed?",
        "unknown setting loud; did you mean plugins.loud?",
        "algorithms = 'p2': there is no such method; did you mean p2o?",
        f"{wrong} (got 'x') (in the environment)",
        "unknown setting plugins.loud.volum; did you mean plugins.loud.volume? "
        f"(in the file {tmp_path / 'a.toml'})",
    )
    monkeypatch.delenv("PROMPT_COEVO_PLUGINS__LOUD__PLACES")
    monkeypatch.delenv("PROMPT_COEVO_LOUD__VOLUME")
    with pytest.raises(SettingsError, match=r"settings under plugins\.loud have no effect"):
        Settings(algorithms="p2o", plugins={"loud": {"volume": 1}})


@pytest.mark.usefixtures("loud")
@pytest.mark.parametrize("given", [{"volume": 7}, LoudSettings(volume=7)])
def test_settings_travel_to_processes_with_and_without_the_method(given: Any) -> None:
    settings = Settings(algorithms="loud", plugins={"loud": given}, p2o={})
    written = pickle.dumps(settings)
    assert b"LoudSettings" not in written
    there = pickle.loads(written)
    assert there == settings
    assert there.resolved(exclude_unset=True) == settings.resolved(exclude_unset=True)
    assert there.section(LoudSettings).volume == 7
    code = (
        "import pickle, sys; settings = pickle.load(sys.stdin.buffer); "
        "print(settings.algorithms, settings.plugins, settings.p2o.tau)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], input=written, capture_output=True, check=True
    )
    assert run.stdout.decode().strip() == "('loud',) {'loud': {'volume': 7}} 0.2"


@pytest.mark.usefixtures("loud")
def test_what_a_methods_section_says_belongs_to_the_run() -> None:
    def identity(**values: Any) -> RunIdentity:
        return RunIdentity.of(Settings(algorithms="loud", plugins={"loud": values}), None, "a host")

    assert identity().digest == identity(volume=1).digest != identity(volume=2).digest
    assert identity().meaning["plugins.loud.volume"] == 1


@pytest.mark.usefixtures("loud")
def test_a_methods_settings_are_flags() -> None:
    assert (
        "--coevo.plugins.loud.volume\n    How many exclamation marks. (default: 1)" in help_text()
    )
    flags = Flags.from_arguments(["--coevo.method", "loud", "--coevo.plugins.loud.volume", "7"])
    assert flags.settings is not None
    assert Settings(**flags.settings).section(LoudSettings).volume == 7


def test_a_method_by_its_place(module: ModuleType) -> None:
    module.LOUD = LOUD  # type: ignore[attr-defined]
    settings = Settings(algorithms="strangers_module:LOUD", plugins={"loud": {"volume": 2}})
    assert engine_of(settings).plan(["q"], 1)[0].instruction == Candidate("q 0!!", "instruction")
    with pytest.raises(SettingsError, match=r"unknown setting plugins\.loud\.loudness"):
        engine_of(Settings(algorithms="strangers_module:LOUD", plugins={"loud": {"loudness": 2}}))


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        Settings(
            algorithms="p2o", p2o={"tua": 0.1, "beam_widht": 3}, reflection={"modle": "x"}, sed=1
        )
    for name in ("p2o.tua", "p2o.beam_widht", "reflection.modle", "sed"):
        assert f"unknown setting {name}; did you mean" in str(caught.value)
    with pytest.raises(SettingsError) as caught:
        Settings(sed=1, inspo={"parents": 9, "overlap_steps": 2})
    assert "unknown setting sed" in str(caught.value)
    assert "inspo.parents = 9 must be smaller" in str(caught.value)
    assert "inspo.overlap_steps has no effect" in str(caught.value)
    assert "settings under inspo have no effect" in str(caught.value)
    with pytest.raises(SettingsError) as caught:
        Settings(p2o={"tau": -1, "search_backend": "stream", "first_sight": True})
    assert "p2o.tau must be greater than 0" in str(caught.value)
    assert "unknown setting p2o.search_backend" in str(caught.value)
    assert "unknown setting p2o.first_sight; did you mean stream.first_sight" in str(caught.value)
    assert "settings under p2o have no effect" in str(caught.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"algorithms": "inspo", "context_distillation": True},
            "context_distillation has no effect",
        ),
        ({"p2o": {"solved_at": 0.0}}, "p2o.solved_at"),
        (
            {"p2o": {"search_budget": 200, "min_hard": 1000}},
            "cannot pay for one evaluation on the 300",
        ),
        ({"inspo": {"solved_at": -1.0}, "algorithms": "inspo"}, "inspo.solved_at"),
        ({"reflection": {"backend": "function"}}, "needs reflection.function"),
    ],
)
def test_settings_that_would_do_nothing_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        Settings(**values)


class PatientSettings(Section):
    waits: bool = False

    @property
    def asks_in_background(self) -> bool:
        return not self.waits

    def problems_beside(self, reflection: ReflectionSettings) -> Iterator[str]:
        if reflection.max_tokens < 100:
            yield "plugins.patient needs reflection.max_tokens of 100 at least"


def test_a_methods_section_says_what_it_asks_of_the_reflection_model(offer: Offer) -> None:
    offer("methods", "patient", Method("patient", plugin=Loud, section=PatientSettings))
    function = {"function": str, "total_timeout_s": 3.0}
    Settings(algorithms="patient", reflection=function)
    with pytest.raises(SettingsError, match=r"total_timeout_s has no effect .* training waits for"):
        Settings(algorithms="patient", reflection=function, plugins={"patient": {"waits": True}})
    with pytest.raises(SettingsError, match="plugins.patient needs reflection.max_tokens"):
        Settings(algorithms="patient", reflection={"model": "openai/x", "max_tokens": 50})


def test_a_method_that_refuses_the_questions_ends_the_run_before_training(
    offer: Offer, tmp_path: Path
) -> None:
    refused: list[str | None] = ["there is no question for it; give some"]
    picky = replace(LOUD, name="picky", refuses=lambda section, policy: refused[0])
    offer("methods", "picky", picky)
    engine = engine_of(Settings(algorithms="picky"), output_dir=tmp_path)
    with pytest.raises(DatasetError, match="^picky: there is no question for it; give some$"):
        engine.begin(ScriptedPolicy())
    assert '"run_refused"' in (tmp_path / "coevo" / "events.jsonl").read_text("utf-8")
    refused[0] = None
    engine.begin(ScriptedPolicy())


def test_no_algorithm_and_no_plugin_that_acts_is_said(caplog: pytest.LogCaptureFixture) -> None:
    class Gate:
        @hookimpl
        def coevo_check_candidate(self) -> None: ...

    plugins: dict[str, object]
    for plugins in ({}, {"gate": Gate()}):  # every adapter brings gates
        caplog.clear()
        engine_of(Settings(algorithms=()), **plugins)
        assert (
            "so nothing will evolve; set algorithms to some of: hints, inspo, p2o, stream"
            in caplog.text
        )
    caplog.clear()
    engine_of(Settings(algorithms=()), mine=Instructions("I"))
    assert caplog.text == ""


@pytest.mark.parametrize("method", ["p2o", "stream"])
def test_a_threshold_above_every_reward_is_said(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    section: dict[str, Any] = {method: {"tau": 1.5}}
    engine_of(Settings(algorithms=method, reflection={"function": str}, **section))
    told = f"{method}.tau = 1.5 is above {method}.solved_at = 1: a question counts as hard"
    assert told in caplog.text


# Competition and order


@pytest.mark.usefixtures("loud")
def test_two_methods_with_one_job_are_named() -> None:
    settings = Settings(algorithms=("loud", "p2o"), reflection={"function": str.upper})
    with pytest.raises(
        SettingsError, match="'loud' and 'p2o' both give every rollout its template"
    ):
        engine_of(settings)


@pytest.mark.parametrize("methods", ["stream,p2o", "hints,stream", "p2o,hints"])
def test_two_searches_for_templates_are_refused(methods: str) -> None:
    settings = Settings(algorithms=methods, reflection={"function": str.upper})
    first, second = methods.split(",")
    with pytest.raises(SettingsError) as refused:
        Coevolution.check(settings)
    assert refused.value.problems == (
        f"the algorithms {first!r} and {second!r} both give every rollout its template; leave one of "
        "them out",
    )


class Instructions:
    def __init__(self, text: str) -> None:
        self.candidate = Candidate(text, "instruction")

    @hookimpl
    def coevo_plan_group(self, group_size: int) -> list[MemberPlan]:
        return [MemberPlan(instruction=self.candidate)] * group_size

    @hookimpl
    def coevo_best_instruction(self) -> Candidate:
        return self.candidate

    @hookimpl
    def coevo_evaluation_instruction(self) -> Candidate:
        return self.candidate


def test_two_plugins_with_one_job_are_named() -> None:
    engine = engine_of(Settings(algorithms=()), a=Instructions("a"), b=Instructions("b"))
    with pytest.raises(PluginError, match="'b' and 'a' both give every rollout its instruction"):
        engine.plan(["q"], 2)


def test_a_strangers_plugin_is_asked_before_a_method(policy: Any) -> None:
    inspo = {"instruction": "built in", "paraphrase": False}
    settings = Settings(algorithms="inspo", inspo=inspo, reflection={"function": str.upper})
    engine = engine_of(settings, mine=Instructions("mine"))
    engine.begin(policy)
    assert engine.plan(["q1"], 1)[0].instruction == Candidate("mine", "instruction")
    assert engine.evaluation_instruction() == Candidate("mine", "instruction")
    alone = engine_of(settings)
    alone.begin(policy)
    assert alone.plan(["q1"], 1)[0].instruction == Candidate("built in", "instruction")


def test_a_method_gives_only_what_it_says(offer: Offer) -> None:
    offer("methods", "sly", Method("sly", plugin=lambda context: Instructions("sly")))
    with pytest.raises(PluginError, match="the method 'sly' gives rollouts a instruction"):
        engine_of(Settings(algorithms="sly")).plan(["q"], 1)


# Names


def test_a_name_can_be_taken_once(offer: Offer, loud: None) -> None:
    with pytest.raises(PluginError, match="'p2o' is taken among the methods .it is built in"):
        offer("methods", "p2o", LOUD)
    with pytest.raises(PluginError, match="'loud' is taken among the methods .it was registered"):
        registry.register("methods", "loud", LOUD)
    with pytest.raises(
        PluginError, match="'loud' cannot be registered: the name is taken by a Loud"
    ):
        engine_of(Settings(algorithms="loud"), loud=Instructions("x"))
    one = Instructions("x")
    with pytest.raises(PluginError, match="the same object has another name already"):
        engine_of(Settings(algorithms=()), one=one, two=one)


def test_a_plugin_that_needs_a_newer_interface_is_refused(offer: Offer) -> None:
    class Future:
        coevo_interface = 99

    with pytest.raises(
        PluginError, match="'future' needs interface 99 of prompt_coevo, this version"
    ):
        engine_of(Settings(algorithms=()), future=Future())
    offer("methods", "later", Method("later", plugin=Loud, interface=99))
    with pytest.raises(PluginError, match="the method 'later' needs interface 99"):
        Settings(algorithms="later")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"sinks": ["journl"]}, "sinks = 'journl': there is no such sink; did you mean journal?"),
        ({"gates": {"active": ["nope:Gate"]}}, "gates.active = 'nope:Gate' cannot be imported"),
        ({"stream": {"proposer": "sys:nothing"}}, "proposer = 'sys:nothing' cannot be imported"),
        ({"reflection": {"backend": "magic", "model": "x"}}, "reflection.backend = 'magic'"),
    ],
)
def test_components_that_do_not_exist(values: dict[str, Any], message: str) -> None:
    values = {"reflection": {"function": str.upper}, **values}
    with pytest.raises(SettingsError, match=message):
        engine_of(Settings(**values))


def test_gates_sinks_and_models_by_place(module: ModuleType, tmp_path: Path) -> None:
    heard: list[str] = []

    class Gate:
        def __init__(self, context: Any) -> None: ...

        @hookimpl
        def coevo_check_candidate(self, candidate: Candidate) -> str | None:
            return "not today" if candidate.text == "k9" else None

    class Sink:
        def __init__(self, context: Any) -> None: ...

        @hookimpl
        def coevo_after_candidate_checked(self, reason: str | None) -> None:
            heard.append(str(reason))

    class Model:
        def complete(self, prompts: Sequence[str]) -> list[Reply]:
            return [Reply("<template>k9</template>", "stop") for _ in prompts]

    module.Gate, module.Sink = Gate, Sink  # type: ignore[attr-defined]
    module.model = lambda reflection, initial_policy: Model()  # type: ignore[attr-defined]
    settings = Settings(
        gates={"active": ("text", "strangers_module:Gate")},
        sinks=("strangers_module:Sink",),
        reflection={"backend": "strangers_module:model"},
        algorithms="p2o",
        p2o={"overspend": "never", "search_budget": 30, "dev_size": 2, "max_barren_waves": 1},
    )
    engine = engine_of(settings, tmp_path)
    policy = _Failing()
    engine.observe([Rollout(one, "", 0.0) for one in engine.plan(policy.question_ids(), 2)])
    engine.epoch_end(policy)
    assert heard
    assert set(heard) == {"not today"}


class _Failing:
    """A policy that solves nothing."""

    def question_ids(self) -> list[str]:
        return [f"q{number}" for number in range(6)]

    def question(self, question_id: str) -> Any:
        from prompt_coevo import Question

        return Question(question_id, f"what is {question_id}?")

    def rollout(self, requests: Sequence[Any]) -> list[Rollout]:
        return [Rollout(request.assignment, "no", 0.0) for request in requests]
