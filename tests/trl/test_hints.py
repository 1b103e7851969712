"""Check hints in the real GRPOTrainer: the dataset's own column, no other model, no key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from helpers.trl_world import TASKS, WORLD, score
from prompt_coevo.adapters.trl import attach
from prompt_coevo.errors import DatasetError


def with_solutions(trainer: Any, column: str = "solution") -> Any:
    """Add the meaning of each row's words."""
    known = WORLD.meaning.items()
    told = {
        task.question: " ".join(
            f"{word} means {it} ." for word, it in known if word in task.question
        )
        for task in TASKS
    }
    rows = trainer.train_dataset
    texts = [told[row["prompt"][-1]["content"]] for row in rows]
    trainer.train_dataset = rows.add_column(column, texts)
    return trainer


def test_hinted_rollouts_of_hard_questions(
    make_trainer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    epochs = {"max_steps": -1, "num_train_epochs": 3, "reward_funcs": score}
    trainer = with_solutions(make_trainer(**epochs, learning_rate=1e-4))
    hints = {"fraction": 1.0, "layout": "{{template}} {{question}}"}  # as the policy was taught
    attach(trainer, {"algorithms": "hints", "hints": hints, "question_id_column": "id"})
    trainer.train()
    history = [entry for entry in trainer.state.log_history if "coevo/hints_hard" in entry]
    assert any(entry.get("coevo/hinted_reward", 0.0) > 0.3 for entry in history)
    path = Path(trainer.args.output_dir) / "coevo" / "events.jsonl"
    events = {json.loads(line)["event"] for line in path.read_text().splitlines()}
    assert "reflection" not in events


def test_a_column_that_is_not_there(make_trainer: Any) -> None:
    trainer = make_trainer(reward_funcs=score)
    with pytest.raises(DatasetError, match=r"no column 'solution' \(hints\.column\)"):
        attach(trainer, {"algorithms": "hints", "question_id_column": "id"})


def test_a_run_shorter_than_an_epoch_shows_no_hint_and_says_so(
    make_trainer: Any, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    trainer = with_solutions(make_trainer(max_steps=2, reward_funcs=score))
    attach(trainer, {"algorithms": "hints", "question_id_column": "id"})
    trainer.train()
    assert "no hint will ever be shown, because the run has 0.5 epochs" in caplog.text
    printed = capsys.readouterr().err
    assert "hints: no hint was shown, because" in printed
    assert "see more: prompt-coevo report" in printed
