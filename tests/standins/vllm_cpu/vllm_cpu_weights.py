"""Plug into vLLM for tests on a CPU. vLLM itself calls `register` in each of its processes.

It is installed with a name and a version for vLLM's build for CPUs, see `pyproject.toml` beside it.

vLLM packs linear weights for its CPU kernels and drops what it packed, so nothing can be loaded into the
model later. Here it multiplies with the weights as they are, and `load_weights` works as on a GPU.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import torch


def register() -> None:
    """Keep weights loadable, and call the function that `COEVO_TEST_VLLM` names as `module:function`."""
    from vllm.model_executor.layers import utils

    def multiply_as_they_are(layer: Any, remove_weight: bool) -> None:
        layer.cpu_linear = torch.nn.functional.linear

    if not callable(getattr(utils, "dispatch_cpu_unquantized_gemm", None)):
        raise RuntimeError("this vLLM packs its weights elsewhere; look at vllm_cpu_weights.py")
    utils.dispatch_cpu_unquantized_gemm = multiply_as_they_are
    if name := os.environ.get("COEVO_TEST_VLLM"):
        module, _, function = name.partition(":")
        getattr(import_module(module), function)()
