"""Check `prompt-coevo demo --real` with a policy too small to learn in place of the language model.

`test_smollm2.py` trains the language model itself.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from demo.test_demo import CODE, run_demo
from safetensors.torch import load_file, save_file

from prompt_coevo.cli import demo
from prompt_coevo.demo import outputs, side_by_side
from prompt_coevo.demo.arms import ARMS
from prompt_coevo.demo.job import Job
from prompt_coevo.demo.unnamed.load import load_model, load_tokenizer
from prompt_coevo.demo.world import World, base_path
from prompt_coevo.errors import SettingsError


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
            "--model .: there is no folder with a config.json; give a model's folder",
        ),
        *(
            (
                ["--real", "--model", mistyped],
                f"--model {mistyped}: there is no folder with a config.json; give a model's folder",
            )
            for mistyped in ("./nowhere", "models/of/mine", "~/nowhere")
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
    assert [found.name for found in tmp_path.iterdir()] == ["model"]


def test_a_name_that_is_not_found_is_refused_before_the_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    failed = run_demo(tmp_path, "--real", "--model", "owner/name")
    assert failed.returncode == 2
    assert failed.stderr.startswith("error: transformers cannot load a model from owner/name: ")
    assert failed.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_empty_is_refused_before_a_model_is_made(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "kept").touch()
    for model in ([], ["--model", "owner/name"]):
        failed = run_demo(tmp_path, "--real", "--out", "full", *model)
        assert failed.returncode == 2
        assert failed.stderr == "error: the folder full is not empty; give --out a new one\n"
        assert not failed.stdout


def test_a_model_that_no_memory_holds_is_refused_before_the_runs(tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(base_path(World()), model)
    config = json.loads((model / "config.json").read_text("utf-8"))
    (model / "config.json").write_text(json.dumps({**config, "vocab_size": 10**10}), "utf-8")
    failed = run_demo(tmp_path, "--real", "--model", "model")
    assert failed.returncode == 2
    assert re.fullmatch(
        r"error: a run needs at least \d+\.\d GB of memory, and \d+\.\d GB are free: close other programs, "
        r"or give --workers 1 to try it all the same\n",
        failed.stderr,
    )
    assert [found.name for found in tmp_path.iterdir()] == ["model"]


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


@pytest.mark.parametrize("layers", [2, 4])
def test_weights_that_do_not_fit_the_configuration_are_refused(tmp_path: Path, layers: int) -> None:
    model = tmp_path / "model"
    shutil.copytree(base_path(World()), model)
    config = json.loads((model / "config.json").read_text("utf-8"))
    assert config["num_hidden_layers"] == 3
    config["num_hidden_layers"] = layers
    config.pop("layer_types", None)
    (model / "config.json").write_text(json.dumps(config), "utf-8")
    with pytest.raises(
        SettingsError, match=r"the weights in .*model do not fit its config\.json: "
    ):
        load_model(model)


def test_weights_that_a_policy_does_not_need_are_left_out(tmp_path: Path) -> None:
    """A value head, for one."""
    model = tmp_path / "model"
    shutil.copytree(base_path(World()), model)
    weights = load_file(model / "model.safetensors")
    weights["v_head.summary.weight"] = torch.zeros(1, 64)
    save_file(weights, model / "model.safetensors", {"format": "pt"})
    assert load_model(model).num_parameters() == load_model(base_path(World())).num_parameters()


def test_a_tokenizer_that_cannot_pad_pads_with_its_end(tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(base_path(World()), model)
    values = json.loads((model / "tokenizer_config.json").read_text("utf-8"))
    values["pad_token"] = None
    (model / "tokenizer_config.json").write_text(json.dumps(values), "utf-8")
    assert load_tokenizer(model).pad_token == values["eos_token"]
    (model / "tokenizer_config.json").unlink()
    with pytest.raises(SettingsError, match=r"the tokenizer in .*model has no end token"):
        load_tokenizer(model)
    (model / "tokenizer.json").write_text("{", "utf-8")
    with pytest.raises(SettingsError, match=r"transformers cannot load a tokenizer from .*model: "):
        load_tokenizer(model)


def test_an_interrupted_demo_keeps_the_runs_that_are_finished(tmp_path: Path) -> None:
    arguments = ("--real", "--model", str(base_path(World())), "--budget", "192", "--workers", "1")
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    with subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"{heard}; {CODE}",
            "demo",
            *arguments,
            "--seeds",
            "20",
            "--out",
            "out",
        ],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as command:
        second = tmp_path / "out" / "stream-seed0"
        while not second.exists():
            assert command.poll() is None
            time.sleep(0.1)
        os.killpg(command.pid, signal.SIGINT)
        said, errors = command.communicate(timeout=600)
    assert command.returncode == 130, errors
    assert "Traceback" not in errors, errors
    assert "results.json" in said
    numbers = json.loads((tmp_path / "out" / "results.json").read_text("utf-8"))
    assert [(one["arm"], one["seed"]) for one in numbers["runs"]] == [("grpo", 0)]


def test_an_error_while_finished_runs_are_shown_does_not_hide_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(jobs: object, at_once: int, console: object, done: Any, module: str) -> None:
        done(0, object())
        raise SettingsError("the second run cannot begin")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(side_by_side, "run_all", fails)
    monkeypatch.setattr(outputs, "show", full)
    job = Job("grpo", ARMS["grpo"], 0, tmp_path)
    with pytest.raises(SettingsError, match="the second run cannot begin"):
        demo._run([job], 1, tmp_path, False, "")
    assert "cannot be shown: " in capsys.readouterr().out
