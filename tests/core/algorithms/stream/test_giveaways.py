"""Templates that hold a question, or its answer, are not tried on it."""

from __future__ import annotations

import base64
import re

from hypothesis import example, given
from hypothesis import strategies as st

from helpers.families import Families, engine_with, run, texts
from prompt_coevo.algorithms.stream.giveaways import Giveaways
from prompt_coevo.algorithms.stream.library import Template
from prompt_coevo.candidates.leaks import leak_guard, shared_text, some_questions
from prompt_coevo.settings.gates import GateSettings
from prompt_coevo.types import Candidate, Question

ASKED = {
    "Who wrote War and Peace?": "Leo Tolstoy",
    "Who wrote Hamlet?": "Shakespeare",
    "Where do the members of that parliament, elected last spring, come together?": "Ouagadougou in Faso",
    "Find 12 times 13.": "156",
    "Is a tomato a fruit?": "yes",
    "Is the whale, which lives in the sea, a mammal or a fish?": "mammal",
    "Is the shark, which lives in the sea, a mammal or a fish?": "fish",
    "Is the otter, which lives in the sea, a mammal or a fish?": "mammal",
    "谁写了战争与和平？": "列夫·托尔斯泰",
    "": "Madrid",
}
PIECES = sorted({*ASKED, *ASKED.values(), *" ".join(ASKED).split(), "Answer", "in", "capitals:"})


class Asking:
    """A policy that knows the questions above."""

    def question_ids(self) -> list[str]:
        return list(map(str, range(len(ASKED))))

    def question(self, question_id: str) -> Question:
        return Question(question_id, *list(ASKED.items())[int(question_id)])


def in_use(text: str) -> Template:
    return Template(Candidate(text, "template"), 1, (), 0, "in use")


def with_example(prompt: str) -> str:
    """Write a template that helps a family, with the family's first question as an example."""
    family = re.findall(r"family f(\d+)", prompt)[0]
    return (
        f"<template>Think of k{family} . Example: a question of family f{family}, number n{family}."
        "</template>"
    )


def test_a_template_is_not_tried_on_the_question_that_is_its_example() -> None:
    policy = Families()
    plans = [texts(plan) for plan in run(engine_with(with_example), policy, 6)]
    given_to = {(question, text) for plan in plans for question, text in plan if "Example" in text}
    shown = {
        (int(question[1:]), int(re.findall(r"n(\d+)", text)[0])) for question, text in given_to
    }
    assert {number for number, _ in shown if number >= policy.families}
    assert not [number for number, own in shown if number == own]


def test_other_templates_are_tried_on_it() -> None:
    """Although the one that works for its like would be drawn nearly always."""
    policy = Families()
    plans = run(engine_with(with_example), policy, 10)
    last = {question for plan in plans[-4:] for question, text in texts(plan) if text}
    assert len(last) == policy.count


def test_it_is_off_with_the_gate() -> None:
    policy = Families()
    plans = run(engine_with(with_example, gates={"active": ()}), policy, 6)
    given_to = {pair for plan in plans for pair in texts(plan)}
    assert [one for one in given_to if re.search(rf"number n{one[0][1:]}\b", one[1])]


@given(
    st.lists(st.sampled_from(PIECES), max_size=12),
    st.booleans(),
    st.integers(2, 12),
    st.integers(1, 12),
)
@example(["Ouagadougou in Faso"], False, 8, 12)
@example(["It", "is", "156"], False, 8, 2)
def test_what_the_gates_would_refuse_for_a_question_is_withheld(
    pieces: list[str], hidden: bool, ngram: int, truth_chars: int
) -> None:
    text = " ".join(pieces)
    if hidden:
        text = base64.b64encode(text.encode()).decode()
    policy, settings = Asking(), GateSettings(leak_ngram=ngram, leak_truth_chars=truth_chars)
    giveaways = Giveaways(policy, settings)
    shared = shared_text(some_questions(policy), ngram)
    template = in_use(text)
    for name in policy.question_ids():
        refused = leak_guard([policy.question(name)], settings).find(text, shared) is not None
        assert giveaways.fit([template], name) == [template] * (not refused)
