from __future__ import annotations

from typing import Any

import pytest

from helpers.inspo_world import settings
from helpers.trl_world import rows
from prompt_coevo import hookspecs
from prompt_coevo.adapters.common.columns import index_columns
from prompt_coevo.adapters.common.length_gate import PromptLengthGate
from prompt_coevo.adapters.trl import attach
from prompt_coevo.adapters.trl.checks import prompt_limit
from prompt_coevo.candidates.leaks import LeakGuard
from prompt_coevo.placement import Placement
from prompt_coevo.proposals import Reply
from prompt_coevo.settings import Settings
from prompt_coevo.types import EMPTY_TEMPLATE, Candidate

SYSTEM = {"role": "system", "content": "note " * 100}


def gate(trainer: Any) -> Any:
    questions = index_columns(trainer.train_dataset, Settings(algorithms=()))
    gate = PromptLengthGate(questions, Placement(), prompt_limit(trainer), count_tokens=len)
    return gate.coevo_check_candidate


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


def test_after_a_resume_the_instructions_in_use_still_count(
    make_trainer: Any, tmp_path: Any
) -> None:
    """A template shares the prompt with them, whether or not the population changes again."""
    long = "note " * 100
    both = settings(
        algorithms=("inspo", "p2o"),
        inspo={
            "initial_population": (long, "note"),
            "instruction": None,
            "evolution": "off",
            "prune": False,
        },
        p2o={"overspend": "never"},
    )

    def refused(engine: Any) -> str | None:
        return str(
            engine.context.check(
                hookspecs.coevo_check_candidate,
                candidate=Candidate("now " * 150, "template"),
                parents=(EMPTY_TEMPLATE,),
                reply=Reply("now"),
                known=set(),
                leak_guard=LeakGuard(),
            )
        )

    trainer = make_trainer(save_strategy="steps", save_steps=1)
    callback = attach(trainer, both)
    trainer.train()
    again = make_trainer(output_dir=str(tmp_path / "again"))
    resumed = attach(again, both)
    again.train(resume_from_checkpoint=f"{trainer.args.output_dir}/checkpoint-1")
    expected = "with it the longest question needs 281 tokens, the model has room for 256"
    assert refused(callback.engine) == expected
    assert refused(resumed.engine) == expected


def test_a_system_message_that_is_replaced_takes_no_room(make_trainer: Any) -> None:
    """The candidate takes its place."""
    long = [{**row, "prompt": [SYSTEM, *row["prompt"]]} for row in rows()]
    trainer = make_trainer(dataset=long)
    callback = attach(trainer, settings(inspo={"instruction": None, "paraphrase": False}))
    trainer.train()
    for words, fits in ((225, True), (226, False)):
        reason = callback.engine.context.check(
            hookspecs.coevo_check_candidate,
            candidate=Candidate("now " * words, "instruction"),
            parents=(Candidate("now", "instruction"),),
            reply=Reply("now"),
            known=set(),
            leak_guard=LeakGuard(),
        )
        assert (reason is None) == fits, reason
