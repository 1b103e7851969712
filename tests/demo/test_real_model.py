"""Check `prompt-coevo demo --real` with a policy too small to learn in place of the language model.

`test_smollm2.py` trains the language model itself.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from demo.test_demo import run_demo

from prompt_coevo.demo.world import World, base_path


def test_it_trains_another_model_and_leaves_what_the_demo_leaves(tmp_path: Path) -> None:
    base = base_path(World())
    run = run_demo(
        tmp_path,
        "--real",
        "--model",
        str(base),
        "--budget",
        "256",
        "--out",
        "out",
        "--workers",
        "2",
    )
    assert run.returncode == 0, run.stderr[-4000:]
    assert "2 runs of 256 rollouts; evaluation uses no template." in run.stdout
    numbers = json.loads((tmp_path / "out" / "results.json").read_text("utf-8"))
    assert [one["spent"] for one in numbers["runs"]] == [[0, 64, 128, 192, 256]] * 2
    assert all(len(one["words"]) == len(one["said"]) == 100 for one in numbers["runs"])
    assert "opposite of a word" in run.stdout
    assert (tmp_path / "out" / "stream-seed0" / "report.html").is_file()
    assert (tmp_path / "out" / "demo.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", "."], "--model has no effect without --real; give both"),
        (
            ["--real", "--model", "."],
            "--model .: there is no config.json in it; give a model's folder",
        ),
        (
            ["--real", "--reflection-lm", " "],
            "--reflection-lm is empty; give the name of a litellm model, or leave it out",
        ),
        (["--real", "--arms", "inspo"], "there is no arm 'inspo'; known: grpo, stream, p2o"),
    ],
)
def test_what_cannot_be_meant_is_said_in_one_sentence(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    failed = run_demo(tmp_path, *arguments)
    assert failed.returncode == 2
    assert failed.stderr == f"error: {said}\n"
    assert not list(tmp_path.iterdir())


def test_a_model_without_a_chat_template_is_refused(tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(base_path(World()), model)
    (model / "chat_template.jinja").unlink()
    failed = run_demo(tmp_path, "--real", "--model", "model", "--budget", "192", "--arms", "grpo")
    assert failed.returncode == 2
    assert failed.stderr.endswith("has no chat template: give an instruction-tuned model\n")


@pytest.mark.parametrize("damage", ["no weights", "half of the weights", "an empty configuration"])
def test_a_model_that_cannot_be_loaded_is_said_in_one_sentence(tmp_path: Path, damage: str) -> None:
    model = tmp_path / "model"
    shutil.copytree(base_path(World()), model)
    weights = model / "model.safetensors"
    if damage == "no weights":
        weights.unlink()
    elif damage == "half of the weights":
        weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
    else:
        (model / "config.json").write_text("{}", "utf-8")
    failed = run_demo(tmp_path, "--real", "--model", "model", "--budget", "192", "--arms", "grpo")
    assert failed.returncode == 2
    assert failed.stderr.startswith("error: transformers cannot load a model from model: ")
    assert failed.stderr.count("\n") == 1
