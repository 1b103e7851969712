"""Run the unmodified `python -m verl.trainer.main_ppo` where there is no accelerator.

Every process of a run loads it through `VERL_USE_EXTERNAL_MODULES=standins.verl.plugin`. Changes that would
import half of VeRL wait until VeRL itself imports the module.
"""

from __future__ import annotations

from standins import ports, ray_start
from standins.on_import import when_imported
from standins.verl import cpu_platform, engine, gloo, recorder, replay_buffer, rollout, weights

cpu_platform.register()
gloo.collapse_backend()
when_imported("ray", ray_start.start_patiently)
when_imported("verl.workers.engine.fsdp.transformer_impl", engine.register)
when_imported("verl.utils.model", engine.load_critics_eagerly)
when_imported("verl.workers.rollout.base", rollout.register_adapter)
when_imported("verl.workers.rollout.replica", rollout.register_replica)
when_imported("verl.single_controller.ray.base", ports.last)
when_imported("verl.single_controller.base.worker", ports.last)
when_imported("verl.trainer.ppo.v1.replay_buffer", replay_buffer.poll_often)
when_imported("verl.checkpoint_engine.base", weights.register)
when_imported("verl.utils.fsdp_utils", weights.copy_what_is_kept)
when_imported("verl.workers.utils.losses", recorder.record_loss)
when_imported("verl.workers.rollout.vllm_rollout.vllm_async_server", recorder.record_vllm)
