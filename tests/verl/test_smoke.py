"""Check the commands of `prompt-coevo smoke verl`, as hydra and VeRL read them and with the stand-ins."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hydra import compose, initialize_config_module
from verl.trainer.ppo.utils import need_reference_policy
from verl.utils.config import validate_config

from helpers.ray_run import RayRun, Result
from helpers.smoke_runs import OnStandIns
from helpers.verl_launch import launch
from helpers.verl_run import VerlRun
from prompt_coevo.adapters.verl.hydra_group import read_settings
from prompt_coevo.settings import Settings
from prompt_coevo.smoke.parts import ROLLOUTS_PER_STEP, STEPS, Variant
from prompt_coevo.smoke.verl import ADAPTER
from prompt_coevo.smoke.world import answer

ONLY_WITH_A_GPU = (
    "++actor_rollout_ref.model.override_config",
    "actor_rollout_ref.rollout.name",
    "actor_rollout_ref.rollout.enforce_eager",
    "actor_rollout_ref.rollout.load_format",
)


def overrides(variant: Variant, folder: Path) -> list[str]:
    (_, option, module, *rest), _ = ADAPTER.prepare(variant, folder, False)
    assert (option, module) == ("-m", "verl.trainer.main_ppo")
    return rest


@pytest.mark.parametrize("variant", ADAPTER.variants, ids=lambda one: one.name)
def test_verl_and_the_plugin_take_it(variant: Variant, tmp_path: Path) -> None:
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("ppo_trainer", overrides=overrides(variant, tmp_path))
    launch(config)
    assert not need_reference_policy(config)
    if variant.name != "lora":  # VeRL looks at the real vLLM then, which is not here
        validate_config(config, use_reference_policy=False, use_critic=False)
    settings = read_settings(config.coevo)
    assert settings.reflection.function is answer
    # A method from outside has its settings under `plugins`, once it is loaded.
    apart = {"config_file", *(["plugins"] if variant.course == "ghost" else [])}
    assert settings.model_dump(exclude=apart) == Settings(**variant.coevo).model_dump(exclude=apart)
    if variant.name == "lora":
        assert config.actor_rollout_ref.model.lora_rank == 8


class InVerl(OnStandIns):
    """Platform and rollout server are stand-ins."""

    def started(self, variant: Variant, folder: Path) -> VerlRun:
        given = [one for one in overrides(variant, folder) if not one.startswith(ONLY_WITH_A_GPU)]
        given.append("actor_rollout_ref.rollout.checkpoint_engine.backend=by_ray")
        return VerlRun(folder / "run", overrides=given, gpus=variant.gpus)

    def keep(self, run: RayRun, result: Result, folder: Path) -> None:
        shutil.copy(run._logs / "metrics.jsonl", folder)


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    ["p2o", "inspo", "padding", "async", "resume", "ghost", "speed", "ranks", "separate"],
)
def test_what_a_run_leaves_is_read(name: str, tmp_path: Path) -> None:
    """Sampled by the weights that train, the log-probs of the stand-in do not differ."""
    (variant,) = (one for one in ADAPTER.variants if one.name == name)
    InVerl(ADAPTER, 0.0, []).check(variant, tmp_path)
    if name in ("p2o", "inspo", "padding", "ranks"):
        found = ADAPTER.read(variant, tmp_path)
        assert found.difference is not None
        assert found.difference < 1e-3
        assert found.prompts == (None if name == "inspo" else STEPS * ROLLOUTS_PER_STEP)
