"""Check the commands of `prompt-coevo smoke verl`, as hydra and VeRL read them and with the stand-ins."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_module
from verl.trainer.ppo.utils import need_reference_policy
from verl.utils.config import validate_config

from helpers.verl_launch import launch
from helpers.verl_run import VerlRun
from prompt_coevo.adapters.verl.hydra_group import read_settings
from prompt_coevo.settings import Settings
from prompt_coevo.smoke.checks import checks
from prompt_coevo.smoke.parts import Variant
from prompt_coevo.smoke.verl import ADAPTER
from prompt_coevo.smoke.world import answer

ONLY_WITH_A_GPU = (
    "+actor_rollout_ref.model.override_config",
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
    told = settings.model_dump(exclude={"config_file"})
    assert told == Settings(**variant.coevo).model_dump(exclude={"config_file"})
    if variant.name == "lora":
        assert config.actor_rollout_ref.model.lora_rank == 8


@pytest.mark.long
@pytest.mark.parametrize("name", ["p2o", "inspo"])
def test_what_a_run_leaves_is_read(name: str, tmp_path: Path) -> None:
    """Platform and rollout server are stand-ins, so the log-probs do not differ."""
    (variant,) = (one for one in ADAPTER.variants if one.name == name)
    given = [one for one in overrides(variant, tmp_path) if not one.startswith(ONLY_WITH_A_GPU)]
    with VerlRun(tmp_path / "run", overrides=given) as run:
        result = run.wait()
        assert result.returncode == 0, result.tail
        shutil.copy(run._logs / "metrics.jsonl", tmp_path)
    found: Any = ADAPTER.read(variant, tmp_path)
    made = checks(variant, found)
    assert [one.said for one in made if not one.holds] == []
    assert found.difference < 1e-3
    if name == "p2o":
        assert found.prompts == len(found.losses) * 16
