"""Check the preflight in the real trainer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from helpers.torchrun import on_two_ranks
from helpers.trl_world import score
from prompt_coevo.adapters.trl import attach
from prompt_coevo.errors import PreflightError
from standins.openai_server import openai_server

P2O = {"algorithms": "p2o", "p2o": {"overspend": "never", "search_budget": 30}}
FUNCTION = {"reflection": {"function": lambda prompt: ""}}


def events(trainer: Any, name: str) -> list[dict[str, Any]]:
    path = Path(trainer.args.output_dir) / "coevo" / "events.jsonl"
    written = [json.loads(line) for line in path.read_text().splitlines()]
    return [event for event in written if event["event"] == name]


def test_a_dead_reflection_model_ends_the_run_before_the_first_step(make_trainer: Any) -> None:
    trainer = make_trainer(reward_funcs=score)
    with openai_server(404) as server:
        reflection = {"model": "openai/gtp-5", "api_base": server.base, "api_key": "sk-x"}
        # litellm's first call imports for as long as a machine likes.
        attach(trainer, {"reflection": {**reflection, "timeout_s": 1000, "total_timeout_s": 1000}})
        with pytest.raises(PreflightError, match="'openai/gtp-5' does not answer: NotFoundError"):
            trainer.train()
        assert len(server.requests) == 1
    assert trainer.state.global_step == 0


def test_a_dry_run_shows_a_scored_group_and_ends(
    make_trainer: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    trainer = make_trainer(reward_funcs=score, max_steps=8)
    before = {name: one.clone() for name, one in trainer.model.state_dict().items()}
    attach(
        trainer,
        {**FUNCTION, "question_id_column": "id", **P2O, "preflight": {"dry_run": True}},
    )
    with pytest.raises(SystemExit) as ended:
        trainer.train()
    printed = capsys.readouterr().out
    assert ended.value.code == 0, printed
    assert trainer.state.global_step == 0
    assert all((one == before[name]).all() for name, one in trainer.model.state_dict().items())
    words = " ".join(printed.split())
    assert "8 questions in 1 shape" in words
    assert "question 'q0': rewards " in words
    assert (
        "an epoch is 8 questions × 4 = 32 training rollouts; the run has 2 epochs, 8 steps" in words
    )
    assert "p2o: 1 search in this run; after an epoch at most 30 rollouts" in words


def test_a_run_that_is_too_short_for_a_search_is_a_problem(
    make_trainer: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    trainer = make_trainer(max_steps=3)
    attach(trainer, {**FUNCTION, **P2O, "preflight": {"dry_run": True}})
    with pytest.raises(SystemExit) as ended:
        trainer.train()
    assert ended.value.code == 1
    assert "no search will ever happen, because the run has 0.75 epochs" in " ".join(
        capsys.readouterr().out.split()
    )


def test_what_came_of_a_run_is_its_last_word(make_trainer: Any) -> None:
    trainer = make_trainer(max_steps=3)
    attach(trainer, {**FUNCTION, **P2O})
    trainer.train()
    (event,) = events(trainer, "summary")
    assert event["for_nothing"]
    assert "no search ever happened, because the run had one epoch" in event["text"]


def test_all_ranks_end_in_the_same_sentence(tmp_path: Path) -> None:
    printed = on_two_ranks(Path(__file__).parent / "preflight_ranks.py", str(tmp_path))
    words = " ".join(printed.split())
    first, second = [json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in (0, 1)]
    assert first["dead"].startswith("PreflightError: the reflection model 'openai/any' does not")
    assert second["dead"] == f"HostError: rank 0 failed: {first['dead']}"
    assert first["dry"] == second["dry"] == "SystemExit: 0"
    assert {first["dead steps"], second["dead steps"], first["dry steps"]} == {"0"}
    for name, sentence in {
        "all fail": "failed on rank 0: RuntimeError: the reward of all fail is down",
        "one fails": "failed on rank 1: RuntimeError: the reward of one fails is down",
        "one refuses": "failed on rank 1: HostError: the reward refuses to work",
    }.items():
        assert first[name] == second[name] == "SystemExit: 1", (name, first, second)
        assert first[f"{name} steps"] == second[f"{name} steps"] == "0"
        assert words.count(f"a policy rollout {sentence}") == 1, printed
    assert words.count("questions 8 questions in 1 shape") == 4, printed  # one page a dry run
