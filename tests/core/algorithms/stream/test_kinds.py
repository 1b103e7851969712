"""Check that questions of one kind are alike in any language and under any instruction."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from helpers.kinds import (
    INSTRUCTION,
    LANGUAGES,
    TUTOR,
    Kinds,
    code,
    formulas,
    in_language,
    latex,
    sentences,
    topics,
    under,
)
from prompt_coevo.algorithms.stream.likeness import Words
from prompt_coevo.types import Question

SEEDS = pytest.mark.parametrize("seed", [0, 1])


class Found(NamedTuple):
    alone: float
    """The share of questions that are similar to no other."""
    pure: float
    """The share of similarity weight that goes to questions of the same kind."""
    others: float
    """The largest similarity to a question of another kind."""


def found(questions: Kinds, words: Words | None = None, first: int = 0) -> Found:
    words = words or Words(text for text, _ in questions)
    alone, most = 0, 0.0
    weight = {True: 0.0, False: 0.0}
    for number in range(first, len(questions)):
        alike = words.near(number)
        alone += len(alike.numbers) == 1
        for other, much in zip(alike.numbers[1:].tolist(), alike.weights[1:].tolist(), strict=True):
            same = questions[other][1] == questions[number][1]
            weight[same] += much
            most = most if same else max(most, much)
    return Found(alone / (len(questions) - first), weight[True] / sum(weight.values()), most)


@SEEDS
@pytest.mark.parametrize("count", [200, 800])
@pytest.mark.parametrize("language", LANGUAGES)
def test_languages_without_spaces(language: str, count: int, seed: int) -> None:
    alone, pure, _ = found(in_language(language, count, seed))
    assert alone == 0
    assert pure > 0.85


def test_languages_side_by_side() -> None:
    """A second language does not make questions more alike."""
    each = [in_language(language, 200, seed=2) for language in LANGUAGES]
    questions = [one for three in zip(*each, strict=True) for one in three]
    alone, pure, _ = found(questions)
    assert alone == 0
    assert pure > 0.85


@SEEDS
@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
@pytest.mark.parametrize(
    "instructions",
    [
        [INSTRUCTION + " {}"],
        ["{} " + INSTRUCTION],
        [INSTRUCTION + " {}", TUTOR + " {}"],
        [INSTRUCTION + " {} " + TUTOR, "{}"],
        ["请仔细解答下面的问题，一步一步地思考，并在最后一行写出答案。{}"],
    ],
)
def test_an_instruction_that_many_share_makes_no_questions_alike(
    instructions: list[str], share: float, seed: int
) -> None:
    plain = topics(400, seed)
    questions = under(instructions, share, plain, seed)
    alone, pure, others = found(questions)
    assert alone == 0
    assert pure > 0.9
    assert others < 0.35
    likest = Words(text for text, _ in questions)
    of_a_kind = [number for number in range(400) if plain[number][1] == plain[0][1]]
    assert len(of_a_kind) > 10
    assert set(of_a_kind) <= set(likest.near(0).numbers.tolist())  # under it or not


@SEEDS
@pytest.mark.parametrize("families", [2, 4, 16])
def test_an_instruction_before_a_single_word_that_tells(families: int, seed: int) -> None:
    plain = [
        (f"a question of family f{n % families}, number n{n}", str(n % families))
        for n in range(320)
    ]
    alone, pure, others = found(under([INSTRUCTION + " {}"], 0.5, plain, seed))
    assert alone == 0
    assert pure > 0.85
    assert others < 0.3


@SEEDS
@pytest.mark.parametrize("count", [200, 1_000, 3_000])
@pytest.mark.parametrize(
    ("kinds", "numbers", "names"), [(4, 6, 0), (8, 2, 0), (8, 0, 3), (4, 3, 1), (16, 6, 1)]
)
def test_a_sentence_that_is_all_that_questions_of_a_kind_share_keeps_its_weight(
    kinds: int, numbers: int, names: int, count: int, seed: int
) -> None:
    """By numbers and names alone, questions of other kinds would be just as much alike."""
    alone, pure, _ = found(sentences(kinds, count, seed, numbers, names))
    assert alone == 0
    assert pure > 0.75


@SEEDS
def test_sentences_beside_an_instruction(seed: int) -> None:
    """Whether a word counts once or keeps its weight is decided per word."""
    questions = sentences(3, 400, seed, numbers=6, names=1)
    questions += under([INSTRUCTION + " {}"], 0.5, topics(600, seed), seed)
    assert found(questions).pure > 0.95


@SEEDS
@pytest.mark.parametrize("count", [400, 800])
def test_latex_formulas_and_code(count: int, seed: int) -> None:
    for world, least in ((latex, 0.65), (formulas, 0.7), (code, 0.7)):
        alone, pure, _ = found(world(count, seed))
        assert alone == 0
        assert pure > least, world


@SEEDS
@pytest.mark.parametrize("at_once", [1, 40])
@pytest.mark.parametrize("language", [*LANGUAGES, None])
def test_late_questions_are_read_as_the_others(
    language: str | None, at_once: int, seed: int
) -> None:
    if language is None:
        questions = under([INSTRUCTION + " {}"], 0.5, topics(400, seed), seed)
    else:
        questions = in_language(language, 400, seed)
    words = Words(text for text, _ in questions[:320])
    late = [Question(str(n), text) for n, (text, _) in enumerate(questions[320:])]
    for start in range(0, len(late), at_once):
        words.join(late[start : start + at_once])
    alone, pure, _ = found(questions, words, first=320)
    assert alone == 0
    assert pure > 0.85


@SEEDS
def test_the_same_questions_are_alike_in_the_same_way_again(seed: int) -> None:
    """Likeness is reproducible, so a resumed run decides as an uninterrupted one."""
    questions = under([INSTRUCTION + " {}", TUTOR + " {}"], 0.7, topics(1_500, seed), seed)
    one, other = (Words(text for text, _ in questions) for _ in range(2))
    for number in reversed(range(0, 1_500, 7)):
        other.near(number)
    for number in range(0, 1_500, 7):
        for first, second in zip(one.near(number), other.near(number), strict=True):
            assert first.tolist() == second.tolist()
