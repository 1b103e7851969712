from __future__ import annotations

import pytest

from prompt_coevo.types import Candidate
from prompt_coevo.vocabulary_gate import VocabularyGate

WORDS = {"note": 0, "<unknown>": 1, "now": 2, "added": 3}


def encode(text: str) -> list[int]:
    return [WORDS.get(word, 1) for word in text.split()]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("note now", None),
        ("note ☃", "it has text that the policy's tokenizer does not know"),
        ("note added", "it has tokens beyond the 3 of the policy's vocabulary"),
    ],
)
def test_what_the_policy_cannot_read_is_refused(text: str, reason: str | None) -> None:
    gate = VocabularyGate(encode, size=3, unknown=1)
    assert gate.coevo_check_candidate(Candidate(text, "template")) == reason


def test_tokenizers_without_an_unknown_token_know_everything() -> None:
    gate = VocabularyGate(encode, size=None, unknown=None)
    assert gate.coevo_check_candidate(Candidate("☃ added", "template")) is None
