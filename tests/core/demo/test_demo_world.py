"""Check what the demo's world and its teacher guarantee, without training."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from prompt_coevo import hookspecs
from prompt_coevo.candidates.leaks import LeakGuard
from prompt_coevo.demo.digits import FILLERS, SKILLS, spell
from prompt_coevo.demo.instruction_teacher import InstructionTeacher
from prompt_coevo.proposals import ProposalRequest, Reply, Trajectory
from prompt_coevo.reflection.proposers.tags import extract_tagged
from prompt_coevo.types import EMPTY_TEMPLATE, Candidate
from worlds.pairs.splits import make_splits
from worlds.pairs.teacher import CLAUSE, Teacher
from worlds.pairs.world import WORDS, World, answer_text, reward


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
    rendered: str = engine.context.proposer("propose_improvement").render(
        ProposalRequest("template", (parent,), failures)
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


# The teacher for instructions

EASY = [word for word, kind in World(0).kind.items() if kind == "easy"][:2]
FIRST = Candidate(
    " ".join(["note remember", *(f"{word} means {World(0).meaning[word]} ." for word in EASY)]),
    "instruction",
)
PROPOSERS = ("reflection", "paraphrase", "history")


def instructing(seed: int = 0, most: int = 10) -> InstructionTeacher:
    return InstructionTeacher(Teacher(seed=seed, max_clauses=most))


@pytest.fixture
def inspo_engine(make_engine: Any) -> Any:
    return make_engine(algorithms=("inspo",), inspo={"instruction": FIRST.text})


def instruction_prompt(engine: Any, proposer: str, parent: Candidate = FIRST) -> str:
    history = (
        (parent.text, 0.3),
        ("dax means add-index . now hud means rotate .", 0.8),
        ("wug means rotate .", 0.5),
    )
    request = ProposalRequest(
        "instruction", (parent,), (SOLVED_ONE_WAY,), proposer, count=6, history=history
    )
    rendered: str = engine.context.proposer(proposer).render(request)
    return rendered


@pytest.mark.parametrize("proposer", PROPOSERS)
@pytest.mark.parametrize("seed", range(5))
def test_the_teachers_instructions_pass_the_gates(
    inspo_engine: Any, proposer: str, seed: int
) -> None:
    reply = instructing(seed)(instruction_prompt(inspo_engine, proposer))
    texts, problem = extract_tagged(reply, r"ins_[1-9]\d*")
    assert problem is None
    assert len(texts) == 6
    guard = LeakGuard([SOLVED_ONE_WAY.question], [SOLVED_ONE_WAY.ground_truth or ""])
    for text in texts:
        reason = inspo_engine.context.check(
            hookspecs.coevo_check_candidate,
            candidate=Candidate(text, "instruction"),
            parents=(FIRST,),
            reply=Reply(reply, "stop"),
            known={FIRST.text},
            leak_guard=guard,
        )
        assert reason is None, text


@pytest.mark.parametrize("proposer", PROPOSERS)
def test_the_teachers_instructions_speak_the_worlds_language(
    inspo_engine: Any, proposer: str
) -> None:
    reply = instructing()(instruction_prompt(inspo_engine, proposer))
    texts, _ = extract_tagged(reply, r"ins_[1-9]\d*")
    for text in texts:
        rest = CLAUSE.sub("", text).split()
        assert set(rest) <= set(FILLERS)
        assert {word for word, _ in CLAUSE.findall(text)} <= set(WORDS)
        assert {skill for _, skill in CLAUSE.findall(text)} <= set(SKILLS)


def rules(texts: Sequence[str]) -> list[dict[str, str]]:
    return [dict(CLAUSE.findall(text)) for text in texts]


def replies(engine: Any, proposer: str, parent: Candidate = FIRST) -> list[dict[str, str]]:
    """Return the rules in the answers of 20 teachers to one prompt."""
    prompt = instruction_prompt(engine, proposer, parent)
    found = [instructing(seed)(prompt) for seed in range(20)]
    return rules([text for reply in found for text in extract_tagged(reply, r"ins_\d+")[0]])


def test_only_reflection_punished_from_failures(inspo_engine: Any) -> None:
    parent = Candidate("bex means reverse .", "instruction")
    learnt = {"dax": "add-index", "wug": "rotate"}
    shares = {
        proposer: np.mean([learnt.items() <= found.items() for found in answers])
        for proposer in ("reflection", "paraphrase")
        if (answers := replies(inspo_engine, proposer, parent))
    }
    assert shares["reflection"] > 0.5
    assert shares["paraphrase"] < 0.05


def test_a_paraphrase_keeps_the_rules_but_for_an_invention(inspo_engine: Any) -> None:
    (first,) = rules([FIRST.text])
    kept = [first.items() <= found.items() for found in replies(inspo_engine, "paraphrase")]
    assert np.mean(kept) > 0.9


def test_history_starts_from_what_scored_best(inspo_engine: Any) -> None:
    kept = [found.get("dax") == "add-index" for found in replies(inspo_engine, "history")]
    assert np.mean(kept) > 0.5


def test_an_instruction_holds_no_more_rules_than_the_teacher_can_keep(inspo_engine: Any) -> None:
    parent = Candidate(" ".join(f"{word} means reverse ." for word in WORDS), "instruction")
    prompt = instruction_prompt(inspo_engine, "reflection", parent)
    texts, _ = extract_tagged(instructing(most=3)(prompt), r"ins_\d+")
    assert {len(found) for found in rules(texts)} == {3}


def test_an_instruction_reply_is_a_function_of_prompt_and_seed(inspo_engine: Any) -> None:
    prompt = instruction_prompt(inspo_engine, "paraphrase")
    assert instructing(1)(prompt) == instructing(1)(prompt)
    assert len({instructing(seed)(prompt) for seed in range(9)}) > 1
