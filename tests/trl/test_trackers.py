"""Check lineage and active texts in the real trackers, through the trainer's own callbacks, offline."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from transformers import TrainerCallback

from helpers.inspo_world import settings as inspo_settings
from helpers.trl_world import WORLD, score
from prompt_coevo.adapters.trl import attach
from prompt_coevo.types import Candidate

HOSTILE = "note <script>alert(1)</script> | `please`"
SEARCH = {"overspend": "never", "tau": 2.0, "dev_size": 3, "minibatch_size": 3}
EPOCHS = {"max_steps": -1, "num_train_epochs": 2, "reward_funcs": score, "learning_rate": 1e-4}


def teach(prompt: str) -> str:
    clauses = [f"{word} means {skill} ." for word, skill in WORLD.meaning.items() if word in prompt]
    return f"<template>{' '.join(clauses)}</template>"


def p2o(**changes: Any) -> dict[str, Any]:
    section = {**SEARCH, "search_budget": 30, "minibatch_temperature": 1.0}
    return {
        "question_id_column": "id",
        "algorithms": "p2o",
        "p2o": section,
        "reflection": {"function": teach},
        **changes,
    }


def inspo(**changes: Any) -> dict[str, Any]:
    return inspo_settings(inspo={"instruction": HOSTILE}, **changes)


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Keep everything that a tracker writes in a folder, and send nothing."""
    for name, value in {
        "WANDB_MODE": "offline",
        "WANDB_DIR": str(tmp_path),
        "WANDB_SILENT": "true",
        "TRACKIO_DIR": str(tmp_path / "trackio"),
        "MLFLOW_TRACKING_URI": (tmp_path / "mlruns").as_uri(),
        "MLFLOW_ALLOW_FILE_STORE": "true",
        "TENSORBOARD_LOGGING_DIR": str(tmp_path / "tensorboard"),
        "GIT_PYTHON_REFRESH": "quiet",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tensorboard_texts(folder: Path) -> dict[str, list[tuple[int, str]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(folder), size_guidance={"tensors": 0})
    read.Reload()
    return {
        tag.removesuffix("/text_summary"): [
            (event.step, event.tensor_proto.string_val[0].decode()) for event in read.Tensors(tag)
        ]
        for tag in read.Tags()["tensors"]
        if tag.startswith("coevo/")
    }


def test_tensorboard_has_the_population_and_the_lineage(make_trainer: Any, quiet: Path) -> None:
    pytest.importorskip("tensorboard", reason="the package tensorboard is not installed")
    trainer = make_trainer(max_steps=6, report_to="tensorboard")
    callback = attach(trainer, inspo())
    trainer.train()
    texts = tensorboard_texts(quiet / "tensorboard")
    assert set(texts) == {"coevo/in_use", "coevo/lineage"}
    steps = [step for step, _ in texts["coevo/lineage"]]
    assert steps == sorted(set(steps))
    assert 1 < len(steps) < 6  # at changes, not at every step
    page = dict(texts["coevo/in_use"])[steps[0]]
    assert f"```\n{HOSTILE}\n```" in page
    lineage = texts["coevo/lineage"][-1][1]
    assert "<script>" not in lineage
    best = callback.engine.evaluation_instruction()
    assert best.id in lineage
    last = texts["coevo/in_use"][-1][1]
    assert last.startswith(f"**best · instruction · {best.id}")


def test_tensorboard_has_templates_and_success_with_and_without_one(
    make_trainer: Any, quiet: Path
) -> None:
    pytest.importorskip("tensorboard", reason="the package tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    trainer = make_trainer(**EPOCHS, report_to="tensorboard")
    attach(trainer, p2o())
    trainer.train()
    texts = tensorboard_texts(quiet / "tensorboard")
    assert "means" in texts["coevo/in_use"][-1][1]
    assert "mean dev score" in texts["coevo/lineage"][-1][1]
    read = EventAccumulator(str(quiet / "tensorboard"))
    read.Reload()
    names = ("solved_templated", "solved_untemplated", "hard_solved_templated")
    assert {f"train/coevo/{name}" for name in names} <= set(read.Tags()["scalars"])


def test_wandb_has_tables(make_trainer: Any, quiet: Path) -> None:
    wandb = pytest.importorskip("wandb", reason="the package wandb is not installed")
    trainer = make_trainer(max_steps=6, report_to="wandb")
    attach(trainer, inspo())
    trainer.train()
    run = wandb.run
    assert run is not None  # we have not closed it
    folder = Path(run.dir)
    wandb.finish()
    tables = sorted((folder / "media" / "table" / "coevo").glob("lineage_*.table.json"))
    assert len(tables) > 1
    table = json.loads(tables[0].read_text())
    assert table["columns"][:3] == ["id", "kind", "parent"]
    assert HOSTILE in [row[-1] for row in table["data"]]


def test_trackio_has_a_table_and_a_page(make_trainer: Any, quiet: Path) -> None:
    """This is the only test that imports trackio, which looks for its folder on import."""
    pytest.importorskip("trackio", reason="the package trackio is not installed")
    from trackio.sqlite_storage import SQLiteStorage

    trainer = make_trainer(max_steps=6, report_to="trackio", project="a", run_name="b")
    attach(trainer, inspo())
    trainer.train()
    found = [log for log in SQLiteStorage.get_logs("a", "b") if "coevo/lineage" in log]
    assert found
    texts = [row["text"] for row in found[0]["coevo/lineage"]["_value"]]
    assert all(text.startswith("note &lt;script&gt;") for text in texts)
    assert f"```\n{HOSTILE}\n```" in found[0]["coevo/in_use"]["_value"]


def test_mlflow_has_pages(make_trainer: Any, quiet: Path) -> None:
    mlflow = pytest.importorskip("mlflow", reason="the package mlflow is not installed")
    trainer = make_trainer(max_steps=6, report_to="mlflow")
    attach(trainer, inspo())
    trainer.train()
    assert mlflow.active_run() is None  # the trainer's callback has closed it, and we opened none
    pages = list(quiet.rglob("coevo/step-*.md"))
    assert len(pages) > 1
    assert HOSTILE in sorted(pages)[0].read_text()
    newest = json.loads(next(quiet.rglob("coevo/newest.json")).read_text())
    assert newest["in_use"][0]["best"] == "best"


class Watch(TrainerCallback):
    """An unknown tracker."""


def test_off_and_without_a_tracker_nothing_is_imported_or_written(
    make_trainer: Any, quiet: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("tensorboard", reason="the package tensorboard is not installed")
    trainer = make_trainer(max_steps=2, report_to="tensorboard")
    trainer.add_callback(Watch())
    with caplog.at_level(logging.WARNING):
        attach(trainer, inspo(trackers="off"))
        trainer.train()
    assert tensorboard_texts(quiet / "tensorboard") == {}
    assert "takes no texts" not in caplog.text


def test_a_tracker_that_breaks_does_not_break_training(
    make_trainer: Any, quiet: Path, caplog: pytest.LogCaptureFixture, monkeypatch: Any
) -> None:
    pytest.importorskip("tensorboard", reason="the package tensorboard is not installed")
    from torch.utils.tensorboard import SummaryWriter

    original = SummaryWriter.add_text

    def full(self: Any, tag: str, *rest: Any) -> None:
        if tag.startswith("coevo/"):
            raise OSError("no space left on device")
        original(self, tag, *rest)

    monkeypatch.setattr(SummaryWriter, "add_text", full)
    trainer = make_trainer(max_steps=6, report_to="tensorboard")
    attach(trainer, inspo())
    trainer.train()
    assert trainer.state.global_step == 6
    assert caplog.text.count("no space left on device") == 1


def test_a_resumed_run_shows_what_came_before(make_trainer: Any, quiet: Path) -> None:
    pytest.importorskip("tensorboard", reason="the package tensorboard is not installed")
    saving = {"save_strategy": "steps", "save_steps": 4, "report_to": "tensorboard"}
    first = make_trainer(max_steps=4, **saving)
    attach(first, inspo())
    first.train()
    again = make_trainer(max_steps=6, **saving)
    attach(again, inspo())
    again.train(resume_from_checkpoint=True)
    lineage = tensorboard_texts(quiet / "tensorboard")["coevo/lineage"][-1][1]
    assert Candidate(HOSTILE, "instruction").id in lineage
