from __future__ import annotations

from typing import Any

import pytest
from prompt_coevo.adapters.trl.length_gate import PromptLengthGate
from prompt_coevo.adapters.trl.questions import QuestionIndex

from prompt_coevo.settings import Settings
from prompt_coevo.types import Candidate


def gate(trainer: Any) -> Any:
    questions = QuestionIndex(trainer.train_dataset, Settings(algorithms=()))
    return PromptLengthGate(trainer, questions).coevo_check_candidate


# The model has 256 positions; the longest question has 13 tokens with its chat markers.
@pytest.mark.parametrize(("words", "fits"), [(1, True), (227, True), (228, False)])
def test_the_longest_question_must_still_fit(make_trainer: Any, words: int, fits: bool) -> None:
    reason = gate(make_trainer(max_completion_length=16))(Candidate("now " * words, "template"))
    assert (reason is None) == fits
    if not fits:
        assert reason == "with it the longest question needs 257 tokens, the model has room for 256"


def test_vllms_own_limit_counts(make_trainer: Any) -> None:
    trainer = make_trainer(max_completion_length=16)
    trainer.use_vllm = True
    trainer.args.vllm_max_model_length = 40
    assert gate(trainer)(Candidate("now " * 11, "template")) is None
    assert "room for 40" in gate(trainer)(Candidate("now " * 12, "template"))


def test_prompts_that_do_not_fit_anyway_are_the_users_business(make_trainer: Any) -> None:
    assert gate(make_trainer(max_completion_length=250))(Candidate("now", "template")) is None
