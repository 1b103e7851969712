"""Check that the documented example runs on the demo's policy, with a local dataset instead of a hub's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.trl_world import TASKS
from worlds.pairs.world import base_policy_path

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "trl_p2o.py"


def test_the_example(tmp_path: Path) -> None:
    pytest.importorskip("math_verify")
    rows = [{"problem": task.question, "answer": str(n)} for n, task in enumerate(TASKS)]
    data = tmp_path / "data"
    data.mkdir()
    (data / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = {
        "model_name_or_path": str(base_policy_path()),
        "dataset_name": str(data),
        "output_dir": str(tmp_path / "out"),
        "reflection_model": "self",
        "num_train_epochs": "2",
        "num_generations": "4",
        "per_device_train_batch_size": "8",
        "max_completion_length": "8",
        "report_to": "none",
        "use_cpu": "true",
        "bf16": "false",
        "logging_steps": "1",
    }
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PROMPT_COEVO_")}
    environment |= {
        "HF_HOME": str(tmp_path / "cache"),
        "PROMPT_COEVO_REFLECTION__MAX_TOKENS": "8",
        "PROMPT_COEVO_P2O__SEARCH_BUDGET": "40",
    }
    command = [sys.executable, str(EXAMPLE)]
    command += [part for name, value in arguments.items() for part in (f"--{name}", value)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert run.returncode == 0, run.stderr[-4000:]
    assert (tmp_path / "out" / "model.safetensors").exists()
    journal = (tmp_path / "out" / "coevo" / "events.jsonl").read_text()
    assert "templates_assigned" in journal
    assert "coevo/hard_samples" in run.stdout
