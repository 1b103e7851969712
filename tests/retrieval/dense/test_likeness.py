"""Questions that are alike by an encoder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helpers.tiny_encoder import save_tiny_encoder
from prompt_coevo import registry
from prompt_coevo.errors import SettingsError
from prompt_coevo.retrieval.dense.encoder_recipes import EncoderError
from prompt_coevo.retrieval.dense.likeness import Encoded
from prompt_coevo.settings import Settings
from prompt_coevo.types import Question

TOPICS = ("how long is the river", "what is the square of", "who wrote the famous play")
TEXTS = [TOPICS[n % 3] + " please" * (n // 3) for n in range(12)]


class Desk:
    """As much of a context as a factory needs."""

    def __init__(self, name: str | None) -> None:
        p2o = {"search_backend": "stream", "likeness": "encoder", "likeness_encoder": name}
        self.settings = Settings(p2o=p2o)


def test_questions_of_one_kind_are_alike(tmp_path: Path) -> None:
    folder = save_tiny_encoder(tmp_path / "encoder", TEXTS)
    factory = registry.load("likenesses", "encoder", "p2o.likeness")
    questions = [Question(f"q{n}", [{"role": "user", "content": t}]) for n, t in enumerate(TEXTS)]
    alike = factory(Desk(f"mean:{folder}"), iter(questions))
    for number in range(len(TEXTS)):
        near = alike.near(number)
        assert near.numbers[0] == number
        assert near.weights[0] == 1.0
        assert set(near.numbers[:4].tolist()) == set(range(number % 3, len(TEXTS), 3))
        assert all(0.2 <= weight <= 1.0 for weight in near.weights)


@pytest.mark.parametrize("common", [0.0, 50.0])
def test_what_all_vectors_have_in_common_says_nothing(common: float) -> None:
    """Some encoders put every text into one corner: all of their cosines are near 1."""
    noise = np.random.default_rng(0).normal(size=(40, 16)).astype(np.float32)
    kinds = np.repeat(np.eye(4, 16, dtype=np.float32) * 20, 10, axis=0)
    alike = Encoded(noise + kinds + np.float32(common))
    for number in range(40):
        first = number // 10 * 10
        assert set(alike.near(number).numbers.tolist()) == set(range(first, first + 10))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_equal_vectors_and_very_few_questions(count: int) -> None:
    alike = Encoded(np.ones((count, 8), dtype=np.float32))
    assert [alike.near(number).numbers.tolist() for number in range(count)] == [
        [number] for number in range(count)
    ]


def test_of_many_that_are_equally_alike_every_question_knows_its_neighbours() -> None:
    alike = Encoded(np.eye(2, 8, dtype=np.float32)[np.arange(1_000) % 2])
    for number in range(4, 996):
        numbers = alike.near(number).numbers.tolist()
        assert {number - 2, number, number + 2} <= set(numbers)
        assert len(numbers) <= 129


def test_an_encoder_that_is_not_there_is_named() -> None:
    factory = registry.load("likenesses", "encoder", "p2o.likeness")
    with pytest.raises(EncoderError, match="no folder /nowhere"):
        factory(Desk("mean:/nowhere"), [Question("q0", "one")])


@pytest.mark.parametrize(
    "p2o", [{"likeness": "encoder"}, {"likeness": "words", "likeness_encoder": "minilm"}]
)
def test_the_kind_and_the_encoder_go_together(p2o: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match=r'likeness = "encoder" and p2o.likeness_encoder go'):
        Settings(p2o={"search_backend": "stream", **p2o})
