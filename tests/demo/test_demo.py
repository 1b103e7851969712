"""Check the claims as a user would: the stream learns what GRPO cannot, INSPO beats a fixed instruction."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from prompt_coevo.demo.teacher import FactsTeacher
from standins.openai_server import openai_server

CODE = "from prompt_coevo.cli import main; main()"
FAILED = "reflection_error"


def run_demo(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PROMPT_COEVO_")}
    return subprocess.run(
        [sys.executable, "-c", CODE, "demo", *arguments],
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
    run = run_demo(folder, "--quick", "--out", "out")
    assert run.returncode == 0, run.stderr[-4000:]
    return folder, run.stdout, json.loads((folder / "out" / "results.json").read_text())


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "something").touch()
    failed = run_demo(tmp_path, "--out", ".")
    assert failed.returncode == 2
    assert failed.stderr == "error: the folder . is not empty; give --out a new one\n"


def test_two_sizes_at_once_are_refused(tmp_path: Path) -> None:
    failed = run_demo(tmp_path, "--quick", "--budget", "400")
    assert failed.returncode == 2
    assert failed.stderr.endswith("contradict each other; give one of them\n")


def test_p2o_learns_what_grpo_cannot(demo: Any) -> None:
    _, _, numbers = demo
    grpo, stream = (numbers["summary"][arm] for arm in ("grpo", "stream"))
    assert stream["hard"] - grpo["hard"] > 0.15
    assert stream["hard, longer"] - grpo["hard, longer"] > 0.1
    assert stream["training rollouts"] == grpo["training rollouts"] == 12_288
    assert grpo["other rollouts"] == 0 == stream["other rollouts"]


def test_both_arms_start_from_the_same_policy(demo: Any) -> None:
    _, _, numbers = demo
    grpo, stream = ({w: v["right"][0] for w, v in one["words"].items()} for one in numbers["runs"])
    assert grpo == stream


def test_it_shows_a_table_templates_and_where_the_files_are(demo: Any) -> None:
    folder, output, numbers = demo
    assert "GRPO" in output
    assert "stream" in output
    stream = next(run for run in numbers["runs"] if run["arm"] == "stream")
    assert len(stream["cracked"]) >= 2
    for item in stream["cracked"][:2]:
        assert item["template"] in output
        assert item["question"] in output
    assert (folder / "out" / "demo.png").read_bytes().startswith(b"\x89PNG")
    table = (folder / "out" / "table.txt").read_text("utf-8")
    assert stream["cracked"][0]["template"] in table
    assert {"GRPO", "stream"} <= {line.split()[0] for line in table.splitlines() if line.strip()}
    journal = folder / "out" / "stream-seed0" / "coevo" / "events.jsonl"
    events = {json.loads(line)["event"] for line in journal.read_text().splitlines()}
    assert "candidate_checked" in events
    assert not (folder / "out" / "grpo-seed0" / "coevo").exists()


@pytest.mark.long
def test_another_reflection_model_takes_the_teachers_place(tmp_path: Path) -> None:
    """A local server that speaks the OpenAI protocol runs the teacher.

    28 steps; the test above asserts the result of many more under the teacher itself.
    """
    teacher, replies = FactsTeacher(), []

    def answer(body: dict[str, Any]) -> str:
        replies.append(teacher(body["messages"][0]["content"]))
        return replies[-1]

    with openai_server(answer) as server:
        run = run_demo(
            tmp_path,
            *("--budget", "5376", "--arms", "stream", "--out", "out"),
            *("--reflection-lm", "openai/any", "--api-base", server.base),
            PROMPT_COEVO_PREFLIGHT__REFLECTION="off",
        )
    assert run.returncode == 0, run.stderr[-4000:]
    numbers = json.loads((tmp_path / "out" / "results.json").read_text())
    assert numbers["summary"]["stream"]["calls"] == len(server.requests) > 0
    (stream,) = numbers["runs"]
    assert len(stream["cracked"]) >= 2  # its templates solved questions that were not solved before
    for item in stream["cracked"]:
        assert any(item["template"] in reply for reply in replies)
    assert set(server.keys) == {"Bearer sk-of-the-test"}
    for path in (tmp_path / "out").rglob("*"):
        assert path.is_dir() or b"sk-of-the-test" not in path.read_bytes()


def test_a_reflection_model_out_of_reach_leaves_grpo(tmp_path: Path) -> None:
    """The run has 18 steps, two of them after the first epoch."""
    run = run_demo(
        tmp_path,
        *("--budget", "3456", "--out", "out"),
        *("--reflection-lm", "openai/any", "--api-base", "http://127.0.0.1:9/v1"),
        PROMPT_COEVO_REFLECTION__TOTAL_TIMEOUT_S="0.5",
        PROMPT_COEVO_PREFLIGHT__REFLECTION="off",
    )
    assert run.returncode == 0, run.stderr[-4000:]
    numbers = json.loads((tmp_path / "out" / "results.json").read_text())
    grpo, stream = (run["words"] for run in numbers["runs"])
    assert stream == grpo  # to the last answer: failed calls leave no trace in training
    lines = (tmp_path / "out" / "stream-seed0" / "coevo" / "events.jsonl").read_text().splitlines()
    failed = [event["step"] for event in map(json.loads, lines) if event["event"] == FAILED]
    assert min(failed) < 9  # and there was training after them


@pytest.mark.long
def test_inspo_beats_a_static_instruction(tmp_path: Path) -> None:
    """48 steps plus the cost of verification, with evolutions at 15, 30 and 45."""
    run = run_demo(
        tmp_path,
        *("--arms", "static,inspo", "--budget", "11000"),
        *("--out", "out"),
    )
    assert run.returncode == 0, run.stderr[-4000:]
    numbers = json.loads((tmp_path / "out" / "results.json").read_text())
    static, inspo = (numbers["summary"][arm] for arm in ("static", "inspo"))
    assert inspo["hard"] - static["hard"] > 0.05
    assert inspo["other rollouts"] > 0
    texts = {run["arm"]: run["instruction"] for run in numbers["runs"]}
    assert texts["static"] != texts["inspo"]
    assert texts["inspo"] in " ".join(run.stdout.split())
    best = tmp_path / "out" / "inspo-seed0" / "coevo" / "best_instruction.txt"
    assert best.read_text().strip() == texts["inspo"]
