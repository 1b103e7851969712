"""Check two processes with gloo: what the law on ranks leaves out, such as groups that span ranks."""

from __future__ import annotations

import json
import re
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
    return folder, launch(folder, 6)


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


def test_a_resumed_run_goes_on_on_both_ranks(ranks: Any) -> None:
    folder, _ = ranks
    checkpoint = folder / "out" / "checkpoint-3"
    assert json.loads((checkpoint / "coevo_state.json").read_text())["step"] == 3
    (folder / "resumed").mkdir()
    first, second = launch(folder / "resumed", 6, str(checkpoint))
    assert (first["state"]["round"], first["state"]["step"]) == (6, 6)
    assert len(first["plans"]) == len(second["plans"]) == 3
    assert first["weights"] == second["weights"]


def test_both_ranks_sample_and_train_under_the_instructions_of_rank_0(ranks: Any) -> None:
    folder, (first, second) = ranks
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
        assert any(" means " in prompt for prompt in report["sampled"])
        without_hints = [re.sub("<user> .*? use ", "<user> use ", p) for p in report["sampled"]]
        assert sorted(report["trained"]) == sorted(without_hints)
        planned = [text for one in report["instructions"] for text in one]
        assert all(
            prompt.startswith(f"<system> {text} <end> <user> use ")
            for prompt, text in zip(without_hints, planned, strict=True)
        )
    assert any(event["event"] == "candidate_verified" for event in told)
    assert first["weights"] == second["weights"]


def test_both_ranks_evaluate_under_the_best_instruction(ranks: Any) -> None:
    _, (first, second) = ranks
    assert len(set(first["best"])) > 1
    for report in (first, second):
        assert len(report["evaluated"]) == len(first["best"])
        for prompts, text in zip(report["evaluated"], first["best"], strict=True):
            assert all(prompt.startswith(f"<system> {text} <end> ") for prompt in prompts)


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("failing")
    on_two_ranks(HERE / "failing_ranks.py", str(folder))
    return folder


@pytest.mark.parametrize("kind", ["GRPO", "RLOO"])
def test_rollouts_that_fail_on_one_rank_end_their_search_alone(kind: str, failing: Path) -> None:
    first, second = [json.loads((failing / f"{kind}{rank}.json").read_text()) for rank in (0, 1)]
    assert first["steps"] == second["steps"] == 5
    assert first["weights"] == second["weights"]
    failed = "RolloutsFailed: a policy rollout failed on rank"
    assert first["heard"] == [
        f"{failed} 1: RuntimeError: the reward is down",
        f"{failed} 1: RuntimeError: the sampler is down",
        f"{failed} 0: RuntimeError: the sampler is down",
        f"{failed} 0: RuntimeError: the reward is down",
        "8 rollouts",
    ]
