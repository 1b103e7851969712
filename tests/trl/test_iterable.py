"""Check iterable datasets: rows are learned as they come, and revisited by a search."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset, IterableDataset

from helpers.trl_runs import EPOCHS, P2O, epoch_searches, events, settings
from helpers.trl_versions import since
from helpers.trl_world import rows
from prompt_coevo.adapters.trl import attach, streams
from prompt_coevo.errors import DatasetError, StateError

pytestmark = since("1.9", "training on streams")
ROWS = rows()
WAYS = {"p2o": {"p2o": P2O}, "stream": {"stream": {"tau": P2O["tau"]}}}
# A pass: 8 questions, 2 a step, so 4 steps.
PASSES = {**EPOCHS, "max_steps": 12, "shuffle_dataset": False}


def stream(some: Any = None) -> IterableDataset:
    return Dataset.from_list(ROWS if some is None else some).to_iterable_dataset()


@pytest.fixture(autouse=True)
def short_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at three rows only, so that five are learned when they come."""
    monkeypatch.setattr(streams, "LOOKED_AT", 3)


def told(trainer: Any) -> list[str]:
    return [event["event"] for event in events(trainer)]


def test_the_papers_search_revisits_questions_that_came_in_training(
    make_trainer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    trainer = make_trainer(**PASSES, dataset=stream())
    with caplog.at_level(logging.INFO, logger="prompt_coevo"):
        callback = attach(trainer, settings())
    (line,) = [one for one in caplog.messages if "is a stream" in one]
    assert "found 3 questions in its first 3 rows" in line
    assert callback.policy.question_ids() == ["q0", "q1", "q2"]
    asked: set[str] = set()
    rollout = callback.policy.rollout

    def watched(requests: Any) -> Any:
        asked.update(request.assignment.question_id for request in requests)
        return rollout(requests)

    callback.policy.rollout = watched
    trainer.train()
    assert callback.policy.question_ids() == [row["id"] for row in ROWS]
    assert epoch_searches(trainer) == [4, 8]
    assert asked & {"q3", "q4", "q5", "q6", "q7"}
    assert "plugin_error" not in told(trainer)
    history = [entry for entry in trainer.state.log_history if "coevo/hard_samples" in entry]
    assert history[-1]["coevo/hard_samples"] == len(ROWS)
    assert any(entry["coevo/templated_fraction"] > 0 for entry in history)


def test_late_questions_are_helped_by_the_search_that_never_stops(make_trainer: Any) -> None:
    trainer = make_trainer(**PASSES, dataset=stream())
    callback = attach(trainer, settings(**WAYS["stream"]))
    planned: list[Any] = []
    plan = callback._adapter._engine.plan

    def watched(*arguments: Any) -> Any:
        found = plan(*arguments)
        planned.extend(found.mine)
        return found

    callback._adapter._engine.plan = watched
    trainer.train()
    assert not {"plugin_error", "reflection_skipped"} & set(told(trainer))
    templated = {
        one.question_id for one in planned if one.template is not None and one.template.text
    }
    assert templated & {"q3", "q4", "q5", "q6", "q7"}
    history = [entry for entry in trainer.state.log_history if "coevo/templates_in_use" in entry]
    assert history[-1]["coevo/templates_in_use"] > 0


@pytest.mark.parametrize("method", WAYS)
def test_a_resumed_run_knows_what_came_before_and_decides_alike(
    make_trainer: Any, tmp_path: Path, method: str
) -> None:
    saves = {"save_strategy": "steps", "save_steps": 3}
    whole = make_trainer(**{**PASSES, "max_steps": 4}, **saves, dataset=stream())
    attach(whole, settings(**WAYS[method]))
    whole.train()
    checkpoint = Path(whole.args.output_dir) / "checkpoint-3"
    assert len((checkpoint / "coevo_rows.jsonl").read_text().splitlines()) == 3  # q3 to q5
    options = {**PASSES, "max_steps": 4, "output_dir": str(tmp_path / "again")}
    again = make_trainer(**options, dataset=stream())
    callback = attach(again, settings(**WAYS[method]))
    known: list[list[str]] = []
    begin = callback.engine.begin

    def watched(policy: Any, workload: Any) -> None:
        known.append(policy.question_ids())
        begin(policy, workload)

    callback.engine.begin = watched
    again.train(resume_from_checkpoint=str(checkpoint))
    assert known == [["q0", "q1", "q2", "q3", "q4", "q5"]]
    # A call in flight when the checkpoint is written may be repeated, and both are counted.
    changing = ("coevo/reflection_seconds", "coevo/reflection_calls")
    decided = [
        [
            {k: v for k, v in event["metrics"].items() if k not in changing}
            if event["event"] == "metrics"
            else (event["candidate"], event["accepted"])
            for event in events(one)
            if event["step"] == 4 and event["event"] in ("metrics", "candidate_checked")
        ]
        for one in (whole, again)
    ]
    assert decided[0] == decided[1]


def test_a_second_call_ends_the_pass_of_the_first_one(make_trainer: Any) -> None:
    trainer = make_trainer(**{**PASSES, "max_steps": 4}, dataset=stream())
    callback = attach(trainer, settings())
    trainer.train()
    assert epoch_searches(trainer) == []
    for calls in range(1, 3):
        trainer.train()
        assert epoch_searches(trainer) == [4, 8][:calls]
    assert callback.engine.epochs == 2


def test_a_resume_on_another_stream_is_refused(make_trainer: Any, tmp_path: Path) -> None:
    saves = {"save_strategy": "steps", "save_steps": 1}
    trainer = make_trainer(**{**PASSES, "max_steps": 1}, **saves, dataset=stream())
    attach(trainer, settings())
    trainer.train()
    checkpoint = str(Path(trainer.args.output_dir) / "checkpoint-1")
    options = {**PASSES, "output_dir": str(tmp_path / "again")}
    again = make_trainer(**options, dataset=stream(ROWS[1:]))
    attach(again, settings())
    with pytest.raises(StateError, match=r"is of another run: dataset\.fingerprint was"):
        again.train(resume_from_checkpoint=checkpoint)


def test_a_stream_that_begins_otherwise_each_time_trains_with_a_warning(
    make_trainer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    begun: list[int] = []

    def generate() -> Iterator[dict[str, Any]]:
        begun.append(1)
        yield from ROWS[len(begun) % len(ROWS) :]

    trainer = make_trainer(dataset=IterableDataset.from_generator(generate))
    callback = attach(trainer, settings())
    assert "starts with another row when it is read again" in caplog.text
    trainer.train()
    assert trainer.state.global_step == 2
    assert len(callback.policy.question_ids()) >= 4
    assert "plugin_error" not in told(trainer)
    (page,) = [event["lines"] for event in events(trainer) if event["event"] == "preflight"]
    assert any(line["text"].startswith("an epoch is 4 questions × ") for line in page)


def test_one_id_for_two_questions_of_a_stream_is_refused(make_trainer: Any) -> None:
    trainer = make_trainer(**PASSES, dataset=stream([*ROWS[:5], {**ROWS[5], "id": "q3"}]))
    attach(trainer, settings())
    with pytest.raises(DatasetError, match="'q3' stands for two different questions"):
        trainer.train()


def test_rows_that_are_new_in_mid_run_are_learned(make_trainer: Any) -> None:
    """Also with a map-style dataset: here a transform writes other rows from the third step on."""
    renamed: list[int] = []

    def transform(batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
        return {**batch, "id": [f"{'new-' * bool(renamed)}{one}" for one in batch["id"]]}

    trainer = make_trainer(**EPOCHS)
    trainer.train_dataset = trainer.train_dataset.with_transform(transform)
    callback = attach(trainer, settings())
    step = callback.on_step_end
    callback.on_step_end = lambda args, state, control, **kw: (
        renamed.append(1) if state.global_step == 4 else None,
        step(args, state, control, **kw),
    )[1]
    trainer.train()
    known = callback.policy.question_ids()
    assert known == [row["id"] for row in ROWS] + [one for one in known if one.startswith("new-")]
    assert any(one.startswith("new-") for one in known)
    assert len(epoch_searches(trainer)) == 2
