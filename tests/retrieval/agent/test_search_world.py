"""Check the small world for search agents, and the policy that learns to search in it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from helpers.own_text import answer_of, own_spans
from helpers.word_index import WordIndex
from prompt_coevo.retrieval.agent.episode import Answer, Search, SearchEpisode, parse_turn
from prompt_coevo.retrieval.agent.scoring import score
from prompt_coevo.retrieval.outcomes import Outage, Refused
from worlds.search import policy as search_policy
from worlds.search.examples import (
    ADVICE,
    FIRST_INSTRUCTION,
    ExampleWriter,
    Habits,
    habits_under,
    question,
)
from worlds.search.world import ENTITIES, RELATIONS, SearchWorld, relations_of

WORLD = SearchWorld()
FLAWLESS = Habits(guesses=0, asks_wrong=0, stops_early=0, misreads=0, rambles=0)


def test_the_corpus_is_in_search_r1s_form(tmp_path: Path) -> None:
    WORLD.write_corpus(tmp_path / "corpus.jsonl")
    lines = (tmp_path / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    passages = [json.loads(line) for line in lines]
    assert passages == list(WORLD.passages())
    assert len(passages) == len(WORLD.facts) == 2400
    assert [passage["id"] for passage in passages] == [str(n) for n in range(2400)]
    for passage in passages:
        title, sentence = passage["contents"].split("\n")
        assert title[0] == title[-1] == '"'
        assert 8 <= len(passage["contents"].split()) <= 15
        assert f"of {title[1:-1]} is" in sentence


def test_no_word_means_two_things() -> None:
    words = [*ENTITIES["person"], *ENTITIES["town"]]
    for relations in RELATIONS.values():
        words += relations
    assert max(Counter(words).values()) == 1
    assert len(search_policy.words()) < 400


def test_the_seed_changes_the_facts() -> None:
    other = SearchWorld(1)
    same = [WORLD.facts[key] == other.facts[key] for key in WORLD.facts]
    assert np.mean(same) < 0.05
    assert SearchWorld(1).facts == other.facts


def test_answers_follow_from_the_facts() -> None:
    for asked in WORLD.questions(100):
        entity = asked.entity
        for relation in asked.relations:
            entity = WORLD.value(relation, entity)
        assert entity == asked.answer
        assert asked.entity in asked.text.split()
    with pytest.raises(KeyError):
        WORLD.value("mayor", "bada")


def test_questions_are_different_and_the_splits_disjoint() -> None:
    train = WORLD.questions(2000, seed=3)
    test = WORLD.questions(600, split="test")
    assert len(set(train)) == 2000
    assert Counter(one.hops for one in train) == {1: 1000, 2: 1000}
    assert not {one.text for one in train} & {one.text for one in test}
    assert train != WORLD.questions(2000, seed=4)
    assert {one.hops for one in WORLD.questions(50, hops=(2,))} == {2}
    with pytest.raises(ValueError, match="too few for 10000; ask for fewer"):
        WORLD.questions(10_000)


def test_a_right_query_finds_the_passage_and_a_lazy_one_does_not() -> None:
    index = WordIndex(WORLD.passages())
    facts = list(WORLD.facts.values())[::37]
    right = index.search([f"{fact.relation} of {fact.entity}" for fact in facts], 3)
    lazy = index.search([f"{fact.entity}" for fact in facts], 3)
    found, by_chance = (
        [
            any(hit.contents.endswith(fact.contents("")[len(fact.entity) + 3 :]) for hit in hits)
            for fact, hits in zip(facts, results, strict=True)
        ]
        for results in (right, lazy)
    )
    assert np.mean(found) == 1
    assert np.mean(by_chance) < 0.6


# Examples


def written(seed: int, habits: Habits) -> tuple[str, list[str], list[str]]:
    """Return the right answer, the policy's own parts and the observations."""
    rng = np.random.default_rng(seed)
    asked = question(rng)
    parts = ExampleWriter(asked, habits, rng).write()
    own = [part.text for part in parts if part.own]
    return asked.answer, own, [part.text for part in parts if not part.own]


@pytest.mark.parametrize("seed", range(30))
def test_an_example_is_an_episode(seed: int) -> None:
    _, own, shown = written(seed, Habits(rambles=0.5))
    episode = SearchEpisode(max_turns=8)
    for text, observation in zip(own, [*shown, ""], strict=True):
        action = episode.feed(text)
        if not isinstance(action, Answer):
            assert observation.startswith("\n")
            assert ("<information>" in observation) == isinstance(action, Search)
            episode.end("length") if text is own[-1] else episode.observe(
                [] if isinstance(action, Search) else None
            )
    assert episode.ended == "answer"


