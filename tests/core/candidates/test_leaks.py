"""Check what counts as a leak, and what does not."""

from __future__ import annotations

import base64
import string
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompt_coevo.candidates.leaks import LeakGuard, LeakGuards, leak_guard
from prompt_coevo.candidates.normal_words import Words, normal_line
from prompt_coevo.settings.gates import GateSettings
from prompt_coevo.types import Question

LONG_TRUTH = "Ouagadougou in Burkina Faso"
QUESTIONS = {
    "Who wrote War and Peace?": "Leo Tolstoy",
    "Who wrote Hamlet?": "Shakespeare",
    "Where do the members of that parliament, elected last spring, come together?": LONG_TRUTH,
    "What is the boiling point of water in Celsius?": "100",
    "What is 2 + 2?": "4",
    "Find 12 times 13.": "156",
    "Is a tomato a fruit?": "yes",
    "A train leaves the station at nine and arrives at noon, how fast is it?": "2",
    "谁写了战争与和平？": "列夫·托尔斯泰",
}
GUARD = LeakGuard(QUESTIONS, QUESTIONS.values())


def in_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    "text",
    [
        "Who wrote War and Peace? answer Leo Tolstoy",
        "WHO  WROTE\nwar & peace and War and Peace: who wrote war and peace",
        "If you are asked who wrote War and Peace, think twice.",
        f"Read this: {in_base64('Who wrote War and Peace?')}",
        "Backwards: " + "Who wrote War and Peace?"[::-1],
        "谁写了战争与和平",
        "It is what is the boiling point of water in CELSIUS",
    ],
)
def test_a_short_question_is_looked_for_as_a_whole(text: str) -> None:
    assert "words of a training question" in (GUARD.find(text) or "")


@pytest.mark.parametrize(
    "written",
    [
        LONG_TRUTH,
        LONG_TRUTH.upper(),
        "Ouagadougou  in Burkina\tFaso",
        "Ouagadougou\nin\u00a0Burkina\u3000Faso",
        "Oua\u200bgadougou in Burkina\u00ad Faso",
        "Ouagаdоugou in Вurkinа Fаsо",  # Cyrillic letters among them
        "Οuagadougou in Burkina Faso",  # a Greek one
        "Ｏｕａｇａｄｏｕｇｏｕ in Burkina Faso",
        "Óuàgadougou in Burkina Fåso",
        "O-u-a-g-a-d-o-u-g-o-u i.n B_u_r_k_i_n_a Faso",
        " ".join(LONG_TRUTH),
        "(Ouagadougou), in: [Burkina] Faso!",
        "itisOuagadougouinBurkinaFaso",
        in_base64(LONG_TRUTH),
        in_base64(LONG_TRUTH).rstrip("="),
        base64.urlsafe_b64encode(LONG_TRUTH.encode()).decode(),
        f"https://host/hint/{in_base64(LONG_TRUTH)}",
        f"answer-{in_base64(LONG_TRUTH)}",
        "OUAGADOUGOU IΝ BURKIΝA FASO",  # Greek capitals that look like N, not like v
        "Ouagadougou&nbsp;in&nbsp;Burkina&#32;Faso",
        LONG_TRUTH[::-1],
    ],
)
def test_a_long_truth_is_found_in_any_dress(written: str) -> None:
    leak = "it contains the ground truth of a training question"
    assert GUARD.find(f"Remember: {written} is often right.") == leak


@pytest.mark.parametrize(
    "text",
    [
        "War and Peace: Leo Tolstoy",
        "hamlet - SHAKESPEARE",
        "If it is about Hamlet, say S.h.a.k.e.s.p.e.a.r.e",
        f"Hamlet: {in_base64('Shakespeare')}",
        "Hamlet, " + "Shakespeare"[::-1],
        "Hamlet: Shаkespeаre",
        "Water has its boiling point at 100 degrees.",
        "12 with 13 gives 156",
        "战争与和平：列夫托尔斯泰",
    ],
)
def test_a_short_truth_is_found_next_to_words_of_its_question(text: str) -> None:
    assert "with words of the question" in (GUARD.find(text) or "")


@pytest.mark.parametrize(
    "text",
    [
        "Think step by step, 2 + 2",
        "The answer is often 2. Or 4.",
        "1. Read. 2. Think. 3. Answer, with 100 words at most.",
        "Give 156 examples.",
        "Write as Shakespeare did, or as Leo Tolstoy.",
        "Say yes or no. Is the tomato a fruit or a vegetable?",
        "Trains: at nine and arrives at noon how",
        "Peace first. Then find out what is asked.",
        "Count the water: 1000 or 10 0.",
        "SGVsbG8gd29ybGQ= and consecutively",
        "",
    ],
)
def test_what_is_no_leak(text: str) -> None:
    assert GUARD.find(text) is None


def test_a_number_alone_with_one_word_of_its_question_is_no_leak() -> None:
    guard = LeakGuard(["How many grams has a kilogram?"], ["1000"])
    assert guard.find("A kilogram is a unit, 1000 is a number.") is None
    assert guard.find("Grams in a kilogram: 1000.") is not None


def test_short_truths_of_mathematics_do_not_reject_everything() -> None:
    """A thousand tasks have the answers 0 to 999, and a hint contains all of these numbers."""
    tasks = [
        f"If a farmer buys {n} sheep and sells {n // 3}, how many remain?" for n in range(1000)
    ]
    guard = LeakGuard(tasks, map(str, range(1000)))
    hint = "Subtract what is gone from what there was. Numbers: " + " ".join(map(str, range(1000)))
    assert guard.find(hint) is None
    assert guard.find("The farmer has 12 sheep.") is None


