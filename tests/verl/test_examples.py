"""Check the documented scripts as far as a machine without a GPU can: their configuration."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hydra import compose, initialize_config_module
from hydra.utils import get_class
from omegaconf import OmegaConf
from verl.trainer.ppo.utils import need_reference_policy
from verl.utils.config import validate_config
from verl.utils.reward_score import default_compute_score

from helpers.documented import blocks_for
from helpers.documented_commands import commands
from helpers.example_scripts import (
    EXAMPLES,
    PAPERS_AGENT,
    check_preset,
    given_to,
    longest_episode,
    run_script,
    scripts_for,
)
from helpers.verl_launch import launch
from prompt_coevo.adapters.verl.hydra_group import read_settings
from prompt_coevo.adapters.verl.search_agent import SearchAgentLoop
from prompt_coevo.retrieval.agent.instruction import SEARCH_INSTRUCTION
from prompt_coevo.retrieval.agent.scoring import exact_match, golds_of
from prompt_coevo.retrieval.agent.settings import SearchAgentSettings

PRESET_OF = {"verl_p2o_deepscaler.sh": "p2o", "verl_inspo_search.sh": "inspo"}


def command(script: str, tmp_path: Path, *arguments: str, **variables: str) -> list[str]:
    """Return what the script passes to Python."""
    return given_to("my-python", tmp_path, script, *arguments, PYTHON="my-python", **variables)


def composed(script: str, tmp_path: Path, *arguments: str, **variables: str) -> Any:
    interpreter, module, *overrides = command(script, tmp_path, *arguments, **variables)
    assert (interpreter, module) == ("-m", "verl.trainer.main_ppo")
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", overrides=overrides)


@pytest.fixture(scope="module", params=PRESET_OF)
def script(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def config(script: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return composed(script, tmp_path_factory.mktemp("stub"), "coevo.seed=3")


def test_every_script_is_tested() -> None:
    """The quick start is tested in `test_documents.py`."""
    assert scripts_for("verl") == {*PRESET_OF, "verl_quickstart.sh"}


def test_bash_can_read_it(script: str) -> None:
    subprocess.run(["bash", "-n", str(EXAMPLES / script)], check=True)


def test_verl_and_the_plugin_take_the_configuration(script: str, config: Any) -> None:
    launch(config)
    resolved = OmegaConf.to_container(config, resolve=True)
    mode = resolved["trainer"]["v1"]["trainer_mode"]
    assert (
        mode
        == {
            "verl_p2o_deepscaler.sh": "coevo_colocate_async",  # one step off-policy
            "verl_inspo_search.sh": "coevo",
        }[script]
    )
    assert resolved["actor_rollout_ref"]["rollout"]["name"] == "vllm"
    kl = script == "verl_inspo_search.sh"
    assert need_reference_policy(config) == kl
    validate_config(config, use_reference_policy=kl, use_critic=False)


def test_the_papers_values_are_the_presets(script: str, config: Any) -> None:
    check_preset(PRESET_OF[script], config.coevo)


def test_more_overrides_can_follow(config: Any) -> None:
    assert read_settings(config.coevo).seed == 3


@pytest.mark.parametrize("method", ["grpo", "dapo"])
def test_the_other_arms_are_verl_alone_with_the_same_settings(method: str, tmp_path: Path) -> None:
    script = "verl_p2o_deepscaler.sh"
    ours = [one for one in command(script, tmp_path) if not one.startswith(("+coevo", "coevo."))]
    other = command(script, tmp_path, METHOD=method)
    named = [one.replace(f"{method}_", "p2o_").replace(f"/{method}/", "/p2o/") for one in other]
    filters = ["algorithm.filter_groups.enable=True", "algorithm.filter_groups.metric=reward"]
    assert named == [*ours, *(filters if method == "dapo" else [])]
    config = composed(script, tmp_path, METHOD=method)
    validate_config(config, use_reference_policy=False, use_critic=False)
    assert config.trainer.default_local_dir == f"checkpoints/{method}/qwen3_4b_deepscaler"


def test_an_unknown_arm_is_refused() -> None:
    result = run_script("verl_p2o_deepscaler.sh", METHOD="ppo")
    assert result.returncode == 1
    assert "METHOD=ppo: must be p2o, grpo or dapo" in result.stderr


def test_the_recipes_reward_is_a_file(tmp_path: Path) -> None:
    """`tests/trl/test_p2o_recipe.py` asks it for rewards, where math-verify is installed."""
    config = composed("verl_p2o_deepscaler.sh", tmp_path)
    reward = config.reward.custom_reward_function
    assert (reward.path, reward.name) == (str(EXAMPLES / "p2o_reward.py"), "compute_score")


def test_a_trained_model_is_evaluated_greedily(tmp_path: Path) -> None:
    """The command of docs/recipes.md."""
    (block,) = [one for one in blocks_for("core") if "trainer.val_only=True" in one.text]
    (command,) = [one for one in commands(block.text) if one.words[0] == "bash"]
    config = composed("verl_p2o_deepscaler.sh", tmp_path, *command.words[2:], METHOD="grpo")
    validate_config(config, use_reference_policy=False, use_critic=False)
    sampling = config.actor_rollout_ref.rollout.val_kwargs
    assert (sampling.n, sampling.temperature) == (1, 0)
    assert config.trainer.val_only
    assert config.trainer.v1.trainer_mode == "sync"


def test_the_agent_and_its_instruction_are_the_papers(tmp_path: Path) -> None:
    config = composed("verl_inspo_search.sh", tmp_path)
    rollout = config.actor_rollout_ref.rollout
    assert rollout.agent.agent_loop_config_path == str(EXAMPLES / "search_agent.yaml")
    (loop,) = OmegaConf.to_container(OmegaConf.load(EXAMPLES / "search_agent.yaml"))
    assert loop.pop("name") == rollout.agent.default_agent_loop
    assert get_class(loop.pop("_target_")) is SearchAgentLoop
    agent = SearchAgentSettings(**loop)
    assert agent == PAPERS_AGENT
    assert 0 <= config.data.max_response_length - longest_episode(agent) < 50
    settings = read_settings(config.coevo)
    assert settings.inspo.instruction == SEARCH_INSTRUCTION
    assert settings.placement.instruction == "prefix"


def test_another_agent_and_model_can_be_named(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.touch()
    variables = {"AGENT_LOOPS": str(mine), "LEARNING_RATE": "3e-7", "MAX_RESPONSE_LENGTH": "6650"}
    config = composed("verl_inspo_search.sh", tmp_path, **variables)
    rollout = config.actor_rollout_ref.rollout
    assert rollout.agent.agent_loop_config_path == str(mine)
    assert config.actor_rollout_ref.actor.optim.lr == 3e-7
    agent = PAPERS_AGENT.model_copy(update={"max_turns": 6})
    assert 0 <= rollout.response_length - longest_episode(agent) < 50


def test_a_missing_agent_is_named() -> None:
    result = run_script("verl_inspo_search.sh", AGENT_LOOPS="/nowhere/search_agent.yaml")
    assert result.returncode != 0
    assert "AGENT_LOOPS: there is no file /nowhere/search_agent.yaml" in result.stderr


@pytest.mark.parametrize(
    ("source", "completion", "truth", "reward"),
    [
        ("lighteval/MATH", r"it is \boxed{4}", "4", 1),
        ("lighteval/MATH", r"it is \boxed{5}", "4", 0),
        ("math_dapo", "Answer: 5", "4", {"score": -1, "acc": False, "pred": "5"}),
    ],
)
def test_the_rewards_that_the_scripts_speak_of(
    source: str, completion: str, truth: Any, reward: Any
) -> None:
    assert default_compute_score(source, completion, truth) == reward


@pytest.mark.parametrize(
    ("answer", "reward"), [(" Paris. ", 1), ("the paris", 1), ("Rome", 0), ("Paris, France", 0)]
)
def test_the_gold_answers_are_where_the_script_says(answer: str, reward: float) -> None:
    truth = {"target": np.array(["Paris", "Lutetia"], dtype=object)}
    golds = golds_of(truth, "reward_model.ground_truth")
    assert exact_match(answer, golds) == reward