@pytest.mark.parametrize("seed", range(30))
def test_without_bad_habits_every_example_is_right(seed: int) -> None:
    answer, own, shown = written(seed, FLAWLESS)
    assert answer_of(own) == answer
    assert 1 <= len(shown) <= 2
    assert any(f"is {answer} ." in text for text in shown)


def test_each_habit_spoils_answers() -> None:
    for name in ("guesses", "stops_early", "misreads"):
        habits = replace(FLAWLESS, **{name: 1.0})
        examples = [written(seed, habits) for seed in range(60)]
        assert np.mean([answer_of(own) == answer for answer, own, _ in examples]) < 0.7, name


def test_advice_changes_its_habit_alone() -> None:
    assert habits_under("please think") == Habits()
    assert habits_under("") == Habits()
    for word, change in ADVICE.items():
        assert habits_under(f"please {word} think") == replace(Habits(), **change)


def test_relations_fit_their_kind() -> None:
    assert set(relations_of("person")) & set(relations_of("town")) == set()
    assert len(relations_of("town")) == 12


# The policy


def test_every_tag_is_a_token_and_every_text_is_known() -> None:
    pytest.importorskip("transformers")
    tokenizer = search_policy.build_tokenizer()
    for tag in ("<search>", "</search>", "<answer>", "</answer>", "<think>", "</information>"):
        assert len(tokenizer(tag)["input_ids"]) == 1
    episode = SearchEpisode(max_turns=9)
    shown = []
    for outcome in ([], Outage("x"), None):
        episode.feed("" if outcome is None else "<search>q</search>")
        shown.append(episode.observe(outcome))
    texts = [
        *shown,
        FIRST_INSTRUCTION,
        *(passage["contents"] for passage in islice(WORLD.passages(), 200)),
        *(asked.text for asked in WORLD.questions(100)),
    ]
    for ids in tokenizer(texts)["input_ids"]:
        assert tokenizer.unk_token_id not in ids
    episode.feed("<search>q</search>")
    assert tokenizer.unk_token_id in tokenizer(episode.observe(Refused("zzz")))["input_ids"]


def test_decoding_keeps_the_tags() -> None:
    pytest.importorskip("transformers")
    tokenizer = search_policy.build_tokenizer()
    ids = tokenizer("<search>mother of bada</search> <end>")["input_ids"]
    text = tokenizer.decode(ids, skip_special_tokens=True)
    assert parse_turn(text) == Search("mother of bada")


def test_the_chat_template_takes_a_system_message() -> None:
    pytest.importorskip("transformers")
    tokenizer = search_policy.build_tokenizer()
    chat = [{"role": "system", "content": "always"}, {"role": "user", "content": "what is ?"}]
    text = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    assert text == "<system> always <end> <user> what is ? <end> <assistant>"


def test_only_what_the_policy_writes_is_learnt() -> None:
    pytest.importorskip("torch")
    tokenizer = search_policy.build_tokenizer()
    rng = np.random.default_rng(0)
    for ids, targets in search_policy.batches(tokenizer, rng, 4):
        assert ids.shape == targets.shape
        for row, target in zip(ids, targets, strict=True):
            text = tokenizer.decode(row).replace("<pad>", "")
            learnt = tokenizer.decode(target[target >= 0])
            spans = own_spans(text.split("<assistant>")[1])
            assert learnt.split() == " ".join(spans).split()
            assert (target[target >= 0] == row[target >= 0]).all()


def test_training_is_a_function_of_the_seed() -> None:
    torch = pytest.importorskip("torch")
    models = [
        search_policy.train(steps=3, batch_size=4, learning_rate=1e-3, seed=seed)[0]
        for seed in (0, 0, 1)
    ]
    weights = [model.model.embed_tokens.weight for model in models]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@pytest.mark.long
def test_the_policy_searches_and_has_much_to_learn(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from helpers.search_rollouts import roll_out

    model, tokenizer = search_policy.train(seed=0)
    index = WordIndex(WORLD.passages())
    shares, rewards = {}, {}
    for instruction in (None, FIRST_INSTRUCTION, "always exactly twice"):
        torch.manual_seed(0)
        runs = roll_out(model, tokenizer, index, WORLD.questions(256, split="test"), instruction)
        shares[instruction] = np.mean([run.episode.searches > 0 for run in runs])
        rewards[instruction] = np.mean([score(run.episode, run.question.answer) for run in runs])
        for run in runs:
            ids, ranges = run.trajectory.completion_ids, run.trajectory.own_ranges
            spans = tokenizer.batch_decode([ids[first:end] for first, end in ranges])
            assert answer_of(spans) == run.episode.answer
            completion = tokenizer.decode(run.trajectory.completion_ids)
            assert answer_of(own_spans(completion)) == run.episode.answer
    assert all(0.6 < share < 1 for share in shares.values())
    assert all(0.2 < reward < 0.7 for reward in rewards.values())
