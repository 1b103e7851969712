"""Check hints: who sees how much of a solution, and that no update trains on it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from ctypes import c_float
from dataclasses import replace
from typing import Any

import pytest

from helpers.keyed_policy import KeyedPolicy
from prompt_coevo import Coevolution, Settings
from prompt_coevo.adapters.common.columns import index_columns
from prompt_coevo.errors import DatasetError, SettingsError
from prompt_coevo.types import Assignment, Question, Rollout

GROUP = 4


@pytest.fixture
def policy() -> KeyedPolicy:
    return KeyedPolicy(
        {
            f"q{n}": Question(
                f"q{n}", f"what is {n}?", f"answer {n}", {"solution": f"so take k{n % 4} for {n}"}
            )
            for n in range(12)
        }
    )


def engine_of(policy: Any, hints: dict[str, Any] | None = None, **settings: Any) -> Coevolution:
    engine = Coevolution.from_settings(
        Settings(
            algorithms=("hints",),
            hints=hints or {},
            **settings,
        )
    )
    engine.begin(policy)
    return engine


def play(engine: Coevolution, policy: Any, bare: float, hinted: float) -> list[Assignment]:
    """Play a round of one question with these rewards for its bare and its hinted rollouts."""
    plan = engine.plan(["q1"], GROUP)
    engine.observe([Rollout(a, "", hinted if a.templated else bare) for a in plan])
    engine.step_end(policy)
    return plan


def shown(engine: Coevolution) -> str:
    """Return the hint that the next group gets; that group is never observed."""
    return next((a.template.text for a in engine.plan(["q1"], GROUP) if a.templated), "")


def test_only_hard_questions_get_hints_and_only_some_of_their_rollouts(policy: Any) -> None:
    engine = engine_of(policy, {"fraction": 1.0})
    assert not any(a.templated for a in play(engine, policy, bare=1.0, hinted=1.0))
    assert shown(engine) == "", "it was solved"
    play(engine, policy, bare=0.0, hinted=0.0)
    plan = engine.plan(["q1", "q2"], GROUP)
    assert [a.templated for a in plan] == [False, False, True, True] + [False] * 4
    assert plan[2].template.text == "so take k1 for 1"


@pytest.mark.parametrize(("share", "count"), [(0.01, 1), (0.5, 2), (0.99, 3)])
def test_one_member_is_hinted_at_least_and_one_is_bare(
    policy: Any, share: float, count: int
) -> None:
    engine = engine_of(policy, {"share": share})
    play(engine, policy, bare=0.0, hinted=0.0)
    assert sum(a.templated for a in engine.plan(["q1"], GROUP)) == count


def test_bare_rollouts_decide_what_is_hard(policy: Any) -> None:
    engine = engine_of(policy, {"fraction": 1.0, "success_at": 2.0})
    play(engine, policy, bare=0.0, hinted=0.0)
    play(engine, policy, bare=0.0, hinted=1.0)
    assert shown(engine), "solved with the hint alone"
    play(engine, policy, bare=1.0, hinted=0.0)
    assert shown(engine) == ""


def test_success_takes_the_hint_away_notch_by_notch_and_failure_brings_it_back(policy: Any) -> None:
    engine = engine_of(policy, {"fraction": 1.0})
    play(engine, policy, bare=0.0, hinted=0.0)
    seen = []
    for hinted in (1.0, 1.0, 0.0, 0.4, 1.0, 1.0, 1.0, 0.0, 1.0):
        seen.append(shown(engine))
        play(engine, policy, bare=0.0, hinted=hinted)
    assert seen == [
        "so take k1 for 1",
        "so take k1 for",
        "so take k1",
        "so take k1 for",  # no hinted rollout had succeeded
        "so take k1 for",  # some had, too few
        "so take k1",
        "so",
        "",
        "so",  # weaned, and the bare rollouts had failed
    ]


def test_rewards_in_single_precision_meet_the_thresholds(policy: Any) -> None:
    reward = c_float(0.9).value
    assert reward < 0.9
    engine = engine_of(policy, {"fraction": 1.0, "success_at": 0.9, "threshold": 0.9})
    play(engine, policy, bare=0.0, hinted=0.0)
    play(engine, policy, bare=0.0, hinted=reward)
    assert engine.metrics()["coevo/hints_shown"] == 0.75, "a notch shorter"
    play(engine, policy, bare=reward, hinted=0.5)
    assert engine.metrics()["coevo/hints_hard"] == 0


def test_a_hint_is_never_longer_than_it_began(policy: Any) -> None:
    engine = engine_of(policy, {"fraction": 0.6})
    for _ in range(4):
        play(engine, policy, bare=0.0, hinted=0.0)
    assert shown(engine) == "so take k1"


def test_hinted_rollouts_are_trained_on_without_the_hint(policy: Any) -> None:
    engine = engine_of(policy, {"fraction": 1.0})
    play(engine, policy, bare=0.0, hinted=0.0)
    hinted = [a for a in engine.plan(["q1"], GROUP) if a.templated]
    question = policy.question("q1").prompt
    for assignment in hinted:
        assert assignment.distilled
        assert "k1" in assignment.rollout_prompt(question)
        assert assignment.train_prompt(question) == question


def test_distillation_can_be_switched_off(policy: Any) -> None:
    engine = engine_of(policy, context_distillation=False)
    assert not engine.may_distill
    play(engine, policy, bare=0.0, hinted=0.0)
    (assignment, *_) = [a for a in engine.plan(["q1"], GROUP) if a.templated]
    prompt = policy.question("q1").prompt
    assert not assignment.distilled
    assert assignment.train_prompt(prompt) == assignment.rollout_prompt(prompt) != prompt


@pytest.mark.parametrize(
    ("hints", "expected"),
    [
        ({}, "what is 1?\n\nHint: so take"),
        ({"layout": "{{template}} {{question}}"}, "so take what is 1?"),
    ],
)
def test_where_the_hint_goes(policy: Any, hints: dict[str, Any], expected: str) -> None:
    engine = engine_of(policy, {"fraction": 0.4, **hints})
    play(engine, policy, bare=0.0, hinted=0.0)
    *_, last = engine.plan(["q1"], GROUP)
    assert last.rollout_prompt("what is 1?") == expected
    chat = [{"role": "user", "content": "what is 1?"}]
    assert last.rollout_prompt(chat) == [{"role": "user", "content": expected}]


def test_blanks_and_lines_between_words_are_kept(policy: Any) -> None:
    policy.questions["q1"] = replace(
        policy.questions["q1"], columns={"solution": "First this.\n\n  Then that.\nDone.\n"}
    )
    engine = engine_of(policy, {"fraction": 0.8})
    play(engine, policy, bare=0.0, hinted=0.0)
    assert shown(engine) == "First this.\n\n  Then that."


def test_a_long_hint_is_cut_to_what_fits(policy: Any) -> None:
    policy.questions["q1"] = replace(
        policy.questions["q1"], columns={"solution": " ".join(map(str, range(1000)))}
    )
    engine = engine_of(policy, {"fraction": 1.0, "max_tokens": 100})
    play(engine, policy, bare=0.0, hinted=0.0)
    assert 50 < len(shown(engine).split()) <= 100


@pytest.mark.parametrize("solution", [None, "", "   "])
def test_a_question_without_a_solution_stays_bare(policy: Any, solution: Any) -> None:
    policy.questions["q1"] = replace(policy.questions["q1"], columns={"solution": solution})
    engine = engine_of(policy)
    play(engine, policy, bare=0.0, hinted=0.0)
    assert shown(engine) == ""


def test_a_solution_that_is_no_text_is_an_error(policy: Any) -> None:
    policy.questions["q1"] = replace(policy.questions["q1"], columns={"solution": ["a", "b"]})
    with pytest.raises(DatasetError, match="'solution' of question 'q1' holds a list"):
        engine_of(policy)


def test_unfit_rollouts_say_nothing(policy: Any) -> None:
    engine = engine_of(policy)
    plan = engine.plan(["q1"], GROUP)
    engine.observe([Rollout(a, "", 0.0, "tool_error") for a in plan])
    assert shown(engine) == ""


def ending(engine: Coevolution, policy: Any, caplog: pytest.LogCaptureFixture) -> str:
    """End a run and return the first line of what the log then says."""
    caplog.clear()
    caplog.set_level("INFO", "prompt_coevo")
    engine.end(policy)
    return caplog.messages[0]


def test_a_run_ends_by_saying_what_came_of_the_hints(
    policy: Any, caplog: pytest.LogCaptureFixture
) -> None:
    engine = engine_of(policy, {"fraction": 1.0})
    play(engine, policy, bare=0.0, hinted=0.0)
    play(engine, policy, bare=0.0, hinted=1.0)
    assert ending(engine, policy, caplog) == (
        "hints: questions that were given hints: 1; solved without one now: 0"
    )
    resumed = Coevolution.from_settings(engine.settings)
    resumed.load_state_dict(engine.state_dict())
    resumed.begin(policy)
    play(resumed, policy, bare=1.0, hinted=1.0)
    assert "questions that were given hints: 1; solved without one now: 1" in ending(
        resumed, policy, caplog
    )


@pytest.mark.parametrize(
    ("rewards", "solution", "reason"),
    [
        ((1.0, 1.0), "a b", "no question was found hard (hints.threshold = 0.2)"),
        ((0.0,), "a b", "of 1 hard questions none that has a hint came again; train for more"),
        ((0.0, 0.0), "", "of 1 hard questions none that has a hint came again"),
    ],
)
def test_a_run_without_hints_says_why(
    rewards: Sequence[float],
    solution: str,
    reason: str,
    policy: Any,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    policy.questions["q1"] = replace(policy.questions["q1"], columns={"solution": solution})
    engine = engine_of(policy)
    for reward in rewards:
        play(engine, policy, bare=reward, hinted=reward)
    assert ending(engine, policy, caplog).startswith(f"hints: no hint was shown, because {reason}")
    assert "no hint was shown" in capsys.readouterr().err  # between rules, not to be overlooked


def test_a_resumed_run_hints_as_the_one_that_was_killed(policy: Any) -> None:
    engine = engine_of(policy, {"fraction": 1.0})
    play(engine, policy, bare=0.0, hinted=0.0)
    play(engine, policy, bare=0.0, hinted=1.0)
    resumed = Coevolution.from_settings(engine.settings)
    resumed.load_state_dict(engine.state_dict())
    resumed.begin(policy)
    assert shown(resumed) == shown(engine) == "so take k1 for"
    assert resumed.metrics()["coevo/hints_shown"] == engine.metrics()["coevo/hints_shown"]


def test_no_teacher_and_no_key_are_needed(policy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.endswith("_API_KEY")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr("socket.socket.connect", _no_network)
    engine = engine_of(policy, {"fraction": 1.0})
    for _ in range(3):
        play(engine, policy, bare=0.0, hinted=1.0)
    assert shown(engine)
    assert not engine.metrics().get("coevo/reflection_calls")
    assert policy.rollouts == 0  # training's are observed, none is asked for


def _no_network(*_: object) -> None:
    raise AssertionError("hints ask nobody")


def test_the_column_is_read_without_row_columns() -> None:
    settings = Settings(algorithms="hints", hints={"column": "steps"})
    rows = [{"prompt": f"what is {n}?", "answer": str(n), "steps": f"so {n}"} for n in range(2)]
    index = index_columns(rows, settings, usual_truths=("answer",))
    assert [index.question(one).columns for one in index.ids()] == [
        {"steps": "so 0"},
        {"steps": "so 1"},
    ]
    with pytest.raises(DatasetError, match=r"no column 'steps' \(hints\.column\); it has: "):
        index_columns([{"prompt": "what?", "answer": "1"}], settings, usual_truths=("answer",))


def with_solutions(policy: Any, texts: Sequence[str | None]) -> Any:
    ids = sorted(policy.questions)
    for number, one in enumerate(ids):
        text = texts[number % len(texts)]
        columns = {"solution": policy.questions[one].ground_truth if text == "truth" else text}
        policy.questions[one] = replace(policy.questions[one], columns=columns)
    return policy


def test_hints_that_are_all_empty_are_refused_before_training(policy: Any) -> None:
    with pytest.raises(
        DatasetError,
        match=r"'solution' \(hints\.column\) is empty in all \d+ rows that were looked at",
    ):
        engine_of(with_solutions(policy, ["", None, "  "]))


def test_a_column_that_holds_the_answers_is_refused_before_training(policy: Any) -> None:
    with pytest.raises(DatasetError, match="holds the right answers themselves"):
        engine_of(with_solutions(policy, ["truth", ""]))


def test_a_question_whose_hint_is_its_answer_stays_bare(
    policy: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", "prompt_coevo")
    engine = engine_of(with_solutions(policy, ["so it is", "truth"]), {"fraction": 1.0})
    assert "is the right answer itself in 6 of 12 rows" in caplog.text
    play(engine, policy, bare=0.0, hinted=0.0)
    assert bool(shown(engine)) == (policy.questions["q1"].columns["solution"] == "so it is")


@pytest.mark.parametrize("other", ["p2o"])
def test_another_method_with_templates_is_refused(other: str) -> None:
    with pytest.raises(
        SettingsError, match=f"'hints' and '{other}' both give every rollout its template"
    ):
        Coevolution.check(Settings(algorithms=("hints", other), reflection={"function": str}))


def test_settings_that_cannot_be_meant_are_refused() -> None:
    with pytest.raises(SettingsError, match="exactly once"):
        Settings(algorithms=("hints",), hints={"layout": "{{question}}"})
