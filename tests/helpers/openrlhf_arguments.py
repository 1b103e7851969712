"""Build the OpenRLHF arguments that our checks read, as OpenRLHF passes them on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


def arguments(**changes: Any) -> SimpleNamespace:
    """Return the arguments of a served run, changed by dotted names."""
    values: dict[str, Any] = {
        "rollout.n_samples_per_prompt": 4,
        "reward.remote_url": ["reward.py"],
        "train.agent_func_path": None,
        "train.partial_rollout_enable": False,
        "vllm.num_engines": 1,
        "ckpt.disable_ds": False,
        "ckpt.save_steps": -1,
        "data.max_images_per_prompt": 0,
        "ds.lora": SimpleNamespace(rank=0),
        "algo.advantage": SimpleNamespace(is_correction_level="off"),
        **changes,
    }
    sections: dict[str, SimpleNamespace] = {}
    for name, value in values.items():
        section, last = name.split(".")
        setattr(sections.setdefault(section, SimpleNamespace()), last, value)
    return SimpleNamespace(**sections)
