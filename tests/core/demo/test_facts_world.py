"""Check what the world of many facts and its teacher guarantee, without training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

from prompt_coevo.demo.digits import FILLERS, SKILL_NAMES, SKILLS, Digits, spell
from prompt_coevo.demo.splits import held_out_tasks, training_tasks
from prompt_coevo.demo.teacher import CLAUSE, FactsTeacher
from prompt_coevo.demo.world import (
    COUNTS,
    LENGTHS,
    WORDS,
    Meaning,
    World,
    apply,
    clause,
    reward,
)
from prompt_coevo.proposals import ProposalRequest, Trajectory
from prompt_coevo.types import EMPTY_TEMPLATE, Candidate
from worlds.facts.beliefs import answer_text, prior

DRAWS = (0, 1, 2)
WORD, OTHER = WORDS[:2]


@pytest.mark.parametrize(
    ("completion", "value"),
    [
        (f"{WORD} first reverse 2 1 {WORD} then rotate 1 2", 1.0),
        (f"{OTHER} first rotate 9 9 {WORD} then reverse 1 2", 1.0),  # the way there is free
        (f"{WORD} first reverse 2 1 {WORD} then rotate 2 1", 0.0),
        (f"{WORD} first reverse 2 1 {WORD} first rotate 1 2", 0.0),
        (f"{WORD} then reverse 2 1 {WORD} then rotate 1 2", 0.0),
        (f"first {WORD} reverse 2 1 {WORD} then rotate 1 2", 0.0),
        (f"{WORD} first reverse 2 1 {WORD} then rotate 1 2 .", 0.0),
        (f"{WORD} first reverse 2 1 2 {WORD} then rotate 1", 0.0),
        ("1 2", 0.0),
        ("", 0.0),
    ],
)
def test_the_reward_is_strict(completion: str, value: float) -> None:
    assert reward(completion, "1 2") == value


@pytest.mark.parametrize("draw", DRAWS)
def test_a_world_is_as_described(draw: int) -> None:
    world = World(draw)
    assert Counter(world.kind.values()) == COUNTS
    assert len(set(world.meaning.values())) == len(WORDS) == 40
    assert len(world.functions) == 47
    np.testing.assert_allclose(prior(world).sum(axis=-1), 1)
    for row, word in enumerate(WORDS):
        for place, skill in enumerate(world.meaning[word]):
            chance = prior(world)[row, place, SKILL_NAMES.index(skill)]
            low, high = {"easy": (0.6, 0.7), "medium": (0.2, 0.25), "hard": (0, 0.001)}[
                world.kind[word]
            ]
            assert low < chance < high


def test_another_draw_is_another_world() -> None:
    one, other = World(0), World(1)
    assert one.meaning != other.meaning
    assert one.kind != other.kind
    assert World(0).meaning == one.meaning
    np.testing.assert_array_equal(prior(World(0)), prior(one))


def some_lists(count: int) -> list[tuple[int, ...]]:
    rng = np.random.default_rng(0)
    return [tuple(rng.integers(0, 10, LENGTHS[n % 2]).tolist()) for n in range(count)]


@pytest.mark.parametrize("draw", DRAWS)
def test_no_two_words_can_be_taken_for_each_other(draw: int) -> None:
    lists = some_lists(60)
    for one, other in combinations(World(draw).meaning.values(), 2):
        assert np.mean([apply(one, digits) == apply(other, digits) for digits in lists]) < 0.5


@pytest.mark.parametrize("draw", DRAWS)
def test_traps_do_not_lead_to_the_right_answer(draw: int) -> None:
    world, lists = World(draw), some_lists(40)
    for row, word in enumerate(WORDS):
        truth = world.meaning[word]
        traps = [
            [name for name, chance in zip(SKILL_NAMES, beliefs, strict=True) if chance > 0.01]
            for beliefs in prior(world)[row]
        ]
        for one in product(*traps):
            if not set(zip((0, 1), one, strict=True)) & set(zip((0, 1), truth, strict=True)):
                agreed = [apply(one, digits) == apply(truth, digits) for digits in lists]
                assert np.mean(agreed) < 0.25


def test_the_right_answer_gets_the_reward() -> None:
    world = World(0)
    for task in training_tasks(world, 0, 100):
        completion = answer_text(task.word, world.meaning[task.word], task.digits)
        assert reward(completion, spell(task.answer)) == 1.0


@pytest.mark.parametrize("seed", range(3))
def test_training_and_held_out_questions_are_disjoint(seed: int) -> None:
    training = {task.question for task in training_tasks(World(0), seed)}
    held_out = {task.question for task in held_out_tasks(World(0))}
    assert len(training) == len(held_out) == 512
    assert not training & held_out


def test_all_words_are_asked_about_and_most_questions_are_hard() -> None:
    tasks = training_tasks(World(0), 0)
    assert {task.word for task in tasks} == set(WORDS)
    assert 0.75 < np.mean([task.kind == "hard" for task in tasks]) < 0.85


def test_other_shares_leave_words_and_held_out_questions_as_they_are() -> None:
    world, shares = World(0), {"easy": 0.3, "medium": 0.3, "hard": 0.4}
    tasks = training_tasks(world, 0, shares=shares)
    assert {task.word for task in tasks} == set(WORDS)
    assert not set(tasks) & set(held_out_tasks(world))
    for kind, share in shares.items():
        assert abs(np.mean([task.kind == kind for task in tasks]) - share) < 0.06


def test_the_seed_changes_the_training_questions() -> None:
    assert training_tasks(World(0), 0, 50) != training_tasks(World(0), 1, 50)


# The teacher


def prompt_about(engine: Any, *failures: Trajectory, parent: Candidate = EMPTY_TEMPLATE) -> str:
    rendered: str = engine.context.proposer("propose_improvement").render(
        ProposalRequest("template", (parent,), failures)
    )
    return rendered


def template_in(reply: str) -> str:
    return reply.split("<template>")[1].split("</template>")[0]


def rules_in(reply: str) -> dict[str, tuple[str, str]]:
    return {word: (first, second) for word, first, second in CLAUSE.findall(template_in(reply))}


# Only add-index then rotate leads from 3 1 4 2 to 6 4 3 7.
SOLVED_ONE_WAY = Trajectory(
    f"use {WORD} on 3 1 4 2", f"{WORD} first reverse 2 4 1 3", 0.0, "6 4 3 7"
)


def test_the_teacher_explains_what_it_reads_in_the_real_prompt(make_engine: Any) -> None:
    reply = FactsTeacher(error=0.0)(prompt_about(make_engine(), SOLVED_ONE_WAY))
    assert rules_in(reply) == {WORD: ("add-index", "rotate")}


def test_failures_of_the_same_word_vote(make_engine: Any) -> None:
    meaning, lists = ("reverse", "rotate"), ((1, 1, 1, 2), (3, 1, 4, 7, 5))
    alone, both = (
        [one for one in product(SKILL_NAMES, repeat=2) if explains(one, meaning, chosen)]
        for chosen in (lists[:1], lists)
    )
    assert len(alone) > len(both)
    failures = [
        Trajectory(f"use {WORD} on {spell(digits)}", "", 0.0, spell(apply(meaning, digits)))
        for digits in lists
    ]
    prompt = prompt_about(make_engine(), *failures)
    for seed in range(20):
        reply = FactsTeacher(error=0.0, seed=seed)(prompt)
        assert rules_in(reply)[WORD] in both


def explains(one: Meaning, truth: Meaning, lists: Iterable[Digits]) -> bool:
    return all(apply(one, digits) == apply(truth, digits) for digits in lists)


def test_it_keeps_rules_and_forgets_beyond_its_limit(make_engine: Any) -> None:
    known = " ".join(clause(word, ("reverse", "rotate")) for word in WORDS[1:5])
    prompt = prompt_about(make_engine(), SOLVED_ONE_WAY, parent=Candidate(known, "template"))
    rules = rules_in(FactsTeacher(error=0.0)(prompt))
    assert len(rules) == 4
    assert set(rules) <= set(WORDS[:5])


def test_a_guessing_teacher_is_seldom_right(make_engine: Any) -> None:
    prompt = prompt_about(make_engine(), SOLVED_ONE_WAY)
    replies = [rules_in(FactsTeacher("random", seed=seed)(prompt)) for seed in range(100)]
    right = sum(rules == {WORD: ("add-index", "rotate")} for rules in replies)
    assert right < 10


def test_templates_speak_the_worlds_language(make_engine: Any) -> None:
    prompt = prompt_about(make_engine(), SOLVED_ONE_WAY)
    for seed in range(20):
        template = template_in(FactsTeacher(seed=seed)(prompt))
        assert set(CLAUSE.sub("", template).split()) <= set(FILLERS)
        for word, first, second in CLAUSE.findall(template):
            assert word in WORDS
            assert {first, second} <= set(SKILLS)


def test_questions_of_another_world_are_left_out(make_engine: Any) -> None:
    strange = [
        Trajectory("why?", "", 0.0, ""),
        Trajectory("use dax then wug on 1 2", "</response>", 0.0, "x"),
    ]
    assert not FactsTeacher().failures_in(prompt_about(make_engine(), *strange))
