from __future__ import annotations

import pytest

from prompt_coevo.adapters.common.vocabulary_gate import VocabularyGate
from prompt_coevo.types import Candidate

WORDS = {"note": 0, "now": 1, "added": 2}


def encode(text: str) -> list[int]:
    return [WORDS[word] for word in text.split()]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("note now", None),
        ("note added", "it has tokens beyond the 2 of the policy's vocabulary"),
    ],
)
def test_what_the_policy_cannot_read_is_refused(text: str, reason: str | None) -> None:
    gate = VocabularyGate(encode, size=2)
    assert gate.coevo_check_candidate(Candidate(text, "template")) == reason


def test_a_model_that_hides_its_size_refuses_nothing() -> None:
    gate = VocabularyGate(encode, size=None)
    assert gate.coevo_check_candidate(Candidate("added", "template")) is None
