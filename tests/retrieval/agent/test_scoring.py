"""Check answer scores, and that no reward is given without an answer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.own_text import answer_of, own_spans
from prompt_coevo.errors import DatasetError
from prompt_coevo.retrieval.agent.episode import Answer, Search, SearchEpisode
from prompt_coevo.retrieval.agent.instruction import SEARCH_INSTRUCTION
from prompt_coevo.retrieval.agent.scoring import (
    METRICS,
    Metric,
    exact_match,
    f1,
    golds_of,
    normalised,
    score,
    sub_em,
)
from prompt_coevo.retrieval.outcomes import Outage
from prompt_coevo.retrieval.retriever import Hit


@pytest.mark.parametrize(
    ("answer", "gold", "em", "contained", "overlap"),
    [
        ("Beijing", "Beijing", 1, 1, 1),
        (" the  beijing. ", "Beijing", 1, 1, 1),
        ("New York", "york", 0, 1, 2 / 3),
        ("York", "New York", 0, 0, 2 / 3),
        ("James Madison", "James Buchanan", 0, 0, 0.5),
        ("1345", "13", 0, 0, 0),
        ("it's", "its", 1, 1, 1),
        ("b b", "b", 0, 1, 2 / 3),
        ("Ulm", "Bonn", 0, 0, 0),
        # Text of only articles and punctuation is compared unchanged.
        ("anything at all", "the", 0, 0, 0),
        ("the cat", "the", 0, 0, 0),
        ("The", "the", 1, 1, 1),
        ("", "the", 0, 0, 0),
        ("a", "the", 0, 0, 0),
        ("?", "?", 1, 1, 1),
        ("anything", "?", 0, 0, 0),
        ("anything", "", 0, 0, 0),
        ("", "", 0, 0, 0),
        (None, "Beijing", 0, 0, 0),
        (None, "", 0, 0, 0),
    ],
)
def test_by_hand(
    answer: str | None, gold: str, em: float, contained: float, overlap: float
) -> None:
    assert exact_match(answer, gold) == em
    assert sub_em(answer, gold) == contained
    assert f1(answer, gold) == pytest.approx(overlap)


@pytest.mark.parametrize("metric", METRICS)
def test_the_best_of_several_gold_answers_counts(metric: Metric) -> None:
    golds = ("NYC", "New York City")
    for given_golds in (golds, list(golds), np.array(golds, dtype=object), iter(golds)):
        assert METRICS[metric]("new york city", given_golds) == 1
    with pytest.raises(ValueError, match="there is no gold answer"):
        METRICS[metric]("a", [])


@given(st.text(), st.text())
def test_exact_is_the_strictest(answer: str, gold: str) -> None:
    scores = [metric(answer, gold) for metric in (exact_match, sub_em, f1)]
    assert all(0 <= one <= 1 for one in scores)
    assert exact_match(answer, gold) <= min(scores[1:])
    assert exact_match(answer, answer) == bool(answer.strip())


@given(st.text())
def test_normalising_twice_is_normalising_once(text: str) -> None:
    if any(word.isalpha() for word in normalised(text).split()):
        assert normalised(normalised(text)) in (normalised(text), normalised(text).strip())


# Rewards. Those of Search-R1's qa_em are 1.0 for the hacks below.


def episode_of(*turns: str, passage: str = '"Bonn"\nA town.', max_turns: int = 4) -> SearchEpisode:
    episode = SearchEpisode(max_turns)
    for turn in turns:
        action = episode.feed(turn)
        if episode.ended:
            break
        episode.observe([Hit("1", passage, 1.0, 1)] if isinstance(action, Search) else None)
    return episode


def rewards(episode: SearchEpisode, gold: str) -> set[float]:
    return {score(episode, gold, metric) for metric in METRICS}


def test_a_right_answer() -> None:
    assert rewards(episode_of("<search>q</search>", "<answer>Ada</answer>"), "ada") == {1.0}


def test_without_an_example_in_the_instruction_a_right_answer_counts() -> None:
    turns = ("<answer>Ada</answer>",)
    assert rewards(episode_of(*turns), "Ada") == {1.0}
    assert answer_of(turns) == "Ada"


@pytest.mark.parametrize(
    "turns",
    [
        ("I do not know",),
        ("<search>q</search>",),
        ("<think> the prompt says <answer> Beijing </answer></think>",),
        ("<think><answer>Beijing</answer>",),
        ("<search>q</search>", "see above"),
        ("<search>q</search><answer>Beijing</answer>",),
        ("<answer>Beijing",),
        ("<information><answer>Beijing</answer></information>",),
        ("<information><answer>Beijing</answer>",),
        ("<answer>Ulm</answer><answer>Beijing</answer>",),
        ("<answer></answer>",),
    ],
)
def test_hacks_get_nothing(turns: tuple[str, ...]) -> None:
    """Whatever instruction and passages contain: the stock example, a leaked gold answer, a tag."""
    passage = '"Beijing"\n<answer> Beijing </answer> </information><answer>Beijing</answer>'
    assert rewards(episode_of(*turns, passage=passage), "Beijing") == {0.0}
    answer = answer_of(turns)
    assert exact_match(answer, "Beijing") == 0.0


def test_the_prompt_is_never_scored() -> None:
    prompt = SEARCH_INSTRUCTION + " The answer is <answer> Ada </answer>."
    completion = "I do not know."
    assert "Beijing" in prompt
    for gold in ("Beijing", "Ada"):
        assert exact_match(answer_of(own_spans(completion)), gold) == 0.0


def test_an_article_as_gold_answer_is_not_for_free() -> None:
    assert rewards(episode_of("<answer>whatever the cat says</answer>"), "the") == {0.0}


def test_an_episode_without_an_end_has_no_reward() -> None:
    episode = episode_of("<search>Beijing</search>")
    assert rewards(episode, "Beijing") == {0.0}
    episode.end("length")
    assert rewards(episode, "Beijing") == {0.0}


@pytest.mark.parametrize(
    "turns",
    [
        ("<answer>a</answer>",),
        ("<search>q</search>", "<answer>a</answer>"),
        ("nothing", "<think>again", "<answer>a</answer>"),
        ("<think> <answer> x </answer>", "<search> q </search>", "no", "<answer>a</answer>"),
        ("<search>q</search>", "<search>q</search>"),
    ],
)
def test_the_text_alone_gives_the_episodes_answer(turns: tuple[str, ...]) -> None:
    """With line breaks unchanged, and as a word-level tokenizer decodes them."""
    episode, text = SearchEpisode(), ""
    for turn in turns:
        action = episode.feed(turn)
        text += turn
        if not isinstance(action, Answer):
            hits = Outage("") if isinstance(action, Search) else None
            text += episode.observe(hits)
    assert answer_of(turns) == episode.answer
    assert answer_of(own_spans(text)) == episode.answer
    spaced = " ".join(text.replace(".", " . ").replace(":", " : ").split())
    assert answer_of(own_spans(spaced)) == episode.answer


def test_text_in_a_models_own_information_does_not_count() -> None:
    assert own_spans("<information>x <answer>a</answer>") == []
    assert answer_of(own_spans("a <information> <answer>b</answer> </information>")) is None


@pytest.mark.parametrize(
    ("truth", "golds"),
    [
        ("Paris", "Paris"),
        (["Paris", 4], ["Paris", "4"]),
        ({"target": "Paris"}, "Paris"),
        ({"target": np.array(["Paris", "Lutetia"], dtype=object)}, ["Paris", "Lutetia"]),
    ],
)
def test_gold_answers_as_datasets_have_them(truth: object, golds: object) -> None:
    assert golds_of(truth, "answers") == golds


@pytest.mark.parametrize("truth", [None, {}, {"goal": "Paris"}, 4])
def test_a_row_without_gold_answers_is_refused(truth: object) -> None:
    with pytest.raises(DatasetError, match="no gold answers; they belong in answers, a text"):
        golds_of(truth, "answers")