def test_the_words_of_the_truth_itself_do_not_tell_the_question() -> None:
    guard = LeakGuard(["what is 12?"], ["answer 12"])
    assert guard.find("Begin with: answer 12") is None


def test_a_truth_without_a_question_is_looked_for_if_it_is_long() -> None:
    guard = LeakGuard([], [LONG_TRUTH, "Tolstoy"])
    assert guard.find(LONG_TRUTH)
    assert guard.find("Tolstoy") is None


def test_what_stands_in_the_parent_is_allowed_in_any_dress() -> None:
    parent = f"Hamlet is by Shakespeare. {LONG_TRUTH.upper()}. Who wrote War and Peace?"
    assert GUARD.find(f"shakespeare Hamlet {LONG_TRUTH} who wrote war and peace", parent) is None
    assert GUARD.find("Who wrote War and Peace? Leo Tolstoy", parent) is not None


def questions(*numbers: int) -> list[Question]:
    words = string.ascii_lowercase
    return [
        Question(
            f"q{n}", " ".join(f"{letter}{n}word" for letter in words), f"{n} is the answer here"
        )
        for n in numbers
    ]


def test_a_guard_of_the_run_knows_the_questions_it_was_asked_for_and_no_others() -> None:
    guards = LeakGuards(GateSettings())
    first = guards.guard(questions(1, 2))
    second = guards.guard(questions(2, 3))
    copies = {n: " ".join(questions(n)[0].prompt.split()[4:12]) for n in (1, 2, 3)}  # type: ignore[union-attr]
    truths = {n: questions(n)[0].ground_truth or "" for n in (1, 2, 3)}
    for texts in (copies, truths):
        assert [first.find(texts[n]) is not None for n in (1, 2, 3)] == [True, True, False]
        assert [second.find(texts[n]) is not None for n in (1, 2, 3)] == [False, True, True]


def test_a_question_is_read_once_in_a_run() -> None:
    class Prompt(str):
        """Counts how often it is read."""

        read = 0

        def isascii(self) -> bool:
            Prompt.read += 1
            return super().isascii()

    guards = LeakGuards(GateSettings())
    asked = [Question(f"q{n}", Prompt(f"this is the question number {n}")) for n in range(5)]
    guards.guard(asked[:3])
    guards.guard(asked)
    assert Prompt.read == 5


def test_the_guard_of_a_run_finds_what_a_guard_for_one_time_finds() -> None:
    gates, asked = GateSettings(leak_ngram=5), questions(*range(700))
    guards, once = LeakGuards(gates), leak_guard(asked, gates)
    for start in range(0, 700, 100):
        guards.guard(asked[start : start + 100])
    often = guards.guard(asked)
    for n in (0, 99, 100, 511, 512, 699):
        text = " ".join(questions(n)[0].prompt.split()[20:25])  # type: ignore[union-attr]
        assert often.find(text) == once.find(text) is not None
    assert often.find("a1word b2word c3word d4word e5word") is None


ANY_TEXT = st.text(st.characters(exclude_categories=()))


@given(ANY_TEXT, ANY_TEXT)
def test_no_text_raises(text: str, other: str) -> None:
    GUARD.find(text, other)
    assert LeakGuard([text, other], [other, text]).find(text, text) is None


@given(ANY_TEXT | st.lists(st.sampled_from(["a", "b", "é", "数", " ", "\n"])).map("".join))
def test_a_question_leaks_itself_unless_it_is_very_short(text: str) -> None:
    leaks = LeakGuard([text]).find(text) is not None
    assert leaks == (len(normal_line(text).split()) >= 4)


@given(st.lists(st.text(st.sampled_from("abz 019.-éλ数\n\u0301")), max_size=8))
def test_words_are_counted_as_they_are_split(texts: list[str]) -> None:
    lines = [normal_line(text) for text in texts]
    words = Words(lines)
    split = [line.split() for line in lines]
    assert words.counts.tolist() == [len(one) for one in split]
    flat = [word for one in split for word in one]
    assert words.sizes.tolist() == [len(word) for word in flat]
    for length in (1, 2, 5):
        runs = [tuple(flat[first : first + length]) for first in range(len(flat) - length + 1)]
        found = words.runs(length).tolist()
        assert len(found) == len(runs)
        within = {
            tuple(line[first : first + length])
            for line in split
            for first in range(len(line) - length + 1)
        }
        hashes = {run: one for run, one in zip(runs, found, strict=True) if run in within}
        assert len(set(hashes.values())) == len(hashes)
        if length == 1:
            assert [hashes[run] for run in runs] == found


def test_hashes_are_the_same_in_every_process() -> None:
    code = (
        "from prompt_coevo.candidates.normal_words import Words;"
        "print(Words([b'war and peace']).hashes.tolist())"
    )
    run = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == str(Words([b"war and peace"]).hashes.tolist())


def test_many_questions_take_little_memory() -> None:
    """A tuple of eight words per word took 1.4 GB for 100 000 questions: 230 bytes per word."""
    guards = LeakGuards(GateSettings())
    rng = np.random.default_rng(0)
    asked = [
        Question(f"q{n}", " ".join(f"w{word}" for word in rng.integers(30_000, size=61)))
        for n in range(2_000)
    ]
    guard = guards.guard(asked)
    assert guard.find(str(asked[1_999].prompt)) is not None
    held = sum(known.nbytes + numbers.nbytes for known, numbers in guards._known._grams._parts)
    assert held == 12 * 2_000 * 54
