"""The claims: P2O learns what GRPO cannot, INSPO what a static instruction does not. As a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from prompt_coevo.demo.teacher import Teacher
from standins.openai_server import openai_server


def run_demo(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PROMPT_COEVO_")}
    code = "from prompt_coevo.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, "demo", *arguments],
        cwd=folder,
        env={**environment, "COLUMNS": "120", "OPENAI_API_KEY": "sk-of-the-test", **variables},
        capture_output=True,
        text=True,
        timeout=3600,
        check=False,
    )


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("demo")
    run = run_demo(folder, "--quick", "--out", "out", "--json", "numbers.json")
    assert run.returncode == 0, run.stderr[-4000:]
    return folder, run.stdout, json.loads((folder / "numbers.json").read_text())


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "something").touch()
    failed = run_demo(tmp_path, "--out", ".")
    assert failed.returncode == 2
    assert failed.stderr == "error: the folder . is not empty; give --out a new one\n"


def test_p2o_learns_what_grpo_cannot(demo: Any) -> None:
    _, _, numbers = demo
    grpo, p2o = (numbers["summary"][arm] for arm in ("grpo", "p2o"))
    assert p2o["hard"]["mean"] - grpo["hard"]["mean"] > 0.15
    assert p2o["all"]["mean"] > grpo["all"]["mean"]
    assert p2o["train_rollouts"] == grpo["train_rollouts"]
    assert grpo["search_rollouts"]["mean"] == 0 < p2o["search_rollouts"]["mean"]


def test_the_hard_questions_become_fewer(demo: Any) -> None:
    _, _, numbers = demo
    runs = {run["arm"]: run for run in numbers["runs"]}
    left = [point["hard_left"] for point in runs["p2o"]["curve"]]
    assert left[-1] < left[0] / 2
    assert left[-1] < runs["grpo"]["final"]["hard_left"]


def test_both_arms_start_from_the_same_policy(demo: Any) -> None:
    _, _, numbers = demo
    starts = [run["curve"][0] for run in numbers["runs"]]
    assert starts[0] == starts[1]


def test_it_shows_a_table_templates_and_where_the_files_are(demo: Any) -> None:
    folder, output, numbers = demo
    assert "GRPO" in output
    assert "P2O" in output
    p2o = next(run for run in numbers["runs"] if run["arm"] == "p2o")
    for item in p2o["cracked"][:2]:
        assert item["template"] in output
        assert item["question"] in output
    assert (folder / "out" / "demo.png").read_bytes().startswith(b"\x89PNG")
    journal = folder / "out" / "p2o-seed0" / "coevo" / "events.jsonl"
    events = {json.loads(line)["event"] for line in journal.read_text().splitlines()}
    assert "templates_assigned" in events
    assert not (folder / "out" / "grpo-seed0" / "coevo").exists()


def test_another_reflection_model_takes_the_teachers_place(tmp_path: Path) -> None:
    """A local server that speaks the OpenAI protocol, with the teacher behind it."""
    teacher = Teacher()
    with openai_server(lambda body: teacher(body["messages"][0]["content"])) as server:
        run = run_demo(
            tmp_path,
            *("--quick", "--arms", "p2o", "--out", "out", "--json", "numbers.json"),
            *("--reflection-lm", "openai/any", "--api-base", server.base),
        )
    assert run.returncode == 0, run.stderr[-4000:]
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    assert server.requests
    assert numbers["summary"]["p2o"]["hard"]["mean"] > 0.3
    assert set(server.keys) == {"Bearer sk-of-the-test"}
    for path in (tmp_path / "out").rglob("*"):
        assert path.is_dir() or b"sk-of-the-test" not in path.read_bytes()


def test_a_reflection_model_out_of_reach_leaves_grpo(tmp_path: Path) -> None:
    run = run_demo(
        tmp_path,
        *("--quick", "--out", "out", "--json", "numbers.json"),
        *("--reflection-lm", "openai/any", "--api-base", "http://127.0.0.1:9/v1"),
        PROMPT_COEVO_REFLECTION__TOTAL_TIMEOUT_S="0.5",
    )
    assert run.returncode == 0, run.stderr[-4000:]
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    grpo, p2o = (run["final"] for run in numbers["runs"])
    assert p2o == grpo  # to the last digit: failed searches leave no trace in training


def test_inspo_beats_a_static_instruction(tmp_path: Path) -> None:
    """Two epochs are 32 steps, with evolutions at 15 and 30."""
    run = run_demo(
        tmp_path,
        *("--arms", "static,inspo", "--seeds", "1", "--epochs", "2", "--evaluate-every", "2"),
        *("--out", "out", "--json", "numbers.json"),
    )
    assert run.returncode == 0, run.stderr[-4000:]
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    static, inspo = (numbers["summary"][arm] for arm in ("static", "inspo"))
    assert inspo["hard"]["mean"] - static["hard"]["mean"] > 0.15
    assert inspo["all"]["mean"] > static["all"]["mean"]
    assert inspo["train_rollouts"] == static["train_rollouts"]
    texts = {run["arm"]: run["instruction"] for run in numbers["runs"]}
    assert texts["static"] != texts["inspo"]
    assert texts["inspo"] in " ".join(run.stdout.split())
    best = tmp_path / "out" / "inspo-seed0" / "coevo" / "best_instruction.txt"
    assert best.read_text().strip() == texts["inspo"]
