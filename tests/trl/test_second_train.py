"""Check repeated `trainer.train()` calls: the search continues, and counts all epochs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import TrainerCallback

from helpers.trl_runs import EPOCHS, P2O, epoch_searches, events, know_all, settings
from prompt_coevo.adapters.trl import attach
from prompt_coevo.errors import StateError

ONE = {**EPOCHS, "num_train_epochs": 1}
FOUR_STEPS = 4


class Interrupted(TrainerCallback):
    """Raise Ctrl-C after some steps, once."""

    def __init__(self, after: int) -> None:
        self.after: int | None = after

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == self.after:
            self.after = None
            raise KeyboardInterrupt


def test_a_search_when_the_second_call_begins(make_trainer: Any) -> None:
    """The first call's last epoch is over then."""
    trainer = make_trainer(**ONE)
    callback = attach(trainer, settings())
    trainer.train()
    assert epoch_searches(trainer) == []
    trainer.train()
    assert epoch_searches(trainer) == [FOUR_STEPS]
    trainer.args.num_train_epochs = 2
    trainer.train()
    assert epoch_searches(trainer) == [4, 8, 12]
    assert callback.engine.epochs == 3
    assert trainer.state.log_history[-2]["coevo/searches"] == 3


def test_an_interrupted_call_counts_what_it_did(make_trainer: Any) -> None:
    trainer = make_trainer(**ONE)
    callback = attach(trainer, settings())
    trainer.add_callback(Interrupted(2))
    for calls in range(1, 4):
        if calls == 1:
            with pytest.raises(KeyboardInterrupt):
                trainer.train()
        else:
            trainer.train()
    # Half an epoch, an epoch, and so on: one epoch and a half are over when the third call begins.
    assert epoch_searches(trainer) == [6]
    assert callback.engine.epochs == 1


def test_parts_of_epochs_add_up(make_trainer: Any) -> None:
    trainer = make_trainer(**{**EPOCHS, "max_steps": 2})
    attach(trainer, settings())
    for _ in range(3):
        trainer.train()
    assert epoch_searches(trainer) == [4]


def test_a_resume_within_the_second_call(make_trainer: Any, tmp_path: Path) -> None:
    """It continues as the call would have: the same searches, at the same steps."""
    options = {"save_strategy": "steps", "save_steps": 2, "shuffle_dataset": False}
    trainer = make_trainer(**ONE, **options)
    attach(trainer, settings())
    trainer.train()
    trainer.args.num_train_epochs = 3
    trainer.train()
    assert epoch_searches(trainer) == [4, 8, 12]
    folder = Path(trainer.args.output_dir)
    for step, searches in ((2, [8, 12]), (4, [8, 12]), (6, [12])):
        again = make_trainer(
            **{
                **EPOCHS,
                **options,
                "num_train_epochs": 3,
                "output_dir": str(tmp_path / f"at{step}"),
            }
        )
        callback = attach(again, settings())
        again.train(resume_from_checkpoint=str(folder / f"checkpoint-{step}"))
        assert epoch_searches(again) == searches
        assert callback.engine.epochs == 3


def test_a_resume_in_the_same_process_counts_from_the_checkpoint(make_trainer: Any) -> None:
    trainer = make_trainer(**{**EPOCHS, "num_train_epochs": 2}, save_strategy="steps", save_steps=4)
    callback = attach(trainer, settings())
    trainer.add_callback(Interrupted(6))
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    trainer.train(resume_from_checkpoint=True)
    assert epoch_searches(trainer) == [4, 4]  # the steps after the checkpoint are repeated
    assert callback.engine.epochs == 1


def test_a_damaged_or_missing_count_is_refused(make_trainer: Any, tmp_path: Path) -> None:
    trainer = make_trainer(**ONE, save_strategy="epoch")
    attach(trainer, settings())
    trainer.train()
    checkpoint = Path(trainer.args.output_dir) / "checkpoint-4"
    (checkpoint / "coevo_epochs.json").write_text(json.dumps({"epochs_before": "many"}))
    again = make_trainer(**EPOCHS, output_dir=str(tmp_path / "again"))
    attach(again, settings())
    with pytest.raises(StateError, match="does not say how many epochs were trained before"):
        again.train(resume_from_checkpoint=str(checkpoint))
    (checkpoint / "coevo_epochs.json").unlink()
    with pytest.raises(StateError, match=r"coevo_epochs.json cannot be read .*No such file"):
        again.train(resume_from_checkpoint=str(checkpoint))


def test_stream_goes_on_in_the_second_call(make_trainer: Any) -> None:
    trainer = make_trainer(**{**EPOCHS, "num_train_epochs": 2})
    stream = {"tau": P2O["tau"]}
    callback = attach(trainer, settings(lambda prompt: "<template>note</template>", stream=stream))
    trainer.train()
    known = callback.engine.metrics()["coevo/train_rollouts"]
    trainer.train()
    assert callback.engine.metrics()["coevo/train_rollouts"] == 2 * known
    assert callback.engine.policy_version.step == 16
    found = events(trainer)
    assert max(event["step"] for event in found if event["event"] == "reply") > 8
    assert not [event for event in found if event["event"] == "plugin_error"]


def test_the_second_call_is_paid_for_by_the_same_budget(make_trainer: Any) -> None:
    """The first call's end closes the account of replies; the second one continues it."""
    trainer = make_trainer(**ONE)
    attach(trainer, settings(know_all))
    trainer.train()
    trainer.train()
    ledger = Path(trainer.args.output_dir) / "coevo" / "calls.jsonl"
    told = [json.loads(line)["event"] for line in ledger.read_text().splitlines()]
    assert told.count("run") == 2
    assert told.count("run_ended") == 2
    assert told[-1] == "run_ended"
