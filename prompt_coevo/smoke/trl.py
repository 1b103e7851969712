"""TRL: GRPOTrainer with the callback, in a process of its own (`trl_run.py`)."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any, Final

from prompt_coevo.smoke.parts import (
    BAND,
    INSPO,
    STREAM,
    TEMPLATED,
    WAVES,
    Command,
    Door,
    Evidence,
    Place,
    Variant,
)

JOB: Final = "job.json"
RESULT: Final = "result.json"
SERVER: Final = "server"
"""Among a variant's values for the trainer: a vLLM server is started first, on another GPU."""

_VLLM: Final[Mapping[str, Any]] = {
    "use_vllm": True,
    "vllm_mode": "colocate",
    "vllm_gpu_memory_utilization": 0.3,
    "vllm_max_model_length": 256,
}


def _on_cpu(
    name: str,
    says: str,
    coevo: Mapping[str, Any],
    host: Mapping[str, Any] | None = None,
    *packages: str,
) -> Variant:
    return Variant(name, says, coevo, host or {}, packages=packages, on_cpu=True)


_VARIANTS: Final = (
    _on_cpu("p2o", "P2O, the paper's search, bf16", WAVES),
    _on_cpu("stream", "P2O, the streaming search", STREAM),
    _on_cpu("inspo", "INSPO", INSPO),
    _on_cpu("band", 'distill_ratio = "band"', BAND),
    _on_cpu("templated", 'distill_ratio = "templated"', TEMPLATED),
    _on_cpu("lora", "P2O, LoRA", WAVES, {"lora": True}, "peft"),
    _on_cpu(
        "checkpointing", "P2O, gradient checkpointing", WAVES, {"gradient_checkpointing": True}
    ),
    Variant("vllm", "P2O, vLLM colocated", WAVES, _VLLM, ("vllm",)),
    Variant("vllm-band", 'vLLM colocated, distill_ratio = "band"', BAND, _VLLM, ("vllm",)),
    Variant(
        "vllm-templated",
        'vLLM colocated, distill_ratio = "templated"',
        TEMPLATED,
        _VLLM,
        ("vllm",),
    ),
    Variant(
        "vllm-server",
        "P2O, a vLLM server on a second GPU",
        WAVES,
        {"use_vllm": True, "vllm_mode": "server", SERVER: True},
        ("vllm",),
        gpus=2,
    ),
)


def _prepare(variant: Variant, place: Place) -> Command:
    job = {"coevo": variant.coevo, "trainer": variant.host, "cpu": place.cpu}
    (place.folder / JOB).write_text(json.dumps(job), "utf-8")
    # With several GPUs to be seen in one process, transformers would spread the batch over them.
    seen = {"CUDA_VISIBLE_DEVICES": ""} if place.cpu else {}
    return Command([sys.executable, "-m", "prompt_coevo.smoke.trl_run", str(place.folder)], seen)


def _read(variant: Variant, place: Place) -> Evidence:
    return Evidence(**json.loads((place.folder / RESULT).read_text("utf-8")))


DOOR: Final = Door(
    "trl",
    "TRL",
    ("torch", "transformers", "accelerate", "datasets", "trl"),
    {"vllm": "prompt-coevo[trl,vllm]", "peft": "peft"},
    _VARIANTS,
    _prepare,
    _read,
)
