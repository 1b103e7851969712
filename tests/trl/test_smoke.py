"""Check `prompt-coevo smoke trl --cpu` with real, short trainings."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from trl import GRPOConfig

from prompt_coevo.smoke import openrlhf
from prompt_coevo.smoke.checks import checks
from prompt_coevo.smoke.parts import WAVES, Variant
from prompt_coevo.smoke.running import run_all
from prompt_coevo.smoke.trl import ADAPTER, LORA

CODE = "from prompt_coevo.cli import main; main()"


def smoke(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-c", CODE, "smoke", "trl", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_variant_trains_and_is_judged(tmp_path: Path) -> None:
    ran = smoke("--cpu", "--only", "p2o,vllm", "--out", str(tmp_path), "--limit", "1800")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "1 work, 0 failed, 1 not run. Written: " in ran.stdout
    table = (tmp_path / "smoke.md").read_text()
    assert "\n| `p2o` | P2O, bf16 | works | " in table
    assert "12 steps, losses finite; gradient up to " in table
    assert "192 of 192 rows trained on the bare question |" in table
    assert "\n| `vllm` | P2O, vLLM colocated with CUDA graphs | not run |  | needs a GPU |" in table
    assert "trl " in table.split("\n")[2]


CPU = {one.name: one for one in ADAPTER.variants if one.on_cpu}
ALSO = [
    pytest.param(CPU["lora"], id="LoRA"),
    pytest.param(CPU["checkpointing"], id="gradient checkpointing"),
    pytest.param(Variant("bf16", "", WAVES, {"bf16": True}, on_cpu=True), id="bf16"),
]


@pytest.mark.long
@pytest.mark.parametrize("variant", ALSO)
def test_policies_of_other_kinds_train_on_bare_questions(variant: Variant, tmp_path: Path) -> None:
    command, _ = ADAPTER.prepare(variant, tmp_path, True)
    subprocess.run(command, check=True, cwd=tmp_path)
    found = checks(variant, ADAPTER.read(variant, tmp_path))
    assert [one.said for one in found if not one.holds] == []
    assert any(one.said == "192 of 192 rows trained on the bare question" for one in found)


@pytest.mark.long
def test_a_run_that_trains_on_templates_is_found_out(tmp_path: Path) -> None:
    """The same run without P2O's exchange of prompts must be detected."""
    variant = Variant("bent", "", {**WAVES, "context_distillation": False}, {}, on_cpu=True)
    command, _ = ADAPTER.prepare(variant, tmp_path, True)
    subprocess.run(command, check=True, cwd=tmp_path)
    failed = [one.said for one in checks(variant, ADAPTER.read(variant, tmp_path)) if not one.holds]
    assert len(failed) == 1
    assert failed[0].endswith(" of 192 rows trained on the bare question")


@pytest.mark.long
@pytest.mark.parametrize("name", ["resume", "speed", "ranks"])
def test_several_runs_of_a_variant(name: str, tmp_path: Path) -> None:
    ran = smoke("--cpu", "--only", name, "--out", str(tmp_path), "--limit", "1800")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = 96 if name == "resume" else 192  # of both ranks
    assert (
        f"{rows} of {rows} rows trained on the bare question |"
        in (tmp_path / "smoke.md").read_text()
    )


@pytest.mark.long
def test_a_ghost_leaves_no_trace_and_one_that_does_is_found_out(tmp_path: Path) -> None:
    (ghost,) = (one for one in ADAPTER.variants if one.name == "ghost")
    trained_on_templates = {**ghost.coevo, "context_distillation": False}
    variants = [ghost, replace(ghost, name="bent", coevo=trained_on_templates)]
    good, bent = run_all(ADAPTER, variants, tmp_path, 1800.0, [])
    assert good.state == "works", good.said
    assert "up to 50% of a step under templates" in good.said
    assert "192 of 192 rows trained on the bare question" in good.said
    assert bent.state == "failed"
    assert "96 of 192 rows trained on the bare question; with templates " in bent.said


def test_without_a_gpu_it_is_refused_in_one_sentence() -> None:
    refused = smoke()
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: PyTorch finds no GPU on this machine; run this on one")
    assert len(refused.stderr.splitlines()) == 1


@pytest.mark.parametrize("variant", ADAPTER.variants, ids=lambda one: one.name)
def test_the_trainer_takes_every_variants_values(variant: Variant, tmp_path: Path) -> None:
    values: dict[str, Any] = dict(variant.host)
    assert values.pop(LORA, False) == (variant.name == "lora")
    config = GRPOConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False, **values)
    assert all(getattr(config, name) == value for name, value in values.items())


def test_what_openrlhf_writes_for_tensorboard_is_read(tmp_path: Path) -> None:
    """With the real writer, which is in this session's environment and not in OpenRLHF's."""
    from torch.utils.tensorboard import SummaryWriter

    folder = tmp_path / "board0" / "run"
    numbers = {
        "train/policy_loss": [0.5, -0.25],
        "train/actor_grad_norm": [1.0, 2.0],
        "train/vllm_kl": [-0.5, 0.25],
        "train/coevo_distilled": [0.0, 0.75],
        "train/coevo/cover_templates": [0.0, 3.0],
    }
    with SummaryWriter(log_dir=str(folder)) as writer:
        for name, values in numbers.items():
            for step, value in enumerate(values, 1):
                writer.add_scalar(name, value, step)
    found = openrlhf.ADAPTER.read(openrlhf.ADAPTER.variants[0], tmp_path)
    assert (found.losses, found.gradients) == ([0.5, -0.25], [1.0, 2.0])
    assert (found.metrics, found.templated) == ({"cover_templates": 3.0}, 0.75)
    assert found.difference == 0.5
    assert (found.before, len(found.seconds)) == (0, 1)
