"""Check another dataset in the trainer when `train()` is called again."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset

from helpers.trl_runs import EPOCHS, P2O, epoch_searches, events, settings
from helpers.trl_world import rows
from prompt_coevo.adapters.trl import attach
from prompt_coevo.errors import DatasetError, StateError

ROWS = rows()
OLD, NEW = ROWS[:6], [*ROWS[2:6], *ROWS[6:]]
"""Two questions of the old one are gone in the new one, and two are new."""
GONE = ["q0", "q1"]
WAYS = {"p2o": {"p2o": P2O}, "stream": {"stream": {"tau": P2O["tau"]}}}


def replaced(make_trainer: Any, method: str, rows: Any = NEW, **config: Any) -> Any:
    """Return a trainer that has trained on the old dataset and has the new one."""
    trainer = make_trainer(**{**EPOCHS, "num_train_epochs": 1, **config}, dataset=OLD)
    callback = attach(trainer, settings(**WAYS[method]))
    trainer.train()
    trainer.train_dataset = Dataset.from_list(rows)
    return trainer, callback


@pytest.mark.parametrize("method", WAYS)
def test_questions_that_are_gone_leave_and_new_ones_are_learned(
    make_trainer: Any, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    trainer, callback = replaced(make_trainer, method)
    trainer.args.num_train_epochs = 2
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="prompt_coevo"):
        trainer.train()
    (line,) = [one for one in caplog.messages if "the training dataset has changed" in one]
    assert "\n" not in line
    found = events(trainer)
    assert [event["event"] for event in found].count("dataset_replaced") == 1
    (gone,) = [event["questions"] for event in found if event["event"] == "hard_questions_gone"]
    assert gone == GONE
    assert not [e for e in found if e["event"] in ("plugin_error", "search_failed")]
    assert callback.policy.question_ids() == [row["id"] for row in NEW]
    history = [entry for entry in trainer.state.log_history if "coevo/hard_samples" in entry]
    assert history[-1]["coevo/hard_samples"] == len(NEW)
    assert any(entry["coevo/templated_fraction"] > 0 for entry in history)


def test_a_search_of_the_second_call_is_on_the_new_questions(make_trainer: Any) -> None:
    trainer, callback = replaced(make_trainer, "p2o")
    trainer.args.num_train_epochs = 2
    asked: set[str] = set()
    rollout = callback.policy.rollout

    def watched(requests: Any) -> Any:
        asked.update(request.assignment.question_id for request in requests)
        return rollout(requests)

    callback.policy.rollout = watched
    trainer.train()
    assert len(epoch_searches(trainer)) == 2
    assert {"q6", "q7"} <= asked <= {row["id"] for row in NEW}


def test_a_resume_within_the_call_on_the_new_dataset(make_trainer: Any, tmp_path: Path) -> None:
    """Its checkpoints belong to the new dataset, so a resume with the old one is refused."""
    saves = {"save_strategy": "steps", "save_steps": 3}
    trainer, _ = replaced(make_trainer, "p2o", **saves)
    trainer.args.num_train_epochs = 2
    trainer.train()
    checkpoint = str(Path(trainer.args.output_dir) / "checkpoint-3")
    options = {**EPOCHS, **saves, "num_train_epochs": 2}
    again = make_trainer(**options, dataset=NEW, output_dir=str(tmp_path / "again"))
    attach(again, settings())
    again.train(resume_from_checkpoint=checkpoint)
    assert again.state.global_step == 6
    assert not [event for event in events(again) if event["event"] == "dataset_replaced"]
    late = make_trainer(**options, dataset=OLD, output_dir=str(tmp_path / "late"))
    attach(late, settings())
    late.train_dataset = Dataset.from_list(NEW)
    late.train(resume_from_checkpoint=checkpoint)
    assert late.state.global_step == 6
    wrong = make_trainer(**options, dataset=OLD, output_dir=str(tmp_path / "wrong"))
    attach(wrong, settings())
    with pytest.raises(StateError, match="is of another run: dataset.fingerprint was"):
        wrong.train(resume_from_checkpoint=checkpoint)


def test_an_equal_dataset_is_the_same(make_trainer: Any) -> None:
    trainer, _ = replaced(make_trainer, "p2o", rows=OLD)
    trainer.train()
    assert not [event for event in events(trainer) if event["event"] == "dataset_replaced"]


def test_a_dataset_that_cannot_be_used_is_refused(make_trainer: Any) -> None:
    trainer, _ = replaced(make_trainer, "p2o", rows=[{**row, "id": "same"} for row in NEW])
    with pytest.raises(DatasetError, match="the question id 'same' stands for two different"):
        trainer.train()
