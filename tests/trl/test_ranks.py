"""Two processes with gloo: what the law on ranks leaves out, such as groups that span the ranks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from helpers.torchrun import on_two_ranks

HERE = Path(__file__).parent


def launch(folder: Path, steps: int, *arguments: str) -> list[dict[str, Any]]:
    on_two_ranks(HERE / "two_ranks.py", str(folder), str(steps), *arguments)
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in (0, 1)]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("ranks")
    return folder, launch(folder, 4, "p2o")


def test_the_engines_numbers_are_logged(ranks: Any) -> None:
    _, (first, _) = ranks
    assert first["metrics"]["coevo/searches"] == 1
    assert any("coevo/hard_samples" in entry for entry in first["history"])


def test_rows_are_planned_process_after_process(ranks: Any) -> None:
    _, (first, second) = ranks
    for one, other in zip(first["plans"], second["plans"], strict=True):
        positions = [(group, member) for _, group, member in one + other]
        assert positions == [(n // 4, n % 4) for n in range(12)]
        spanning = {question for question, group, _ in one + other if group == 1}
        assert len(spanning) == 1


def test_both_ranks_roll_out_equal_shares(ranks: Any) -> None:
    _, (first, second) = ranks
    assert first["rollout_shares"]
    assert first["rollout_shares"] == second["rollout_shares"]


def test_both_ranks_train_on_the_questions_alone(ranks: Any) -> None:
    _, reports = ranks
    for report in reports:
        assert any(" means " in prompt for prompt in report["sampled"])
        assert not any(" means " in prompt for prompt in report["trained"])


def test_a_resumed_run_goes_on_on_both_ranks(ranks: Any) -> None:
    folder, _ = ranks
    checkpoint = folder / "out" / "checkpoint-3"
    assert json.loads((checkpoint / "coevo_state.json").read_text())["step"] == 3
    first, second = launch(folder, 6, "p2o", str(checkpoint))
    assert first["metrics"]["coevo/train_rollouts"] == 6 * 12
    assert first["weights"] == second["weights"]


@pytest.fixture(scope="module")
def inspo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("inspo")
    return folder, launch(folder, 6, "inspo")


def test_both_ranks_sample_and_train_under_the_instructions_of_rank_0(inspo: Any) -> None:
    folder, (first, second) = inspo
    journal = (folder / "out" / "coevo" / "events.jsonl").read_text()
    told = [json.loads(line) for line in journal.splitlines()]
    texts = {c["id"]: c["text"] for event in told for c in event.get("added", ())}
    means = [event["means"] for event in told if event["event"] == "instruction_weights"]
    assert len(means) == len(first["instructions"]) == 6
    for one, other, entries in zip(
        first["instructions"], second["instructions"], means, strict=True
    ):
        rows = one + other
        groups = [rows[n : n + 4] for n in (0, 4, 8)]  # the second spans the ranks
        assert all(len(set(group)) == 1 for group in groups)
        assert set(rows) == {texts[name] for name in entries}
    for report in (first, second):
        assert sorted(report["trained"]) == sorted(report["sampled"])
        planned = [text for one in report["instructions"] for text in one]
        assert all(
            prompt.startswith(f"<system> {text} <end> <user> use ")
            for prompt, text in zip(report["sampled"], planned, strict=True)
        )
    assert any(event["event"] == "candidate_verified" for event in told)
    assert first["rollout_shares"] == second["rollout_shares"] != []
    assert first["weights"] == second["weights"]


def test_both_ranks_evaluate_under_the_best_instruction(inspo: Any) -> None:
    _, (first, second) = inspo
    assert len(set(first["best"])) > 1
    for report in (first, second):
        assert len(report["evaluated"]) == len(first["best"])
        for prompts, text in zip(report["evaluated"], first["best"], strict=True):
            assert all(prompt.startswith(f"<system> {text} <end> ") for prompt in prompts)
