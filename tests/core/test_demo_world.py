"""The demo's world and its teacher: what they promise, without training anything."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
import pytest

from prompt_coevo.demo.arms import ARMS, arm
from prompt_coevo.demo.results import ArmResult, Scores, summary
from prompt_coevo.demo.splits import make_splits
from prompt_coevo.demo.teacher import Teacher
from prompt_coevo.demo.world import SKILLS, WORDS, World, answer_text, reward, spell
from prompt_coevo.errors import SettingsError
from prompt_coevo.proposals import ProposalRequest, Trajectory
from prompt_coevo.types import EMPTY_TEMPLATE, Candidate


@pytest.mark.parametrize(
    ("skill", "result"),
    [
        ("reverse", (5, 1, 4, 1, 3)),
        ("rotate", (5, 3, 1, 4, 1)),
        ("swap-ends", (5, 1, 4, 1, 3)),
        ("add-index", (4, 3, 7, 5, 0)),
        ("add-last", (8, 6, 9, 6, 0)),
        ("add-first", (6, 4, 7, 4, 8)),
        ("swap-pairs", (1, 3, 1, 4, 5)),
        ("negate-odd", (3, 8, 4, 8, 5)),
    ],
)
def test_the_skills_by_hand(skill: str, result: tuple[int, ...]) -> None:
    assert SKILLS[skill]((3, 1, 4, 1, 5)) == result


@pytest.mark.parametrize(
    ("completion", "value"),
    [
        ("dax reverse 2 1 wug rotate 1 2", 1.0),
        ("bex rotate 9 9 bex rotate 1 2", 1.0),  # the format is strict, the way there is free
        ("dax reverse 2 1 wug rotate 2 1", 0.0),
        ("dax reverse 2 1 wug rotate 1 2 .", 0.0),
        ("dax reverse 2 1 wug rotate 1", 0.0),
        ("dax reverse 2 1 3 wug rotate 1 2", 0.0),
        ("dax means 2 1 wug rotate 1 2", 0.0),
        ("dax reverse 2 1 wug rotate 1 02", 0.0),
        ("1 2", 0.0),
        ("", 0.0),
    ],
)
def test_the_reward_is_strict(completion: str, value: float) -> None:
    assert reward(completion, "1 2") == value


def test_a_world_is_as_described() -> None:
    world = World(0)
    assert sorted(Counter(world.meaning.values()).values()) == [2] * 8
    assert Counter(world.kind.values()) == {"easy": 4, "medium": 4, "hard": 8}
    np.testing.assert_allclose(world.prior.sum(axis=1), 1)
    right = {
        word: world.prior[row, list(SKILLS).index(world.meaning[word])]
        for row, word in enumerate(WORDS)
    }
    for word, chance in right.items():
        low, high = {"easy": (0.4, 0.5), "medium": (0.04, 0.06), "hard": (0, 0.001)}[
            world.kind[word]
        ]
        assert low < chance < high
    assert World(1).meaning != world.meaning


def test_the_right_answer_gets_the_reward() -> None:
    world = World(0)
    for task in make_splits(world, 0, train=50, held_out=20).train:
        skills = (world.meaning[task.words[0]], world.meaning[task.words[1]])
        assert reward(answer_text(task.words, skills, task.digits), spell(task.answer)) == 1.0


def test_training_and_held_out_questions_are_disjoint() -> None:
    for seed in range(3):
        splits = make_splits(World(0), seed)
        train = {task.question for task in splits.train}
        assert len(train) == len(splits.train) == 512
        assert not train & {task.question for task in splits.same}
        trained_pairs = {task.words for task in splits.train}
        assert not trained_pairs & {task.words for task in splits.unseen_pairs}
        assert {len(task.digits) for task in splits.train} == {4, 5}
        assert {len(task.digits) for task in splits.longer} == {6}


def test_the_seed_changes_the_training_questions_alone() -> None:
    one, other = (make_splits(World(0), seed, 50, 20) for seed in (0, 1))
    assert one.train != other.train
    assert (one.same, one.unseen_pairs, one.longer) == (
        other.same,
        other.unseen_pairs,
        other.longer,
    )


def prompt_about(engine: Any, *failures: Trajectory, parent: Candidate = EMPTY_TEMPLATE) -> str:
    rendered: str = engine.proposer("propose_improvement").render(
        ProposalRequest("template", parent, failures)
    )
    return rendered


def failure(question: str, completion: str, answer: str) -> Trajectory:
    return Trajectory(question, completion, 0.0, answer)


# Only add-index then rotate leads from 3 1 4 2 to 6 4 3 7.
SOLVED_ONE_WAY = failure(
    "use dax then wug on 3 1 4 2", "dax reverse 2 4 1 3 wug reverse 3 1 4 2", "6 4 3 7"
)


def test_the_teacher_explains_what_it_reads_in_the_real_prompt(make_engine: Any) -> None:
    prompt = prompt_about(make_engine(), SOLVED_ONE_WAY)
    reply = Teacher(error=0.0)(prompt)
    clauses = dict(re.findall(r"(\S+) means (\S+) \.", reply.split("<template>")[1]))
    assert clauses == {"dax": "add-index", "wug": "rotate"}


def test_the_teacher_keeps_right_clauses_and_forgets_beyond_its_limit(make_engine: Any) -> None:
    parent = Candidate("bex means reverse . fip means rotate .", "template")
    prompt = prompt_about(make_engine(), SOLVED_ONE_WAY, parent=parent)
    reply = Teacher(error=0.0, max_clauses=3)(prompt)
    clauses = dict(re.findall(r"(\S+) means (\S+) \.", reply.split("<template>")[1]))
    assert len(clauses) == 3


def test_a_reply_is_a_function_of_prompt_and_seed(make_engine: Any) -> None:
    prompt = prompt_about(make_engine(), SOLVED_ONE_WAY)
    assert Teacher("random", seed=1)(prompt) == Teacher("random", seed=1)(prompt)
    assert len({Teacher("random", seed=seed)(prompt) for seed in range(9)}) > 1


def test_a_filler_teacher_cannot_help(make_engine: Any) -> None:
    reply = Teacher("filler")(prompt_about(make_engine(), SOLVED_ONE_WAY))
    template = reply.split("<template>")[1].split("</template>")[0]
    assert template.split()
    assert not set(template.split()) & {*WORDS, *SKILLS, "means"}


def test_the_teacher_survives_any_failure(make_engine: Any) -> None:
    strange = [failure("why?", "", ""), failure("use dax then wug on 1 2", "</response>", "x y")]
    for kind in ("reasoning", "random", "filler"):
        assert "<template>" in Teacher(kind)(prompt_about(make_engine(), *strange))  # type: ignore[arg-type]


def test_an_arm_that_does_not_exist() -> None:
    with pytest.raises(SettingsError, match="there is no arm 'ppo'; known: grpo, p2o"):
        arm("ppo")
    for name, known in ARMS.items():
        if known.coevolves:
            assert known.settings(0, None, None).p2o.tau == 0.01, name


def test_the_summary_is_mean_and_sample_deviation() -> None:
    def result(seed: int, accuracy: float) -> ArmResult:
        scores = Scores(8, accuracy, accuracy, accuracy, accuracy, 10 * seed)
        return ArmResult("p2o", seed, (scores,), 100, 10, 1.0)

    found = summary([result(0, 0.5), result(1, 0.7)])["p2o"]
    assert found["hard"]["mean"] == pytest.approx(0.6)
    assert found["hard"]["std"] == pytest.approx(0.1414, abs=1e-4)
    assert found["train_rollouts"] == {"mean": 100, "std": 0}
