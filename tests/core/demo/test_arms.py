"""Check the demo's arms and the results of a run of each."""

from __future__ import annotations

import pytest

from prompt_coevo import Coevolution, Settings
from prompt_coevo.demo.arms import ARMS, FIRST_INSTRUCTION, arm
from prompt_coevo.demo.job import first_instruction, settings_of
from prompt_coevo.demo.results import ArmResult, Cracked, Share, WordScore
from prompt_coevo.demo.teacher import CLAUSE
from prompt_coevo.demo.world import World
from prompt_coevo.errors import SettingsError

WORLD = World(0)
COEVOLVING = [name for name, one in ARMS.items() if one.coevolves]


def test_an_arm_that_does_not_exist() -> None:
    with pytest.raises(SettingsError, match="there is no arm 'ppo'; known: grpo, stream"):
        arm("ppo")


@pytest.mark.parametrize("name", COEVOLVING)
def test_an_arms_settings_are_what_it_says(name: str) -> None:
    settings = settings_of(ARMS[name], WORLD, 3)
    assert settings.seed == 3
    for name in {"p2o", "stream"} & set(settings.algorithms):
        assert getattr(settings, name).tau == 0.01
    if "inspo" in settings.algorithms:
        assert settings.inspo.instruction == first_instruction(WORLD)
        assert settings.inspo.verify_size == 64
    assert FIRST_INSTRUCTION not in settings.model_dump_json(exclude={"reflection"})


@pytest.mark.parametrize("name", COEVOLVING)
def test_an_arms_engine_can_be_built(name: str) -> None:
    assert Coevolution.from_settings(settings_of(ARMS[name], WORLD, 0)).metrics()


def test_the_default_of_the_package_is_the_arm_that_is_called_stream() -> None:
    assert settings_of(ARMS["stream"], WORLD, 0).algorithms == Settings().algorithms
    assert settings_of(ARMS["p2o"], WORLD, 0).algorithms == ("p2o",)


@pytest.mark.parametrize("draw", [0, 1, 2])
def test_the_first_instruction_is_right_about_two_easy_words(draw: int) -> None:
    world = World(draw)
    found = CLAUSE.findall(first_instruction(world))
    assert len(found) == 2
    for word, first, second in found:
        assert world.kind[word] == "easy"
        assert world.meaning[word] == (first, second)


RESULT = ArmResult(
    arm="stream",
    seed=0,
    draw=0,
    budget=400,
    spent=(0, 100, 300),
    words={
        "a": WordScore("hard", 4, (0, 2, 4)),
        "b": WordScore("hard", 1, (0, 0, 0)),
        "c": WordScore("easy", 5, (5, 5, 0)),
    },
    last={"longer": Share(1, 2)},
    train_rollouts=200,
    other_rollouts=100,
    batches=1,
    calls=2,
    tokens=30,
    seconds=1.5,
    cpu_seconds=1.0,
    cracked=(Cracked("t", "q", "1"),),
)


def test_a_curve_is_the_mean_over_words_however_often_they_are_asked_about() -> None:
    assert RESULT.curve("hard") == (0, 0.25, 0.5)
    assert RESULT.curve("easy") == (1, 1, 0)
    assert RESULT.curve("all") == pytest.approx((1 / 3, 0.5, 1 / 3))


def test_the_area_is_the_mean_over_the_budget() -> None:
    by_hand = (0.5 * 0.25 * 100 + 0.5 * (0.25 + 0.5) * 200 + 0.5 * 100) / 400
    assert RESULT.area("hard") == pytest.approx(by_hand, abs=0.003)
