"""Run the unmodified `python -m openrlhf.cli.train_ppo_ray` where there is no accelerator.

Ray runs `install` in every process, see `standins.openrlhf.launch`. Changes to a module of OpenRLHF wait
until OpenRLHF itself imports it. The packages `vllm` and `flash_attn` next to this file must be
importable under these names.
"""

from __future__ import annotations

import os
from importlib import import_module

import torch

from standins import ports
from standins.on_import import when_imported
from standins.openrlhf import cpu, metrics, recorder


def install() -> None:
    """Install the stand-ins in this process.

    OpenRLHF leaves the order of the prompts to torch's random seed; `COEVO_TEST_SEED` decides it here.
    A function that `COEVO_TEST_INSTALL` names, as `module:function`, is called too.
    """
    torch.set_num_threads(1)
    torch.manual_seed(int(os.environ.get("COEVO_TEST_SEED", "0")))
    cpu.replace_cuda()
    when_imported("deepspeed.comm.torch", cpu.no_shared_memory)
    when_imported("openrlhf.utils.utils", cpu.float32_weights)
    when_imported("openrlhf.models.actor", cpu.eager_attention)
    when_imported("openrlhf.models.model", cpu.eager_attention)
    when_imported("openrlhf.utils.deepspeed.deepspeed_utils", cpu.config_for_cpu)
    when_imported("openrlhf.utils.deepspeed.deepspeed", cpu.mesh_on_cpu)
    when_imported("openrlhf.utils.logging_utils", metrics.replace_tensorboard)
    when_imported("openrlhf.trainer.ppo_utils.replay_buffer", recorder.record_positions)
    when_imported("openrlhf.trainer.ray.launcher", ports.last)
    when_imported("openrlhf.trainer.ray.ppo_actor", ports.last)
    when_imported("openrlhf.trainer.ray.ppo_actor", recorder.record_loss)
    if name := os.environ.get("COEVO_TEST_INSTALL"):
        module, _, function = name.partition(":")
        getattr(import_module(module), function)()
