"""Widen the base policy's heads from 16 to 32 numbers, for which vLLM has CPU kernels.

It computes the same function. Zeros follow each half of a rotary head, so pair `i` of 16 rotates as pair
`i` of 8 did if theta is its square; attention divides by the root of the head's size, so the query is
scaled by the root of 2. Zero rows have zero gradients, so it also trains the same, up to the query's scale.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from worlds.pairs.world import base_policy_path


def write_wide_policy(target: Path) -> Path:
    """Write the checkpoint into the folder, which must not exist yet, and return the folder."""
    source = base_policy_path()
    shutil.copytree(source, target)
    config = json.loads((source / "config.json").read_text())
    heads, size = config["num_attention_heads"], config["head_dim"]
    keys = config["num_key_value_heads"]
    half = size // 2
    kept = torch.cat([torch.arange(half), size + torch.arange(half)])
    weights = load_file(source / "model.safetensors")
    for name, weight in weights.items():
        if name.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight")):
            query = "q_proj" in name
            wide = weight.new_zeros(heads if query else keys, 2 * size, weight.shape[1])
            wide[:, kept] = weight.view(-1, size, weight.shape[1]) * (2**0.5 if query else 1.0)
            weights[name] = wide.flatten(0, 1).contiguous()
        elif name.endswith("o_proj.weight"):
            wide = weight.new_zeros(weight.shape[0], heads, 2 * size)
            wide[:, :, kept] = weight.view(-1, heads, size)
            weights[name] = wide.flatten(1).contiguous()
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    config["head_dim"] = 2 * size
    config["rope_parameters"]["rope_theta"] **= 2
    (target / "config.json").write_text(json.dumps(config))
    return target
